/* The scheduler of a node: its runs, the threads that take them in hand, and the moments at which
 * they wake. README.md lists the files of this folder in reading order.
 *
 * A node owns runs. Each of them is in exactly one place (run_place): in the list of a runner, in a
 * runner's hand, on its way through a commit, or among the timers. One lock guards the places; it
 * is never held while code of the user runs or the database is asked. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/id.h"
#include "base/log.h"
#include "base/loop_fds.h"
#include "base/map.h"
#include "db/committers.h"
#include "db/db_clock.h"
#include "db/key_block.h"
#include "db/notify.h"
#include "handle/read_pool.h"
#include "handle/watches.h"
#include "rows/node.h"
#include "run/run.h"
#include "sched/chores.h"
#include "sched/heartbeat.h"
#include "sched/hold.h"
#include "sched/node_ready.h"
#include "sched/orphan_notes.h"
#include "sched/quarantine.h"
#include "sched/run_slot.h"

/* Runners with threads; and one more, for a caller that drives by hand: a thread of the engine that
 * was given up may still be in a work function. */
enum { DRIVE_RUNNERS_MAX = 64, SCHED_HAND = DRIVE_RUNNERS_MAX, SCHED_RUNNERS, DRIVE_SLOTS = 4 };

typedef struct runner {
    struct sched *sched;
    int index;
    pthread_t thread;
    pthread_cond_t cond;
    int started;                  /* it has a thread that is to be joined … */
    int runs;                     /* … and that runs, … */
    int waits;                    /* … and waits on its condition */
    int works;                    /* it calls work functions, and takes no runs (work_threads.h) */
    int late;                     /* it is in a work function whose run was taken from it … */
    int lost;                     /* … and its thread ends when that returns */
    _Atomic(pawl_work *) in_work; /* the work that it is in; NULL: in none, or nobody waits for it.
                                     See workers.c */
    _Atomic(pawl_run *) in_function; /* the run whose workflow function it executes; NULL: none, or
                                        the run was taken from it at a stop */
    atomic_int busy;                 /* it is in a work function … */
    _Atomic int64_t since_ns;        /* … since then … */
    _Atomic int64_t over_ns;         /* … and may be until then */
    _Atomic(pawl_run *) answered;    /* runs whose units have their answers, the newest first */
    pawl_run *first;                 /* ready */
    pawl_run *last;
    int64_t count;
    int64_t turns;   /* so that jobs have theirs */
    int64_t taken;   /* runs, since it has committed something in between */
    db_conn *reader; /* what it reads with, while it does */
} runner;

/* Who drives: nobody; one thread by hand; the engine's own threads. */
typedef enum { DRIVEN_NOT, DRIVEN_BY_HAND, DRIVEN_BY_THREADS } sched_driven;

typedef struct sched_options {
    db *db;
    db_clock *clock; /* the time of the database */
    committers *committers;
    read_pool *read_pool;
    watches *watches;
    notify *notify;
    registry *registry;
    const char *tenant;
    const char *name;
    const char *build;
    int64_t threads; /* 0: none, driven by hand */
    int64_t threads_max;
    int64_t work_threads; /* that call work functions for a caller that drives by hand; 0: none */
    int64_t claim_ms;
    int64_t drain_ms;
    int64_t warm_bytes;
    int64_t poll_ms;         /* below 0: without a bound */
    int has_heartbeat;       /* its clock is the system's: a thread gives the sign of life */
    int (*drops)(void *arg); /* is a fiber to be dropped here, for a test? NULL: none is */
    void *drops_arg;
    int hears_nobody; /* for a test: what other processes say is not listened for */
} sched_options;

typedef struct sched {
    sched_options options;
    int forks; /* forks_count() of the process that it belongs to */
    clock_source *host;
    log_sink log;
    run_host run_host; /* what its runs may ask of it */
    node node;
    char origin[ID_TEXT_SIZE]; /* the id of the database */
    keys run_keys;
    fiber_pool *pool;
    size_t warm_max; /* fibers: beyond that, runs that begin to wait are dropped */
    heartbeat heartbeat;
    db_conn *beats; /* for signs of life: used by the heartbeat's thread, or else by the keeper … */
    db_conn
        *looks; /* … which reads with this: where only one can write, it must not wait for that */

    pthread_mutex_t lock;
    map runs;             /* row key -> pawl_run */
    job_list jobs;        /* work beside the functions of runs, waiting for a thread */
    pawl_run *work_first; /* runs whose work waits for a worker (work_threads.h) … */
    pawl_run *work_last;
    pthread_cond_t work_cond; /* … and who waits for them, or for jobs */
    atomic_int inbox_due;     /* something may have arrived for our runs from another process */
    int64_t inbox_at_ns;      /* when that was looked for last */
    heap heap;
    runner runners[SCHED_RUNNERS];
    int runner_count;     /* whose lists are used, under threads */
    int thread_count;     /* that run */
    atomic_int ticking;   /* the keeper looks after them every few ms, or is called to … */
    int ticks;            /* … and did so before … */
    int64_t worked_ns;    /* … because of somebody who was in a work function at this moment */
    int64_t claiming;     /* claims on their way */
    map locked_claims;    /* row key -> claim that waits for a row lock of a foreign transaction */
    int64_t keep_at_ns;   /* when the node loop is due */
    int node_loop_called; /* it was called before that */
    _Atomic int64_t kept; /* looks that the keeper of a serving engine has finished */
    loop_fds fds;         /* for the driver, and for the caller's event loop */
    atomic_int stopping;
    atomic_int stops;       /* how often it was told to stop, … */
    atomic_int stops_heard; /* … the driving thread has noticed it, … */
    int stops_told;         /* … and waiting calls were ended */
    sched_driven driven;    /* one at a time */
    pthread_t driver;
    pthread_cond_t undriven; /* nobody drives any more */
    pthread_cond_t ended;    /* a thread has ended */

    node_ready node_ready; /* can it execute what it claims? See node_ready.h */

    _Atomic int64_t open_node; /* as which it takes new runs; 0: it is no node, or not for long */
    int64_t starting;          /* starts under way that count on it */
    pthread_cond_t started;    /* there are none any more */
    const char *only;  /* claim this run and nothing else; NULL: everything. See sched_finish() */
    atomic_int fenced; /* the node was closed by another one */

    quarantine quarantine;
    int64_t commits;            /* of runs and claims, so far */
    pawl_run *troubled;         /* runs that wait for the next one; see storage_backoff.c */
    _Atomic int64_t trouble_ms; /* and otherwise so long, together … */
    int64_t trouble_at_ms;      /* … until then */
    atomic_int failing;         /* runs whose units wait for the storage: unit_retry.h */
    atomic_int doubts;          /* runs whose units are undecided */
    int64_t unit_retry_held;    /* those that are held because their record is refused … */
    int64_t unit_retry_looks;   /* … and how often the keeper has looked for their release */
    int64_t fired_ms;           /* when timers were looked at last */
    hold_walk walk;             /* the keeper's, as the rest */
    node_sweep sweep;
    orphan_notes orphan_notes;
    chore_table chores;
    int64_t family_ns; /* and the family of the run that alone is driven */
    int64_t due_ms;    /* how far it has got in a long list of what is due */
    int64_t due_run;
} sched;

/* ---- Beginning and end (sched.c) ---- */

pawl_code sched_open(sched **out, const sched_options *options, error *err);
void sched_close(sched *d);

/* Drive on threads until sched_stop(); or, by hand, as far as there is something to do now, but not
 * past `deadline_ns`: only `least` things are done in any case. PAWL_FENCED: the node is none any
 * more, the next call makes a new one. */
pawl_code sched_serve(sched *d, error *err);
pawl_code sched_poll(sched *d, int64_t deadline_ns, int64_t least, int64_t *did, error *err);
void sched_stop(sched *d); /* async-signal-safe */

/* Drive, alone, until sched_let_go(). PAWL_MISUSE: this thread does already; PAWL_BUSY: another one
 * does, until `deadline_ns` (0: not waited for), or the engine's threads do; PAWL_CLOSED: stop. */
pawl_code sched_take_over(sched *d, sched_driven how, int64_t deadline_ns, error *err);
void sched_let_go(sched *d);

/* 0: somebody drives, or the caller is one of its own threads. */
int sched_may_close(sched *d);

/* 1 in a child of fork(): nothing may be done there. One that comes back from code of the user is
 * ended, before it writes in the name of its parent and over its connections. */
int sched_is_forked(const sched *d);
void sched_end_child(const sched *d);

/* Give everything back that the node owns, and be no node any more. */
void sched_leave(sched *d);

/* Record what was executed beside the functions of runs, and commit what runs have handed in,
 * before these are given back; not for longer than drain_ms, or a second. 0: there are units left
 * (drain.c). The engine stops, and no other thread drives. */
int sched_drain(sched *d);

/* By hand: wait until there may be something to do, or `deadline_ns`. PAWL_CLOSED: stop. */
pawl_code sched_wait(sched *d, int64_t deadline_ns);

/* When sched_poll() wants to be called next, as clock_source.mono_ns. */
int64_t sched_next_ns(sched *d);

/* So often the keeper looks: once a second, and often enough for the signs of life. */
int64_t sched_look_ns(const sched *d);

/* Of one that serves: is nothing to be done now? See engine_test_is_idle(). */
int run_queue_is_idle(sched *d, int calls, int64_t *looks);

/* ---- Places (run_queue.c); with the lock held ---- */

void sched_assert_locked(sched *d); /* asserted by those that change the place of a run */
/* A run comes into memory here: a place for it is reserved before this node becomes its owner (0:
 * memory is out), and kept as long as its claim or its start is counted; then it enters. */
int run_queue_reserve(sched *d);
void run_queue_enter(sched *d, pawl_run *run);

void run_queue_ready(sched *d, pawl_run *run);
void run_queue_ready_on(sched *d, runner *r, pawl_run *run); /* on the list of this one */
void run_queue_sleep(sched *d, pawl_run *run, int64_t due_ms);
void run_queue_forget(sched *d, pawl_run *run); /* it is nowhere any more */
void run_queue_collect(runner *r);              /* those whose units are answered become ready */
void run_queue_fire(sched *d);                  /* who is due becomes ready */
pawl_run *run_queue_take(runner *r); /* the next ready one, now in its hand; NULL: none */
int64_t run_queue_next_ns(sched *d); /* when the first timer is due, as mono_ns */
void run_queue_call_keeper(sched *d);
void run_queue_tell_end(sched *d, const pawl_run *run);

/* Something is there for it, which it has in hand or finds when it looks: it does not sleep. */
void run_queue_nudge(sched *d, pawl_run *run);
void run_queue_call_one(sched *d); /* one who waits, for a job */

/* ---- Trouble with the storage (storage_backoff.c); with the lock held ---- */

/* The run waits until the storage is there again; if others were committed since it failed last its
 * trouble is its own, and so is its back-off. _alone(): that is known. */
void storage_backoff(sched *d, pawl_run *run);
void storage_backoff_alone(sched *d, pawl_run *run);
void storage_backoff_wait(sched *d, pawl_run *run); /* the same, for a run that has not failed */
void storage_backoff_end(pawl_run *run);            /* it does not any more */
void storage_backoff_clock_back(sched *d);          /* the clock was set back */
void storage_backoff_committed(sched *d);           /* it is there: something was committed */

/* ---- Without the lock ---- */

/* One byte into the pipe. Async-signal-safe. */
void sched_call(sched *d, char what);

/* 0: the node is closed, or the database went back: nothing of it is recorded any more. */
int sched_is_open(const sched *d);

/* 0: others may have taken over, and no work function is called any more. */
int sched_claim_is_good(sched *d);

/* The run's unit has its answer: called by the leader of the group commit. */
void run_queue_answered(sched *d, pawl_run *run);

/* Call the node loop, and let it be called more often. */
void sched_call_crew(sched *d);

/* ---- Notifications between processes; without the lock ---- */

/* Hear others from now on: as this node, or as none in particular. */
static inline void sched_hear_others(sched *d)
{
    notify_open(d->options.notify, atomic_load(&d->open_node));
}

/* Notify all processes: a run has no owner, something has arrived for a run that another node owns,
 * or a run has ended that they wait for. */
static inline void sched_tell_others(sched *d)
{
    notify_tell(d->options.notify);
}

/* Another process has told something: the node loop and all waiters look. `arg` is the sched. */
void run_queue_heard(void *arg);

/* ---- Work functions (workers.c); without the lock ---- */

/* The runner enters a work function of the run, and leaves it. 0: its time was over meanwhile, and
 * the run is in other hands. */
void sched_enter_work(runner *r, pawl_work *w);
int sched_leave_work(runner *r, const pawl_work *w);

/* Who is in a work function of this run is asked to stop. With the lock held. */
void workers_ask_to_stop(sched *d, pawl_run *run);

/* Check the workers that are in work functions: the ready runs behind them go to other workers,
 * threads are added, attempts run out of time. To be called every few ms while
 * workers_is_working(). */
void workers_look(sched *d);
int workers_is_working(sched *d);
void workers_expire(sched *d, runner *to); /* by hand: only those out of time. With the lock held */
pawl_code workers_start(sched *d, error *err);
void workers_stop(sched *d); /* what is in work functions after drain_ms is left there … */
void workers_join(sched *d); /* … and waited for here, before they are started again */

/* Is a thread left in a function that has not returned? With the lock held. */
int workers_has_lost(const sched *d);

/* Is the caller one of its threads? With the lock held. */
int workers_is_member(sched *d);

/* ---- One run in hand (runner.c); without the lock ---- */

void runner_take(runner *r, pawl_run *run);

/* Call its work function, for which it has a place. 0: the attempt ran out of time, and the run is
 * in other hands: nothing of it may be touched. */
int runner_call_work(runner *r, pawl_run *run);

/* What becomes of it and its unit (runner_unit.c): the unit was not committed; another node has the
 * run, as the refusal of this unit says; it is dropped; it is tried again from the journal, when
 * the storage is there again or, if it is not that, a little later. */
void runner_not_committed(pawl_run *run);
void runner_lost(pawl_run *run, const unit *u);
void runner_forget(pawl_run *run);
void runner_put_off_for(pawl_run *run, int storage);

/* Memory is out, for this: what the run has done is committed, then it is put off, each time for
 * longer, and at last held. runner_starved(): that was committed. runner_cut(): of the unit only
 * what was done outside stays. runner_starve_cold(): it has no fiber yet, and gets none.
 * runner_starve_inside(): if its function was left because of that once too often, the run is to be
 * held (runner_leave()); otherwise nothing happens. */
void runner_starve(pawl_run *run, const char *what);
void runner_starve_inside(pawl_run *run);
void runner_starve_cold(pawl_run *run);
void runner_starved(pawl_run *run);
void runner_cut(pawl_run *run);

/* What its function wants to know (runner_read.c). */
pawl_code runner_read(runner *r, pawl_run *run, error *err);

/* What has arrived for it (runner_inbox.c), with a connection that is in a transaction. */
pawl_code runner_read_inbox(db_conn *c, pawl_run *run, error *err);

/* What the unit says that ends a function (runner_end.c): how it ended; that the run is held. 0:
 * memory is out. */
int runner_add_outcome(pawl_run *run);
int runner_add_hold(pawl_run *run);

/* Apply the unit of a transactional step, instead of submitting it (runner_transact.c). 1: the
 * function has failed, and the run is still in hand, with what it had recorded. 0: it is as any
 * unit that was submitted. _answered(): its answer has come: 1 if runner_transact() looks at it. */
int runner_transact(runner *r, pawl_run *run);
int runner_transact_answered(pawl_run *run, const unit *u);

/* Parts of a turn, for runner_leave.c. runner_hand_in() gives 1 if the run is in hand again, as
 * only a transactional step can be that has failed. runner_is_flushed(): everything that the run
 * has recorded is durable; 0: it is on its way, and the run perhaps in another hand by now.
 * runner_put_off(): it is tried again from the journal a little later. */
int runner_need_unit(pawl_run *run);
int runner_hand_in(pawl_run *run);
int runner_is_flushed(pawl_run *run);
void runner_put_off(pawl_run *run);
void runner_end_turn(pawl_run *run);

/* Giving it back (runner_leave.c). runner_leaves_here(): it is held, or the engine stops, and no
 * other work function is begun. runner_is_to_be_held(): its function was left because of trouble
 * for which it is held. runner_leave(): 1: its fiber is to be resumed, to record what has returned
 * beside it; 0: it is not in hand any more. runner_give_back(): there is nothing left to record. */
int runner_leaves_here(const pawl_run *run);
int runner_is_to_be_held(const pawl_run *run);
int runner_leave(pawl_run *run);
void runner_give_back(pawl_run *run);

/* ---- The node loop (node_loop.c); without the lock. Gives the number of things done ---- */

int64_t node_loop_look(sched *d);

/* Only the sign of life. 0: the node was closed by another one. */
int node_loop_beat(sched *d);

/* ---- What runs ask (run_host.c fills the table of run/host.h) ---- */

void run_host_init(sched *d, random_source *random);

int64_t sched_now_ms(sched *d);
const log_sink *sched_log(sched *d);
int sched_is_stopping(sched *d);
int sched_is_told_to_stop(sched *d); /* and has not heard of it yet */

#endif
