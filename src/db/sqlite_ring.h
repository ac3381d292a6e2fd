/* Rewind detection on a SQLite file: the row by which an engine notices that the file was restored
 * (world.h).
 *
 * SQLite's backup API, `.restore` of its shell among others, writes an older state into a file that
 * is in use, as one more transaction. One writes at a time, so one row in {commits} is enough for
 * all connections of an engine: each transaction that writes anything raises its number, and each
 * transaction first compares it with what was acknowledged last. A transaction that writes nothing
 * leaves the row as it is, and costs no sync.
 *
 * A transaction that only appends to journals, as most do, leaves the row alone too, since that
 * would be one more page to be written: the last row that it has appended proves as much. */
#ifndef DB_SQLITE_RING_H
#define DB_SQLITE_RING_H

#include <pthread.h>
#include <sqlite3.h>

#include "db/world.h"

/* One per engine. */
typedef struct sqlite_ring {
    pthread_mutex_t lock;
    int64_t name;   /* the name of the row, random; 0: there is no row yet */
    int64_t acked;  /* the largest number in the row that SQLite has said is durable */
    int64_t sent;   /* the largest number that may be in the row: its commit was asked for */
    int64_t at_ms;  /* when that was */
    db_append row;  /* acknowledged after that number; none: run 0 */
    int64_t begun;  /* number of transactions whose commits were asked for */
    int64_t proven; /* the last of these transactions that was acknowledged */
} sqlite_ring;

/* What a transaction proves when it is committed. */
typedef struct sqlite_mark {
    int64_t order; /* 0: nothing, it has written nothing */
    int64_t number;
    db_append row;
    int64_t history; /* that it has written; 0: none */
} sqlite_mark;

void sqlite_ring_init(sqlite_ring *r);
void sqlite_ring_free(sqlite_ring *r);

/* At the beginning of a transaction that may write, whose mark it begins. PAWL_REWOUND: the
 * database went back. */
pawl_code sqlite_ring_check(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err);

/* Called before the commit of a transaction that has written anything; and after it. */
pawl_code sqlite_ring_mark(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err);
void sqlite_ring_committed(sqlite_ring *r, db_conn *c, const sqlite_mark *m);

/* At the end of the last connection. What a process that dies leaves behind is swept by others. */
void sqlite_ring_drop(sqlite_ring *r, sqlite3 *native);

/* As db_driver.prove says. */
pawl_code sqlite_ring_prove(sqlite_ring *r, db_conn *c, error *err);

#endif
