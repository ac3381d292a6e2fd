/* Applying the unit of a transactional step (run/transact.h), instead of submitting it: on the
 * thread that has the run in hand, since the function of the user is called inside. */
#include "run/transact.h"
#include "sched/sched.h"

/* Others help with what waits behind it, but nobody takes it away: its transaction has locks that
 * only its end sets free. */
static void enter(runner *r)
{
    sched *d = r->sched;
    atomic_store(&r->since_ns, d->host->mono_ns(d->host));
    atomic_store(&r->over_ns, INT64_MAX);
    atomic_store(&r->busy, 1);
    if (!atomic_load(&d->ticking))
        sched_call_crew(d);
}

int runner_transact(runner *r, pawl_run *run)
{
    sched *d = r->sched;
    run_transact *t = &run->attempt.transact;
    t->here = 1;
    enter(r);
    pawl_code rc = committers_apply(d->options.committers, run->draft.unit);
    atomic_store(&r->busy, 0);
    if (rc == PAWL_UNDECIDED)
        return 0; /* by now it may be in other hands */
    t->here = 0;
    if (transact_has_failed(run)) {
        run_move(run, PLACE_IN_HAND);
        return 1;
    }
    run_queue_answered(d, run);
    return 0;
}

int runner_transact_answered(pawl_run *run, const unit *u)
{
    if (u->answer == UNIT_UNDECIDED)
        run->attempt.transact.here = 0;
    return run->attempt.transact.here;
}
