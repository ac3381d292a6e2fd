-- A restored database gives out node numbers again that it had given out before. The token, 64
-- random bits, tells apart two nodes with the same number.

ALTER TABLE {nodes} ADD COLUMN token {INT} NOT NULL DEFAULT 0;

-- The ids of rings are random from here on, so this counter is not needed.
DELETE FROM {meta} WHERE name = 'next_ring';
