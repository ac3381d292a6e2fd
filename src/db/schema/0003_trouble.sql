-- trouble: what keeps a run that is not held from getting further, in words; trouble_at: since
-- when. See docs/format.md.

ALTER TABLE {runs} ADD COLUMN trouble {TEXT};
ALTER TABLE {runs} ADD COLUMN trouble_at {INT};
