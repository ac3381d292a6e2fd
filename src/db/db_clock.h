/* The database's time, without asking it each time.
 *
 * Every time that is written to the database or compared there is the database's: clocks of nodes
 * may differ by minutes, and an administrator may set them. A server is asked at each heartbeat
 * (driver->now_us); between two answers the monotonic clock, which cannot be set, goes on from
 * there. A database that is a file of this host, or that no other process shares, has the host's
 * time. */
#ifndef DB_DB_CLOCK_H
#define DB_DB_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/db.h"

typedef struct db_clock {
    clock_source *host;
    int is_hosts;           /* the database's time is the host's: nothing to measure */
    pthread_mutex_t lock;   /* one measurement at a time; its result is read without the lock */
    atomic_llong offset_ns; /* database's time minus the monotonic clock */
    atomic_int measured;    /* 0: there is no offset yet */
    atomic_llong error_ns;  /* by how much the offset was wrong at most when it was measured */
    int64_t at_ns; /* when the offset was measured (mono_ns); its error grows from then on */
} db_clock;

void db_clock_init(db_clock *c, const db *d);
void db_clock_free(db_clock *c);

/* Ask the database for its time, on a connection that is not in a transaction, and correct the
 * offset. On an error the offset stays as it is. Any thread may call this, each with a connection
 * of its own. */
pawl_code db_clock_measure(db_clock *c, db_conn *conn, error *err);

/* Returns the database's time, in milliseconds since 1970 UTC. Any thread, never blocks. Before the
 * first measurement it is the host's time, which is good for a log line only. The time may go back
 * by as much as a measurement was wrong, and with a server whose clock is set back. */
int64_t db_clock_now_ms(db_clock *c);

/* Returns the database's time, rounded up, with the error added that the offset had when it was
 * measured. A due time is written as this time plus the duration, and compared with
 * db_clock_now_ms(), so that it does not come early in this process as long as no clock is set or
 * slewed (db_clock.c). With a clock that has whole milliseconds and answers at once both functions
 * return the same. */
int64_t db_clock_up_ms(db_clock *c);

/* Returns 1 if the time can be relied on: it is the host's, or was measured. */
int db_clock_is_known(const db_clock *c);

#endif
