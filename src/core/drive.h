/* Driving: the runs of a node, the threads that take them in hand, and the moments at which they
 * wake.
 *
 * A node owns runs. Each of them is in exactly one place (run_where): in the list of a runner, in
 * a runner's hand, on its way through a commit, or among the timers. One lock guards the places;
 * it is never held while code of the user runs or the database is asked.
 *
 *   keeper.c   signs of life, claims, the work of dead nodes
 *   runner.c   one run in hand: resume, do what it wants, hand in what it has recorded
 *   crew.c     the threads, and those of them that are in work functions
 *   places.c   where each run is; timers.c the moments at which they wake
 *   drive.c    who drives, and being a node */
#ifndef CORE_DRIVE_H
#define CORE_DRIVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "core/hold.h"
#include "core/node.h"
#include "core/run.h"
#include "core/suspect.h"
#include "core/timers.h"
#include "db/committers.h"
#include "db/db_clock.h"
#include "db/keys.h"
#include "db/waker.h"

/* Runners with threads; and one more, for whoever drives by hand: a thread of the engine that was
 * given up may still be in a work function. */
enum { DRIVE_RUNNERS_MAX = 64, DRIVE_HAND = DRIVE_RUNNERS_MAX, DRIVE_RUNNERS, DRIVE_SLOTS = 4 };
enum { DRIVE_WATCHES = 256 };

typedef struct runner {
    struct drive *drive;
    int index;
    pthread_t thread;
    pthread_cond_t cond;
    int runs;                     /* its thread does, … */
    int waits;                    /* … and waits on its condition */
    int late;                     /* it is in a work function whose run was taken from it … */
    int lost;                     /* … and its thread ends when that returns */
    _Atomic(pawl_work *) in_work; /* the work that it is in; NULL: in none, or nobody waits for it.
                                     See crew.c */
    atomic_int busy;              /* it is in a work function … */
    _Atomic int64_t since_ns;     /* … since then … */
    _Atomic int64_t over_ns;      /* … and may be until then */
    _Atomic(pawl_run *) answered; /* runs whose units have their answers, the newest first */
    pawl_run *first;              /* ready */
    pawl_run *last;
    int64_t count;
    int64_t turns;   /* so that jobs have theirs */
    int64_t taken;   /* runs, since it has committed something in between */
    db_conn *reader; /* made at its first use */
} runner;

/* Who waits for the end of a run in this process. */
typedef struct drive_watch {
    struct drive_watch *next;
    slice id;
    pthread_cond_t cond;
    int ended;
    int stops; /* when it began to wait */
} drive_watch;

/* Who drives: nobody; one thread by hand; the engine's own threads. */
typedef enum { DRIVEN_NOT, DRIVEN_BY_HAND, DRIVEN_BY_THREADS } drive_driven;

typedef struct drive_options {
    db *db;
    committers *committers;
    registry *registry;
    const char *tenant;
    const char *name;
    const char *build;
    int64_t threads; /* 0: none, driven by hand */
    int64_t threads_max;
    int64_t claim_ms;
    int64_t drain_ms;
    int64_t warm_bytes;
    int (*drops)(void *arg); /* is a fiber to be dropped here, for a test? NULL: none is */
    void *drops_arg;
} drive_options;

typedef struct drive {
    drive_options options;
    int forks; /* forks_count() of the process that it belongs to */
    clock_source *host;
    random_source *random;
    log_sink log;
    db_clock clock;
    node node;
    char origin[ID_TEXT_SIZE]; /* the id of the database */
    keys run_keys;
    fiber_pool *pool;
    size_t warm_max; /* fibers: beyond that, runs that begin to wait are dropped */
    db_conn *beats;  /* the keeper's own connection, for signs of life … */
    db_conn *looks;  /* … and to read with: where only one can write, it must not wait for that */

    pthread_mutex_t lock;
    map runs;            /* row key -> pawl_run */
    job_list jobs;       /* work beside the functions of runs, waiting for a thread */
    atomic_int mail_due; /* something may have arrived for our runs from another process */
    int64_t mail_at_ns;  /* when that was looked for last */
    timers timers;
    runner runners[DRIVE_RUNNERS];
    int runner_count;   /* whose lists are used, under threads */
    int thread_count;   /* that run */
    atomic_int ticking; /* the keeper looks after them every few ms, or is called to … */
    int ticks;          /* … and did so before … */
    int64_t worked_ns;  /* … because of somebody who was in a work function at this moment */
    drive_watch *watches[DRIVE_WATCHES]; /* by their ids */
    int64_t watch_count;
    pthread_mutex_t waking; /* guards the next two; never taken inside the lock */
    waker *waker;           /* NULL: not needed so far, or driven by hand */
    int64_t waker_node;     /* whose name it has */
    int64_t claiming;       /* claims on their way */
    int64_t keep_at_ns;     /* when the keeper wants to be called */
    int keeper_called;      /* somebody wants it before that */
    int pipe[2];            /* somebody is called. May be written by a signal handler */
    atomic_int stopping;
    atomic_int stops;       /* how often it was told to stop, … */
    atomic_int stops_heard; /* … whoever drives has heard of it, … */
    int stops_told;         /* … and those who wait were told */
    drive_driven driven;    /* one at a time */
    pthread_t driver;
    pthread_cond_t undriven; /* nobody drives any more */
    pthread_cond_t ended;    /* a thread has ended */

    _Atomic int64_t open_node; /* as which it takes new runs; 0: it is no node, or not for long */
    int64_t starting;          /* starts under way that count on it */
    pthread_cond_t started;    /* there are none any more */
    const char *only;  /* claim this run and nothing else; NULL: everything. See drive_finish() */
    atomic_int fenced; /* the node was closed by another one */

    _Atomic int64_t feed_ms; /* somebody wants to hear of changes, until then … */
    int64_t feed_at_ns;      /* … and when that is looked at next, … */
    int64_t feed_sweep_ns;   /* … and what is old */

    suspects suspects;
    int64_t commits;       /* of runs and claims, so far */
    pawl_run *troubled;    /* runs that wait for the next one; see trouble.c */
    int64_t trouble_ms;    /* and otherwise so long, together … */
    int64_t trouble_at_ms; /* … until then */
    int64_t fired_ms;      /* when timers were looked at last */
    hold_walk walk;        /* the keeper's, as the rest */
    node_sweep sweep;
    int64_t outbox_ns; /* when the outbox is to be looked at */
    int64_t family_ns; /* and the family of the run that alone is driven */
    int64_t due_ms;    /* how far it has got in a long list of what is due */
    int64_t due_run;
} drive;

/* ---- Beginning and end (drive.c) ---- */

pawl_code drive_open(drive **out, const drive_options *options, error *err);
void drive_close(drive *d);

/* Become a node, if it is not one yet. */
pawl_code drive_join(drive *d, error *err);

/* Drive on threads until drive_stop(); or, by hand, as far as there is something to do now, but not
 * past `deadline_ns`. PAWL_FENCED: the node is none any more, the next call makes a new one. */
pawl_code drive_serve(drive *d, error *err);
pawl_code drive_poll(drive *d, int64_t deadline_ns, int64_t *did, error *err);
void drive_stop(drive *d); /* async-signal-safe */

/* Drive, alone, until drive_let_go(). PAWL_MISUSE: this thread does already; PAWL_BUSY: another one
 * does, until `deadline_ns` (0: not waited for), or the engine's threads do; PAWL_CLOSED: stop. */
pawl_code drive_take_over(drive *d, drive_driven how, int64_t deadline_ns, error *err);
void drive_let_go(drive *d);

/* 0: somebody drives, or the caller is one of its own threads. */
int drive_may_close(drive *d);

/* 1 in a child of fork(): nothing may be done there. One that comes back from code of the user is
 * ended, before it writes in the name of its parent and over its connections. */
int drive_is_forked(const drive *d);
void drive_end_child(const drive *d);

/* Give everything back that the node owns, and be no node any more. */
void drive_leave(drive *d);

/* By hand: wait until there may be something to do, or `deadline_ns`. PAWL_CLOSED: stop. */
pawl_code drive_wait(drive *d, int64_t deadline_ns);

/* When drive_poll() wants to be called next, as clock_source.mono_ns. */
int64_t drive_next_ns(drive *d);

/* So often the keeper looks: once a second, and often enough for the signs of life. */
int64_t drive_look_ns(const drive *d);

/* ---- Places (places.c); with the lock held ---- */

void drive_ready(drive *d, pawl_run *run);
void drive_ready_on(drive *d, runner *r, pawl_run *run); /* on the list of this one */
void drive_sleep(drive *d, pawl_run *run, int64_t due_ms);
void drive_forget(drive *d, pawl_run *run); /* it is nowhere any more */
void drive_collect(runner *r);              /* those whose units are answered become ready */
void drive_fire(drive *d);                  /* who is due becomes ready */
pawl_run *drive_take(runner *r);            /* the next ready one, now in its hand; NULL: none */
int64_t drive_timers_ns(drive *d);          /* when the first timer is due, as mono_ns */
void drive_call_keeper(drive *d);
void drive_tell_end(drive *d, const pawl_run *run);
void drive_tell_all(drive *d);                   /* who waits for a run looks again */
drive_watch **drive_watches(drive *d, slice id); /* the list that has those who wait for it */

/* Something is there for it, which it has in hand or finds when it looks: it does not sleep. */
void drive_nudge(drive *d, pawl_run *run);
void drive_call_one(drive *d); /* one who waits, for a job */

/* ---- Trouble with the storage (trouble.c); with the lock held ---- */

void drive_trouble(drive *d, pawl_run *run); /* the run waits until the storage is there again */
void drive_trouble_end(pawl_run *run);       /* it does not any more */
void drive_trouble_back(drive *d);           /* the clock was set back */
void drive_committed(drive *d);              /* it is there: something was committed */

/* ---- Without the lock ---- */

/* One byte into the pipe. Async-signal-safe. */
void drive_call(drive *d, char what);

/* Something has arrived for a run, which may be ours; that it is to stop. */
void drive_mail(drive *d, int64_t run);
void drive_cancel(drive *d, int64_t run);

/* 0: others may have taken over, and no work function is called any more. */
int drive_claim_is_good(drive *d);

/* The run's unit has its answer: called by whoever leads the committer. */
void drive_answered(drive *d, pawl_run *run);

/* Let the keeper look, and be called more often. */
void drive_call_crew(drive *d);

/* ---- Waking others, and being woken (wake.c); without the lock ---- */

/* Hear others from now on: as this node, or as nobody in particular. */
void wake_open(drive *d);
void wake_close(drive *d);

/* Tell everybody: there is work that nobody has, or a run has ended that somebody waits for. */
void wake_tell(drive *d);

/* ---- Work functions (crew.c); without the lock ---- */

/* The runner enters a work function of the run, and leaves it. 0: its time was over meanwhile, and
 * the run is in other hands. */
void drive_enter_work(runner *r, pawl_work *w);
int drive_leave_work(runner *r, const pawl_work *w);

/* Who is in a work function of this run is asked to stop. With the lock held. */
void crew_ask_to_stop(drive *d, pawl_run *run);

/* Look after those who are in work functions: what waits behind them goes to others, threads are
 * added, attempts run out of time. To be called every few ms while crew_is_working(). */
void crew_look(drive *d);
int crew_is_working(drive *d);
pawl_code crew_start(drive *d, error *err);
void crew_stop(drive *d); /* what is in work functions after drain_ms is left there … */
void crew_join(drive *d); /* … and waited for here, before they are started again */

/* Is the caller one of its threads? With the lock held. */
int crew_is_member(drive *d);

/* ---- One run in hand (runner.c); without the lock ---- */

void runner_take(runner *r, pawl_run *run);

/* What its function wants to know (runner_read.c). */
pawl_code runner_read(runner *r, pawl_run *run, error *err);

/* What the unit says that ends a function (runner_end.c): how it ended; that the run is held. 0:
 * memory is out. */
int runner_add_outcome(pawl_run *run);
int runner_add_hold(pawl_run *run);

/* Read with the runner's own connection; db_rollback() ends it. */
pawl_code runner_begin_reading(runner *r, error *err);

/* ---- The keeper (keeper.c); without the lock. Gives the number of things done ---- */

int64_t keeper_look(drive *d);

/* Only the sign of life. 0: the node was closed by another one. */
int keeper_beat(drive *d);

/* ---- What runs ask ---- */

int64_t drive_now_ms(drive *d);
uint64_t drive_chance(drive *d);
random_source *drive_random(drive *d);
registry *drive_registry(drive *d);
const log_sink *drive_log(drive *d);
int drive_is_stopping(drive *d);

#endif
