/* The change feed: which runs have changed, for caches and dashboards.
 *
 * Whoever changes a run in a way that people look for adds a row to {changes} in the same unit
 * (run_note() in run_units.h). A position stands for everything up to it: on a database where one
 * writes at a time it is the key of a row; elsewhere rows become visible in another order than that
 * in which they got their keys, so that it is the number of a transaction, and the feed ends below
 * the oldest transaction that is still under way (B6). */
#ifndef CORE_CHANGES_H
#define CORE_CHANGES_H

struct drive;

/* For committer_options.on_noted; `arg` is the pawl *. Who waits here looks at once, and others, if
 * there are any, are woken. */
void changes_noted(void *arg);

/* With each look of the keeper: rows that are old go, and a feed that nobody has asked for in a
 * while is no longer written. */
void changes_keep(struct drive *d);

#endif
