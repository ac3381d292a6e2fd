/* What every file of the scheduler, and the floor above, may ask: the time, whether the engine
 * stops, whether the process is a child of fork(); the lock; and calling the thread that drives, by
 * one byte into its pipe, which it hears also while it waits in poll(). This file calls no other
 * one of the scheduler. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/forks.h"
#include "sched/sched_internal.h"
#include "sched/work_threads.h"

enum { SECOND_NS = 1000000000 };

/* ---- Asking ---- */

int64_t sched_now_ms(sched *s)
{
    return db_clock_now_ms(s->options.clock);
}

int64_t sched_mono_ns(sched *s)
{
    return s->host->mono_ns(s->host);
}

const log_sink *sched_log(sched *s)
{
    return &s->log;
}

const sched_options *sched_options_of(const sched *s)
{
    return &s->options;
}

committer *sched_committer_of(sched *s, int64_t run)
{
    return committers_of(s->options.committers, (uint64_t)run);
}

pawl_code sched_new_run_key(sched *s, int64_t *out, error *err)
{
    return key_block_next(&s->run_keys, out, err);
}

int64_t sched_open_node(sched *s)
{
    return atomic_load(&s->open_node);
}

int64_t sched_node_id(const sched *s)
{
    return s->node.id;
}

int sched_has_run(sched *s, int64_t run)
{
    sched_lock(s);
    int here = map_get(&s->runs, (uint64_t)run) != NULL;
    sched_unlock(s);
    return here;
}

int64_t sched_run_count(sched *s)
{
    sched_lock(s);
    int64_t count = (int64_t)s->runs.count;
    sched_unlock(s);
    return count;
}

int sched_is_restricted(const sched *s)
{
    return s->only != NULL;
}

int sched_loop_fd(sched *s)
{
    return loop_fds_called(&s->fds);
}

db_conn *sched_look_conn(sched *s)
{
    return s->looks;
}

int64_t sched_looks_made(const sched *s)
{
    return atomic_load(&s->looks_made);
}

void sched_test_fence(sched *s)
{
    atomic_store(&s->fenced, 1);
}

int sched_is_told_to_stop(sched *s)
{
    return atomic_load(&s->stops) != atomic_load(&s->stops_heard);
}

int sched_is_stopping(sched *s)
{
    return atomic_load(&s->stopping) || sched_is_told_to_stop(s);
}

int sched_is_leaving(sched *s)
{
    return atomic_load(&s->stopping);
}

int sched_is_forked(const sched *s)
{
    return forks_count() != s->forks;
}

/* A child of fork() cannot go on: none of the engine's threads exists there. */
void sched_end_forked(const sched *s)
{
    if (sched_is_forked(s))
        abort(); /* RULE C8-a-child-that-comes-back-is-ended */
}

/* Whatever drives the engine now: where it serves after a poll, the workers of the poll are still
 * there, and are stopped before their runs are freed. */
int work_threads_are_there(const sched *s)
{
    /* RULE 2-the-workers-of-a-poll-are-stopped-before-a-serve */
    for (int i = 0; i < s->thread_count; i++)
        if (s->runners[i].works && !s->runners[i].lost)
            return 1;
    return 0;
}

/* ---- The lock ---- */

static uintptr_t this_thread(void)
{
    return (uintptr_t)pthread_self();
}

void sched_lock(sched *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store_explicit(&s->holder, this_thread(), memory_order_relaxed);
}

void sched_unlock(sched *s)
{
    atomic_store_explicit(&s->holder, 0, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock);
}

int sched_await(sched *s, pthread_cond_t *cond, int64_t deadline_ns)
{
    sched_assert_locked(s);
    atomic_store_explicit(&s->holder, 0, memory_order_relaxed);
    int late = s->host->wait(s->host, cond, &s->lock, deadline_ns);
    atomic_store_explicit(&s->holder, this_thread(), memory_order_relaxed);
    return late;
}

/* A thread that does not hold the lock reads 0 or another thread here, never itself. */
void sched_assert_locked(const sched *s)
{
    /* RULE places-change-under-the-lock-of-this-thread */
    assert(atomic_load_explicit(&s->holder, memory_order_relaxed) == this_thread());
}

/* ---- Calling ---- */

void sched_listen(sched *s)
{
    notify_open(s->options.notify, atomic_load(&s->open_node));
}

void sched_notify_others(sched *s)
{
    notify_tell(s->options.notify);
}

/* A full pipe needs no further byte: those in it are read before the next wait. */
void sched_call(sched *s)
{
    ssize_t ignored = write(s->fds.pipe[1], "", 1);
    (void)ignored;
}

void sched_watch_workers(sched *s)
{
    if (s->driven == DRIVEN_BY_THREADS && !atomic_exchange(&s->ticking, 1))
        sched_call(s);
}

int64_t sched_look_ns(const sched *s)
{
    int64_t third = clock_deadline(0, s->options.claim_ms) / 3;
    return third < SECOND_NS ? third : SECOND_NS;
}
