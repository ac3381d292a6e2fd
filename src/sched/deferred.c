/* Which runs are in functions that were given to pawl_defer(), and what a stop tells of them. The
 * functions are called without the lock of the scheduler, which guards the list. */
#include "sched/deferred.h"

#include "base/thread.h"
#include "sched/sched_internal.h"

void deferred_note(sched *s, pawl_run *run, int begins)
{
    sched_lock(s);
    pawl_run **at = &s->deferred.first;
    while (*at && *at != run)
        at = &(*at)->slot->deferred_next;
    if (begins && !*at) {
        run->slot->deferred_told = 0;
        run->slot->deferred_next = NULL;
        *at = run;
    } else if (!begins && *at) {
        *at = run->slot->deferred_next;
    }
    sched_unlock(s);
}

void deferred_tell(sched *s)
{
    sched_assert_locked(s);
    for (const pawl_run *run = s->deferred.first; run; run = run->slot->deferred_next) {
        if (!run->slot->deferred_told)
            LOG(&s->log, LOG_WARNING, "stop-waits", LOG_TEXT("run", run->id),
                LOG_TEXT("why", "a function that was given to pawl_defer() has not returned in"
                                " drain_ms"));
        run->slot->deferred_told = 1;
    }
}

static int64_t drain_end(sched *s)
{
    return clock_deadline(s->host->mono_ns(s->host), s->options.drain_ms);
}

static void *tell_when_late(void *arg)
{
    sched *s = arg;
    sched_lock(s);
    for (int64_t end = drain_end(s); !s->deferred.over;) {
        if (!sched_await(s, &s->ended, end))
            continue;
        deferred_tell(s); /* RULE L9-a-stop-tells-what-it-waits-for */
        end = drain_end(s);
    }
    sched_unlock(s);
    return NULL;
}

/* An engine that is driven by hand starts no threads, and so none here. */
void deferred_watch(sched *s, const pawl_run *runs)
{
    while (runs && !runs->code.defers)
        runs = runs->slot->next;
    if (!runs || s->options.threads == 0)
        return;
    s->deferred.over = 0;
    s->deferred.watches = thread_start(&s->deferred.thread, tell_when_late, s);
}

void deferred_watch_end(sched *s)
{
    if (!s->deferred.watches)
        return;
    sched_lock(s);
    s->deferred.over = 1;
    pthread_cond_broadcast(&s->ended);
    sched_unlock(s);
    pthread_join(s->deferred.thread, NULL);
    s->deferred.watches = 0;
}
