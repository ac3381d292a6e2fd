/* Computing pauses. A sum or product that would overflow becomes INT64_MAX, so that a policy with a
 * wrong number waits for ever, instead of not at all. */
#include "run/retry.h"

enum { ATTEMPTS = 3, BACKOFF_MS = 1000, BACKOFF_MAX_MS = 60000 };

static int64_t add_capped(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t multiply_capped(int64_t a, int64_t b)
{
    return a != 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

pawl_code retry_read(retry_policy *p, const pawl_call_options *o, error *err)
{
    if (o->attempts < 0 || o->backoff_ms < 0 || o->backoff_max_ms < 0 || o->attempt_ms < 0 ||
        o->overall_ms < 0) {
        error_set(err, PAWL_INVALID, "a number in the options of a call is negative");
        error_hint(err, "0 means the default, or no limit");
        return PAWL_INVALID;
    }
    if (o->backoff_kind < PAWL_EXPONENTIAL || o->backoff_kind > PAWL_CONSTANT)
        return error_set(err, PAWL_INVALID, "the option backoff_kind is none of the three");
    *p = (retry_policy){
        .attempts = o->attempts ? o->attempts : ATTEMPTS,
        .backoff_ms = o->backoff_ms ? o->backoff_ms : BACKOFF_MS,
        .backoff_max_ms = o->backoff_max_ms ? o->backoff_max_ms : BACKOFF_MAX_MS,
        .kind = o->backoff_kind,
        .jitter = !o->no_jitter,
        .attempt_ms = o->attempt_ms,
        .overall_ms = o->overall_ms,
    };
    return PAWL_OK;
}

/* Returns the pause after attempt number n, without jitter. */
static int64_t pause_after(const retry_policy *p, int64_t n)
{
    int64_t pause = p->backoff_ms;
    if (p->kind == PAWL_LINEAR)
        pause = multiply_capped(pause, n);
    for (int64_t i = 1; p->kind == PAWL_EXPONENTIAL && i < n && pause < p->backoff_max_ms; i++)
        pause = multiply_capped(pause, 2);
    return pause < p->backoff_max_ms ? pause : p->backoff_max_ms; /* RULE retry-a-pause-has-a-cap */
}

int64_t retry_left(const retry_policy *p, int64_t began_ms, int64_t now_ms)
{
    if (p->overall_ms == 0 || p->overall_ms == PAWL_FOREVER)
        return INT64_MAX;
    int64_t end = add_capped(began_ms, p->overall_ms);
    return end > now_ms ? end - now_ms : 0;
}

int64_t retry_next(const retry_policy *p, int64_t attempt, int64_t began_ms, int64_t now_ms,
                   int64_t after_ms, uint64_t chance)
{
    if (p->attempts != PAWL_FOREVER && attempt >= p->attempts)
        return -1;
    int64_t pause = pause_after(p, attempt);
    if (p->jitter)
        pause -= (int64_t)(chance % (uint64_t)(pause / 4 + 1));
    if (after_ms >= 0)
        pause = after_ms;
    int64_t left = retry_left(p, began_ms, now_ms);
    /* RULE retry-nothing-is-begun-when-time-is-over */
    return left == INT64_MAX || pause < left ? add_capped(now_ms, pause) : -1;
}
