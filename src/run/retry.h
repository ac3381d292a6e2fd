/* When the next attempt of a call is due. Pure: numbers in, a number out.
 *
 * The policy is that of pawl_call_options: at most so many attempts, a pause between two of them
 * that grows or does not, up to a cap, a little less by chance (jitter) so that many calls are not
 * retried at the same moment; and a limit on all attempts together. A work function may name its
 * own moment. */
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

/* The policy of a call's options, with its defaults. PAWL_INVALID: a number that makes no sense. */
pawl_code retry_read(retry_policy *p, const pawl_call_options *o, error *err);

/* Attempt number `attempt` has failed at `now_ms`; the first began at `began_ms`. `after_ms`: what
 * the work function asked for, -1: nothing. `chance` is any random number. Gives when the next
 * attempt is due, or -1: there is none. */
int64_t retry_next(const retry_policy *p, int64_t attempt, int64_t began_ms, int64_t now_ms,
                   int64_t after_ms, uint64_t chance);

/* What is left for all attempts together, 0: nothing; INT64_MAX: there is no limit. */
int64_t retry_left(const retry_policy *p, int64_t began_ms, int64_t now_ms);

#endif
