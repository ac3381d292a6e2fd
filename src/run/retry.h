/* The retry policy of a call: when its next attempt is due. Pure functions: numbers in, a number
 * out.
 *
 * The policy is that of pawl_call_options: at most so many attempts; between two of them a pause
 * (back-off), constant or growing up to a cap, and shortened a little by chance (jitter), so that
 * many calls are not retried at the same moment; and a limit on all attempts together. A work
 * function may name the pause itself. */
#ifndef RUN_RETRY_H
#define RUN_RETRY_H

#include "base/error.h"

typedef struct retry_policy {
    int64_t attempts; /* at least 1; PAWL_FOREVER */
    int64_t backoff_ms;
    int64_t backoff_max_ms;
    int64_t kind; /* PAWL_EXPONENTIAL … */
    int jitter;
    int64_t attempt_ms; /* 0: no limit */
    int64_t overall_ms; /* 0: no limit */
} retry_policy;

/* Reads the policy from a call's options, with its defaults. PAWL_INVALID: a number is negative, or
 * backoff_kind is not one of the three. */
pawl_code retry_read(retry_policy *p, const pawl_call_options *o, error *err);

/* Returns when the next attempt is due after attempt number `attempt` has failed at `now_ms`; -1:
 * there is none. The first attempt began at `began_ms`. `after_ms` is the pause for which the work
 * function has asked; -1: it has not. `chance` is any random number. */
int64_t retry_next(const retry_policy *p, int64_t attempt, int64_t began_ms, int64_t now_ms,
                   int64_t after_ms, uint64_t chance);

/* Returns how many ms are left for all attempts together. 0: their time is over; INT64_MAX: there
 * is no limit. */
int64_t retry_left(const retry_policy *p, int64_t began_ms, int64_t now_ms);

#endif
