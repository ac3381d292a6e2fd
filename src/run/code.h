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

/* Why the fiber has come back. */
typedef enum {
    WANT_WORK,     /* a work function is to be called; everything before must be durable first */
    WANT_TRANSACT, /* a work function is to be called inside the transaction that records it
                      (transact.h) */
    WANT_WAIT,     /* to be resumed at until_ms */
    WANT_PAGE,     /* more rows of the journal */
    WANT_NAMES,    /* the names of the attributes of the run */
    WANT_STATE,    /* a value of the state of this run, or of another (state.h) */
    WANT_INBOX,    /* what has arrived for the run */
    WANT_KEY,      /* a key for a run that is to be started */
    WANT_CHECK,    /* what has become of children, and of what other runs were told */
    WANT_FLUSH,    /* what is recorded is to be durable */
    WANT_LEAVE,    /* what is recorded is to be durable, and then the fiber is dropped */
    WANT_END,      /* the function is over: `end` says how */
} run_want;

/* How the function has ended. Texts are in the run's memory, or static. */
typedef struct run_result {
    run_phase phase;      /* DONE, FAILED, CANCELLED; FAILING: clean-ups follow; LIVE: it was merely
                             left, to be gone on with later */
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

/* A log line that waits for the commit of what it tells of. In the unit's memory. */
typedef struct run_line {
    struct run_line *next;
    int level;
    const char *text;
} run_line;

/* Where in the function a log line was written: behind which row, and as which line there. */
typedef struct run_spot {
    int64_t seq;
    int64_t number;
} run_spot;

typedef struct run_defer {
    struct run_defer *next;
    void (*fn)(void *arg);
    void *arg;
} run_defer;

/* A source of arrivals. look() lets something arrive, if there is anything; 1: something has
 * arrived. A wait asks the sources of the run in their order. */
typedef struct arrival_source {
    const char *name;
    int (*look)(pawl_run *run); /* NULL: the end of the table */
} arrival_source;

/* The function while it is in memory. It lives on the fiber: where it needs something from outside
 * it sets `want` and parks, and the host does that on its own stack and resumes it. */
typedef struct run_code {
    fiber *fiber; /* NULL: the run is cold, and the rest of this struct is empty */
    map values;   /* memory of the function: address -> the future whose value it is, or the address
                     itself */
    run_defer *defers;  /* functions to be called when the fiber goes */
    int64_t now_ms;     /* the time that the function was told last */
    atomic_int misused; /* the run was used from elsewhere than its function */

    run_want want;
    int64_t until_ms; /* with WANT_WAIT: when to resume the fiber */
    int64_t key;      /* the answer to WANT_KEY */
    run_result end;   /* with WANT_END: how */

    const char *cancelled;  /* the reason of the cancel that the function was told; NULL: none */
    const char *sender;     /* the sender of the message that was received last */
    const char *json_wrong; /* why the last pawl_json() that failed has failed; NULL: none has */
    run_spot line;          /* where the function has written its last log line */
    run_spot told; /* where the last line was written that was given out: a replay repeats none */
    const arrival_source *sources; /* what a wait asks, in this order */

    /* 1: the fiber is resumed only so that take_in() records the results of jobs, and parks again;
     * the function does not get what it wants (jobs.h). */
    int collects;
    void (*take_in)(pawl_run *run);
} run_code;

/* Is the caller the function itself? Otherwise the run is marked as misused. */
int run_is_inside(pawl_run *run);

/* Memory of the function's; NULL: memory is out, and then the run is being left. */
void *run_alloc(pawl_run *run, size_t size);
const char *run_text(pawl_run *run, slice text);

/* The memory is the value of this future from now on, or (NULL) of none any more. Memory that is
 * not the run's is left alone. */
void run_own_value(pawl_run *run, const char *value, pawl_future *f);

/* Frees memory that is known to be the run's; NULL is allowed. */
void run_free_value(pawl_run *run, const void *memory);

/* JSON text of a number; the text of a JSON string. */
slice run_number(pawl_run *run, int64_t number);
const char *run_json_text(pawl_run *run, slice part);

/* run_log_line() keeps a line for the log until what comes before it is durable; run_tell_lines()
 * then writes all of them. */
void run_log_line(pawl_run *run, int level, const char *text);
void run_tell_lines(pawl_run *run);

/* Parks the fiber; comes back when the runner has done what is wanted. */
void run_ask(pawl_run *run, run_want want);

/* Leave the function for good: these do not return. */
_Noreturn void run_trouble(pawl_run *run, pawl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_nomem(pawl_run *run);
_Noreturn void run_lacks(pawl_run *run, const char *work); /* this work is not registered here */
_Noreturn void run_held_for(pawl_run *run, int64_t reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_leave(pawl_run *run); /* `end` says how */

#endif
