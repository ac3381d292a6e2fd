/* Giving a run back: the one way out of this process for a run that is live. What was executed
 * beside its function is in this process only; so it is recorded and committed before the run loses
 * its owner, whatever it is given back for. */
#include "sched/job_queue.h"
#include "sched/sched_internal.h"

/* Submits everything that the run has recorded, and that it has no owner any more. */
void runner_give_back(pawl_run *run)
{
    if (runner_need_unit(run))
        run_give_back(run->draft.unit, &run->lease, sched_now_ms(run->host->sched));
    if (!run->draft.unit || run->draft.unit->broken_build) {
        runner_starve(run, "a run is given back");
        return;
    }
    run->slot->is_returning = 1;
    runner_hand_in(run);
}

/* Is the run to be given back where it is now, without another work function being begun? */
int runner_leaves_here(const pawl_run *run)
{
    /* RULE 2-a-stop-records-results-where-another-step-was-about-to-begin */
    /* RULE a-hold-by-hand-is-heard-before-the-next-step */
    return atomic_load(&run->hold_requested) || atomic_load(&run->host->sched->stopping);
}

/* Logs that results are dropped with the hold. A function that was left in the middle of its
 * journal (it does not follow the journal, or the rest cannot be read) has no place where they
 * could be recorded. */
static void tell_dropped(pawl_run *run)
{
    if (jobs_returned(run) || run->attempt.saved) /* RULE L6-results-that-a-hold-drops-are-told */
        LOG(&run->host->sched->log, LOG_WARNING, "results-dropped", LOG_TEXT("run", run->id),
            LOG_TEXT("why", "the code does not follow the journal, or that is damaged, so what has"
                            " returned could not be recorded; it is executed again"));
}

/* Jobs of the run that have begun are waited for, the results of those that have returned are
 * recorded and committed, and only then is the run given back. At a stop workers_stop() has waited
 * for the jobs, and sched_leave() gives all runs back. 1: the fiber is to be resumed, to record
 * results. */
int runner_leave(pawl_run *run)
{
    /* RULE 2-trouble-waits-for-jobs */
    int held = runner_is_to_be_held(run), waits = held || atomic_load(&run->hold_requested);
    /* RULE 2-a-run-is-kept-while-its-jobs-run, L5-the-simulator-sees-what-a-hold-loses */
    while (waits && jobs_call_off(run) && !jobs_returned(run)) {
        run->code.want = WANT_LEAVE; /* what it wanted before is not done any more */
        if (!runner_is_flushed(run) || job_queue_await(run))
            return 0;
    }
    if (jobs_returned(run) && replay_may_arrive(run->journal.replay)) {
        /* RULE 2-results-are-recorded-where-another-step-was-about-to-begin */
        run->code.collects = 1;
        return 1;
    }
    if (held) {
        tell_dropped(run);
        run->code.want = WANT_END;
        runner_end_turn(run);
    } else if (waits) {
        runner_give_back(run);
    } else if (runner_is_flushed(run)) {
        runner_put_off(run);
    }
    return 0;
}
