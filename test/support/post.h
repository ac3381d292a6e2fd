/* A driver for wakers that only writes down: who was told, in which order, in how many calls.
 *
 * It answers what the test wants to be answered, so that lost connections, servers that come later
 * and words that are refused are had without a server. Nothing else of the seam is there. */
#ifndef SUPPORT_POST_H
#define SUPPORT_POST_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/db.h"

#define POST_NOTES 4096

typedef struct post {
    db base; /* first: a db is the post it belongs to */
    db_driver driver;
    clock_fake *clock;
    int word[2]; /* a pipe: who writes into it is heard */
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

/* 1 if somebody was told of `node` since the last post_forget(). */
int post_has(post *p, int64_t node);
void post_forget(post *p);

#endif
