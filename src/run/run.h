/* A run in memory: who it is, its function on its fiber, and what it has recorded but not
 * committed.
 *
 * The workflow function lives on the fiber. Where it needs something of the outside it says what it
 * *wants* and parks; the runner thread (runner.c) does that, on its own stack, and resumes it. So
 * everything in here is touched by one thread at a time: by the runner that has the run in hand, or
 * by the one that answers its commit. */
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
    const run_host *host;
    struct run_slot *slot; /* what the host keeps of the run; only src/sched looks into it */

    /* Its row. Texts are in `own`, or allocated. */
    run_lease lease;
    int64_t generation;
    run_parent parent;
    int64_t deadline_ms; /* RUN_NEVER: it has none */
    int failing;         /* its function is not entered any more: clean-ups follow */
    char *id;
    char *version;
    char *input; /* NULL: it is large, and in the journal */
    const workflow *workflow;
    arena *own; /* as long as the run is in memory */
    run_mail_state mail;

    /* Its function. */
    run_code code;
    run_journal journal;
    run_draft draft;
    run_futures futures;
    map untils; /* by op: when other runs are asked again what has become of it */
    run_jobs jobs;
    run_attempt attempt;
    run_names names;
    struct run_state *state; /* NULL: it has neither set nor read any; see state.h */
    int64_t cleanups;        /* undos and finallys that it has registered … */
    int64_t finallys;        /* … and how many of these are finallys */

    /* What others tell the run. */
    int nudged;                  /* something is there for it: it does not go to sleep */
    atomic_int quarantine_level; /* not 0: it has died before, and is executed with care */
    atomic_int hold_requested;   /* it was held by hand: it is to be given back */
};

/* ---- Making and dropping (run.c) ---- */

/* Rows from which on a journal is long, and its run should begin a new one. */
enum { RUN_LONG = 10000 };

/* What is known of a run when it comes into memory. Texts are copied. */
typedef struct run_facts {
    run_lease lease;
    int64_t generation;
    int64_t mail;
    int64_t parent; /* 0: none */
    int64_t parent_generation;
    int64_t parent_op;
    int64_t deadline_ms; /* 0: none */
    int failing;
    slice id;
    slice version;
    slice input; /* at NULL: it is in the journal */
    int fresh;   /* nothing is recorded of it but its start */
    const workflow *workflow;
} run_facts;

pawl_run *run_new(const run_host *host, const run_facts *facts);
void run_free(pawl_run *run);

/* Warm it: a fiber that will call the function. 0: there is no room, drop another one. */
int run_warm(pawl_run *run, fiber_pool *pool);

/* Drop the fiber, with everything that belongs to the function; defers are called. */
void run_cool(pawl_run *run);

#endif
