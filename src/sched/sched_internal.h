/* The scheduler of a node, for the files of src/sched: its runs, the threads that execute them, and
 * the times at which they wake.
 *
 * A node owns runs. Each of them that is in memory is in exactly one place (run_place in
 * run_slot.h), for instance in the list of a runner, or in hand, which means that a runner executes
 * it. The others are dormant (dormant.h). One lock guards the places; it is never held while the
 * database is asked, nor while code of the user runs, except for the callback `log`. */
#ifndef SCHED_SCHED_INTERNAL_H
#define SCHED_SCHED_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/id.h"
#include "base/log.h"
#include "base/loop_fds.h"
#include "base/map.h"
#include "db/key_block.h"
#include "rows/node_sign.h"
#include "run/run.h"
#include "sched/at_risk.h"
#include "sched/deferred.h"
#include "sched/dormant.h"
#include "sched/due_spread.h"
#include "sched/heartbeat.h"
#include "sched/hold.h"
#include "sched/look_failure.h"
#include "sched/node_ready.h"
#include "sched/orphan_notes.h"
#include "sched/quarantine.h"
#include "sched/run_failure.h"
#include "sched/run_slot.h"
#include "sched/sched.h"

/* One runner more than threads: for a caller that drives by hand, while a thread of the engine that
 * was given up may still be in a work function. */
enum { SCHED_HAND = SCHED_RUNNERS_MAX, SCHED_RUNNERS };

/* Slots of a node (rows of {nodes}) besides those of its committers: for its guest committers. */
enum { SCHED_SLOTS = GUEST_COMMITTERS_MAX };

/* Keys of runs that were started a moment ago: by a hash of the id, one for each (handover.c). */
enum { SCHED_STARTED_KEYS = 64 };

/* Keys of runs that have come into memory: by a hash of the id, one for each (run_queue.c). */
enum { SCHED_ID_KEYS = 1024 };

typedef struct runner {
    struct sched *sched;
    int index; /* in sched.runners */
    pthread_t thread;
    pthread_cond_t cond;             /* signalled when there is something for this runner */
    int started;                     /* `thread` was started, and is to be joined */
    int runs;                        /* `thread` has not ended yet */
    int waits;                       /* `thread` waits on `cond` */
    int works;                       /* `thread` calls work functions and takes no runs
                                        (work_threads.h) */
    int late;                        /* the run, or job, was taken away from the work function that
                                        `thread` is in */
    atomic_int lost;                 /* `thread` was given up at a stop, and ends when the user's
                                        function returns. Written with the lock held */
    _Atomic(pawl_work *) in_work;    /* the work function that `thread` is in; NULL: in none, or the
                                        work was taken from it (workers.c) */
    _Atomic(pawl_run *) in_function; /* the run whose workflow function `thread` is in; NULL: none,
                                        or the run was taken from it at a stop */
    _Atomic int64_t resumes;         /* how often `thread` has entered a workflow function. Written
                                        by `thread` only */
    int64_t resumes_seen;            /* `resumes` at the last look at the workers … */
    int64_t resumes_seen_ns;         /* … and at the first look with that number */
    atomic_int busy;                 /* `thread` is in a work function */
    _Atomic int64_t since_ns;        /* when `thread` entered that work function */
    _Atomic int64_t over_ns;         /* when the attempt runs out of time */
    _Atomic(pawl_run *) answered;    /* runs whose units have their answers, the newest first */
    pawl_run *first;                 /* the list of ready runs */
    pawl_run *last;
    pawl_run *last_warm; /* the last run in that list that has a fiber; NULL: none has */
    int64_t count;       /* length of that list */
    int64_t takes;       /* counts choices between a warm run and a cold one */
    int64_t turns;       /* counts choices between a run and a job, so that jobs get their share */
    int64_t taken;       /* runs executed since this runner last drove the committers */
    int64_t drive_ns;    /* when this runner drives the committers at the latest */
    db_conn *reader;     /* the connection that the runner reads with; NULL: it is not reading */
} runner;

struct sched {
    sched_options options;
    int forks; /* forks_count() of the process that the engine belongs to */
    clock_source *host;
    log_sink log;
    run_host run_host; /* what runs may ask of the scheduler */
    node node;
    char origin[ID_TEXT_SIZE]; /* the id of the database */
    keys run_keys;
    fiber_pool *pool;
    size_t warm_max; /* number of fibers beyond which a run that begins to wait loses its fiber */
    heartbeat heartbeat;
    db_conn *beats; /* writes heartbeats, on the heartbeat's thread if there is one, else in the
                       node loop */
    db_conn *looks; /* reads for the node loop, which must not wait for a writer */

    pthread_mutex_t lock;      /* taken by sched_lock() only */
    _Atomic(uintptr_t) holder; /* the thread that holds the lock; 0: none */
    map runs;                  /* row key -> pawl_run */
    job_list jobs;             /* jobs that wait for a thread */
    pawl_run *work_first;      /* runs whose work function waits for a worker (work_threads.h) */
    pawl_run *work_last;
    pthread_cond_t work_cond; /* workers of work_threads.h wait here for runs and jobs */
    atomic_int inbox_due;     /* another process may have sent something to runs of this node */
    int64_t inbox_at_ns;      /* when the node loop last looked for that */
    heap heap;                /* the timers of runs that sleep */
    runner runners[SCHED_RUNNERS];
    int runner_count;           /* runners that ready runs are given to, under threads */
    int thread_count;           /* runners that have a thread */
    atomic_int ticking;         /* the node loop checks the workers every few ms, or was asked to */
    int ticks;                  /* `ticking` in the last round of the node loop */
    int64_t worked_ns;          /* when the node loop last saw a worker in a work function */
    int64_t claiming;           /* number of claims on their way */
    map coming;                 /* row key -> this scheduler: claims and starts on their way,
                                   and dormant runs that are being read */
    int claims_succeed;         /* 1: of the claims that were answered since claims last called the
                                   node loop, one has not failed */
    int claims_wait;            /* 1: too many runs were ready to claim more: the node loop is
                                   called when few are */
    map locked_claims;          /* row key -> claim that waits for a row lock of a foreign
                                   transaction */
    int64_t node_loop_ns;       /* when the node loop is due */
    int node_loop_called;       /* 1: it is due now, since it was called */
    _Atomic int64_t looks_made; /* rounds of the node loop that looked for runs to claim */
    _Atomic int64_t looks_done; /* twice the finished rounds of the node loop; odd: it is in one */
    loop_fds fds;               /* the pipe of the driving thread, and the caller's event loop */
    atomic_int stopping;        /* the driving thread stops: no function of the user is begun */
    atomic_int stops;           /* how often the engine was told to stop */
    atomic_int stops_heard;     /* `stops` when the driving thread noticed it last */
    int stops_told;             /* `stops` when waiting calls were ended last */
    sched_driven driven;        /* by which threads; one caller at a time */
    pthread_t driver;           /* the calling thread that drives, unless DRIVEN_NOT */
    pthread_cond_t undriven;    /* signalled when `driven` becomes DRIVEN_NOT */
    pthread_cond_t ended;       /* signalled when a worker thread has ended */

    run_failures failures;       /* what this node cannot do for single runs */
    look_failures look_failures; /* looks that fail as a whole */
    node_ready node_ready;       /* can the node execute what it claims? */

    _Atomic int64_t open_node; /* the node that takes new runs; 0: none, or the engine leaves */
    int takes_no_starts;       /* 1: the node stays since something is unrecorded, and no call
                                  drives it: new runs are left to others */
    int64_t starting;          /* starts under way whose run this node is to own */
    int64_t started_keys[SCHED_STARTED_KEYS];
    int64_t id_keys[SCHED_ID_KEYS];
    pthread_cond_t started; /* signalled when `starting` becomes 0 */
    const char *only;       /* claim this run and its family only; NULL: no restriction
                                  (sched_drive_only()) */
    atomic_int fenced;      /* 1: another node has closed this one, or the database was rewound;
                                  rejoin_end_of() tells which */

    at_risk at_risk;
    deferred deferred;
    dormant dormant;
    quarantine quarantine;
    int64_t commits;            /* units of runs, claims and probes (unit_retry.h) that were
                                   committed so far */
    pawl_run *backoff_runs;     /* runs that wait for the next commit (storage_backoff.c) */
    _Atomic int64_t backoff_ms; /* their common back-off; 0: the storage works */
    int64_t backoff_until_ms;   /* when that back-off is over, and they try again */
    atomic_int failing;         /* number of runs whose units wait for the storage (unit_retry.h) */
    atomic_int doubts;          /* number of runs whose units are undecided */
    int64_t unit_retry_held;    /* number of runs that are held because their record is refused */
    int64_t unit_retry_looks;   /* how often the node loop has looked for their release */
    int64_t fired_ms;           /* the database's time when the timers were looked at last */

    /* Used by the node loop only. */
    hold_walk walk;
    hold_over over;
    node_sweep sweep;
    sign_looks sign_looks; /* at the locks of other nodes */
    orphan_notes orphan_notes;
    chore_table chores;
    int64_t family_ns;     /* when the family of `only` is looked for next */
    int64_t due_ms;        /* the cursor in a long list of runs that are due: wake_at and … */
    int64_t due_run;       /* … key of the last run that was read; 0: the list is read from its
                          beginning */
    due_spread due_spread; /* where a look at that list begins */
};

/* ---- Beginning and end (sched.c, drain.c) ---- */

/* 1 in a child of fork(): nothing may be done there. A child that comes back from code of the user
 * is ended, before it writes in the name of its parent and over its connections. */
int sched_is_forked(const sched *s);
void sched_end_forked(const sched *s);

/* Before runs are given back: records what their jobs have returned, and commits the submitted
 * units. Takes drain_ms at most, or a second where drain_ms is less, and up to three seconds more
 * if the storage stalls. 0: there are units left (drain.c). The engine stops, and no other thread
 * drives. `keeps`: what is not recorded then can be kept (sched_leave_or_stay()), so what is
 * refused is not tried again, and nothing is logged as lost. */
int sched_drain(sched *s, int keeps);

/* After a drain: has this node executed something that is not recorded, and that may be recorded by
 * another try? */
int sched_has_unrecorded(sched *s);

/* As sched_leave(), for a caller that goes on to live: the node stays, with its runs, if it has
 * something unrecorded; 1: it does. `gives_up`: units that have no answer in time are given up, as
 * in sched_leave(), and handed in again by the next call that drives. */
int sched_leave_or_stay(sched *s, int gives_up);

/* Logs each unit of a run that was handed in and is not committed, when all have their answers. */
void sched_tell_lost(sched *s);

/* The time between two rounds of the node loop: a second, or less if heartbeats have to be given
 * more often. */
int64_t sched_look_ns(const sched *s);

/* ---- Places (run_queue.c); with the lock held ---- */

/* The lock. sched_await() waits on a condition and releases the lock meanwhile, as
 * clock_source.wait() does. sched_assert_locked(): the calling thread holds the lock. */
void sched_lock(sched *s);
void sched_unlock(sched *s);
int sched_await(sched *s, pthread_cond_t *cond, int64_t deadline_ns);
void sched_assert_locked(const sched *s);

/* A run comes into memory in two steps. run_queue_reserve() reserves room for it before this node
 * becomes its owner (0: memory is out); the room is kept as long as the claim or the start is
 * counted, and the key is in `coming`. run_queue_enter() then makes the run ready. */
int run_queue_reserve(sched *s, int64_t key);
void run_queue_enter(sched *s, pawl_run *run);
void run_queue_enter_on(sched *s, runner *r, pawl_run *run); /* to this runner; NULL: any */
int run_queue_has_room(sched *s);                            /* reserves room for one run more */
int run_queue_knows(const sched *s, int64_t key); /* the run is in memory, or about to come there */
int64_t run_queue_ready_count(const sched *s);

/* run_queue_has_enough(): so many runs are ready that none is claimed, and no dormant run that is
 * due is brought back. run_queue_may_claim(): the node loop may claim runs; if not, it is called
 * when few are ready. */
int run_queue_has_enough(sched *s);
int run_queue_may_claim(sched *s);

/* Moves of a run: to the list of ready runs of its fiber's runner, or of the one with the shortest
 * list; to the list of this runner; to the timers; out of memory. */
void run_queue_ready(sched *s, pawl_run *run);
void run_queue_ready_on(sched *s, runner *r, pawl_run *run);
void run_queue_sleep(sched *s, pawl_run *run, int64_t due_ms);
void run_queue_forget(sched *s, pawl_run *run);

void run_queue_collect(runner *r);       /* runs whose units are answered become ready */
void run_queue_fire(sched *s);           /* runs whose timers are due become ready */
pawl_run *run_queue_take(runner *r);     /* takes the next ready run, which is in hand then; NULL:
                                            none */
int64_t run_queue_next_ns(sched *s);     /* when the first timer is due, as mono_ns */
void run_queue_call_node_loop(sched *s); /* the node loop is to look at once */

/* Wakes the calls that watch the run: it has ended, was held, or has set its custom status. */
void run_queue_tell_watches(sched *s, const pawl_run *run);

/* The run has an arrival or a result: wakes it, or keeps it from going to sleep. */
void run_queue_arrived(sched *s, pawl_run *run);

/* There is something for any runner: wakes one that waits. 0: no thread waits. */
int run_queue_call_one(sched *s);

/* ---- Trouble with the storage (storage_backoff.c); with the lock held ---- */

/* storage_backoff(): a read or a commit of the run has failed. The run waits with all other runs
 * that have failed for the first commit that succeeds; or, if other runs were committed since its
 * last failure, for a back-off of its own. storage_backoff_alone(): the caller knows that the
 * trouble is the run's own. storage_backoff_wait(): the run has not failed, and waits with those
 * that have. */
void storage_backoff(sched *s, pawl_run *run);
void storage_backoff_alone(sched *s, pawl_run *run);
void storage_backoff_wait(sched *s, pawl_run *run);
void storage_backoff_end(pawl_run *run);   /* the run waits no more */
void storage_backoff_clock_back(sched *s); /* the clock was set back */
void storage_backoff_asks(sched *s);       /* until a probe is answered nothing is begun */
void storage_backoff_committed(sched *s);  /* something was committed: the storage works */

/* ---- Without the lock ---- */

/* Calls the driving thread by one byte into its pipe. Async-signal-safe. */
void sched_call(sched *s);

/* 0: the node was closed, or the database was rewound: this node may not record anything any
 * more. */
int sched_is_open(const sched *s);

/* 0: another node may have taken over the runs of this one: no work function is begun. */
int sched_claim_is_good(sched *s);

/* The run's unit has its answer: called by the leader of the group commit. */
void run_queue_answered(sched *s, pawl_run *run);

/* A worker enters a user's function: the node loop is to check the workers every few ms. */
void sched_watch_workers(sched *s);

/* ---- Notifications between processes; without the lock ---- */

/* A notification of another process: the node loop and all waiters look. `arg` is the sched. */
void run_queue_notified(void *arg);

/* ---- Work functions (workers.c); without the lock ---- */

/* The runner enters a work function, and leaves it. 0: the work was taken from the runner
 * meanwhile, since the attempt ran out of time or the engine stops. Then another thread has the
 * run, and the caller frees the work. */
void sched_enter_work(runner *r, pawl_work *w);
int sched_leave_work(runner *r, const pawl_work *w);

/* Work functions of this run that are being called are asked to stop. With the lock held. */
void workers_ask_to_stop(sched *s, pawl_run *run);

/* Check the workers that are in functions of the user: the ready runs behind them go to other
 * workers, threads are added, attempts run out of time. To be called every few ms while
 * workers_is_working(). */
void workers_look(sched *s);
int workers_is_working(sched *s);

/* By hand: attempts that are out of time are taken from their workers, and their runs go to `to`.
 * With the lock held. */
void workers_expire(sched *s, runner *to);

/* Start and stop the worker threads. workers_stop() leaves a thread alone that is still in a user's
 * function after drain_ms; workers_join() waits for such threads, before new ones are started. */
pawl_code workers_start(sched *s, error *err);
void workers_stop(sched *s);
void workers_join(sched *s);

/* Is a thread left in a function that has not returned? With the lock held. */
int workers_has_lost(const sched *s);

/* Is the calling thread a worker thread of this engine? With the lock held. */
int workers_is_member(sched *s);

/* ---- One run in hand (runner.c); without the lock ---- */

/* Executes the run until it is not in hand any more (run_place): it waits, commits, or is gone. */
void runner_take(runner *r, pawl_run *run);

/* Calls the work function that the run wants, within its concurrency limit. 0: the attempt ran out
 * of time, and another runner has the run: the caller must not touch it. */
int runner_call_work(runner *r, pawl_run *run);

/* What becomes of a run and its unit (runner_unit.c). runner_not_committed(): the unit was not
 * committed. runner_lost(): this unit was refused, since another node has the run, the run was
 * deleted, this node was closed, or the database was rewound; NULL: the row of the run says so. The
 * run is dropped.
 * runner_tell_lost() writes the line of the log about that, for runner_lost() and for a stop.
 * runner_was_undone(): a unit of the run was committed, and the log tells of it if turns of it came
 * to nothing before. runner_forget(): the run is dropped from memory. runner_put_off_for(): the run
 * is tried again from the journal: with `storage` when the storage works again, otherwise a second
 * later. */
void runner_not_committed(pawl_run *run);
void runner_lost(pawl_run *run, const unit *u);
void runner_tell_lost(const pawl_run *run, const unit *u);
void runner_was_undone(pawl_run *run);
void runner_forget(pawl_run *run);
void runner_put_off_for(pawl_run *run, int storage);

/* Memory is out. runner_starve(): for `what`; what the run has done is committed, then the run is
 * put off, each time for longer, and at last held. runner_starved(): that commit has succeeded.
 * runner_cut(): the unit loses what is behind its last deed (draft.kept). runner_starve_cold(): the
 * run has no fiber yet, and gets none. runner_starve_inside(): the function was left because memory
 * was out; if that was once too often, the run is to be held (runner_leave()); 1: the node leaves,
 * and the fiber is to be resumed, to record jobs that have returned. */
void runner_starve(pawl_run *run, const char *what);
int runner_starve_inside(pawl_run *run);
void runner_starve_cold(pawl_run *run);
void runner_starved(pawl_run *run);
void runner_cut(pawl_run *run);

/* Reads what the function of the run wants to know (runner_read.c). */
pawl_code runner_read(runner *r, pawl_run *run, error *err);

/* Appends the name of the clean-up that a failing run has begun last. */
void runner_put_clean_up(runner *r, const pawl_run *run, buf *b);

/* Reading has failed. runner_note_unread(): 1 if the run is to be held for it, and code.end says
 * so; 0: it is to be put off. runner_was_unread(): the run has got further or leaves, so that this
 * trouble, if there was any, is over. runner_has_unrecorded(): something that was executed for the
 * run, or is being executed, is in this process only, and a hold would throw it away
 * (runner_unit.c). */
int runner_note_unread(pawl_run *run, const error *err);
void runner_was_unread(pawl_run *run);
int runner_has_unrecorded(pawl_run *run);

/* Reads what has arrived for the run (runner_inbox.c), on a connection that is in a transaction. */
pawl_code runner_read_inbox(db_conn *c, pawl_run *run, error *err);

/* Add to the unit what follows the end of the function (the end of the run, clean-ups, the next
 * generation), or that the run is held (runner_end.c). 0: memory is out. runner_is_to_be_held():
 * the function was left because of trouble for which the run is held. runner_tell_end(): the unit
 * is committed, if there is one of these in it: the log tells of a hold, and other processes hear
 * of an end that they wait for. */
int runner_add_outcome(pawl_run *run);
int runner_add_hold(pawl_run *run);
int runner_is_to_be_held(const pawl_run *run);
void runner_tell_end(const pawl_run *run);

/* Notes in code.end that the run is held since process after process has died at it. */
void runner_note_poison(runner *r, pawl_run *run);

/* Apply the unit of a transactional step, instead of submitting it (runner_transact.c). 1: the
 * function has failed, and the run is still in hand, with what it had recorded. 0: the unit counts
 * as submitted. runner_transact_answered(): the unit has its answer; 1: runner_transact() reads
 * it. */
int runner_transact(runner *r, pawl_run *run);
int runner_transact_answered(pawl_run *run, const unit *u);

/* Parts of a turn, for runner_leave.c. runner_hand_in() submits the unit; 1: the run is in hand
 * again, since its transactional step has failed. runner_is_flushed(): everything that the run has
 * recorded is durable; 0: the unit is submitted, and another runner may have the run by now.
 * runner_put_off(): the run is tried again from the journal a little later. runner_end_turn(): the
 * function has ended, or was left because of trouble; submits the unit that says so. */
int runner_need_unit(pawl_run *run);
int runner_hand_in(pawl_run *run);
int runner_is_flushed(pawl_run *run);
void runner_put_off(pawl_run *run);
void runner_end_turn(pawl_run *run);

/* Giving a run back (runner_leave.c). runner_leaves_here(): the run was held by hand, or the engine
 * stops, so no other work function is begun. runner_leave(): 1: the fiber is to be resumed, to
 * record jobs that have returned; 0: the run is not in hand any more. runner_give_back(): there is
 * nothing left to record. */
int runner_leaves_here(const pawl_run *run);
int runner_leave(pawl_run *run);
void runner_give_back(pawl_run *run);

/* ---- The node loop (node_loop.c); without the lock. Gives the number of things done ---- */

int64_t node_loop_look(sched *s);

/* Gives a heartbeat and does nothing else. 0: another node has closed this one. */
int node_loop_beat(sched *s);

/* ---- What runs ask (run_host.c fills the table of run/host.h) ---- */

void run_host_init(sched *s, random_source *random);

int sched_is_stopping(sched *s);     /* the engine stops, or was told to */
int sched_is_told_to_stop(sched *s); /* it was told to, and the driving thread has not noticed */

#endif
