/* What a run needs from its scheduler: the host of the run, as one table of functions and facts.
 *
 * Everything in src/run stands on this table and not on src/sched, so that whole runs can be driven
 * without a scheduler, a database or threads (test/unit/test_run_host.c). The scheduler of a node
 * fills the table (sched/run_host.c); all its runs share it, and it does not change. */
#ifndef RUN_HOST_H
#define RUN_HOST_H

#include "base/clock.h"
#include "base/log.h"
#include "db/unit.h"
#include "run/registry.h"

struct sched;
struct job;        /* jobs.h */
struct run_insert; /* rows/run_insert.h */
struct run_sent;   /* cross_run.h */

typedef struct run_host run_host;

struct run_host {
    struct sched *sched; /* the scheduler itself, which only src/sched looks into; NULL: none */
    registry *registry;  /* workflows and work functions by name */
    const log_sink *log; /* for lines of runs and of work functions */
    random_source *random;
    clock_source *clock; /* its monotonic time: for time limits of attempts, and durations */
    const char *tenant;  /* the tenant that the runs belong to */
    const char *origin;  /* the id of the database: a part of idempotency keys */
    size_t slot_size;    /* bytes that each run gets for the host's own use; 0: none */

    /* The time of the database, which is what is recorded. Called by almost every op. */
    int64_t (*now_ms)(const run_host *h);

    /* The time of the database, rounded up. Durations begin at this time, so that none ends too
     * early. */
    int64_t (*up_ms)(const run_host *h);

    /* A random number, for pawl_random() and for the jitter of a back-off. */
    uint64_t (*chance)(const run_host *h);

    /* 1: the host is about to end, and work functions should return. */
    int (*is_stopping)(const run_host *h);

    /* is_forked(): 1: this process is a child of fork(), in which no run may do anything.
     * end_child() ends such a child, before it writes in the name of its parent. */
    int (*is_forked)(const run_host *h);
    void (*end_child)(const run_host *h);

    /* 1: the host gives its runs back, so that these begin no further work function or job. */
    int (*is_leaving)(const run_host *h);

    /* Guards what threads that execute jobs of the run touch (jobs.c). */
    void (*lock)(const run_host *h);
    void (*unlock)(const run_host *h);

    /* Takes a job out of the queue: it is not executed any more. With the lock held. */
    void (*unqueue_job)(const run_host *h, struct job *j);

    /* Counts an executed job whose result is dropped instead of recorded. With the lock held. */
    void (*drop_result)(const run_host *h);

    /* The run is about to insert a child: fills in its owner. Afterwards sent() is called once. */
    void (*own_child)(const run_host *h, struct run_insert *child);

    /* Called once for each statement that concerns another run, when its unit is answered or cut.
     * `row`: what the statement returned; NULL: it returned none, or was not committed. The host
     * wakes the other run, or begins to drive the child. */
    void (*sent)(const run_host *h, const struct run_sent *s, const unit_row *row);

    /* The fiber of the run is dropped: the host drops a unit that it has kept to hand it in
     * again. */
    void (*forget_unit)(const run_host *h, pawl_run *run);
};

static inline int64_t host_now_ms(const run_host *h)
{
    return h->now_ms(h);
}

static inline int64_t host_up_ms(const run_host *h)
{
    return h->up_ms(h);
}

static inline uint64_t host_chance(const run_host *h)
{
    return h->chance(h);
}

static inline int host_is_stopping(const run_host *h)
{
    return h->is_stopping(h);
}

static inline int host_is_forked(const run_host *h)
{
    return h->is_forked(h);
}

static inline void host_end_child(const run_host *h)
{
    h->end_child(h);
}

static inline int host_is_leaving(const run_host *h)
{
    return h->is_leaving(h);
}

static inline void host_lock(const run_host *h)
{
    h->lock(h);
}

static inline void host_unlock(const run_host *h)
{
    h->unlock(h);
}

static inline void host_unqueue_job(const run_host *h, struct job *j)
{
    h->unqueue_job(h, j);
}

static inline void host_drop_result(const run_host *h)
{
    h->drop_result(h);
}

static inline void host_own_child(const run_host *h, struct run_insert *child)
{
    h->own_child(h, child);
}

static inline void host_sent(const run_host *h, const struct run_sent *s, const unit_row *row)
{
    h->sent(h, s, row);
}

static inline void host_forget_unit(const run_host *h, pawl_run *run)
{
    h->forget_unit(h, run);
}

#endif
