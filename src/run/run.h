/* A run in memory: who it is, its function on its fiber, and what it has recorded but not
 * committed.
 *
 * The workflow function lives on the fiber. Where it needs something of the outside it says what it
 * *wants* and parks; the runner thread (runner.c) does that, on its own stack, and resumes it. So
 * everything in here is touched by one thread at a time: by the runner that has the run in hand, or
 * by the one that answers its commit. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/heap.h"
#include "base/map.h"
#include "fiber/fiber.h"
#include "journal/op.h"
#include "journal/replay.h"
#include "rows/run_units.h"
#include "run/code.h"
#include "run/host.h"
#include "run/journal_writer.h"
#include "run/parts.h"
#include "run/registry.h"
#include "run/retry.h"
#include "run/work.h"

/* Where the run is. */
typedef enum {
    PLACE_READY,    /* in a runner's list */
    PLACE_IN_HAND,  /* of a runner */
    PLACE_COMMITS,  /* its unit is on its way */
    PLACE_SLEEPS,   /* in the timers */
    PLACE_CROWDED,  /* in the list of a work function that is full */
    PLACE_IN_DOUBT, /* its unit is undecided: nobody touches it */
    PLACE_GONE,
} run_place;

/* What becomes of a unit that was not committed: unit_retry.h. */
typedef enum {
    KEPT_NOT,
    KEPT_WAITS, /* it is handed in again when the storage works */
    KEPT_ASKS,  /* it failed for an unknown reason: is a small write committed? */
    KEPT_TELLS, /* it is: the run's row is to tell of its trouble */
    KEPT_HOLDS, /* its record was refused for good: the unit that holds the run is on its way */
    KEPT_HELD,  /* the run is held, and sleeps until it is released */
} run_keeps;

typedef struct run_name run_name;

struct pawl_run {
    const run_host *host;
    run_hold hold;
    int64_t generation;
    _Atomic int64_t inbox_seen; /* so much of its mail was looked at … */
    int64_t mail;               /* … of so much that there is known to be */
    atomic_int has_mail;        /* or more */
    int nudged;     /* something is there for it: it does not go to sleep. See run_queue.c */
    int64_t parent; /* 0: none */
    int64_t parent_generation;
    int64_t parent_op;
    int64_t deadline_ms; /* RUN_NEVER */
    int failing;         /* its function is not entered any more */
    int runner;          /* whose fiber it is */
    char *id;            /* in `own` */
    char *version;       /* likewise */
    char *input;         /* NULL: it is large, and in the journal */
    const workflow *workflow;
    arena *own; /* as long as the run is in memory */

    fiber *fiber; /* NULL: cold */
    arena *log;   /* of the replay */
    replay *replay;
    arena *page; /* the rows that were read last; NULL: none were */
    int fresh;   /* nothing is recorded of it but its start */
    int fed_all;
    int64_t fed; /* seq of the last row that was read from the database */
    map values;  /* handed out to the function: by address, what it is the value of, or itself */
    run_defer *defers;
    int64_t now_ms;     /* that the function was told last */
    atomic_int misused; /* a call on the run from somewhere else than its function */

    run_want want;
    int64_t until_ms;
    run_futures futures;
    struct run_inbox *inbox; /* what has arrived; see inbox_box.h */
    const char *cancelled;   /* it is, for this reason */
    const char *sender;      /* of the last message */
    const char *json_wrong;  /* why the last pawl_json() that failed did; NULL: none has */
    int64_t cleans;          /* undos and finallys that it has registered … */
    int64_t finallys;        /* … and how many of these are finallys */
    int64_t key;             /* of WANT_KEY */
    struct run_sent *sent;   /* what the unit sends to others, and starts; in unit_arena */
    map untils;              /* by op: when it is asked again */
    map jobs;                /* by op: work beside the function */
    job_list jobs_new;
    job_list jobs_done;
    size_t jobs_new_count;
    struct job *job_in_hand;        /* its result is being recorded */
    const arrival_source *sources;  /* what a wait asks, in this order */
    void (*take_in)(pawl_run *run); /* records what has returned beside a function that was left */
    int collects;    /* the function does not get what it wants: its fiber is resumed to
                                record what has returned beside it, and leaves. See jobs.h */
    pawl_work *work; /* of WANT_WORK */
    int queued_work; /* it waits for a worker to call it */
    int worked;      /* a worker has called it, and its result is there */
    pawl_work
        *kept_work; /* such a result whose fiber was dropped; NULL: none. See work_threads.h */
    run_transact transact; /* of WANT_TRANSACT */
    int64_t expired_op;    /* the attempt of this op ran out of time … */
    int64_t expired;       /* … the one with this number */
    int64_t expired_began_ms;
    run_result end;

    replay_row *arriving; /* in unit_arena, not recorded yet */
    size_t arrivals;
    size_t arrivals_room;
    arena *unit_arena; /* of the unit */
    unit *unit;        /* rows that are recorded and not committed; NULL: none */
    int handed_in;     /* it is the committer's, or its answer is there and not looked at */
    int parked;        /* number of the statement in it that parks the run; -1: none */
    int kept;          /* so many of its statements tell of what was done outside, and before */
    int births;        /* children that the unit starts; 0 after each commit */
    run_line *lines;
    run_line *last_line;
    run_spot line;     /* the last one that this function has written … */
    run_spot told;     /* … and that was given out: a replay does not do so again */
    run_status status; /* to be written with the unit, in its arena … */
    int status_rides;  /* … and a statement in it does so already */
    struct attribute_set *attributes; /* likewise */
    struct run_state *state;          /* NULL: it has neither set nor read any; see state.h */
    run_name *names;                  /* of its attributes, in `log` */
    int names_known;                  /* that they were read; otherwise it has said nothing yet */
    int names_failed;                 /* memory was out */
    submitter submitter;
    run_keeps keeps;        /* changed with the lock held */
    int unit_retry_counted; /* it waits for the storage with that: sched.failing counts it */
    int guarded;            /* the unit begins with the guard of a second try */
    struct kept *failure;   /* why it is kept; NULL: it is not, or memory was out */

    int64_t claims;            /* without getting further; see quarantine.h … */
    int64_t claimed_seq;       /* … than this row */
    slice held_for;            /* in `own`; at NULL: it was never held. See hold.h */
    int noted;                 /* its row tells of trouble, which is over when it gets further */
    int64_t quiet_ns;          /* until then it is not let out */
    atomic_int suspect;        /* quarantine_level … */
    int marked;                /* … and its row says that it is being executed */
    int marks;                 /* the unit on its way says so */
    atomic_int cleared;        /* it was let out alone, and did no harm: it is not counted */
    int is_returning;          /* the unit on its way gives it back */
    atomic_int hold_requested; /* it was held by hand: it is to be given back */

    int starved;          /* how often in a row memory was out, … */
    int starves;          /* … and the unit on its way says so, with what was recorded before */
    int put_off;          /* it sleeps to be tried again, and not because it wants to */
    int64_t trouble_ms;   /* its storage fails it, for the last time so long; 0: it does not */
    int64_t trouble_seen; /* commits of others when it last did */
    pawl_run *trouble_next;
    pawl_run **trouble_at; /* in the list of runs that wait for the storage; NULL: it is not
                              there */

    work_entry *asked_in; /* there was a place for it in this function; see work_limit.h */

    _Atomic run_place where;
    pawl_run *next; /* in a list of ready ones */
    timer timer;    /* of the node's */
};

/* ---- Making and dropping (run.c) ---- */

/* Rows from which on a journal is long, and its run should begin a new one. */
enum { RUN_LONG = 10000 };

/* What is known of a run when it comes into memory. Texts are copied. */
typedef struct run_facts {
    run_hold hold;
    int64_t generation;
    int64_t mail;
    int64_t parent; /* 0: none */
    int64_t parent_generation;
    int64_t parent_op;
    int64_t deadline_ms; /* 0: none */
    int failing;
    slice id;
    slice version;
    slice input; /* at NULL: it is in the journal */
    int fresh;   /* nothing is recorded of it but its start */
    int64_t claims;
    slice held_for; /* at NULL: nothing */
    int noted;      /* its row tells of trouble */
    const workflow *workflow;
} run_facts;

pawl_run *run_new(const run_host *host, const run_facts *facts);
void run_free(pawl_run *run);

/* The run is now in this place. Asserted: the move is one of the table (place.c). With the lock of
 * the scheduler held, or by the thread that has the run in hand. */
void run_move(pawl_run *run, run_place to);
int run_may_move(run_place from, run_place to);

/* Warm it: a fiber that will call the function. 0: there is no room, drop another one. */
int run_warm(pawl_run *run, fiber_pool *pool);

/* Drop the fiber, with everything that belongs to the function; defers are called. */
void run_cool(pawl_run *run);

#endif
