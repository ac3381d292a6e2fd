/* A run in memory: what its row says, its function on its fiber, and what it has recorded but not
 * committed.
 *
 * The workflow function lives on the fiber. Where it needs something of the outside it says what it
 * *wants* and parks; the runner thread (runner.c) does that, on its own stack, and resumes it. So
 * everything in here is touched by one thread at a time: by the runner that has the run in hand, or
 * by the leader of the group commit that answers its unit. */
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
    const run_host *host;  /* the scheduler, as its runs see it */
    struct run_slot *slot; /* what the host keeps of the run; only src/sched looks into it */

    /* What the row of the run says. Texts are in `own`, or allocated. */
    run_lease lease;          /* key, owner and fence */
    int64_t generation;       /* the current one; its journal is replayed */
    run_parent parent;        /* the run that started this one */
    int64_t deadline_ms;      /* RUN_NEVER: there is none */
    int failing;              /* the function is not entered any more: clean-ups follow */
    char *id;                 /* as the client, or the parent, has chosen it */
    char *version;            /* of the workflow */
    char *input;              /* NULL: it is large, and in the journal */
    const workflow *workflow; /* as registered here; NULL: it is not, and the run is failing */
    arena *own;               /* memory that lives as long as the run is in memory */
    run_inbox_state inbox;    /* what is known of the rows that wait in {inbox} */

    /* The function of the run, and what it has started. */
    run_code code;           /* the function on its fiber */
    run_journal journal;     /* the replay that answers its ops */
    run_draft draft;         /* what is recorded and not committed */
    run_futures futures;     /* what it has started and not been told the end of */
    map untils;              /* op -> time before which a call that was put off is not tried */
    run_jobs jobs;           /* calls that other threads execute */
    run_attempt attempt;     /* the call that the run's own thread executes */
    run_names names;         /* names of attributes that the run has */
    struct run_state *state; /* NULL: the run has neither set nor read any (state.h) */
    int64_t cleanups;        /* number of undos and finallys that are registered */
    int64_t finallys;        /* number of finallys among them */

    /* What other threads tell the run. */
    int woken;                   /* something is there for the run: it does not go to sleep */
    atomic_int quarantine_level; /* not 0: processes have died at it (sched/quarantine.h) */
    atomic_int hold_requested;   /* the run was held by hand, and is to be given back */
};

/* ---- Making and dropping (run.c) ---- */

/* The number of rows from which on a journal is long, and its run should begin a new generation. */
enum { RUN_LONG = 10000 };

/* What is known of a run when it comes into memory. Texts are copied. */
typedef struct run_facts {
    run_lease lease;
    int64_t generation;
    int64_t mail;   /* number of arrivals so far, as in the row */
    int64_t parent; /* 0: none */
    int64_t parent_generation;
    int64_t parent_op;
    int64_t deadline_ms; /* 0: none */
    int failing;
    slice id;
    slice version;
    slice input; /* at NULL: it is in the journal */
    int fresh;   /* nothing is recorded of the run but its start */
    const workflow *workflow;
} run_facts;

/* Makes a cold run; NULL: memory is out. run_free() drops its fiber first, if it is warm. */
pawl_run *run_new(const run_host *host, const run_facts *facts);
void run_free(pawl_run *run);

/* Warms the run: makes a fiber that will call the function. 0: there is no memory for it. */
int run_warm(pawl_run *run, fiber_pool *pool);

/* Cools the run: drops the fiber, with everything that belongs to the function. Defers are
 * called. */
void run_cool(pawl_run *run);

#endif
