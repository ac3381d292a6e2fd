/* The fixture for notifiers (type `post`): a driver that only records which targets were notified,
 * in which order, in how many calls.
 *
 * It gives the answers that the test has set, so that lost connections, servers that come later and
 * refused statements are tested without a server. The other functions of a driver are missing. */
#ifndef SUPPORT_NOTIFIER_FIXTURE_H
#define SUPPORT_NOTIFIER_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/db.h"

#define POST_NOTES 4096

typedef struct post {
    db base; /* first: a db is the post it belongs to */
    db_driver driver;
    clock_fake *clock;
    int word[2]; /* a pipe: a byte in it is a notification */
    int deaf;    /* listen() gives no descriptor */
    int lost;    /* heard() says so, once */
    pawl_code connect_code;
    pawl_code listen_code;
    pawl_code notify_code;
    atomic_int connects; /* so far */
    atomic_int open;     /* now */

    pthread_mutex_t lock;     /* guards all below */
    int64_t sent[POST_NOTES]; /* targets, in order … */
    int count;
    int trips; /* … in so many calls */
} post;

/* On a clock that stands still; the test may take another one before the waker is opened. */
void post_open(post *p);

/* Expects that every connection was closed. */
void post_close(post *p);

/* 1 if `node` was notified since the last post_forget(). */
int post_has(post *p, int64_t node);
void post_forget(post *p);

#endif
