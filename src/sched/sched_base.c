/* What every file of the scheduler may ask: the time, whether the engine stops, whether the process
 * is a child of fork(); and calling the thread that drives, by one byte into its pipe, so that it
 * hears of it also while it waits for the descriptor in poll(). This file calls no other one of the
 * scheduler. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/forks.h"
#include "sched/sched.h"
#include "sched/work_threads.h"

enum { SECOND_NS = 1000000000 };

/* ---- Asking ---- */

int64_t sched_now_ms(sched *d)
{
    return db_clock_now_ms(d->options.clock);
}

const log_sink *sched_log(sched *d)
{
    return &d->log;
}

/* The thread that drives may not have heard of it yet. */
int sched_is_told_to_stop(sched *d)
{
    return atomic_load(&d->stops) != atomic_load(&d->stops_heard);
}

int sched_is_stopping(sched *d)
{
    return atomic_load(&d->stopping) || sched_is_told_to_stop(d);
}

int sched_is_forked(const sched *d)
{
    return forks_count() != d->forks;
}

/* There is nobody to give an answer to. */
void sched_end_child(const sched *d)
{
    if (sched_is_forked(d))
        abort(); /* RULE C8-a-child-that-comes-back-is-ended */
}

int work_threads_are_there(const sched *d)
{
    return d->options.work_threads > 0 && d->thread_count > 0 && d->driven != DRIVEN_BY_THREADS;
}

/* That the lock is held is known, but not by which thread: so the assertion finds a call without
 * the lock where no other thread happens to hold it. */
void sched_assert_locked(sched *d)
{
    assert(pthread_mutex_trylock(&d->lock) != 0);
}

/* ---- Calling ---- */

/* A full pipe is as good: the byte that is in it is read before the next wait. */
void sched_call(sched *d, char what)
{
    ssize_t ignored = write(d->fds.pipe[1], &what, 1);
    (void)ignored;
}

void sched_call_crew(sched *d)
{
    if (d->driven == DRIVEN_BY_THREADS && !atomic_exchange(&d->ticking, 1))
        sched_call(d, 'c');
}

int64_t sched_look_ns(const sched *d)
{
    int64_t third = clock_deadline(0, d->options.claim_ms) / 3;
    return third < SECOND_NS ? third : SECOND_NS;
}
