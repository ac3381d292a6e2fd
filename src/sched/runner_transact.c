/* Applying the unit of a transactional step (run/transact.h), instead of submitting it: on the
 * thread that has the run in hand, since the function of the user is called inside. */
#include "run/transact.h"
#include "sched/sched_internal.h"

/* Other runners take the ready runs of this one, as with any work function. But the step is not
 * taken from it, since only the end of its transaction releases its locks. */
static void enter_transact(runner *r)
{
    sched *s = r->sched;
    atomic_store(&r->since_ns, s->host->mono_ns(s->host));
    atomic_store(&r->over_ns, INT64_MAX);
    atomic_store(&r->busy, 1);
    if (!atomic_load(&s->ticking))
        sched_watch_workers(s);
}

int runner_transact(runner *r, pawl_run *run)
{
    sched *s = r->sched;
    run_transact *t = &run->attempt.transact;
    t->here = 1;
    enter_transact(r);
    pawl_code rc = committers_apply(s->options.committers, run->draft.unit);
    atomic_store(&r->busy, 0);
    if (rc == PAWL_UNDECIDED)
        return 0; /* another thread may have the run by now */
    t->here = 0;
    if (transact_has_failed(run)) {
        run_move(run, PLACE_IN_HAND);
        return 1;
    }
    run_queue_answered(s, run);
    return 0;
}

int runner_transact_answered(pawl_run *run, const unit *u)
{
    if (u->answer == UNIT_UNDECIDED)
        run->attempt.transact.here = 0;
    return run->attempt.transact.here;
}
