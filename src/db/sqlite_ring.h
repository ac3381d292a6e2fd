/* Rewind detection on a SQLite file: the row by which an engine notices that the file was restored
 * (world.h).
 *
 * SQLite's backup API, `.restore` of its shell among others, writes an older state into a file that
 * is in use, as one more transaction. SQLite has one writer at a time, so one row in {commits} is
 * enough for all connections of an engine. Each transaction that may write first compares the
 * database with what was acknowledged last. What it leaves behind depends on what it writes:
 *   - Nothing: the row stays as it is, which costs no sync.
 *   - Rows appended to journals and nothing else, as most transactions do: the row stays as it is
 *     too, since it would be one more page to write. The last journal row that was appended proves
 *     as much. Only the first commit of an engine writes the row in any case.
 *   - Anything else: the transaction raises the number in the row. */
#ifndef DB_SQLITE_RING_H
#define DB_SQLITE_RING_H

#include <pthread.h>
#include <sqlite3.h>

#include "db/world.h"

/* The state of an engine, shared by its connections. */
typedef struct sqlite_ring {
    pthread_mutex_t lock;
    int64_t name;   /* the name of the row, random; 0: there is no row yet */
    int64_t acked;  /* the largest number whose commit is acknowledged; 0: none */
    int64_t sent;   /* the largest number that was written, acknowledged or not */
    int64_t at_ms;  /* when `sent` was written */
    db_append row;  /* the journal row that the last acknowledged transaction has appended; run
                       0: that transaction has raised the number in the engine's row instead */
    int64_t begun;  /* transactions that were marked so far */
    int64_t proven; /* `order` of the last one of these that was acknowledged */
} sqlite_ring;

/* The mark of a transaction: what its commit leaves behind, for later ones to compare. */
typedef struct sqlite_mark {
    int64_t order;   /* the transaction's number among the marked ones, from 1; 0: it has no mark,
                        since it wrote nothing */
    int64_t number;  /* the number that it wrote into the engine's row; 0: it wrote none */
    db_append row;   /* if it wrote none: the journal row that it appended last */
    int64_t history; /* the new history that it wrote after a rewind; 0: it wrote none */
} sqlite_mark;

void sqlite_ring_init(sqlite_ring *r);
void sqlite_ring_free(sqlite_ring *r);

/* To be called at the beginning of a transaction that may write: compares the database with what
 * was acknowledged last, and clears the transaction's mark. The first transaction after a rewind
 * writes a new history instead (world.h). PAWL_REWOUND: the database went back. */
pawl_code sqlite_ring_check(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err);

/* sqlite_ring_mark() is called before the commit of a transaction that has written anything: raises
 * the number if need be, and fills in the mark. sqlite_ring_committed() is called when that commit
 * is acknowledged. */
pawl_code sqlite_ring_mark(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err);
void sqlite_ring_committed(sqlite_ring *r, db_conn *c, const sqlite_mark *m);

/* To be called when the last connection that commits is closed: deletes the row. The row of a
 * process that died is deleted by another engine, 30 days later. */
void sqlite_ring_drop(sqlite_ring *r, sqlite3 *native);

/* Does what db_driver.prove says (db.h). */
pawl_code sqlite_ring_prove(sqlite_ring *r, db_conn *c, error *err);

#endif
