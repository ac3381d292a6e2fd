/* Claims (leases): a due run without a live owner becomes this node's, or is held.
 *
 * The code that has found one (node_loop.c: it is due; hold.c: it was held, and can go on here)
 * reads its row into a claim and hands that in. Of several nodes that do, one gets it. */
#ifndef SCHED_CLAIM_H
#define SCHED_CLAIM_H

#include "sched/sched.h"

/* What claim_read() reads, from {runs} r. */
#define CLAIM_COLUMNS                                                                              \
    "r.run, r.id, r.workflow, r.version, r.input, r.owner, r.held, r.wake_at, r.claims,"           \
    " r.held_for, coalesce((SELECT max(j.seq) FROM {journal} j WHERE j.run = r.run"                \
    " AND j.generation = r.generation), 0), r.phase, r.parent, r.parent_generation,"               \
    " r.parent_op, r.deadline_at, r.generation,"                                                   \
    " CASE WHEN r.trouble IS NULL THEN 0 ELSE 1 END"

typedef struct claim {
    sched *sched;
    arena *arena;
    unit *unit;
    int row;
    int is_locked;  /* it waits for a lock, and is not counted among the claims on their way */
    slice workflow; /* its name */
    slice version;  /* as its row has it: perhaps none yet */
    int64_t wake_ms;
    int64_t claims; /* so far */
    slice held_for; /* at NULL: it was never held */
    int noted;      /* its row tells of trouble */
    run_found found;
    run_facts facts; /* without a workflow: that is not registered here */
    pawl_run *run;   /* made of them before it is claimed; NULL: not yet, or it is in the queue */
} claim;

/* Can this node go on with it? What is failing needs its work functions only. */
static inline int claim_is_for_us(const claim *c)
{
    return c->facts.workflow || c->facts.failing;
}

/* The claim on a row. NULL: memory is out. */
claim *claim_read(sched *d, db_stmt *row);
void claim_free(claim *c);

/* The memory that the run needs to be driven here, so that none can be missing once it is owned. 0:
 * memory is out. */
int claim_reserve(claim *c);

/* Hand it in; it frees itself. The node loop is called when the last one has its answer. 0: memory
 * is out, and the run stays as it is. */
int claim_submit(claim *c);

/* Instead of claiming it: hold it, for no node can drive it. Frees itself too. */
void claim_hold(claim *c);

/* 1 if the run is in memory here, or about to be: its claim waits for a lock. */
int claim_is_here(sched *d, int64_t run);

/* pawl_finish() drives one run and its children, and nothing else. */
int claim_is_meant(sched *d, const claim *c);

#endif
