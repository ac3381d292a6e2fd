/* The inside of a committer (group commit, leader/follower), for the two files that it is made of:
 * committer.c accepts units and makes followers wait, commit_leader.c is what the leader does. */
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
    pthread_cond_t changed; /* room in the queue, or nothing left to do */
    queue queue;
    aside aside; /* units that wait for row locks of foreign transactions */
    unit *undecided;
    int unsettled; /* some undecided units were given up, but their commit has to be settled before
                      anything else is written */
    waiters waiters;

    int leading;
    uint64_t led; /* how many times a thread has led */
    pthread_t leader;
    unit **batch; /* the units of the batch under way */
    uint64_t passes;
    int64_t retry_ns;
    int64_t retry_ms;
    pawl_code trouble; /* why the last batch has to be tried again; PAWL_OK: it has not */

    int closing;
    int helper_wanted;
    int watching;         /* the helper polls the queue (see committer.c) */
    int64_t watch_ns;     /* when the helper polls the queue next */
    uint64_t watched_led; /* `led` when the helper polled last */
    int64_t stood_ns;     /* since when units stand in the queue while no thread leads */
    int helper_runs;
    pthread_t helper;
    pthread_cond_t helper_cond;

    committer_stats stats;
};

/* All with the lock held, but for commit_leader_call_done(), which is called without. */

int64_t commit_leader_now_ns(committer *k);
int commit_leader_has_work(const committer *k);

/* When a leader has something to do: 0 now, INT64_MAX not before a unit is submitted. */
int64_t commit_leader_next_ns(const committer *k);

/* If there is anything to do, make a thread lead: a waiter, or else the helper. */
void commit_leader_hand_on(committer *k);

/* May the calling thread lead now? If so, commit_leader_one() applies one batch, or makes one
 * attempt to settle an undecided commit. */
int commit_leader_can(committer *k);
void commit_leader_one(committer *k);
void commit_leader_retry_now(committer *k);

/* Answers that do not come from the database, and delivering answers. */
void commit_leader_set_failed(unit *u, pawl_code code, const char *message);
void commit_leader_set_busy(committer *k, unit *u);
/* The unit has its final answer, and no longer counts towards the bounds of the queue. */
void commit_leader_settle(committer *k, unit *u);
void commit_leader_call_done(committer *k, unit *u);
void commit_leader_deliver(committer *k, unit *list);

#endif
