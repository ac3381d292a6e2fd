/* pawl_test: tests for programs that use pawl.
 *
 * A workflow that waits a month is tested in a millisecond, and one that must survive a crash is
 * crashed at each of its writes. Everything is in memory, in one thread, and deterministic.
 *
 *     pawl *p;
 *     pawl_test *t;
 *     pawl_outcome *end;
 *     assert(pawl_test_open(&p, &t) == PAWL_OK);
 *     register_everything(p);
 *     pawl_start(p, "trial", "t-1", "{}", NULL);
 *     assert(pawl_test_finish(p, "t-1", &end) == PAWL_OK);         // a month of sleeps
 *     assert(pawl_get_bool(pawl_outcome_value(end), "/ended", 0));
 *     pawl_outcome_free(end);
 *     pawl_test_close(t);
 *     pawl_close(p);
 *
 * TIME.  The clock of a test stands still while something can be done, and jumps to the next timer
 * when nothing can. It begins at 2001-01-01T00:00:00Z. Randomness comes from a generator with a
 * fixed seed. So two runs of a test record the same journal. pawl_finish() jumps as
 * pawl_test_finish() does, up to its time-out; pawl_poll() does what is due and moves nothing;
 * pawl_wait() and its like let their time-out go by, and drive nothing meanwhile.
 *
 * CRASHES.  A workflow is right if it ends the same way wherever it is interrupted. To try all
 * places, count the writes of a run without a crash, and repeat it with a crash at each:
 *
 *     for (int64_t n = 1; n <= writes; n++) {
 *         pawl_test_open(&p, &t);
 *         register_everything(p);
 *         pawl_test_crash_at(t, n);
 *         pawl_start(p, "order", "o-1", input, NULL);
 *         pawl_test_finish(p, "o-1", &end);
 *         // the same outcome; the outside was asked at least once, with the same keys
 *         pawl_outcome_free(end);
 *         pawl_test_close(t);
 *         pawl_close(p);
 *     }
 *
 * A crash strikes while pawl_test_finish(), pawl_test_advance() or pawl_finish() drives, and at a
 * write: that write is not made. What was durable before it stays; everything that the engine has
 * in memory is dropped, as if the process had been killed, except that what pawl_defer() was given
 * is called, so that the test does not leak. So a work function whose result was about to be
 * recorded is called again, with the same key. No time goes by. The handle, what is registered on
 * it and the test go on, as the next process would, which knows at once that the one before is
 * dead. If the write was that of a call from a work function (pawl_start(), pawl_send()), the call
 * answers an error, nothing else is begun, and what the function gives back is lost. The test's own
 * calls are the outside: their writes are not counted and never struck.
 *
 * As in life (DEATH in pawl.h), a run that is under way at five crashes in a row, without getting
 * any further, is held.
 *
 * These functions are for tests: they are not fast, and a handle of pawl_test_open() is used by one
 * thread at a time. A `pawl_test *` is good until pawl_test_close(). */
#ifndef PAWL_TEST_H
#define PAWL_TEST_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_test pawl_test; /* the clock and the accidents of one engine */

/* Open an engine in memory with a clock that jumps. *out always gets a handle, as from pawl_open();
 * *test is NULL on failure. */
PAWL_API pawl_code pawl_test_open(pawl **out, pawl_test **test);

/* End the test, before or after pawl_close(); the clock stays with the handle, and is not moved any
 * more but by pawl_finish() and waiting. NULL is allowed. */
PAWL_API void pawl_test_close(pawl_test *test);

/* Move the clock by `ms`, doing what becomes due on the way, in order, at its own time; 0: what can
 * be done now. A negative time is INVALID, more than 250 years in all LIMIT; other errors as from
 * pawl_poll(). */
PAWL_API pawl_code pawl_test_advance(pawl_test *test, int64_t ms);

/* The time of the test, in milliseconds since 1970; 0 without a test. */
PAWL_API int64_t pawl_test_now(pawl_test *test);

/* Drive everything, jumping over all waiting, until the run has ended; returns and gives as
 * pawl_wait() does. TIMEOUT: the run waits for something that no clock brings, such as a message
 * (pawl_why() says for what), or it goes on after a million timers. `p` is a handle of
 * pawl_test_open() (otherwise MISUSE). */
PAWL_API pawl_code pawl_test_finish(pawl *p, const char *id, pawl_outcome **out);

/* Crash at the write number `n` from now (1: the next); 0: not any more. Once per call. A negative
 * number is INVALID. */
PAWL_API pawl_code pawl_test_crash_at(pawl_test *test, int64_t n);

/* How many times something was made durable so far while runs were driven: where
 * pawl_test_crash_at() can strike. Signs of life do not count. */
PAWL_API int64_t pawl_test_writes(pawl_test *test);

/* 1: no run is kept in memory while it waits, so that each step forward replays all before it, and
 * a workflow that is not deterministic is found at once. 0: as in life. */
PAWL_API pawl_code pawl_test_always_replay(pawl_test *test, int on);

#ifdef __cplusplus
}
#endif
#endif
