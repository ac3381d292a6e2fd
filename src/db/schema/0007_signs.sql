-- The signs: which nodes hold a lock of the server that is freed when their process dies, and when
-- the server with that lock was started. See docs/format.md. {UNLOGGED}: a crash of the server
-- empties the table, and it is empty on a standby that is promoted.

CREATE {UNLOGGED} TABLE {signs} (
    node              {INT} NOT NULL PRIMARY KEY,
    started           {INT} NOT NULL
);
