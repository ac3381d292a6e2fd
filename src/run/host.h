/* The host of a run: what a run needs from its scheduler, as one table of functions and values.
 *
 * Everything in src/run stands on this table and not on src/sched, so that whole runs can be driven
 * without a scheduler, a database or threads (test/unit/test_run_host.c). The scheduler of a node
 * fills in the table (sched/run_host.c). All its runs share the table, which does not change. */
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
    struct sched *sched; /* the scheduler; only src/sched uses it; NULL: there is none */
    registry *registry;  /* workflows and work functions by name */
    const log_sink *log; /* the log, for lines of runs and of work functions */
    random_source *random;
    clock_source *clock; /* monotonic time, for time limits of attempts and for durations */
    const char *tenant;  /* the tenant that the runs belong to */
    const char *origin;  /* the id of the database: a part of idempotency keys */
    size_t slot_size;    /* bytes that each run gets for the host's own use; 0: none */

    /* Returns the time of the database, which goes into rows. Almost every op calls this. */
    int64_t (*now_ms)(const run_host *h);

    /* Returns the time of the database, rounded up. Durations begin at this time, so that none ends
     * too early. */
    int64_t (*up_ms)(const run_host *h);

    /* Returns a random number, for pawl_random() and for the jitter of a back-off. */
    uint64_t (*chance)(const run_host *h);

    /* Returns 1 if the host is about to end, and work functions should return. */
    int (*is_stopping)(const run_host *h);

    /* is_forked() returns 1 if this process is a child of fork(), in which no run may do anything.
     * end_forked() ends such a process before it writes in the name of its parent. */
    int (*is_forked)(const run_host *h);
    void (*end_forked)(const run_host *h);

    /* Returns 1 if the host gives its runs back. Then they begin no further work function or
     * job. */
    int (*is_leaving)(const run_host *h);

    /* The lock that guards what threads that execute jobs of the run share with it (jobs.c). */
    void (*lock)(const run_host *h);
    void (*unlock)(const run_host *h);

    /* Takes a job out of the queue, so that it is not executed. With the lock held. */
    void (*unqueue_job)(const run_host *h, struct job *j);

    /* Called when the result of an executed job is dropped instead of recorded: the host does not
     * count it as work at risk any more. With the lock held. */
    void (*drop_result)(const run_host *h);

    /* Called before a run inserts a child: fills in the node that is to own the child. Later sent()
     * is called once for the child. */
    void (*own_child)(const run_host *h, struct run_insert *child);

    /* Called once for each statement that concerns another run, after the unit was answered or the
     * statement was cut from it. `row` is what the statement returned; NULL: it returned no row, or
     * was not committed. The host wakes the other run, or begins to drive the child. */
    void (*sent)(const run_host *h, const struct run_sent *s, const unit_row *row);

    /* Called by run_cool(). If the host has kept a unit of the run to hand it in again, it drops
     * the unit. */
    void (*forget_unit)(const run_host *h, pawl_run *run);

    /* Called by run_cool() before a function that was given to pawl_defer() (`begins` 1), and after
     * it (0). */
    void (*deferring)(const run_host *h, pawl_run *run, int begins);
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

static inline void host_end_forked(const run_host *h)
{
    h->end_forked(h);
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

static inline void host_deferring(const run_host *h, pawl_run *run, int begins)
{
    h->deferring(h, run, begins);
}

#endif
