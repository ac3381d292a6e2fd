-- One word for one thing: the life cycle of a run is its phase, and its status is what the workflow
-- says about it (pawl_set_status). Only names change: no row is written, and the indexes follow.

ALTER TABLE {runs} RENAME COLUMN status TO phase;
ALTER TABLE {runs} RENAME COLUMN custom_status TO status;
-- RULE what-older-tables-hold-is-taken-over
ALTER TABLE {runs} RENAME COLUMN custom_seq TO status_seq;
ALTER TABLE {generations} RENAME COLUMN status TO phase;
