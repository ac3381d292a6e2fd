/* How a run or a call has ended, as an object (pawl_outcome).
 *
 * Clients own theirs; those of pawl_try() live as long as the run's function. Both are one
 * allocation with all texts in it. */
#ifndef JOURNAL_OUTCOME_H
#define JOURNAL_OUTCOME_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

/* What an outcome is made of. A text with at NULL is not there: the value is "null" then, the
 * others are empty. */
typedef struct outcome_parts {
    pawl_code code; /* OK, FAILED, TIMEOUT, CANCELLED, HELD */
    slice value;    /* JSON text; with OK only */
    slice name;     /* of a failure, as the next two */
    slice message;
    slice where;
} outcome_parts;

/* Texts are copied. NULL when memory is out. In an arena it is gone with that; without one (NULL)
 * it is a client's, to be freed by pawl_outcome_free(). */
pawl_outcome *outcome_make(arena *memory, const outcome_parts *parts);

/* Outcomes for clients: outcome_new() of these parts, outcome_failed() of a failure as it is
 * recorded (see below), outcome_held() of a run that is held for this reason. */
pawl_outcome *outcome_new(pawl_code code, slice value, const char *name, const char *message,
                          const char *where);
pawl_outcome *outcome_failed(pawl_code code, slice recorded);
pawl_outcome *outcome_held(slice reason);

/* Fill in name, message and where from a failure as it is recorded, {"name":…,"message":…,
 * "where":…}; text that is not such JSON is the message. They are in the arena. 0, or -1 when
 * memory is out. */
int outcome_read_error(outcome_parts *parts, arena *memory, slice recorded);

#endif
