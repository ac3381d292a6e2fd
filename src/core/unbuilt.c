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

ENGINE(pawl_register_workflow, pawl *p, const char *name, pawl_workflow_fn *fn,
       const pawl_workflow_options *options)
ENGINE(pawl_register_work, pawl *p, const char *name, pawl_work_fn *fn,
       const pawl_work_options *options)

/* ---- Driving ---- */

ENGINE(pawl_serve, pawl *p)
NOTHING(pawl_stop, pawl *p)
ENGINE_OUT(did, pawl_poll, pawl *p, int64_t *did)

int pawl_fd(pawl *p)
{
    engine_unsupported(p, "pawl_fd");
    return -1;
}

int pawl_timeout(pawl *p)
{
    engine_unsupported(p, "pawl_timeout");
    return -1; /* nothing is ever due; a loop that heard 0 would spin */
}

ENGINE_OUT(out, pawl_finish, pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out)

/* ---- Clients ---- */

ENGINE_OUT(created_in(options), pawl_start, pawl *p, const char *workflow, const char *id,
           const char *input, const pawl_start_options *options)
ENGINE_OUT(seq_in(options), pawl_send, pawl *p, const char *id, const char *mailbox,
           const char *message, const pawl_send_options *options)
ENGINE_OUT(out, pawl_wait, pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out)
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

/* ---- Outcomes: how a run or call has ended ---- */

ANSWER(const char *, "null", pawl_outcome_value, const pawl_outcome *o)
CODE(o, pawl_outcome_code, const pawl_outcome *o)
ANSWER(const char *, "", pawl_outcome_name, const pawl_outcome *o)
ANSWER(const char *, "", pawl_outcome_message, const pawl_outcome *o)
ANSWER(const char *, "", pawl_outcome_where, const pawl_outcome *o)
NOTHING(pawl_outcome_free, pawl_outcome *o)

/* ---- Work ---- */

ANSWER(const char *, NULL, pawl_step, pawl_run *run, const char *name, pawl_work_fn *fn,
       const char *input, const pawl_call_options *options)
ANSWER(const char *, NULL, pawl_call, pawl_run *run, const char *work, const char *input,
       const pawl_call_options *options)
ANSWER(const char *, NULL, pawl_transact, pawl_run *run, const char *name, pawl_transact_fn *fn,
       const char *input, const pawl_call_options *options)

/* ---- Waiting ---- */

CODE(run, pawl_sleep, pawl_run *run, int64_t ms)
CODE(run, pawl_sleep_until, pawl_run *run, int64_t at_ms)
CODE_OUT(message, run, pawl_receive, pawl_run *run, const char *mailbox, int64_t timeout_ms,
         const char **message)
ANSWER(const char *, NULL, pawl_until, pawl_run *run, const char *name, pawl_work_fn *fn,
       const char *input, int64_t every_ms, int64_t timeout_ms)
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
CODE(run, pawl_defer, pawl_run *run, void (*fn)(void *arg), void *arg)
ANSWER(const char *, NULL, pawl_fail, pawl_run *run, const char *name, const char *format, ...)
ANSWER(const char *, NULL, pawl_again, pawl_run *run, const char *input, const char *version)
ANSWER(int, 0, pawl_should_continue, pawl_run *run)

/* ---- What is recorded at once ---- */

ANSWER(int64_t, 0, pawl_now, pawl_run *run)
ANSWER(const char *, NULL, pawl_uuid, pawl_run *run)
ANSWER(uint64_t, 0, pawl_random, pawl_run *run)
ANSWER(int, 0, pawl_patch, pawl_run *run, const char *name)
CODE(run, pawl_set_status, pawl_run *run, const char *status)
CODE(run, pawl_attr, pawl_run *run, const char *name, const char *value)
CODE(run, pawl_state_set, pawl_run *run, const char *key, const char *value)
ANSWER(const char *, "null", pawl_state_get, pawl_run *run, const char *key)
ANSWER(const char *, NULL, pawl_state_of, pawl_run *run, const char *id, const char *key)
CODE(run, pawl_log, pawl_run *run, int level, const char *format, ...)

/* ---- About the run ---- */

CODE(run, pawl_run_error, pawl_run *run)
ANSWER(const char *, "", pawl_run_id, pawl_run *run)
ANSWER(const char *, "", pawl_run_workflow, pawl_run *run)
ANSWER(const char *, "", pawl_run_version, pawl_run *run)
ANSWER(int64_t, 0, pawl_run_generation, pawl_run *run)
ANSWER(void *, NULL, pawl_arg, pawl_run *run)

/* ---- Memory and values of a run ---- */

ANSWER(void *, NULL, pawl_alloc, pawl_run *run, size_t size)
CODE(run, pawl_drop, pawl_run *run, const void *value)
ANSWER(const char *, NULL, pawl_json, pawl_run *run, const char *format, ...)
ANSWER(const char *, NULL, pawl_part, pawl_run *run, const char *json, const char *pointer)
ANSWER(const char *, fallback, pawl_text, pawl_run *run, const char *json, const char *pointer,
       const char *fallback)

/* ---- Work functions ---- */

ANSWER(const char *, NULL, pawl_work_key, pawl_work *work)
ANSWER(const char *, NULL, pawl_work_fail, pawl_work *work, int kind, const char *name,
       const char *format, ...)
ANSWER(const char *, NULL, pawl_work_retry, pawl_work *work, int64_t ms, const char *format, ...)
ANSWER(const char *, NULL, pawl_work_ticket, pawl_work *work)
ANSWER(const char *, NULL, pawl_work_pending, pawl_work *work)
ANSWER(int, 0, pawl_work_cancelled, pawl_work *work)
CODE(work, pawl_work_note, pawl_work *work, const char *progress)
ANSWER(const char *, NULL, pawl_work_progress, pawl_work *work)
ANSWER(int64_t, 0, pawl_work_fence, pawl_work *work)
ANSWER(int64_t, 0, pawl_work_attempt, pawl_work *work)
ANSWER(const char *, "", pawl_work_name, pawl_work *work)
ANSWER(const char *, "", pawl_work_run_id, pawl_work *work)
ANSWER(void *, NULL, pawl_work_arg, pawl_work *work)
CODE(work, pawl_work_log, pawl_work *work, int level, const char *format, ...)
ANSWER(void *, NULL, pawl_work_alloc, pawl_work *work, size_t size)
ANSWER(const char *, NULL, pawl_work_json, pawl_work *work, const char *format, ...)
ANSWER(const char *, NULL, pawl_work_part, pawl_work *work, const char *json, const char *pointer)
ANSWER(const char *, fallback, pawl_work_text, pawl_work *work, const char *json,
       const char *pointer, const char *fallback)

/* ---- Looking at runs and managing them ---- */

ENGINE_OUT(out, pawl_status, pawl *p, const char *id, pawl_info **out)
ENGINE_OUT(out, pawl_wait_status, pawl *p, const char *id, int64_t seen, int64_t timeout_ms,
           pawl_info **out)
ANSWER(const char *, "", pawl_info_id, const pawl_info *i)
ANSWER(const char *, "", pawl_info_workflow, const pawl_info *i)
ANSWER(const char *, "", pawl_info_version, const pawl_info *i)
ANSWER(const char *, "?", pawl_phase_name, pawl_phase phase)
ANSWER(pawl_phase, 0, pawl_info_phase, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_generation, const pawl_info *i)
ANSWER(const char *, "null", pawl_info_status, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_status_seq, const pawl_info *i)
ANSWER(const char *, "", pawl_info_held, const pawl_info *i)
ANSWER(const char *, "", pawl_info_parent, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_depth, const pawl_info *i)
ANSWER(const char *, "", pawl_info_by, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_created_ms, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_updated_ms, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_finished_ms, const pawl_info *i)
ANSWER(int64_t, 0, pawl_info_wake_ms, const pawl_info *i)
NOTHING(pawl_info_free, pawl_info *i)
ENGINE(pawl_list, pawl *p, const pawl_filter *filter, pawl_info_fn *fn, void *arg)
ENGINE(pawl_tree, pawl *p, const char *id, pawl_info_fn *fn, void *arg)
ENGINE(pawl_history, pawl *p, const char *id, int64_t generation, int64_t after_seq,
       pawl_event_fn *fn, void *arg)
ANSWER(int64_t, 0, pawl_event_seq, const pawl_event *e)
ANSWER(int64_t, 0, pawl_event_generation, const pawl_event *e)
ANSWER(const char *, "", pawl_event_kind, const pawl_event *e)
ANSWER(const char *, "", pawl_event_name, const pawl_event *e)
ANSWER(int64_t, 0, pawl_event_at_ms, const pawl_event *e)
ANSWER(const char *, "null", pawl_event_data, const pawl_event *e)
ENGINE_OUT(out, pawl_why, pawl *p, const char *id, char **out)
ENGINE(pawl_hold, pawl *p, const char *id, const char *reason)
ENGINE(pawl_release, pawl *p, const char *id)
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

ENGINE(pawl_nodes, pawl *p, pawl_node_fn *fn, void *arg)
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
