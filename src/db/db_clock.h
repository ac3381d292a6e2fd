/* The database's time, without asking it each time.
 *
 * Every time that is written to the database or compared there is the database's (C2): clocks of
 * nodes may differ by minutes, and an administrator may set them. A server is asked at each
 * heartbeat (driver->now_us); between two answers the monotonic clock, which cannot be set, goes on
 * from there. A database that is a file of this host, or that no other process shares, has the
 * host's time. */
#ifndef DB_DB_CLOCK_H
#define DB_DB_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/db.h"

typedef struct db_clock {
    clock_source *host;
    int is_hosts;           /* the database's time is the host's: nothing to measure */
    pthread_mutex_t lock;   /* guards the measurement, not its result */
    atomic_llong offset_ns; /* database's time minus the monotonic clock */
    atomic_int measured;    /* 0: there is no offset yet */
    atomic_llong error_ns;  /* how wrong the offset was at most when it was measured */
    int64_t at_ns; /* when it was measured, by the monotonic clock; the error grows from there */
} db_clock;

void db_clock_init(db_clock *c, const db *d);
void db_clock_free(db_clock *c);

/* Ask the database, on a connection that is not in a transaction. On an error the clock goes on as
 * before. Any thread; each with a connection of its own. */
pawl_code db_clock_measure(db_clock *c, db_conn *conn, error *err);

/* Milliseconds since 1970 UTC, as the database has it. Any thread, never blocks. Before the first
 * measurement it is the host's opinion, which is good for a log line only. It may go back by as
 * much as a measurement was wrong, and with a server whose clock is set back. */
int64_t db_clock_now_ms(db_clock *c);

/* The latest that the database's time may be now: with the error of the offset, and rounded up.
 * What is to happen after a duration is written as due at this time plus the duration; it is due
 * when db_clock_now_ms() has come there. On a clock that has whole milliseconds and answers at once
 * both are the same. */
int64_t db_clock_up_ms(db_clock *c);

/* 1: it can be relied on. */
int db_clock_is_known(const db_clock *c);

#endif
