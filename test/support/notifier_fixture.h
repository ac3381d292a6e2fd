/* The fixture for notifiers: a driver that only records which targets were notified,
 * in which order, in how many calls.
 *
 * It gives the answers that the test has set, so that lost connections, servers that come later and
 * refused statements are tested without a server. The other functions of a driver are missing. */
#ifndef SUPPORT_NOTIFIER_FIXTURE_H
#define SUPPORT_NOTIFIER_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/db.h"

#define NOTIFIER_FIXTURE_SENT 4096

typedef struct notifier_fixture {
    db base; /* the first member, so that the driver finds the fixture by its db */
    db_driver driver;
    clock_fake *clock;
    int pipe[2]; /* stands for a connection that listens; a byte in it is a notification */
    int deaf;    /* 1: listen() gives no descriptor */
    int lost;    /* 1: the next heard() answers that the connection is lost */
    pawl_code connect_code;
    pawl_code listen_code;
    pawl_code notify_code;
    int64_t lock_server; /* the server that gives the node its lock; 0: it gives none */
    atomic_int connects; /* so far */
    atomic_int open;     /* now */

    pthread_mutex_t lock;                /* guards all below */
    int64_t sent[NOTIFIER_FIXTURE_SENT]; /* targets that were notified, in order */
    int count;
    int trips;      /* number of calls of notify() that had these targets */
    char log[1024]; /* the names of the events that were logged, with a blank behind each */
} notifier_fixture;

/* Sets up the driver, with a clock that stands still. A test may set another clock before it opens
 * the notifier. */
void notifier_fixture_open(notifier_fixture *p);

/* Frees the fixture. Fails the test if a connection is still open. */
void notifier_fixture_close(notifier_fixture *p);

/* Returns 1 if `node` was notified since the last notifier_fixture_clear(). */
int notifier_fixture_has(notifier_fixture *p, int64_t node);
/* Expects that exactly these events were logged since the last call of this function. */
void notifier_fixture_expect_log(notifier_fixture *p, const char *events);
void notifier_fixture_clear(notifier_fixture *p);

#endif
