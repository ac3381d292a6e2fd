-- What a live node cannot do because it gets too few connections (it then claims no runs); an empty
-- text: the node can do everything. See docs/format.md.

ALTER TABLE {beats} ADD COLUMN unable {TEXT} NOT NULL DEFAULT '';
