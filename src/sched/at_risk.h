/* Work at risk: executions of work functions that are not durable. If the process dies they are
 * executed again. So their number has a bound, the option at_risk_max: at the bound no further work
 * function begins until a commit is answered (backpressure).
 *
 * An execution is counted from its beginning until the unit that records it has an answer:
 *   1. The work function begins: a run passes at_risk_enter(), a job is taken from its queue.
 *   2. It has returned. The result of a run's own step goes into the draft at once, and that of a
 *      job when its run collects it (draft.executed).
 *   3. The draft is handed in (slot.sent), and its unit is answered, or set aside because of a
 *      foreign row lock: one unit that waits does not stop all others.
 *
 * The bound stops nothing for ever. While a unit that records executions is on its way, its answer
 * opens the gate. While none is, what is counted are results of jobs that their runs have not
 * collected yet. Waiting would not make them durable, and so the gate is open: first for runs,
 * which may collect them, and if no run is ready also for jobs. Results of jobs are not counted
 * while their run is in a work function of its own, which may take hours. There are at most 256 of
 * them for each such run (run/jobs.c). */
#ifndef SCHED_AT_RISK_H
#define SCHED_AT_RISK_H

#include <stdatomic.h>
#include <stdint.h>

#include "run/jobs.h"

struct sched;

typedef struct at_risk {
    int64_t max;
    _Atomic int64_t count;   /* executions that are counted */
    _Atomic int64_t commits; /* units on their way that record some of them */
    atomic_int waits;        /* runs or jobs wait at the gate */
    pawl_run *first;         /* the runs that wait, in their order; with the lock held */
    pawl_run *last;
} at_risk;

/* ---- Without the lock ---- */

/* The run is about to call its work function. 1: the execution is counted. 0: the run waits at the
 * gate, and is not in hand any more. */
int at_risk_enter(struct sched *s, pawl_run *run);

/* A counted work function was not called after all. */
void at_risk_skip(struct sched *s);

/* The work function of the run has returned: its result is in the draft, or about to be. */
void at_risk_returned(pawl_run *run);

/* The run cannot collect the results of its jobs for a while: they are not counted until
 * at_risk_collects(). */
void at_risk_leave_jobs(pawl_run *run);
void at_risk_collects(pawl_run *run);

/* The draft of the run is handed in; its unit has an answer, or is set aside; the draft is
 * dropped. */
void at_risk_hand_in(pawl_run *run);
void at_risk_answered(pawl_run *run);
void at_risk_forget(pawl_run *run);

/* The node has left: nothing is at risk any more. */
void at_risk_reset(struct sched *s);

/* ---- With the lock held ---- */

/* May a job begin? at_risk_begin() counts it; at_risk_end() is told how it has ended, before it is
 * given to its run, which may be NULL. */
int at_risk_may_begin(struct sched *s);
void at_risk_begin(struct sched *s);
void at_risk_end(struct sched *s, job *j, job_state how);

/* The execution that was counted for a run or a job is taken from its thread, or its result is
 * dropped. */
void at_risk_drop(struct sched *s);

/* The runs that wait at the gate become ready; or are forgotten, since they are freed. */
void at_risk_let_go(struct sched *s);
void at_risk_clear(struct sched *s);

#endif
