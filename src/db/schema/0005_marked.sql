-- The fence under which a run is marked as being executed (claims + 1); 0: it is not. docs/format.md.

ALTER TABLE {runs} ADD COLUMN marked {INT} NOT NULL DEFAULT 0;
