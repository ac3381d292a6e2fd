-- What a live node cannot do for lack of connections, so that it claims nothing. docs/format.md.

ALTER TABLE {beats} ADD COLUMN unable {TEXT} NOT NULL DEFAULT '';
