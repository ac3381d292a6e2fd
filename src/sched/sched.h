/* The scheduler of a node, as the floor above sees it: driving runs, and the few things that public
 * functions ask of it. README.md lists the files of this folder in reading order; they share
 * sched_internal.h. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "base/log.h"
#include "db/committers.h"
#include "db/db_clock.h"
#include "db/notify.h"
#include "handle/read_pool.h"
#include "handle/watches.h"
#include "run/registry.h"
#include "sched/chores.h"

typedef struct sched sched;

/* An engine has at most so many worker threads. */
enum { SCHED_RUNNERS_MAX = 64 };

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
    int64_t work_threads; /* threads that call work functions for a caller that drives by hand; 0:
                             none */
    int64_t claim_ms;
    int64_t drain_ms;
    int64_t warm_bytes;
    int64_t at_risk_max;
    int64_t at_risk_ms; /* a commit begins no later than this after the first result that waits */
    int64_t poll_ms;    /* how long a poll may take; below 0: without a bound */
    int has_heartbeat;  /* the clock is the system's: a thread gives the heartbeat */
    int (*drops)(void *arg); /* is a fiber to be dropped here, for a test? NULL: none is */
    void *drops_arg;
    int ignores_notifications; /* for a test: other processes are not listened to */
} sched_options;

/* ---- Opening and closing (sched.c) ---- */

pawl_code sched_open(sched **out, const sched_options *options, error *err);
void sched_close(sched *s);

/* Why the engine cannot be closed: a thread drives it, or the caller is one of its own threads.
 * NULL: it can be. */
const char *sched_in_use(sched *s);

/* Registers a chore of the node loop. Before the engine is driven. */
void sched_add_chore(sched *s, const chore *c);

/* ---- Driving (sched.c, leave.c) ---- */

/* By which threads an engine is driven: by none, by one of the caller's, by its own. */
typedef enum { DRIVEN_NOT, DRIVEN_BY_HAND, DRIVEN_BY_THREADS } sched_driven;

/* The calling thread becomes the one that drives, until sched_let_go(). PAWL_MISUSE: it drives
 * already. PAWL_BUSY: another thread still drives at `deadline_ns` (0: the call does not wait), or
 * the engine's threads do. PAWL_CLOSED: the engine was told to stop. */
pawl_code sched_take_over(sched *s, sched_driven how, int64_t deadline_ns, error *err);
void sched_let_go(sched *s);

/* Drives on threads until sched_stop(). PAWL_FENCED, here and below: another node has closed this
 * one; the next call makes a new node. */
pawl_code sched_serve(sched *s, error *err);

/* Drives by hand, as long as there is something to do and `deadline_ns` has not come. At least
 * `least` things are done even past the deadline. */
pawl_code sched_poll(sched *s, int64_t deadline_ns, int64_t least, int64_t *did, error *err);

/* By hand: waits until there may be something to do, or until `deadline_ns`. PAWL_CLOSED: the
 * engine was told to stop. */
pawl_code sched_wait(sched *s, int64_t deadline_ns);

/* When sched_poll() wants to be called next, as sched_mono_ns(). */
int64_t sched_next_ns(sched *s);

void sched_stop(sched *s); /* async-signal-safe */

/* Restricts the engine to the run with this id and its family, which are its descendants; NULL: no
 * restriction. The id is borrowed. */
void sched_drive_only(sched *s, const char *id);

/* Gives everything back that the node owns, and closes the node. sched_end_finish(): but the node
 * stays as it is, for the next call that drives, if something that was executed could not be
 * recorded. */
void sched_leave(sched *s);
void sched_end_finish(sched *s);

/* ---- What public functions ask of the scheduler (sched_base.c) ---- */

const sched_options *sched_options_of(const sched *s);
const log_sink *sched_log(sched *s);
int64_t sched_now_ms(sched *s);  /* the database's time */
int64_t sched_mono_ns(sched *s); /* this process's monotonic time */

/* The committer of this run. */
committer *sched_committer_of(sched *s, int64_t run);

/* Sets *out to a key for a new run. */
pawl_code sched_new_run_key(sched *s, int64_t *out, error *err);

/* The node that can become the owner of new runs; 0: the engine is no node, or is about to
 * leave. */
int64_t sched_open_node(sched *s);

int sched_has_run(sched *s, int64_t run); /* does this engine drive the run? */

/* The key of the run with this id, if the run is in memory here; 0 if it is not, or if that is not
 * known. */
int64_t sched_key_of(sched *s, slice id);

/* The key of a run of this id that was started here a moment ago and goes on here: its end will be
 * told to the watches of this engine, and nothing that a client waits for has been told yet. At
 * most once for each start. 0 says nothing. */
int64_t sched_will_tell(sched *s, slice id);
int sched_is_restricted(const sched *s); /* 1: sched_drive_only() is in force */
int sched_loop_fd(sched *s);             /* readable when sched_poll() should be called */

/* Calls the node loop: there may be something to claim. */
void sched_wake(sched *s);

/* The engine listens for notifications of other processes from now on: as this node, or as an
 * engine that is no node. */
void sched_listen(sched *s);

/* Notifies all processes: a run has no owner, something has arrived for a run that another node
 * owns, or a run has ended that they wait for. */
void sched_notify_others(sched *s);

/* ---- For tests, and for the test kit ---- */

/* Of an engine that serves: is there nothing to be done now? See engine_test_is_idle(). */
int run_queue_is_idle(sched *s, int calls, int64_t *looks);

/* When the next timer of a run in memory is due, as sched_mono_ns(); INT64_MAX: there is none. */
int64_t sched_next_timer_ns(sched *s);

int64_t sched_run_count(sched *s);        /* runs in memory */
int64_t sched_node_id(const sched *s);    /* 0: there was no node yet */
db_conn *sched_look_conn(sched *s);       /* the node loop's connection, between two rounds */
int64_t sched_looks_made(const sched *s); /* rounds that have looked for runs to claim */
int sched_is_leaving(sched *s);           /* the driving thread has noticed a stop */
void sched_test_fence(sched *s);          /* the node takes itself for closed by another one */

#endif
