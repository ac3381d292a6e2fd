/* What the rest of the engine may ask of its handle. The handle itself is known to engine.c only,
 * so that there is one place where it is made, checked and taken apart. */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "base/error.h"
#include "core/readers.h"

/* The beginning and the end of every public function on a handle:
 *
 *     error err = {0};
 *     pawl_code rc = engine_enter(p, &err);
 *     if (rc == PAWL_OK)
 *         rc = what it does, with &err
 *     return engine_leave(p, rc, &err);
 *
 * Enter: PAWL_INVALID without a handle, FORKED in a child of fork(), MISUSE if its open has failed.
 * Leave: keeps the error for the calling thread, unless there is none; gives rc. */
pawl_code engine_enter(pawl *p, error *err);
pawl_code engine_leave(pawl *p, pawl_code rc, const error *err);

/* Of a handle that was entered. The name space is good as long as the handle. */
db *engine_db(pawl *p);
readers *engine_readers(pawl *p);
slice engine_tenant(pawl *p);

/* The node that this engine is; 0: it is none. */
int64_t engine_node(pawl *p);

/* What drives its runs, and what is registered. */
struct drive *engine_drive(pawl *p);
struct registry *engine_registry(pawl *p);

/* Who this is, for people; "" if nobody has said. */
const char *engine_name(pawl *p);

/* The database's time. */
pawl_code engine_time(pawl *p, int64_t *now_ms, error *err);

/* There is a run that nobody drives: whoever keeps this node should look. */
void engine_wake(pawl *p);

/* May pawl_stop() be heard? Async-signal-safe. */
int engine_may_stop(pawl *p);

/* The answer of the public function `what` that is declared but not built: PAWL_UNSUPPORTED, with
 * a message for the calling thread; PAWL_INVALID without a handle. */
pawl_code engine_unsupported(pawl *p, const char *what);

#endif
