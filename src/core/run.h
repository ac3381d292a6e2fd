/* A run in memory: who it is, its function on its fiber, and what it has recorded but not
 * committed.
 *
 * The workflow function lives on the fiber. Where it needs something of the outside it says what it
 * *wants* and parks; the runner thread (runner.c) does that, on its own stack, and resumes it. So
 * everything in here is touched by one thread at a time: by the runner that has the run in hand, or
 * by the one that answers its commit. */
#ifndef CORE_RUN_H
#define CORE_RUN_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/op.h"
#include "core/registry.h"
#include "core/replay.h"
#include "core/retry.h"
#include "core/run_units.h"
#include "fiber/fiber.h"

struct drive;

/* Why the fiber has come back. */
typedef enum {
    WANT_WORK,  /* a work function is to be called; everything before must be durable first */
    WANT_WAIT,  /* to be resumed at until_ms */
    WANT_PAGE,  /* more rows of the journal */
    WANT_NAMES, /* the names of its attributes */
    WANT_END,   /* the function is over: `end` says how */
} run_want;

/* Where the run is. */
typedef enum {
    RUN_READY,    /* in a runner's list */
    RUN_IN_HAND,  /* of a runner */
    RUN_COMMITS,  /* its unit is on its way */
    RUN_SLEEPS,   /* in the timers */
    RUN_CROWDED,  /* in the list of a work function that is full */
    RUN_IN_DOUBT, /* its unit is undecided: nobody touches it */
    RUN_GONE,
} run_where;

/* How the function has ended. Texts are in the run's memory, or static. */
typedef struct run_result {
    run_status status; /* DONE or FAILED; LIVE: it was merely left, to be gone on with later */
    const char *value; /* of DONE: JSON text */
    const char *name;  /* of FAILED */
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
    pawl_run *run; /* NULL: abandoned */
    struct drive *drive;
    const char *run_id;
    int64_t fence;
    const char *name;
    work_entry *entry; /* NULL: not a registered one */
    pawl_work_fn *fn;
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
    int64_t after_ms; /* -1: as the policy says */
    const char *error_name;
    const char *error_message;
};

typedef struct run_value run_value;
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

struct pawl_run {
    struct drive *drive;
    run_hold hold;
    int64_t generation;
    int64_t mail;  /* that was applied */
    char *id;      /* in `own` */
    char *version; /* likewise */
    char *input;   /* NULL: it is large, and in the journal */
    const workflow *workflow;
    arena *own; /* as long as the run is in memory */

    fiber *fiber; /* NULL: cold */
    int runner;   /* whose fiber it is */
    arena *log;   /* of the replay */
    replay *replay;
    arena *page; /* the rows that were read last; NULL: none were */
    int fresh;   /* nothing is recorded of it but its start */
    int64_t fed; /* seq of the last row that was read from the database */
    int fed_all;
    run_value *values; /* handed out to the function */
    run_defer *defers;
    int64_t now_ms;     /* that the function was told last */
    atomic_int misused; /* a call on the run from somewhere else than its function */

    run_want want;
    int64_t until_ms;
    pawl_work *work;    /* of WANT_WORK */
    int64_t expired_op; /* the attempt of this op ran out of time … */
    int64_t expired;    /* … the one with this number */
    int64_t expired_began_ms;
    run_result end;

    arena *paper;  /* of the unit */
    unit *unit;    /* rows that are recorded and not committed; NULL: none */
    int handed_in; /* it is the committer's, or its answer is there and not looked at */
    int parked;    /* number of the statement in it that parks the run; -1: none */
    int kept;      /* so many of its statements tell of what was done outside, and before */
    run_line *lines;
    run_line *last_line;
    run_spot line;  /* the last one that this function has written … */
    run_spot told;  /* … and that was given out: a replay does not do so again */
    run_said said;  /* to be written with the unit, in `paper` … */
    int said_rides; /* … and a statement in it does so already */
    struct attribute_set *attributes; /* likewise */
    run_name *names;                  /* of its attributes, in `log` */
    int names_known;                  /* that they were read; otherwise it has said nothing yet */
    int names_failed;                 /* memory was out */
    submitter submitter;

    int64_t claims;     /* without getting further; see suspect.h */
    slice held_for;     /* in `own`; at NULL: it was never held. See hold.h */
    atomic_int suspect; /* it is let out alone … */
    int marked;         /* … and that is in its row */
    int marks;          /* the unit on its way says so */
    int leaves;         /* the unit on its way gives it back */
    atomic_int rests;   /* it was held by hand: it is to be given back */

    int put_off;          /* it sleeps to be tried again, and not because it wants to */
    int64_t trouble_ms;   /* its storage fails it, for the last time so long; 0: it does not */
    int64_t trouble_seen; /* commits of others when it last did */
    pawl_run *trouble_next;
    pawl_run **trouble_at; /* in the list of those who wait for it; NULL: it is not there */

    work_entry *asked_in; /* there was a place for it in this function; see crowd.h */

    _Atomic run_where where;
    pawl_run *next; /* in a list of ready ones */
    size_t timer;   /* place in the timers, from 1; 0: not there */
    int64_t due_ms;
};

/* ---- Making and dropping (run.c) ---- */

/* Larger input and output is in the journal, and not in the run's row, which is rewritten at every
 * park. */
enum { RUN_SMALL = 1024 };

/* Rows from which on a journal is long, and its run should begin a new one. */
enum { RUN_LONG = 10000 };

/* What is known of a run when it comes into memory. Texts are copied. */
typedef struct run_facts {
    run_hold hold;
    int64_t generation;
    int64_t mail;
    slice id;
    slice version;
    slice input; /* at NULL: it is in the journal */
    int fresh;   /* nothing is recorded of it but its start */
    int64_t claims;
    slice held_for; /* at NULL: nothing */
    const workflow *workflow;
} run_facts;

pawl_run *run_new(struct drive *d, const run_facts *facts);
void run_free(pawl_run *run);

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
int run_release(pawl_run *run, const void *memory);

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
_Noreturn void run_lacks(pawl_run *run, const char *work); /* nobody has registered it here */

/* ---- What is recorded (turn.c), on the fiber ---- */

/* Ask the journal, going on until the answer is RECORDED, NEW or PASSED. Rows are good until the
 * next ask. */
replay_result turn_start(pawl_run *run, const replay_row **row);
replay_result turn_op(pawl_run *run, op_kind kind, slice name, const replay_row **row);
replay_result turn_answer(pawl_run *run, int64_t op, const replay_row **row);
replay_result turn_return(pawl_run *run, op_kind kind);

/* Record an op that is NEW: into the replay, and into the unit that is committed next. Gives its
 * seq. */
int64_t turn_record(pawl_run *run, op_kind kind, slice name, slice data);

/* Something has arrived for an op, whose answer was NEW. The next ask gives it out. */
void turn_arrive(pawl_run *run, op_kind kind, int64_t op, slice data);

/* ---- What it says about itself (ops_said.c) ---- */

void run_add_name(pawl_run *run, slice name); /* an attribute that it has */
void run_write_said(pawl_run *run);           /* into the unit, which is about to be handed in */
void run_forget_said(pawl_run *run);          /* it was committed, or never will be */

/* ---- Work functions (work.c) ---- */

/* Prepare run->work for its next attempt: forget the last one. 0: memory is out. */
int work_open(pawl_run *run);
void work_free(pawl_work *w);

/* Call it, on the thread's own stack; what it gave or how it failed is there afterwards. */
void work_call(pawl_work *w);

/* Give it its name and input. 0: memory is out. */
int work_give(pawl_run *run, const char *name, const char *input);

/* 1 if its time is over, by the clock: nobody may have looked at it yet. */
int work_is_over(const pawl_work *w);

/* It has failed: its time was over; its function called pawl on the run. */
void work_expire(pawl_work *w);
void work_misused(pawl_work *w);

/* A failure as it is written into the journal, and read from there. */
slice work_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

/* What that says: when the next attempt is due, and when the first one began; `otherwise`: it does
 * not say. */
int64_t work_next_ms(slice data);
int64_t work_began_ms(slice data, int64_t otherwise);

#endif
