/* Claims (leases): a due run without a live owner becomes this node's, or is held.
 *
 * The code that finds such a run (node_loop.c: the run is due; hold.c: the run was held, and can go
 * on here) reads its row into a claim and submits the claim. If several nodes submit one for the
 * same run, one of them gets the run. */
#ifndef SCHED_CLAIM_H
#define SCHED_CLAIM_H

#include "sched/sched_internal.h"

/* The columns that claim_read() reads, of {runs} r. */
#define CLAIM_COLUMNS                                                                              \
    "r.run, r.id, r.workflow, r.version, r.input, r.owner, r.held, r.wake_at, r.claims,"           \
    " r.held_for, coalesce((SELECT max(j.seq) FROM {journal} j WHERE j.run = r.run"                \
    " AND j.generation = r.generation), 0), r.phase, r.parent, r.parent_generation,"               \
    " r.parent_op, r.deadline_at, r.generation,"                                                   \
    " CASE WHEN r.trouble IS NULL THEN 0 ELSE 1 END"

enum { CLAIM_COLUMN_COUNT = 18 };

typedef struct claim {
    sched *sched;
    arena *arena;
    unit *unit;
    int row;        /* number of the statement in `unit` that gives the row of run_claim(), or of
                       run_hold_due() */
    int is_locked;  /* the claim waits for a row lock, and is not counted in sched.claiming */
    slice workflow; /* the name of the workflow */
    slice version;  /* the version in the row; empty: the run has none yet */
    int64_t wake_ms;
    int64_t claims;    /* the claims so far, as in the row */
    slice held_for;    /* as in the row; at NULL: the run was never held */
    int noted;         /* 1: the column `trouble` of the row is set */
    int releases;      /* the run is held, and can go on here */
    const char *holds; /* the run is held, for this reason, and not claimed; NULL: it is claimed */
    run_found found;
    run_facts facts; /* of the run; workflow NULL: it is not registered here */
    pawl_run *run;   /* made of `facts` before the claim is submitted; NULL: not made yet, or in the
                        run queue */
} claim;

/* Can this node go on with the run? A run that is failing needs its work functions only. */
static inline int claim_is_for_us(const claim *c)
{
    return c->facts.workflow || c->facts.failing;
}

/* Makes a claim of a row with CLAIM_COLUMNS. NULL: memory is out. */
claim *claim_read(sched *s, db_stmt *row);
void claim_free(claim *c);

/* Makes the run as its row says. NULL: memory is out. */
pawl_run *claim_make_run(const claim *c);

/* Submits the claim, which is freed when its unit is answered. The node loop is called when the
 * last claim has its answer, unless all have failed. 0: memory is out; the claim was freed, and the
 * run stays as it is. */
int claim_submit(claim *c);

/* Holds the run instead of claiming it, since no node can drive it. The claim is freed with the
 * answer. */
void claim_hold(claim *c);

/* Not 0 if no claim of the run is to be submitted now: it is here; or its last claim has failed,
 * and the back-off after that is not over (run_failure.h). */
enum { CLAIM_IS_HERE = 1, CLAIM_BACKS_OFF };
int claim_waits(sched *s, int64_t run);

/* May this run be claimed? pawl_finish() drives one run and its children, and nothing else. */
int claim_is_meant(sched *s, const claim *c);

#endif
