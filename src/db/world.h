/* Rewind detection: how an engine notices that its database is in an earlier state than the engine
 * left it in, and what happens then.
 *
 * A server is restored from a backup, or a standby takes over that was behind; a file is restored
 * by SQLite's backup API under a running process. Then commits that were acknowledged to this
 * engine are gone, and numbers that were given out are given out again. So every engine keeps rows
 * of its own in {commits}: on PostgreSQL a ring of them for each connection that commits
 * (src/pg/pg_ring.c), on SQLite one row in all (sqlite_ring.h). They have a random name, and
 * numbers that transactions raise. At the beginning of each transaction the driver compares them
 * with what was acknowledged last; a smaller number, or no row, is a *rewind*: PAWL_REWOUND, and
 * nothing is written.
 *
 * After a rewind an engine begins anew. While it is a node (bound) every transaction is refused:
 * the node has runs in memory whose journals are gone. When the node has dropped them, the next
 * transaction writes a new `history`, a random number, into {meta}, and new rows into {commits}.
 * Keys that were taken in blocks before that, or under another history, are thrown away
 * (key_block.h). */
#ifndef DB_WORLD_H
#define DB_WORLD_H

#include "db/db.h"

struct db_world {
    atomic_int back;         /* 1: a rewind was found, and the engine has not begun anew */
    atomic_int bound;        /* 1: the engine is a node, or about to become one */
    atomic_llong lives;      /* rewinds found so far: what was made in an earlier life is void */
    _Atomic int64_t history; /* as it was last read from {meta}, or written; 0: not known yet */
    atomic_llong key_blocks; /* rises when blocks of keys are to be thrown away */
};

/* A random number for a globally unique name, from 1 to INT64_MAX; 0: the system gives none. Never
 * from the program's own source of randomness, which tests make repeatable. */
int64_t world_random(void);

/* To be called when a rewind was found: remembers it, writes a line to the log, once per rewind,
 * fills in the error and returns PAWL_REWOUND. */
pawl_code world_gone_back(db *d, error *err);

/* world_enter(): may a transaction of a connection that commits begin? PAWL_REWOUND: not before the
 * engine has dropped its runs. *anew: 1, the transaction is the first one after a rewind. It has to
 * write a new history by world_write_history(), which gives it in *history, and world_begun_anew()
 * is called when that is committed. */
pawl_code world_enter(db *d, int *anew, error *err);
pawl_code world_write_history(db_conn *c, int64_t *history, error *err);
void world_begun_anew(db *d, int64_t history);

/* To be called with the history that another query has read from {meta} besides. 1: it is not the
 * one that was known before, and the engine's blocks of keys are void; 0: it is the same, or the
 * first one that is known. */
int world_saw_history(db *d, int64_t history);

/* The engine becomes a node (world_bind()), or is none any more (world_unbind()). */
void world_bind(db *d);
void world_unbind(db *d);

/* Read the history in a transaction of its own, and pass it to world_saw_history(). The connection
 * must be in no transaction. */
pawl_code world_look(db_conn *c, error *err);

#endif
