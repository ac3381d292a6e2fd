-- 64 random bits beside every number that outlives a transaction: a database that was restored
-- gives out the same numbers again.

ALTER TABLE {nodes} ADD COLUMN token {INT} NOT NULL DEFAULT 0;

-- Rings have random ids now.
DELETE FROM {meta} WHERE name = 'next_ring';
