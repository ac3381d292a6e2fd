/* What pawl.h declares and nobody has built yet. Each function answers in its own way, so that a
 * program compiles and links today and hears at run time what is missing: codes are
 * PAWL_UNSUPPORTED (PAWL_INVALID without a handle, run or work), results are NULL or neutral.
 *
 * In the order of the header. What gets built leaves this file, and test/header/test_unbuilt.c with
 * it; the goal is an empty file. */
#include <pawl.h>
#include <pawl_test.h>

#include "core/engine.h"

/* To leave its parameters alone is what a function here does. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CLEAR(out)                                                                                 \
    if (out)                                                                                       \
    *(out) = 0

/* A call on the engine. _OUT: with a result, which is NULL or 0 after a failure. */
#define ENGINE(name, ...)                                                                          \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        return engine_unsupported(p, #name);                                                       \
    }
#define ENGINE_OUT(out, name, ...)                                                                 \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        CLEAR(out);                                                                                \
        return engine_unsupported(p, #name);                                                       \
    }

/* A call on a run, a work or the like, which has nowhere to leave a message. */
#define CODE(subject, name, ...)                                                                   \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        return subject ? PAWL_UNSUPPORTED : PAWL_INVALID;                                          \
    }
#define CODE_OUT(out, subject, name, ...)                                                          \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        CLEAR(out);                                                                                \
        return subject ? PAWL_UNSUPPORTED : PAWL_INVALID;                                          \
    }

/* A question that has one answer for everybody. */
#define ANSWER(type, value, name, ...)                                                             \
    type name(__VA_ARGS__)                                                                         \
    {                                                                                              \
        return value;                                                                              \
    }
#define NOTHING(name, ...)                                                                         \
    void name(__VA_ARGS__) {}

/* The results that options ask for, where the caller's struct has the member. */
static int64_t *created_in(const pawl_start_options *o)
{
    return o && o->size >= offsetof(pawl_start_options, created) + sizeof o->created ? o->created
                                                                                     : NULL;
}

static int64_t *seq_in(const pawl_send_options *o)
{
    return o && o->size >= offsetof(pawl_send_options, seq) + sizeof o->seq ? o->seq : NULL;
}

/* ---- Registering ---- */

/* ---- Driving ---- */

/* ---- Clients ---- */

ENGINE_OUT(seq_in(options), pawl_send, pawl *p, const char *id, const char *mailbox,
           const char *message, const pawl_send_options *options)
ENGINE(pawl_cancel, pawl *p, const char *id, const char *reason)
ENGINE_OUT(created_in(options), pawl_start_in, pawl *p, void *native, const char *workflow,
           const char *id, const char *input, const pawl_start_options *options)
ENGINE_OUT(seq_in(options), pawl_send_in, pawl *p, void *native, const char *id,
           const char *mailbox, const char *message, const pawl_send_options *options)
ENGINE(pawl_kick, pawl *p)
ENGINE(pawl_complete, pawl *p, const char *ticket, const char *result, const char *key)
ENGINE(pawl_complete_failed, pawl *p, const char *ticket, const char *name, const char *message,
       const char *key)
ENGINE_OUT(out, pawl_read_state, pawl *p, const char *id, const char *key, char **out)

/* ---- Work ---- */

ANSWER(const char *, NULL, pawl_transact, pawl_run *run, const char *name, pawl_transact_fn *fn,
       const char *input, const pawl_call_options *options)

/* ---- Waiting ---- */

CODE_OUT(message, run, pawl_receive, pawl_run *run, const char *mailbox, int64_t timeout_ms,
         const char **message)
CODE(run, pawl_tell, pawl_run *run, const char *id, const char *mailbox, const char *message)
ANSWER(const char *, "", pawl_sender, pawl_run *run)

/* ---- Children ---- */

ANSWER(const char *, NULL, pawl_child, pawl_run *run, const char *workflow, const char *input,
       const pawl_child_options *options)

/* ---- Futures: several things at once ---- */

ANSWER(pawl_future *, NULL, pawl_step_later, pawl_run *run, const char *name, pawl_work_fn *fn,
       const char *input, const pawl_call_options *options)
ANSWER(pawl_future *, NULL, pawl_call_later, pawl_run *run, const char *work, const char *input,
       const pawl_call_options *options)
ANSWER(pawl_future *, NULL, pawl_sleep_later, pawl_run *run, int64_t ms)
ANSWER(pawl_future *, NULL, pawl_sleep_until_later, pawl_run *run, int64_t at_ms)
ANSWER(pawl_future *, NULL, pawl_until_later, pawl_run *run, const char *name, pawl_work_fn *fn,
       const char *input, int64_t every_ms, int64_t timeout_ms)
ANSWER(pawl_future *, NULL, pawl_receive_later, pawl_run *run, const char *mailbox,
       int64_t timeout_ms)
ANSWER(pawl_future *, NULL, pawl_child_later, pawl_run *run, const char *workflow,
       const char *input, const pawl_child_options *options)
ANSWER(pawl_future *, NULL, pawl_all_later, pawl_run *run, pawl_future *const *futures,
       size_t count)
ANSWER(pawl_future *, NULL, pawl_any_later, pawl_run *run, pawl_future *const *futures,
       size_t count)
ANSWER(const char *, NULL, pawl_await, pawl_run *run, pawl_future *future)
CODE(run, pawl_all, pawl_run *run, pawl_future *const *futures, size_t count)
ANSWER(int64_t, -1, pawl_any, pawl_run *run, pawl_future *const *futures, size_t count,
       int64_t flags)
ANSWER(const pawl_outcome *, NULL, pawl_try, pawl_run *run, pawl_future *future)
CODE(run, pawl_abandon, pawl_run *run, pawl_future *future)
ANSWER(const char *, NULL, pawl_value, pawl_future *future)

/* ---- Undo, finally, defer ---- */

CODE(run, pawl_undo, pawl_run *run, const char *work, const char *input)
CODE(run, pawl_finally, pawl_run *run, const char *work, const char *input)
ANSWER(const char *, NULL, pawl_again, pawl_run *run, const char *input, const char *version)

/* ---- What is recorded at once ---- */

CODE(run, pawl_state_set, pawl_run *run, const char *key, const char *value)
ANSWER(const char *, "null", pawl_state_get, pawl_run *run, const char *key)
ANSWER(const char *, NULL, pawl_state_of, pawl_run *run, const char *id, const char *key)

/* ---- About the run ---- */

/* ---- Memory and values of a run ---- */

/* ---- Work functions ---- */

ANSWER(const char *, NULL, pawl_work_ticket, pawl_work *work)
ANSWER(const char *, NULL, pawl_work_pending, pawl_work *work)
CODE(work, pawl_work_note, pawl_work *work, const char *progress)
ANSWER(const char *, NULL, pawl_work_progress, pawl_work *work)

/* ---- Looking at runs and managing them ---- */

ENGINE(pawl_redrive, pawl *p, const char *id, const pawl_redrive_options *options)
ENGINE(pawl_delete, pawl *p, const char *id, int force)
ENGINE_OUT(deleted, pawl_prune, pawl *p, const pawl_filter *filter, int64_t keep_generations,
           int64_t *deleted)
ENGINE(pawl_changes, pawl *p, int64_t *position, int64_t timeout_ms, pawl_info_fn *fn, void *arg)

/* ---- Queues ---- */

ENGINE(pawl_queue_set, pawl *p, const char *queue, const pawl_queue_options *options)

pawl_code pawl_queue_depth(pawl *p, const char *queue, int64_t *waiting, int64_t *running)
{
    CLEAR(waiting);
    CLEAR(running);
    return engine_unsupported(p, "pawl_queue_depth");
}

/* ---- Nodes and metrics ---- */

ENGINE(pawl_metrics, pawl *p, pawl_metric_fn *fn, void *arg)

/* ---- pawl_test.h ---- */

pawl_code pawl_test_open(pawl **out, pawl_test **test)
{
    CLEAR(test);
    pawl_code rc = pawl_open(out, "memory:", NULL);
    return rc == PAWL_OK ? engine_unsupported(*out, "pawl_test_open") : rc;
}

NOTHING(pawl_test_close, pawl_test *test)
CODE(test, pawl_test_advance, pawl_test *test, int64_t ms)
ANSWER(int64_t, 0, pawl_test_now, pawl_test *test)
ENGINE_OUT(out, pawl_test_finish, pawl *p, const char *id, pawl_outcome **out)
CODE(test, pawl_test_crash_at, pawl_test *test, int64_t n)
ANSWER(int64_t, 0, pawl_test_writes, pawl_test *test)
CODE(test, pawl_test_always_replay, pawl_test *test, int on)
