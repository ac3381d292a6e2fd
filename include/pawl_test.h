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
 * TIME.  A test has a fake clock, which begins at 2001-01-01T00:00:00Z. It stands still while some
 * run can go on, and jumps to the next timer when none can. Randomness comes from a generator with
 * a fixed seed. So two runs of a test record the same journal. pawl_finish() lets the clock jump as
 * pawl_test_finish() does, up to its time-out; pawl_poll() drives what is due and does not move the
 * clock; pawl_wait() and pawl_wait_status() move the clock by their time-out, and drive nothing
 * meanwhile.
 *
 * CRASHES.  A workflow is correct if it ends the same way wherever it is interrupted. To try all
 * places, count the writes of a run without a crash (pawl_test_writes()), and repeat the run with a
 * crash at each of them:
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
 * A crash happens at a write, while pawl_test_finish(), pawl_test_advance() or pawl_finish()
 * drives. That write is not made. Earlier writes stay; everything that the engine has in memory is
 * dropped, as if the process had been killed. (Only functions given to pawl_defer() are called, so
 * that the test does not leak.) So a work function whose result was about to be recorded is called
 * again, with the same key. No time goes by. The handle, its registrations and the test go on as
 * the next process would, one that knows at once that the process before it is dead. If the write
 * belonged to a call from a work function (pawl_start(), pawl_send()), that call answers an error,
 * no other function is begun, and the result of the work function is lost. Calls that the test
 * itself makes stand for other processes: their writes are not counted, and no crash happens there.
 *
 * As in production (DEATH in pawl.h), a run that is being executed at five crashes in a row,
 * without getting any further, is held.
 *
 * These functions are for tests: they are not fast, and a handle of pawl_test_open() is used by one
 * thread at a time. A `pawl_test *` is valid until pawl_test_close(). */
#ifndef PAWL_TEST_H
#define PAWL_TEST_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_test pawl_test; /* the fake clock and the planned crash of one engine */

/* Open an engine in memory with a clock that jumps. *out always gets a handle, as from pawl_open();
 * *test is NULL on failure. */
PAWL_API pawl_code pawl_test_open(pawl **out, pawl_test **test);

/* End the test, before or after pawl_close(). The clock stays with the handle; only pawl_finish()
 * and waits move it from then on. NULL is allowed. */
PAWL_API void pawl_test_close(pawl_test *test);

/* Move the clock by `ms`, and drive the runs that become due meanwhile, in order, each at the time
 * at which it is due. 0: drive what is due now. Errors: INVALID (`ms` is negative), LIMIT (more
 * than 250 years in all), and those of pawl_poll(). */
PAWL_API pawl_code pawl_test_advance(pawl_test *test, int64_t ms);

/* The time of the test, in milliseconds since 1970; 0 without a test. */
PAWL_API int64_t pawl_test_now(pawl_test *test);

/* Drive all runs, with the clock jumping from timer to timer, until this run has ended; answers as
 * pawl_wait() does. TIMEOUT: the run waits for something that no timer brings, such as a message
 * (pawl_why() says for what), or has not ended after a million timers. MISUSE: `p` is not a handle
 * of pawl_test_open(). */
PAWL_API pawl_code pawl_test_finish(pawl *p, const char *id, pawl_outcome **out);

/* Plan one crash, at the `n`th write from now (1: the next one). 0: plan none. Errors: INVALID (`n`
 * is negative). */
PAWL_API pawl_code pawl_test_crash_at(pawl_test *test, int64_t n);

/* The number of writes so far while runs were driven, that is of places where pawl_test_crash_at()
 * can crash. Heartbeats do not count. */
PAWL_API int64_t pawl_test_writes(pawl_test *test);

/* 1: no run is kept in memory while it waits, so that every time it goes on it is replayed from the
 * top, which finds a workflow that is not deterministic at once. 0: as in production. */
PAWL_API pawl_code pawl_test_always_replay(pawl_test *test, int on);

#ifdef __cplusplus
}
#endif
#endif
