-- What keeps a run from going on although it is not held, in words, and since when. docs/format.md.

ALTER TABLE {runs} ADD COLUMN trouble {TEXT};
ALTER TABLE {runs} ADD COLUMN trouble_at {INT};
