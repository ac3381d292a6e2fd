/* Stubs of the functions that pawl.h declares and that are not built yet. A program that uses them
 * compiles and links today, and learns at run time what is missing: codes are PAWL_UNSUPPORTED
 * (PAWL_INVALID without a handle, run or work), results are NULL or 0.
 *
 * They stand in the order of the header. A function that gets built leaves this file and
 * test/header/test_unbuilt.c; the goal is an empty file. */
#include <pawl.h>

#include "handle/handle.h"

/* No function here uses its parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CLEAR(out)                                                                                 \
    if (out)                                                                                       \
    *(out) = 0

/* A function on the engine. ENGINE_OUT makes one with a result, which is set to NULL or 0. */
#define ENGINE(name, ...)                                                                          \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        return handle_unsupported(p, #name);                                                       \
    }
#define ENGINE_OUT(out, name, ...)                                                                 \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        CLEAR(out);                                                                                \
        return handle_unsupported(p, #name);                                                       \
    }

/* A function on a run or work, which has no place for an error message. */
#define CODE(subject, name, ...)                                                                   \
    pawl_code name(__VA_ARGS__)                                                                    \
    {                                                                                              \
        return subject ? PAWL_UNSUPPORTED : PAWL_INVALID;                                          \
    }
/* A function that always gives the same value. */
#define ANSWER(type, value, name, ...)                                                             \
    type name(__VA_ARGS__)                                                                         \
    {                                                                                              \
        return value;                                                                              \
    }

/* ---- Clients ---- */

ENGINE(pawl_complete, pawl *p, const char *ticket, const char *result, const char *key)
ENGINE(pawl_complete_failed, pawl *p, const char *ticket, const char *name, const char *message,
       const char *key)

/* ---- Work functions ---- */

ANSWER(const char *, NULL, pawl_work_ticket, pawl_work *work)
ANSWER(const char *, NULL, pawl_work_pending, pawl_work *work)
CODE(work, pawl_work_note, pawl_work *work, const char *progress)
ANSWER(const char *, NULL, pawl_work_progress, pawl_work *work)

/* ---- Looking at runs and managing them ---- */

ENGINE_OUT(deleted, pawl_prune, pawl *p, const pawl_filter *filter, int64_t keep_generations,
           int64_t *deleted)

/* ---- Queues ---- */

ENGINE(pawl_queue_set, pawl *p, const char *queue, const pawl_queue_options *options)

pawl_code pawl_queue_depth(pawl *p, const char *queue, int64_t *waiting, int64_t *running)
{
    CLEAR(waiting);
    CLEAR(running);
    return handle_unsupported(p, "pawl_queue_depth");
}

/* ---- Nodes and metrics ---- */

ENGINE(pawl_metrics, pawl *p, pawl_metric_fn *fn, void *arg)
