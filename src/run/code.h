/* A workflow function on its fiber: what it wants from the runner, how it has ended, and what all
 * ops use. */
#ifndef RUN_CODE_H
#define RUN_CODE_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/map.h"
#include "base/slice.h"
#include "db/columns.h"
#include "fiber/fiber.h"
#include "run/registry.h"

/* What the fiber wants the runner to do while it is paused or parked. */
typedef enum {
    WANT_WORK,     /* call a work function, once everything recorded is durable */
    WANT_TRANSACT, /* call a work function inside the transaction that records it (transact.h) */
    WANT_WAIT,     /* resume the fiber at until_ms, or when something has arrived */
    WANT_PAGE,     /* read more rows of the journal */
    WANT_NAMES,    /* read the names of the run's attributes */
    WANT_STATE,    /* read a value of the state of this run or another one (state.h) */
    WANT_INBOX,    /* read the inbox of the run */
    WANT_KEY,      /* make a key for a child run */
    WANT_CHECK,    /* read the state of other runs: children, and targets of pawl_tell() */
    WANT_FLUSH,    /* commit what is recorded */
    WANT_LEAVE,    /* give the run back: what is recorded is committed, and jobs that have begun are
                      waited for, before that (runner_leave()) */
    WANT_END,      /* end the turn: the function has ended or was left, as `end` says */
} run_want;

/* How the function has ended, or why it was left. Texts are in the run's memory, or static. */
typedef struct run_result {
    run_phase phase;      /* DONE, FAILED, CANCELLED: the run ends. FAILING: its clean-ups follow.
                             LIVE: the function was left because of `trouble`, and is called again
                             later */
    int again;            /* with DONE: 1: a new generation begins (continue-as-new), with `value`
                             as its input */
    const char *version;  /* with `again`: version of the next generation; NULL: the newest */
    const workflow *next; /* with `again`: the workflow of that version; NULL: it is not registered
                             here */
    const char *value;    /* with DONE: the result, as JSON text */
    const char *name;     /* with FAILED: the name of the error */
    const char *message;
    const char *where; /* with FAILED: the op that failed */
    pawl_code trouble; /* with LIVE: the error for which the function was left: HELD, NOMEM … */
    int64_t held;      /* with LIVE: the reason of the hold, HELD_…; 0 stands for HELD_MISMATCH,
                          which is also the reason after INVALID and LIMIT, for memory that was out
                          too often, and for rows that cannot be read (hold.h) */
    const char *lacks; /* with LIVE: name of a work function that is not registered here; NULL:
                          none */
    char note[256];    /* with LIVE: `trouble` in words */
} run_result;

/* A log line of the function. It is in the memory of the draft, and is written to the log when the
 * unit of the draft is committed. */
typedef struct run_line {
    struct run_line *next;
    int level;
    const char *text;
} run_line;

/* The place of a log line in the function: `seq` is the last row of the journal before the line,
 * and `number` counts the lines since that row, from 1. */
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

/* A source of arrivals, which a wait polls at the end of the journal (wait.c). look() records what
 * it finds as arrivals, or begins something that leads to an arrival. It returns 1 if the wait has
 * to check again what it waits for. */
typedef struct arrival_source {
    const char *name;
    int (*look)(pawl_run *run); /* NULL marks the end of the table */
} arrival_source;

/* The workflow function while the run is in memory. It executes on the fiber. Where it needs
 * something from outside:
 *   1. It sets `want`, and parks or pauses the fiber.
 *   2. The runner does what is wanted, on its own stack.
 *   3. The runner resumes the fiber. */
typedef struct run_code {
    fiber *fiber;       /* NULL: the run is cold */
    map values;         /* memory of the function: address -> the future whose value is at that
                          address, or else the address itself */
    run_defer *defers;  /* functions that run_cool() calls */
    int64_t now_ms;     /* the latest time that the function knows: from pawl_now(), or the end of a
                          sleep */
    atomic_int misused; /* 1: an op was called from elsewhere than the run's own function */

    run_want want;
    int64_t until_ms; /* with WANT_WAIT: the time at which to resume the fiber */
    int64_t key;      /* the key that WANT_KEY has made */
    run_result end;   /* with WANT_END: how the function has ended */

    const char *cancelled;  /* the reason of a cancel that was read from the inbox, and for which
                               cleanup_check() will leave the function; NULL: no cancel was read */
    const char *sender;     /* the sender of the message that was received last; NULL: none */
    const char *json_wrong; /* the error of the last pawl_json() that has failed; NULL: none has */
    run_spot line;          /* the last pawl_log() that the function has called outside of a
                               replay */
    run_spot told; /* the last line that was written to the log. It stays when the fiber is dropped:
                      pawl_log() writes no line up to this one again */
    const arrival_source *sources; /* the sources of arrivals, in the order in which a wait polls
                                      them */

    /* 1: the run is about to be given back or held. The runner resumes the fiber only so that
     * take_in() records the results of jobs. Then the fiber parks again, and the function does not
     * go on (jobs.h). */
    int collects;
    void (*take_in)(pawl_run *run);
} run_code;

/* Returns 1 if the caller is the run's own function, on its fiber. Otherwise sets code.misused, and
 * returns 0. */
int run_is_inside(pawl_run *run);

/* run_alloc() allocates zeroed bytes, run_text() a copy of the text that ends with a NUL. The
 * memory belongs to the function. Neither returns NULL: if memory is out, the function is left. */
void *run_alloc(pawl_run *run, size_t size);
const char *run_text(pawl_run *run, slice text);

/* Records that the memory is the value of the future `f`; NULL: of no future any more. Does nothing
 * if the memory is not the run's. */
void run_own_value(pawl_run *run, const char *value, pawl_future *f);

/* Frees memory of run_alloc() or run_text(). Does nothing for NULL, and for memory that is not the
 * run's. */
void run_free_value(pawl_run *run, const void *memory);

/* run_number() returns a number as JSON text. run_json_text() returns the text of a JSON string,
 * unescaped. */
slice run_number(pawl_run *run, int64_t number);
const char *run_json_text(pawl_run *run, slice part);

/* run_log_line() keeps a line in the draft. run_tell_lines() writes all lines of the draft to the
 * log, once its unit is committed. */
void run_log_line(pawl_run *run, int level, const char *text);
void run_tell_lines(pawl_run *run);

/* Sets code.want, parks or pauses the fiber, and returns when the runner has done what is
 * wanted. */
void run_ask(pawl_run *run, run_want want);

/* These leave the function, and do not return. run_trouble() leaves it because of an error: the run
 * is held or, with PAWL_NOMEM, tried again later. run_nomem() is run_trouble() with PAWL_NOMEM.
 * run_lacks() has the run held because the work function `work` is not registered here, and
 * run_held_for() for the reason given, HELD_…. run_leave() leaves the function as run->code.end
 * says. */
_Noreturn void run_trouble(pawl_run *run, pawl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_nomem(pawl_run *run);
_Noreturn void run_lacks(pawl_run *run, const char *work);
_Noreturn void run_held_for(pawl_run *run, int64_t reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void run_leave(pawl_run *run);

#endif
