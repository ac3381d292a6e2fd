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
#include "run/host.h"
#include "run/registry.h"
#include "run/retry.h"

/* Why the fiber has come back. */
typedef enum {
    WANT_WORK,     /* a work function is to be called; everything before must be durable first */
    WANT_TRANSACT, /* the same, inside the transaction that records it: transact.h */
    WANT_WAIT,     /* to be resumed at until_ms */
    WANT_PAGE,     /* more rows of the journal */
    WANT_NAMES,    /* the names of its attributes */
    WANT_STATE,    /* a value of its state, or of another run's: state.h */
    WANT_MAIL,     /* what has arrived for it */
    WANT_KEY,      /* the key of a run that it starts */
    WANT_CHECK,    /* to know what has become of its children and of what it told others */
    WANT_FLUSH,    /* what it has recorded is to be durable */
    WANT_LEAVE,    /* what it has recorded is to be durable, and then the fiber is dropped */
    WANT_END,      /* the function is over: `end` says how */
} run_want;

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
    KEPT_HOLDS, /* its record was refused for good: the unit that holds the run is on its way */
    KEPT_HELD,  /* the run is held, and sleeps until it is released */
} run_keeps;

/* How the function has ended. Texts are in the run's memory, or static. */
typedef struct run_result {
    run_phase phase;      /* DONE, FAILED, CANCELLED; FAILING: clean-ups follow; LIVE: it was merely
                          left, to be gone on with later */
    int again;            /* of DONE: with `value`, in a new generation … */
    const char *version;  /* … of this version; NULL: the newest … */
    const workflow *next; /* … which is this one; NULL: it is not registered here */
    const char *value;    /* of DONE: JSON text */
    const char *name;     /* of FAILED */
    const char *message;
    const char *where; /* the op that failed */
    pawl_code trouble; /* of LIVE: why it was left: HELD, NOMEM … */
    int64_t held;      /* and the reason to hold it for, if it is to be held */
    const char *lacks; /* name of a work function that is not registered; NULL: none */
    char note[256];    /* and in words */
} run_result;

/* One attempt of a work function (work.c). It belongs to its run, unless its time is over before
 * the function returns: then to the thread that is in it, and nobody waits for it any more. So it
 * has copies of what it was given. */
struct pawl_work {
    pawl_run *run;   /* NULL: abandoned */
    struct job *job; /* NULL: it is in line */
    const run_host *host;
    const char *run_id;
    int64_t fence;
    const char *name;
    work_entry *entry; /* NULL: not a registered one */
    pawl_work_fn *fn;
    pawl_transact_fn *transacts; /* instead, with the connection */
    void *native;
    int misuses; /* it has called pawl from there */
    void *arg;
    const char *input;
    int64_t attempt;
    int64_t op;       /* the position that it will have, or has, in the journal */
    int64_t began_ms; /* when the first attempt of the call began */
    int64_t limit_ms; /* 0: none */
    int64_t over_ns;  /* and when that is over, while it runs */
    arena *memory;
    int64_t number; /* of the run, and its generation: for the key … */
    int64_t generation;
    char key[104]; /* … which is written when it is asked for */
    atomic_int cancelled;

    const char *value; /* what it gave … */
    int failed;        /* … or how it failed */
    int permanent;
    int expired;      /* its time was over */
    int64_t after_ms; /* -1: as the policy says */
    const char *error_name;
    const char *error_message;
    const char *json_wrong; /* why its last pawl_work_json() that failed did; NULL: none has */
};

typedef struct run_name run_name;

/* A log line that waits for the commit of what it tells of. In the unit's memory. */
typedef struct run_line {
    struct run_line *next;
    int level;
    const char *text;
} run_line;

/* Where it was written: behind this row, as the how-manieth there. */
typedef struct run_spot {
    int64_t seq;
    int64_t number;
} run_spot;

typedef struct run_defer {
    struct run_defer *next;
    void (*fn)(void *arg);
    void *arg;
} run_defer;

/* What a run has started and not been told the end of, while its function is in memory:
 * futures.h. */
typedef struct run_futures {
    map all;  /* by address: what comes from outside may be anything */
    heap due; /* the open ones that become due */
    int64_t answers;
    pawl_future *losers; /* to be abandoned at the next ask; … */
    pawl_future *lost;   /* … and those that are made of others */
    pawl_future *looks;  /* made of others, of which some have ended … */
    pawl_future *looks_last;
    int looking;          /* … and somebody is at it */
    pawl_future *asking;  /* to know what has become of others; see cross_run.h */
    struct call *in_line; /* work that is due, and done on the run's own thread … */
    struct call *in_line_last;
    struct call *beside; /* … or on others, when there is room for it; the first of each … */
    struct call *beside_last; /* … and the last */
} run_futures;

/* A transactional step that is wanted; see transact.h. */
typedef struct run_transact {
    enum {
        TRANSACT_ASKED,  /* for one that has not been tried */
        TRANSACT_GOES,   /* its unit is handed in; when the runner sees it again: committed */
        TRANSACT_FAILED, /* the function has, and the work says how */
    } state;
    unit_guest guest;
    int before; /* statements of the unit that are not its own */
    int here;   /* the thread that has the run in hand is applying it */
} run_transact;

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
    struct job *job_in_hand; /* its result is being recorded */
    int collects;            /* the function does not get what it wants: its fiber is resumed to
                                record what has returned beside it, and leaves. See jobs.h */
    pawl_work *work;         /* of WANT_WORK */
    int queued_work;         /* it waits for a worker to call it */
    int worked;              /* a worker has called it, and its result is there */
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

/* ---- For the function, on its fiber ---- */

/* Is the caller the function itself? Otherwise it is marked as misused, and nothing is done. */
int run_is_inside(pawl_run *run);

/* Memory of the function's; NULL: memory is out, and then the run is being left. */
void *run_alloc(pawl_run *run, size_t size);
const char *run_text(pawl_run *run, slice text);

/* It is the value of this future, or (NULL) of none any more. What is not the run's stays alone. */
void run_own_value(pawl_run *run, const char *value, pawl_future *f);

/* For pawl_drop(): give back what comes from outside. 0: it is not the run's. */
int run_release(pawl_run *run, const void *memory);

/* Give back what is known to be the run's; NULL is allowed. */
void run_free_value(pawl_run *run, const void *memory);

/* JSON text of a number; the text of a JSON string. */
slice run_number(pawl_run *run, int64_t number);
const char *run_json_text(pawl_run *run, slice part);

/* A line for the log, once what comes before it is durable; and then all of them. */
void run_log_line(pawl_run *run, int level, const char *text);
void run_tell_lines(pawl_run *run);

/* Want something, and come back when it is there. */
void run_ask(pawl_run *run, run_want want);

/* Leave the function for good: these do not return. */
_Noreturn void run_fail(pawl_run *run, const char *name, const char *message, const char *where);
_Noreturn void run_trouble(pawl_run *run, pawl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_nomem(pawl_run *run);
_Noreturn void run_lacks(pawl_run *run, const char *work); /* nobody has registered it here */
_Noreturn void run_held_for(pawl_run *run, int64_t reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_leave(pawl_run *run); /* `end` says how */

/* ---- What is recorded (journal_writer.c), on the fiber ---- */

/* Ask the journal, going on until the answer is RECORDED, NEW or PASSED. Rows are good until the
 * next ask. */
replay_result journal_start(pawl_run *run, const replay_row **row);
replay_result journal_op(pawl_run *run, op_kind kind, slice name, const replay_row **row);
replay_result journal_return(pawl_run *run, op_kind kind);

/* As journal_op(), while futures that have lost are being abandoned. */
replay_result journal_ask(pawl_run *run, op_kind kind, slice name, const replay_row **row);

/* Give out what has arrived next, before the next op. 0: nothing has. */
int journal_settle_one(pawl_run *run);

/* Wait: something has been given out. 0: nothing is recorded any more. `op`: the one that is waited
 * for, if it is one; 0: `asked`, in words. */
int journal_wait(pawl_run *run, int64_t op, const char *asked);

/* The next row, whatever it is; NEW: there is none. */
replay_result journal_next(pawl_run *run, const replay_row **row);

/* Record an op that is NEW: into the replay, and into the unit that is committed next. Gives its
 * seq. */
int64_t journal_record(pawl_run *run, op_kind kind, slice name, slice data);

/* An op that was NEW and whose row is in the journal already: only the replay hears of it. */
void journal_note(pawl_run *run, op_kind kind, slice name, slice data);

/* Something has arrived for an op. It is recorded by journal_arrive_all(), with all the others, and
 * given out by the next asks. 0: nothing was. */
void journal_arrive(pawl_run *run, op_kind kind, int64_t op, slice data);
int journal_arrive_all(pawl_run *run);

/* The unit that is committed next, and a copy in its memory; at NULL stays that. */
unit *journal_unit(pawl_run *run);
slice journal_keep(pawl_run *run, slice s);

/* ---- What it says about itself (ops_status.c) ---- */

void run_add_name(pawl_run *run, slice name); /* an attribute that it has */
void run_write_status(pawl_run *run);         /* into the unit, which is about to be handed in */
void run_forget_status(pawl_run *run);        /* it was committed, or never will be */

/* ---- Work functions (work.c) ---- */

/* Prepare run->work for its next attempt: forget the last one. 0: memory is out. */
int work_open(pawl_run *run);
pawl_work *work_new(pawl_run *run);
void work_free(pawl_work *w);

/* Call it, on the thread's own stack; what it gave or how it failed is there afterwards. */
void work_call(pawl_work *w);

/* Give it its name and input. 0: memory is out. */
int work_give(pawl_run *run, pawl_work *w, const char *name, const char *input);

/* 1 if its time is over, by the clock: nobody may have looked at it yet. */
int work_is_over(const pawl_work *w);

/* It has failed: its time was over; its function called pawl on the run. */
void work_expire(pawl_work *w);
void work_misused(pawl_work *w);
void work_failed(pawl_work *w, int permanent, const char *name, const char *message);

/* A failure as it is written into the journal, and read from there. */
slice work_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

/* The same place in the journal for a step that was asked for and not begun; see call.c. */
slice work_not_begun(pawl_run *run, int64_t next_ms, int64_t began_ms);

/* What that says: how many attempts the row tells of (1 but for one that was not begun), when the
 * next attempt is due, and when the first one began; `otherwise`: it does not say. */
int64_t work_tried(slice data);
int64_t work_next_ms(slice data);
int64_t work_began_ms(slice data, int64_t otherwise);

#endif
