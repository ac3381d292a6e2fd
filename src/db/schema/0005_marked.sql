-- The fence of the owner that has marked the run as being executed (claims is one more as long as
-- the mark lasts); 0: the run is not marked. See docs/format.md.

ALTER TABLE {runs} ADD COLUMN marked {INT} NOT NULL DEFAULT 0;
