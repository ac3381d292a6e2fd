-- Which nodes have a lock of the server that ends with their process. docs/format.md.
-- {UNLOGGED} a table that is emptied by a crash of the server, and is empty on a standby that is promoted.

CREATE {UNLOGGED} TABLE {signs} (
    node              {INT} NOT NULL PRIMARY KEY,
    started           {INT} NOT NULL
);
