/* The engine fixture (type `stage`): a fake clock that the test moves, a record of what work
 * functions have executed, and child processes with engines of their own.
 *
 * Time stands still until the test moves it, for all processes of the test at once; where the
 * database has a server, the clock that pawl reads there is the stage's too. So tests of time are
 * quick and deterministic.
 *
 * Work functions record what they do by stage_note(): a line of a file beside the database. So the
 * test knows what was executed, whatever became of the process, and whatever the database says.
 * Work functions and workflows of a stage have it as their arg.
 *
 * Everything here may be used in children too: a failure ends the child, and so the test. */
#ifndef SUPPORT_ENGINE_FIXTURE_H
#define SUPPORT_ENGINE_FIXTURE_H

#include <pawl.h>

#include "support/conf.h"

typedef struct stage stage;

stage *stage_new(const conf *c);
void stage_free(stage *s);

/* ---- Engines ---- */

/* An engine on the test's database, by the stage's clock. `options` NULL: driven by hand; otherwise
 * as they say, but for hooks. Ends the test when it cannot be opened.
 *
 * PAWL_TEST_DRIVER=serve runs the same tests once more with other drivers: an engine that would be
 * driven by hand serves on two threads from the first stage_poll() on, which then waits until the
 * engine has nothing to do. */
pawl *stage_open(stage *s, const pawl_options *options);

/* 1: engines that are driven by hand serve instead. A test that says something about driving by
 * hand, or about the order of what one thread does, is skipped then: STAGE_BY_HAND(). */
int stage_serves(void);
#define STAGE_BY_HAND()                                                                            \
    do {                                                                                           \
        if (stage_serves())                                                                        \
            skip();                                                                                \
    } while (0)

/* pawl_close(), which every test of a stage calls by its own name: a served engine stops first. */
pawl_code stage_close(pawl *p);
#define pawl_close(p) stage_close(p)

/* PAWL_TEST_DAWDLE finds tests that depend on how far threads have come. "calls": after each of
 * these calls, and after the clock was moved, the caller stands still for a moment, and threads of
 * the engine come first. "notes": work functions do so behind stage_note(), and come late. A test
 * has to hold in both cases, with PAWL_TEST_DRIVER=serve and without. */
pawl_code stage_dawdle(pawl_code rc);
#define pawl_start(...) stage_dawdle(pawl_start(__VA_ARGS__))
#define pawl_send(...) stage_dawdle(pawl_send(__VA_ARGS__))
#define pawl_cancel(...) stage_dawdle(pawl_cancel(__VA_ARGS__))
#define pawl_hold(...) stage_dawdle(pawl_hold(__VA_ARGS__))
#define pawl_release(...) stage_dawdle(pawl_release(__VA_ARGS__))
#define pawl_redrive(...) stage_dawdle(pawl_redrive(__VA_ARGS__))
#define pawl_complete(...) stage_dawdle(pawl_complete(__VA_ARGS__))
#define pawl_delete(...) stage_dawdle(pawl_delete(__VA_ARGS__))
#define pawl_outbox_flush(...) stage_dawdle(pawl_outbox_flush(__VA_ARGS__))

/* The same, with faults between it and its database, which has to outlive it; driven by hand. */
pawl *stage_open_fault(stage *s, const pawl_options *options, db_fault *plan);

/* Register a workflow with the stage as its arg, and start a run of it. Must work. */
#define STAGE_REGISTER(s, p, fn) stage_register((s), (p), #fn, (fn))
void stage_register(stage *s, pawl *p, const char *name, pawl_workflow_fn *fn);
void stage_start(stage *s, pawl *p, const char *workflow, const char *id, const char *input);

/* The body of a thread that serves until pawl_stop(); `engine` is a pawl *. Gives NULL if that was
 * answered PAWL_OK. */
void *stage_serve(void *engine);

/* Drive by hand until there is nothing to do now. */
void stage_poll(stage *s, pawl *p);

/* The same, again and again, moving the clock to where the engine wants to be called, until the
 * condition holds. Ends the test if it never does. */
#define STAGE_UNTIL(s, p, condition)                                                               \
    do {                                                                                           \
        int64_t stage_rounds_ = 0;                                                                 \
        for (stage_poll((s), (p)); !(condition); stage_poll((s), (p)))                             \
            stage_move((s), (p), ++stage_rounds_, #condition, __LINE__);                           \
    } while (0)
void stage_move(stage *s, pawl *p, int64_t rounds, const char *condition, int line);

/* Fail the test, or end the child, unless this is the code. */
#define STAGE_CODE(s, p, got, wanted) stage_code((s), (p), (got), (wanted), __LINE__)
void stage_code(stage *s, pawl *p, pawl_code got, pawl_code wanted, int line);

/* Where a run is; and when it is due, 0: it does not wait for a moment. */
pawl_phase stage_phase(stage *s, pawl *p, const char *id);
int64_t stage_wakes(stage *s, pawl *p, const char *id);

/* Drive by hand until the run has ended (or is held): done with this value; failed with this name,
 * and these words in the message; held with these words. */
#define STAGE_DONE(s, p, id, value) stage_done((s), (p), (id), (value), __LINE__)
#define STAGE_FAILED(s, p, id, name, words) stage_failed((s), (p), (id), (name), (words), __LINE__)
#define STAGE_HELD(s, p, id, words) stage_held((s), (p), (id), (words), __LINE__)
void stage_done(stage *s, pawl *p, const char *id, const char *value, int line);
void stage_failed(stage *s, pawl *p, const char *id, const char *name, const char *words, int line);
void stage_held(stage *s, pawl *p, const char *id, const char *words, int line);

/* Its journal in a line, without the start: "step:charge sleep woken". */
#define STAGE_HISTORY(s, p, id, line) stage_history((s), (p), (id), (line), __LINE__)
void stage_history(stage *s, pawl *p, const char *id, const char *wanted, int line);

/* ---- Time ---- */

int64_t stage_now(const stage *s);
void stage_advance(stage *s, int64_t ms);

/* From now on the clock also runs by itself, as fast as the system's: for several processes on one
 * database, which wait for each other's locks by the clock. */
void stage_go(stage *s);

/* Set the clock of the database: the wall clock jumps, the monotonic one does not. */
void stage_set_clock(stage *s, int64_t now_ms);

/* The value of each random byte that the engine gets; -1, as at first: the system's randomness. */
void stage_chance(stage *s, int byte);

/* ---- What was executed ---- */

/* 0: in this build fibers are never kept, and the code of workflows runs again at each turn. */
#ifdef PAWL_ALWAYS_REPLAY
#define STAGE_WARM 0
#else
#define STAGE_WARM 1
#endif

void stage_note(stage *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How many lines are this text; and all of them, with a blank between. */
int stage_count(stage *s, const char *text);
#define STAGE_NOTES(s, wanted) stage_notes((s), (wanted), __LINE__)
void stage_notes(stage *s, const char *wanted, int line);

/* The same, where what was done twice in a row counts once. */
#define STAGE_NOTES_ONCE(s, wanted) stage_notes_once((s), (wanted), __LINE__)
void stage_notes_once(stage *s, const char *wanted, int line);
void stage_forget(stage *s);

/* A work function that notes its name and gives back its input. */
const char *stage_echo(pawl_work *work, const char *input);

/* Numbers for whatever a test likes, shared by all of its processes. */
#define STAGE_NUMBERS 8
_Atomic int64_t *stage_number(stage *s, int which);

/* ---- Other processes ---- */

/* A child, to be forked before this process has the database open; it opens its own engine. */
typedef void stage_body(stage *s, void *arg);
tmp_child stage_fork(stage *s, stage_body *body, void *arg);

/* In the child: send the test a byte; send it and wait for the test's answer. */
void stage_tell(stage *s, char what);
void stage_meet(stage *s, char what);

/* In the child: drive by hand what there is to do now. 0: the test has said a byte. */
int stage_lap(stage *s, pawl *p);

/* End the test, or the child. */
_Noreturn void stage_fail(const stage *s, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define STAGE_CHECK(s, condition)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            stage_fail((s), __LINE__, "%s", #condition);                                           \
    } while (0)

#endif
