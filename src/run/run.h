/* A run in memory: what its row says, its workflow function on its fiber, and what the function has
 * recorded since its last commit.
 *
 * Where the workflow function needs something from outside, it sets `want` and parks its fiber
 * (code.h). The runner (sched/runner.c) does what is wanted on its own stack, and resumes the
 * fiber. So one thread at a time touches the run: the runner that executes it, a worker that calls
 * its work function, or the leader of the group commit that answers its unit. Fields that several
 * threads use at once are atomic, or guarded by the lock of the host. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/heap.h"
#include "base/map.h"
#include "fiber/fiber.h"
#include "journal/op.h"
#include "journal/replay.h"
#include "rows/run_units.h"
#include "run/code.h"
#include "run/draft.h"
#include "run/host.h"
#include "run/journal_writer.h"
#include "run/parts.h"
#include "run/registry.h"
#include "run/retry.h"
#include "run/work.h"

typedef struct run_name run_name;

struct pawl_run {
    const run_host *host;  /* the scheduler of the run, as a table of functions (host.h) */
    struct run_slot *slot; /* the scheduler's own data about the run; only src/sched uses it */

    /* What the row of the run says. `id` is in the arena `own`; `version` and `input` are allocated
     * by themselves. */
    run_lease lease;          /* key, owner and fence */
    int64_t generation;       /* the current one; its journal is replayed */
    run_parent parent;        /* the run that started this one */
    int64_t deadline_ms;      /* RUN_NEVER: there is none */
    int failing;              /* 1: the workflow function is not called any more, but the run's
                                 clean-ups are */
    char *id;                 /* the public id */
    char *version;            /* of the workflow */
    char *input;              /* NULL: the input is large, and in the journal */
    const workflow *workflow; /* the workflow in this version; NULL: not registered here, which only
                                 a failing run may be */
    arena *own;               /* memory that lives as long as the run is in memory */
    run_inbox_state inbox;    /* what was read of the run's rows in {inbox} */

    /* The workflow function, and what it has started. */
    run_code code;           /* the function on its fiber */
    run_journal journal;     /* the journal, whose replay answers ops that are recorded already */
    run_draft draft;         /* what was recorded since the last commit */
    run_futures futures;     /* ops that have begun and whose answers the function may wait for */
    map untils;              /* op of a call -> the time to which call_put_off() has put off its
                                next attempt */
    run_jobs jobs;           /* calls of work functions on other threads */
    run_attempt attempt;     /* the call of a work function on the run's own thread */
    run_names names;         /* names of attributes that the run has */
    struct run_state *state; /* key-value state (state.h); NULL: the function has neither set nor
                                read any */
    int64_t cleanups;        /* number of undos and finallys that the function has registered;
                                run_cool() sets it to 0, and a replay counts them again */
    int64_t finallys;        /* number of finallys among them */

    /* Set by other threads. */
    int has_arrival;             /* 1: something has arrived for the run since it looked last, so it
                                    must not go to sleep; guarded by the lock of the host */
    atomic_int quarantine_level; /* not 0: the run is in quarantine (sched/quarantine.h) */
    atomic_int hold_requested;   /* 1: an operator has held the run, and its node is to give it
                                    back */
    atomic_int cancel_came;      /* 1: a cancel has come since the run last looked for one before
                                    a call of a work function; it looks again before the next
                                    call */
};

/* ---- Making and dropping (run.c) ---- */

/* The number of rows from which on a journal counts as long, so that its run should begin a new
 * generation. */
enum { RUN_LONG = 10000 };

/* The values from which run_new() makes a run. run_new() copies the texts. */
typedef struct run_facts {
    run_lease lease;
    int64_t generation;
    int64_t mail;   /* the column `mail`: number of arrivals so far */
    int64_t parent; /* 0: none */
    int64_t parent_generation;
    int64_t parent_op;
    int64_t deadline_ms; /* 0: none */
    int failing;
    slice id;
    slice version;
    slice input; /* at NULL: the input is in the journal */
    int fresh;   /* 1: the journal is empty, since the run was only started */
    const workflow *workflow;
} run_facts;

/* run_new() makes a cold run, which is one without a fiber. NULL: memory is out. run_free() frees a
 * run, and first its fiber if it has one. */
pawl_run *run_new(const run_host *host, const run_facts *facts);
void run_free(pawl_run *run);

/* Warms the run: makes a fiber that will call the workflow function. 0: memory is out. */
int run_warm(pawl_run *run, fiber_pool *pool);

/* Cools the run: frees its fiber and all that belongs to the function, and calls the functions that
 * were given to pawl_defer(). */
void run_cool(pawl_run *run);

#endif
