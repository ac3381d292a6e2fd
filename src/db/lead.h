/* The inside of a committer, for the two files that it is made of: committer.c has its door, the
 * queue and those who wait; lead.c is what the one who leads does. */
#ifndef DB_LEAD_H
#define DB_LEAD_H

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
    unit *undecided;
    int unsettled; /* nobody waits for some of these any more, but what became of them must be known
                      before anything else is written */
    waiters waiters;

    int leading;
    uint64_t led; /* so often */
    pthread_t leader;
    unit **batch; /* the units of the batch under way */
    uint64_t passes;
    int64_t retry_ns;
    int64_t retry_ms;
    pawl_code trouble; /* why it has to be tried again; PAWL_OK: it has not */

    int closing;
    int helper_wanted;
    int helper_runs;
    pthread_t helper;
    pthread_cond_t helper_cond;

    committer_stats stats;
};

/* All with the lock held. */

int64_t lead_now_ns(committer *k);
int lead_has_work(const committer *k);

/* Somebody should lead, if there is anything to do. */
void lead_hand_on(committer *k);

/* May the calling thread? Then: one batch, or one attempt to settle. */
int lead_can(committer *k);
void lead_one(committer *k);
void lead_retry_now(committer *k);

/* Answers that the database has not seen, and giving them. */
void lead_set_failed(unit *u, pawl_code code, const char *message);
void lead_set_busy(committer *k, unit *u);
void lead_call_done(unit *u);
void lead_deliver(committer *k, unit *list);

#endif
