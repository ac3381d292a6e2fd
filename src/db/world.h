/* Rewind detection: where an engine has left its database, and what happens when the database is in
 * an earlier state.
 *
 * A server is restored from a backup, or a standby takes over that was behind; a file is restored
 * by SQLite's backup API under a running process. Then commits that were acknowledged to this
 * engine are gone, and numbers that were given out are given out again. So every engine keeps a row
 * of its own in {commits} per connection that commits (on SQLite one row in all), with a random
 * name and a number that rises with each transaction. Drivers compare it at the beginning of each
 * transaction with what was acknowledged last; a smaller number, or no row, is a *rewind*:
 * PAWL_REWOUND, and nothing is written.
 *
 * After a rewind an engine begins anew. While it is a node (bound) every transaction is refused: it
 * holds runs in memory whose journals are gone. When it has dropped them, the next transaction
 * writes a new `history` into {meta}, 64 random bits, and begins a new row. Keys that were taken in
 * blocks before that, or under another history, are thrown away (key_block.h). */
#ifndef DB_WORLD_H
#define DB_WORLD_H

#include "db/db.h"

struct db_world {
    atomic_int back;         /* 1: a rewind was found, and the engine has not begun anew */
    atomic_int bound;        /* 1: the engine is a node, or about to become one */
    atomic_llong lives;      /* rewinds found so far: what was made in an earlier life is void */
    _Atomic int64_t history; /* as {meta} had it last; 0: not read yet */
    atomic_llong key_blocks; /* rises when blocks of keys are to be thrown away */
};

/* Random bits for a globally unique name: from 1 to INT64_MAX; 0: the system has none. Never from
 * the program's own source of randomness, which tests make repeatable. */
int64_t world_random(void);

/* A rewind was found. Gives PAWL_REWOUND; says so in the log, once per rewind. */
pawl_code world_gone_back(db *d, error *err);

/* May a transaction of a connection that commits begin? PAWL_REWOUND: not before the engine has
 * dropped its runs. *anew: the transaction is the first after a rewind, and is to write a new
 * history by world_write_history(); when it is committed, world_begun_anew(). */
pawl_code world_enter(db *d, int *anew, error *err);
pawl_code world_write_history(db_conn *c, int64_t *history, error *err);
void world_begun_anew(db *d, int64_t history);

/* What {meta} has as the history was read, as a part of something else. 1: it is another one than
 * before, and blocks of keys are void. */
int world_saw_history(db *d, int64_t history);

/* The engine becomes a node; and stops being one. */
void world_bind(db *d);
void world_unbind(db *d);

/* Read the history, on a connection that is not in use. */
pawl_code world_look(db_conn *c, error *err);

#endif
