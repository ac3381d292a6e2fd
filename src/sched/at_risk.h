/* Work at risk: executions of work functions that are not durable. If the process dies they are
 * executed again. So their number has a bound, the option at_risk_max: at the bound the gate is
 * closed, which means that no run and no job is taken from its queue until a commit is answered
 * (backpressure). A thread that has a run in hand at that moment may begin one more: the bound is
 * exceeded by the number of threads at most.
 *
 * An execution is counted from its beginning until the unit that records it has an answer:
 *   1. The work function begins: at_risk_begin().
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
    atomic_int waits;        /* a thread has found the gate closed */
} at_risk;

/* ---- With the lock held ---- */

/* at_risk_is_closed(): no run may be taken. at_risk_is_closed_for_jobs(): no job either. */
int at_risk_is_closed(struct sched *s);
int at_risk_is_closed_for_jobs(struct sched *s);

/* at_risk_job_ends(): a job that was counted has ended like this. To be called before it is given
 * to its run; j->run may be NULL. at_risk_drop(): an execution that was counted is not any more,
 * since it was taken from its thread, or its result is dropped. */
void at_risk_job_ends(struct sched *s, job *j, job_state how);
void at_risk_drop(struct sched *s);

/* ---- Without the lock; at_risk_begin() with or without it ---- */

/* at_risk_begin(): a work function begins, and is counted. at_risk_returned(): a run's own one, not
 * that of a job, has returned, and its result is in the draft or about to be. */
void at_risk_begin(struct sched *s);
void at_risk_returned(pawl_run *run);

/* The run cannot collect the results of its jobs for a while: they are not counted until
 * at_risk_collects(). */
void at_risk_leave_jobs(pawl_run *run);
void at_risk_collects(pawl_run *run);

/* at_risk_hand_in(): the draft of the run is handed in. at_risk_answered(): its unit has an answer,
 * or is set aside. at_risk_forget(): the draft is dropped. */
void at_risk_hand_in(pawl_run *run);
void at_risk_answered(pawl_run *run);
void at_risk_forget(pawl_run *run);

/* The node has left: nothing is at risk any more. */
void at_risk_reset(struct sched *s);

#endif
