/* The struct behind a committer (group commit, leader/follower), shared by the two files that
 * implement it: committer.c accepts units and makes followers wait, commit_leader.c does what the
 * leader does. */
#ifndef DB_COMMIT_LEADER_H
#define DB_COMMIT_LEADER_H

#include "db/aside.h"
#include "db/committer.h"
#include "db/queue.h"
#include "db/waiters.h"

struct committer {
    db_conn *conn;
    clock_source *clock;
    log_sink log;
    committer_options options;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* after each batch: there may be room in the queue, or no work left */
    queue queue;
    aside aside;     /* units that wait for row locks of foreign transactions */
    unit *undecided; /* units whose commit has no answer yet */
    int unsettled; /* some undecided units were given up, but their commit has to be settled before
                      anything else is written */
    waiters waiters;

    int leading;  /* 1: the thread `leader` leads */
    uint64_t led; /* how many times a thread has led so far */
    pthread_t leader;
    unit **batch;      /* the units of the batch under way */
    uint64_t passes;   /* transactions of `conn` so far, see batch_apply() */
    int64_t retry_ns;  /* after a failure nothing is tried before this moment; 0: there was none */
    int64_t retry_ms;  /* the back-off that ends then */
    pawl_code trouble; /* why the last batch has to be tried again; PAWL_OK: it need not */

    int closing;          /* 1: units are not accepted any more */
    int helper_wanted;    /* 1: the helper is to lead when there is something to do */
    int watching;         /* the helper polls the queue (see committer.c) */
    int64_t watch_ns;     /* when the helper polls the queue next */
    uint64_t watched_led; /* `led` when the helper polled last */
    int64_t stood_ns;     /* since when units stand in the queue without a leader */
    int helper_runs;
    pthread_t helper;
    pthread_cond_t helper_cond;

    committer_stats stats;
};

/* These functions are called with the committer's lock held, except commit_leader_call_done(),
 * which is called without it. */

int64_t commit_leader_now_ns(committer *k);

/* Returns 1 if a unit is queued, set aside or undecided, or a commit is not settled. */
int commit_leader_has_work(const committer *k);

/* Returns when a leader has something to do: 0 now, INT64_MAX not before a unit is submitted. */
int64_t commit_leader_next_ns(const committer *k);

/* If there is anything to do, ask a thread to lead: a waiter, or else the helper. */
void commit_leader_hand_on(committer *k);

/* commit_leader_can() returns 1 if no thread leads and there is something to do now. Then the
 * calling thread may call commit_leader_one(), which applies one batch, or makes one attempt to
 * settle an undecided commit. commit_leader_retry_now() ends the back-off after a failure. */
int commit_leader_can(committer *k);
void commit_leader_one(committer *k);
void commit_leader_retry_now(committer *k);

/* Logs that it will not be known here whether these undecided units are durable. Releases the lock
 * meanwhile. */
void commit_leader_tell_unknown(committer *k, const unit *list, const char *why);

/* Give a unit an answer that the committer has decided on without the database. */
void commit_leader_set_failed(unit *u, pawl_code code, const char *message);
void commit_leader_set_busy(committer *k, unit *u);

/* The unit has its final answer, and no longer counts towards the bounds of the queue. */
void commit_leader_settle(committer *k, unit *u);

/* commit_leader_call_done() calls the unit's `done`. commit_leader_deliver() settles all units of a
 * list, calls their `done` and wakes their waiters. */
void commit_leader_call_done(committer *k, unit *u);
void commit_leader_deliver(committer *k, unit *list);

#endif
