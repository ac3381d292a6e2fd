/* The engine fixture: a fake clock that the test moves, a record of what work functions have
 * executed, and child processes with engines of their own.
 *
 * Time stands still until the test moves it, for all processes of the test at once. Where the
 * database has a server, the clock that pawl reads there is the fixture's too. So tests of time are
 * quick and deterministic.
 *
 * Work functions record what they do by fixture_note(): a line of a file beside the database. So
 * the test knows what was executed, whatever became of the process, and whatever the database says.
 * Work functions and workflows that are registered here get the fixture as their arg.
 *
 * Everything here may be used in children too: a failure ends the child, and so the test. */
#ifndef SUPPORT_ENGINE_FIXTURE_H
#define SUPPORT_ENGINE_FIXTURE_H

#include <pawl.h>

#include "support/conf.h"

typedef struct engine_fixture engine_fixture;

engine_fixture *fixture_new(const conf *c);
void fixture_free(engine_fixture *s);

/* ---- Engines ---- */

/* Open an engine on the test's database, with the fixture's clock. `options` NULL: the engine is
 * driven by hand. Otherwise they are used as they are, but for the hooks, which are the fixture's,
 * and for a claim_ms of 0, which becomes FIXTURE_CLAIM_MS: by its own clock a server ends what
 * waits or is idle for a part of claim_ms, and that has to be long enough for a busy machine. Ends
 * the test when the engine cannot be opened.
 *
 * PAWL_TEST_DRIVER=serve runs the same tests once more with other drivers: an engine that would be
 * driven by hand serves on two threads from the first fixture_poll() on, which then waits until the
 * engine has nothing to do. */
pawl *fixture_open(engine_fixture *s, const pawl_options *options);
enum { FIXTURE_CLAIM_MS = 30000 };

/* 1: engines that are driven by hand serve instead (PAWL_TEST_DRIVER=serve). FIXTURE_BY_HAND()
 * skips the test then; it is for tests of driving by hand and of the order in which one thread does
 * things. */
int fixture_serves(void);
#define FIXTURE_BY_HAND()                                                                          \
    do {                                                                                           \
        if (fixture_serves())                                                                      \
            skip();                                                                                \
    } while (0)

/* pawl_close() for engines of the fixture: an engine that serves is stopped first. Every test that
 * includes this header calls it by the name pawl_close(). */
pawl_code fixture_close(pawl *p);
#define pawl_close(p) fixture_close(p)

/* PAWL_TEST_DAWDLE finds tests that depend on how far threads have come. "calls": after each of
 * these calls, and after the clock was moved, the calling thread pauses, so that threads of the
 * engine come first. "notes": work functions pause behind fixture_note(), so that they come late. A
 * test has to hold in both cases, with PAWL_TEST_DRIVER=serve and without. fixture_dawdle() gives
 * its argument. */
pawl_code fixture_dawdle(pawl_code rc);
#define pawl_start(...) fixture_dawdle(pawl_start(__VA_ARGS__))
#define pawl_send(...) fixture_dawdle(pawl_send(__VA_ARGS__))
#define pawl_cancel(...) fixture_dawdle(pawl_cancel(__VA_ARGS__))
#define pawl_hold(...) fixture_dawdle(pawl_hold(__VA_ARGS__))
#define pawl_release(...) fixture_dawdle(pawl_release(__VA_ARGS__))
#define pawl_redrive(...) fixture_dawdle(pawl_redrive(__VA_ARGS__))
#define pawl_complete(...) fixture_dawdle(pawl_complete(__VA_ARGS__))
#define pawl_delete(...) fixture_dawdle(pawl_delete(__VA_ARGS__))
#define pawl_outbox_flush(...) fixture_dawdle(pawl_outbox_flush(__VA_ARGS__))

/* Open an engine with a fault plan between it and its database. `options` must not be NULL, and are
 * used as they are, but for the hooks: .threads = -1 is driven by hand, also with
 * PAWL_TEST_DRIVER=serve. The plan has to outlive the engine. */
pawl *fixture_open_fault(engine_fixture *s, const pawl_options *options, db_fault *plan);

/* Register a workflow or a work function with the fixture as its arg, or start a run.
 * fixture_register_limited() registers a work function with a concurrency limit. All of this must
 * succeed. */
#define FIXTURE_REGISTER(s, p, fn) fixture_register((s), (p), #fn, (fn))
void fixture_register(engine_fixture *s, pawl *p, const char *name, pawl_workflow_fn *fn);
void fixture_register_work(engine_fixture *s, pawl *p, const char *name, pawl_work_fn *fn);
void fixture_register_limited(engine_fixture *s, pawl *p, const char *name, pawl_work_fn *fn,
                              int64_t at_most);
void fixture_start(engine_fixture *s, pawl *p, const char *workflow, const char *id,
                   const char *input);

/* The body of a thread that serves until pawl_stop(); `engine` is a pawl *. Gives NULL if
 * pawl_serve() has answered PAWL_OK, otherwise `engine`. */
void *fixture_serve(void *engine);

/* Drive by hand until there is nothing to do now. */
void fixture_poll(engine_fixture *s, pawl *p);

/* Drive by hand until the condition holds. Whenever the engine has nothing to do, move the clock to
 * the time at which it wants to be driven again. Ends the test if the condition never holds. */
#define FIXTURE_UNTIL(s, p, condition)                                                             \
    do {                                                                                           \
        int64_t fixture_rounds_ = 0;                                                               \
        for (fixture_poll((s), (p)); !(condition); fixture_poll((s), (p)))                         \
            fixture_move_clock((s), (p), ++fixture_rounds_, #condition, __LINE__);                 \
    } while (0)
void fixture_move_clock(engine_fixture *s, pawl *p, int64_t rounds, const char *condition,
                        int line);

/* Fail the test, or end the child, unless `got` is the code `wanted`. */
#define FIXTURE_CODE(s, p, got, wanted) fixture_code((s), (p), (got), (wanted), __LINE__)
void fixture_code(engine_fixture *s, pawl *p, pawl_code got, pawl_code wanted, int line);

/* The phase of a run, and the time of its next timer (0: it has none). The run must exist. */
pawl_phase fixture_phase(engine_fixture *s, pawl *p, const char *id);
int64_t fixture_wake_at(engine_fixture *s, pawl *p, const char *id);

/* Drive by hand until the run has ended or is held. Then FIXTURE_DONE() expects that it is done
 * with this value; FIXTURE_FAILED(), that it has failed with this name, and with these words in the
 * message; FIXTURE_HELD(), that it is held, with these words in the reason. */
#define FIXTURE_DONE(s, p, id, value) fixture_done((s), (p), (id), (value), __LINE__)
#define FIXTURE_FAILED(s, p, id, name, words)                                                      \
    fixture_failed((s), (p), (id), (name), (words), __LINE__)
#define FIXTURE_HELD(s, p, id, words) fixture_held((s), (p), (id), (words), __LINE__)
void fixture_done(engine_fixture *s, pawl *p, const char *id, const char *value, int line);
void fixture_failed(engine_fixture *s, pawl *p, const char *id, const char *name, const char *words,
                    int line);
void fixture_held(engine_fixture *s, pawl *p, const char *id, const char *words, int line);

/* The journal of the run, without its first row, must be `line`: the kind of each row, and its name
 * behind a colon if it has one, for instance "step:charge sleep woken". */
#define FIXTURE_HISTORY(s, p, id, line) fixture_history((s), (p), (id), (line), __LINE__)
void fixture_history(engine_fixture *s, pawl *p, const char *id, const char *wanted, int line);

/* ---- Time ---- */

/* The time of the fixture's clock, and moving it forward. */
int64_t fixture_now(const engine_fixture *s);
void fixture_advance(engine_fixture *s, int64_t ms);

/* From now on the clock also runs by itself, as fast as the system's. This is for several processes
 * on one database, which wait for each other's locks by the clock. */
void fixture_run_clock(engine_fixture *s);

/* Set the wall clock of the database, as an operator could. The monotonic clock does not jump. */
void fixture_set_clock(engine_fixture *s, int64_t now_ms);

/* Set the value of each random byte that the engine gets; -1: the system's randomness, as at first.
 */
void fixture_set_random(engine_fixture *s, int byte);

/* ---- What was executed ---- */

/* 0: in this build fibers are never kept, and the code of workflows runs again at each turn. */
#ifdef PAWL_ALWAYS_REPLAY
#define FIXTURE_WARM 0
#else
#define FIXTURE_WARM 1
#endif

/* Record a line: that something was executed. */
void fixture_note(engine_fixture *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fixture_count() gives the number of recorded lines that are this text. FIXTURE_NOTES() expects
 * that all recorded lines, with a blank between two, are this text. */
int fixture_count(engine_fixture *s, const char *text);
#define FIXTURE_NOTES(s, wanted) fixture_notes((s), (wanted), __LINE__)
void fixture_notes(engine_fixture *s, const char *wanted, int line);

/* FIXTURE_NOTES(), but a line that was recorded several times in a row counts once. */
#define FIXTURE_NOTES_ONCE(s, wanted) fixture_notes_once((s), (wanted), __LINE__)
void fixture_notes_once(engine_fixture *s, const char *wanted, int line);

/* Remove all lines that were recorded so far. */
void fixture_clear_notes(engine_fixture *s);

/* Work functions that give back their input. fixture_echo() records its name, fixture_echo_input()
 * "name-input". */
const char *fixture_echo(pawl_work *work, const char *input);
const char *fixture_echo_input(pawl_work *work, const char *input);

/* A step whose work function gets the arg of the workflow, which is the fixture. */
#define FIXTURE_STEP(run, name, fn, input)                                                         \
    pawl_step((run), (name), (fn), (input), PAWL_CALL(.arg = pawl_arg(run)))
#define FIXTURE_ECHO(run, name, input) FIXTURE_STEP((run), (name), fixture_echo, (input))

/* Numbers that a test may use for any purpose, shared by all of its processes. */
#define FIXTURE_NUMBERS 8
_Atomic int64_t *fixture_number(engine_fixture *s, int which);

/* ---- Other processes ---- */

/* Fork a child, before this process has the database open. The child opens its own engine. */
typedef void fixture_body(engine_fixture *s, void *arg);
tmp_child fixture_fork(engine_fixture *s, fixture_body *body, void *arg);

/* In the child: send the test a byte. fixture_send_and_await() also waits for a byte from the
 * test. */
void fixture_send_byte(engine_fixture *s, char what);
void fixture_send_and_await(engine_fixture *s, char what);

/* In the child: drive by hand until there is nothing to do now. Gives 0 if the test has sent a
 * byte, 1 if not. */
int fixture_poll_until_byte(engine_fixture *s, pawl *p);

/* End the test, or the child. */
_Noreturn void fixture_fail(const engine_fixture *s, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define FIXTURE_CHECK(s, condition)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fixture_fail((s), __LINE__, "%s", #condition);                                         \
    } while (0)

#endif
