/* The handle: what every feature of the engine may know of the `pawl *` that it was called with.
 * The struct itself is in handle_internal.h; api/engine.c makes it and takes it apart. */
#ifndef HANDLE_HANDLE_H
#define HANDLE_HANDLE_H

#include "base/error.h"
#include "db/committers.h"
#include "db/notify.h"
#include "handle/read_pool.h"
#include "handle/watches.h"

/* The beginning and the end of every public function on a handle:
 *
 *     error err = {0};
 *     pawl_code rc = handle_enter(p, &err);
 *     if (rc == PAWL_OK)
 *         rc = what it does, with &err
 *     return handle_leave(p, rc, &err);
 *
 * Enter: PAWL_INVALID without a handle, FORKED in a child of fork(), MISUSE if its open has failed.
 * Leave: keeps the error for the calling thread, unless there is none; gives rc. */
pawl_code handle_enter(pawl *p, error *err);

/* As handle_enter(), for a function that writes or drives: PAWL_READONLY on a handle that only
 * reads. */
pawl_code handle_enter_to_write(pawl *p, error *err);
pawl_code handle_leave(pawl *p, pawl_code rc, const error *err);

/* ---- The function of a pawl_transact() ---- */

/* The calling thread enters the function of a pawl_transact(), and leaves it. *misuses becomes 1 if
 * the function calls pawl in between. handle_is_guest(), which every public function on a handle
 * asks, gives 1 if the calling thread is in such a function; the step then fails. */
void handle_begin_guest(int *misuses);
void handle_end_guest(void);
int handle_is_guest(void);

/* ---- Parts of a handle that was entered. The tenant is good as long as the handle ---- */

db *handle_db(pawl *p);
committers *handle_committers(pawl *p);
notify *handle_notify(pawl *p);
watches *handle_watches(pawl *p);
read_pool *handle_read_pool(pawl *p);
slice handle_tenant(pawl *p);

/* The node that this engine is; 0: it is none. */
int64_t handle_node(pawl *p);

/* The scheduler, and what is registered. */
struct sched *handle_sched(pawl *p);
struct registry *handle_registry(pawl *p);

/* The name of this engine, for people; "" if the program gave none. */
const char *handle_name(pawl *p);

/* Until when the change feed is asked for, by this process or as its node loop has last read it, in
 * the database's time. 0: it is not. */
_Atomic int64_t *handle_feed_until(pawl *p);

/* The database's time. */
pawl_code handle_time(pawl *p, int64_t *now_ms, error *err);

/* The latest that the database's time may be, rounded up: where a duration begins that another
 * process may end. */
pawl_code handle_up_time(pawl *p, int64_t *up_ms, error *err);

/* There is a run that no node drives: the node loop of this engine should look. */
void handle_wake(pawl *p);

/* Has the run trouble in this process: a result that the storage refuses, a claim or a read that
 * fails? Then `out` says so in words: 1. */
int handle_unrecorded(pawl *p, int64_t run, char *out, size_t size);

/* How the handle reaches its scheduler, which stands above it; set by api/engine.c. */
typedef struct handle_upcalls {
    int64_t (*node)(struct sched *s);
    void (*wake)(struct sched *s);
    int (*unrecorded)(struct sched *s, int64_t run, char *out, size_t size);
} handle_upcalls;

/* May pawl_stop() be heard? Async-signal-safe. */
int handle_may_stop(pawl *p);

/* The answer of the public function `what` that is declared but not built: PAWL_UNSUPPORTED, with
 * a message for the calling thread; PAWL_INVALID without a handle. */
pawl_code handle_unsupported(pawl *p, const char *what);

#endif
