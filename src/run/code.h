/* A workflow function on its fiber: what it wants from the runner, how it has ended, and what every
 * op may ask for. */
#ifndef RUN_CODE_H
#define RUN_CODE_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/map.h"
#include "base/slice.h"
#include "db/columns.h"
#include "fiber/fiber.h"
#include "run/registry.h"

/* What the fiber wants from the runner when it pauses or parks. */
typedef enum {
    WANT_WORK,     /* a work function is to be called; what is recorded must be durable first */
    WANT_TRANSACT, /* a work function is to be called inside the transaction that records it
                      (transact.h) */
    WANT_WAIT,     /* to be resumed at until_ms, or when something has arrived */
    WANT_PAGE,     /* more rows of the journal */
    WANT_NAMES,    /* the names of the attributes of the run */
    WANT_STATE,    /* a value of the state of this run, or of another (state.h) */
    WANT_INBOX,    /* what has arrived for the run */
    WANT_KEY,      /* a key for a run that is to be started */
    WANT_CHECK,    /* the state of other runs: of children, and of targets of pawl_tell() */
    WANT_FLUSH,    /* what is recorded is to be durable */
    WANT_LEAVE,    /* what is recorded is to be durable, and then the fiber is dropped */
    WANT_END,      /* the function is over: `end` says how */
} run_want;

/* How the function has ended. Texts are in the run's memory, or static. */
typedef struct run_result {
    run_phase phase;      /* DONE, FAILED, CANCELLED; FAILING: clean-ups follow; LIVE: the run has
                             not ended, and its function is called again later */
    int again;            /* with DONE: a new generation begins, with `value` as its input */
    const char *version;  /* with `again`: its version; NULL: the newest */
    const workflow *next; /* with `again`: the workflow of that version; NULL: it is not registered
                             here */
    const char *value;    /* with DONE: JSON text */
    const char *name;     /* with FAILED: the name of the error */
    const char *message;
    const char *where; /* with FAILED: the op that failed */
    pawl_code trouble; /* with LIVE: why the function was left: HELD, NOMEM … */
    int64_t held;      /* with LIVE: the reason to hold the run for, HELD_…; 0: HELD_MISMATCH */
    const char *lacks; /* name of a work function that is not registered; NULL: none */
    char note[256];    /* with LIVE: the trouble in words */
} run_result;

/* A log line of the function, which is written to the log when the unit is committed. In the memory
 * of the draft. */
typedef struct run_line {
    struct run_line *next;
    int level;
    const char *text;
} run_line;

/* The place of a log line in the function: `seq` is the last row before it, `number` counts the
 * lines since that row, from 1. */
typedef struct run_spot {
    int64_t seq;
    int64_t number;
} run_spot;

/* A function that was given to pawl_defer(). */
typedef struct run_defer {
    struct run_defer *next;
    void (*fn)(void *arg);
    void *arg;
} run_defer;

/* A source of arrivals. look() records what there is as arrivals, or does what leads to one. 1:
 * something has arrived, and the wait begins anew. A wait asks the sources of the run in their
 * order. */
typedef struct arrival_source {
    const char *name;
    int (*look)(pawl_run *run); /* NULL: the end of the table */
} arrival_source;

/* The function while it is in memory. It executes on the fiber. Where it needs something from
 * outside:
 *   1. It sets `want`, and parks or pauses the fiber.
 *   2. The runner does what is wanted, on its own stack.
 *   3. The runner resumes the fiber. */
typedef struct run_code {
    fiber *fiber;      /* NULL: the run is cold, and the rest of this struct is empty */
    map values;        /* memory of the function: address -> the future whose value is there, or the
                     address itself */
    run_defer *defers; /* functions to be called when the fiber goes */
    int64_t now_ms;    /* the time that the function was told last */
    atomic_int misused; /* the run was used from elsewhere than its function */

    run_want want;
    int64_t until_ms; /* with WANT_WAIT: when to resume the fiber */
    int64_t key;      /* the answer to WANT_KEY */
    run_result end;   /* with WANT_END: how the function has ended */

    const char *cancelled;  /* the reason of the cancel that the function was told; NULL: none */
    const char *sender;     /* the sender of the message that was received last */
    const char *json_wrong; /* why the last pawl_json() that failed has failed; NULL: none has */
    run_spot line;          /* the last log line that the function has come to */
    run_spot told; /* the last log line that is in the log; a replay repeats no line up to this
                      one */
    const arrival_source *sources; /* the sources that a wait asks, in this order */

    /* 1: the run is about to be given back. The fiber is resumed only to record the results of jobs
     * by take_in(), and parks again; its function does not go on (jobs.h). */
    int collects;
    void (*take_in)(pawl_run *run);
} run_code;

/* Tells whether the caller is the run's own function, on its fiber. Otherwise the run is marked as
 * misused. */
int run_is_inside(pawl_run *run);

/* Allocate memory that belongs to the function: zeroed bytes, or a copy of the text that ends with
 * a NUL. They never return NULL: if memory is out, the function is left. */
void *run_alloc(pawl_run *run, size_t size);
const char *run_text(pawl_run *run, slice text);

/* Notes that the memory is the value of the future `f`, or (NULL) of no future any more. Memory
 * that is not the run's is left alone. */
void run_own_value(pawl_run *run, const char *value, pawl_future *f);

/* Frees memory of run_alloc() and run_text(). NULL, and memory that is not the run's, is left
 * alone. */
void run_free_value(pawl_run *run, const void *memory);

/* run_number() returns a number as JSON text. run_json_text() returns the text of a JSON string,
 * unescaped. */
slice run_number(pawl_run *run, int64_t number);
const char *run_json_text(pawl_run *run, slice part);

/* run_log_line() keeps a line in the draft. run_tell_lines() writes all lines of the draft to the
 * log, once its unit is committed. */
void run_log_line(pawl_run *run, int level, const char *text);
void run_tell_lines(pawl_run *run);

/* Parks or pauses the fiber, and returns when the runner has done what is wanted. */
void run_ask(pawl_run *run, run_want want);

/* Leave the function; none of these returns. run_trouble() and run_nomem(): because of an error,
 * for which the run is held, or (NOMEM) tried again. run_lacks(): because the work function `work`
 * is not registered here. run_held_for(): the run is held for this reason, HELD_…. run_leave(): as
 * run->code.end says. */
_Noreturn void run_trouble(pawl_run *run, pawl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_nomem(pawl_run *run);
_Noreturn void run_lacks(pawl_run *run, const char *work);
_Noreturn void run_held_for(pawl_run *run, int64_t reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_leave(pawl_run *run);

#endif
