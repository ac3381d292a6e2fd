/* How a run or a call has ended, as an object (pawl_outcome).
 *
 * A client owns the outcomes that it gets. An outcome of pawl_try() lives as long as the run's
 * function. In both cases the outcome and its texts are one allocation. */
#ifndef JOURNAL_OUTCOME_H
#define JOURNAL_OUTCOME_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

/* The contents of an outcome. A text whose `at` is NULL is missing: a missing value reads as
 * "null", any other missing text as "". */
typedef struct outcome_parts {
    pawl_code code; /* OK, FAILED, TIMEOUT, CANCELLED, HELD */
    slice value;    /* JSON text; with OK only */
    slice name;     /* of the error */
    slice message;  /* of the error */
    slice where;    /* the op that failed */
} outcome_parts;

/* Makes an outcome with copies of the texts; NULL when memory is out. It is allocated in the arena
 * `memory`. If that is NULL, it belongs to a client, which frees it by pawl_outcome_free(). */
pawl_outcome *outcome_make(arena *memory, const outcome_parts *parts);

/* Make outcomes for clients; NULL when memory is out. outcome_new() takes these parts;
 * outcome_failed() takes a failure as it is recorded (see below); outcome_held() is for a held run,
 * with the reason as its message. */
pawl_outcome *outcome_new(pawl_code code, slice value, const char *name, const char *message,
                          const char *where);
pawl_outcome *outcome_failed(pawl_code code, slice recorded);
pawl_outcome *outcome_held(slice reason);

/* Reads a recorded failure, {"name":…,"message":…,"where":…}, into name, message and where of
 * `parts`; text that is not a JSON object becomes the message. The texts are allocated in the
 * arena. 0, or -1 when memory is out. */
int outcome_read_error(outcome_parts *parts, arena *memory, slice recorded);

#endif
