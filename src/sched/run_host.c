/* The scheduler as the host of its runs: fills the table of run/host.h. Each function hands the
 * question on to the file of the scheduler that knows the answer. */
#include "run/cross_run.h"
#include "sched/arrival.h"
#include "sched/handover.h"
#include "sched/job_queue.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"

static int64_t now_ms(const run_host *h)
{
    return sched_now_ms(h->sched);
}

static int64_t up_ms(const run_host *h)
{
    return db_clock_up_ms(h->sched->options.clock);
}

/* If the system gives no random bytes, the clock is used instead: it is more important that two
 * numbers differ than that they are hard to guess. */
static uint64_t chance(const run_host *h)
{
    uint64_t number = 0;
    if (h->random->fill(h->random, &number, sizeof number) != 0)
        number = (uint64_t)h->clock->mono_ns(h->clock);
    return number;
}

static int is_stopping(const run_host *h)
{
    return sched_is_stopping(h->sched);
}

static int is_forked(const run_host *h)
{
    return sched_is_forked(h->sched);
}

static void end_forked(const run_host *h)
{
    sched_end_forked(h->sched);
}

static int is_leaving(const run_host *h)
{
    return atomic_load(&h->sched->stopping);
}

static void lock(const run_host *h)
{
    sched_lock(h->sched);
}

static void unlock(const run_host *h)
{
    sched_unlock(h->sched);
}

static void unqueue_job(const run_host *h, job *j)
{
    job_queue_remove(h->sched, j);
}

static void drop_result(const run_host *h)
{
    at_risk_drop(h->sched);
}

static void own_child(const run_host *h, run_insert *child)
{
    handover_owner(h->sched, child);
}

static void sent(const run_host *h, const run_sent *s, const unit_row *row)
{
    if (s->run_insert)
        handover_started(h->sched, s->run_insert, row != NULL);
    else if (row)
        arrival_sent(h->sched, s->run, row->values[SEND_OWNER].i);
    if (row && s->cancels)
        arrival_cancel(h->sched, s->run);
}

static void forget_unit(const run_host *h, pawl_run *run)
{
    (void)h;
    unit_retry_forget(run);
    at_risk_forget(run);
}

static void deferring(const run_host *h, pawl_run *run, int begins)
{
    deferred_note(h->sched, run, begins);
}

void run_host_init(sched *s, random_source *random)
{
    s->run_host = (run_host){.sched = s,
                             .registry = s->options.registry,
                             .log = &s->log,
                             .random = random,
                             .clock = s->host,
                             .tenant = s->options.tenant,
                             .origin = s->origin,
                             .slot_size = sizeof(run_slot),
                             .now_ms = now_ms,
                             .up_ms = up_ms,
                             .chance = chance,
                             .is_stopping = is_stopping,
                             .is_forked = is_forked,
                             .end_forked = end_forked,
                             .is_leaving = is_leaving,
                             .lock = lock,
                             .unlock = unlock,
                             .unqueue_job = unqueue_job,
                             .drop_result = drop_result,
                             .own_child = own_child,
                             .sent = sent,
                             .forget_unit = forget_unit,
                             .deferring = deferring};
}
