/* The handle: what every feature of the engine may know of the `pawl *` that it was called with.
 * The struct itself is in handle_internal.h; api/engine.c makes and frees it. */
#ifndef HANDLE_HANDLE_H
#define HANDLE_HANDLE_H

#include "base/error.h"
#include "db/committers.h"
#include "db/notify.h"
#include "handle/read_pool.h"
#include "handle/watches.h"

/* Enter and leave a public function on a handle:
 *
 *     error err = {0};
 *     pawl_code rc = handle_enter(p, &err);
 *     if (rc == PAWL_OK)
 *         rc = the work of the function, with &err
 *     return handle_leave(p, rc, &err);
 *
 * handle_enter() returns PAWL_INVALID without a handle, FORKED in a child of fork(), MISUSE if the
 * open of the handle has failed, or in the function of a pawl_transact(). handle_leave() returns
 * rc, and unless that is PAWL_OK keeps the error for the calling thread. */
pawl_code handle_enter(pawl *p, error *err);

/* As handle_enter(), for a function that writes or drives runs: PAWL_READONLY on a handle that only
 * reads. */
pawl_code handle_enter_to_write(pawl *p, error *err);
pawl_code handle_leave(pawl *p, pawl_code rc, const error *err);

/* ---- The function of a pawl_transact() ---- */

/* handle_begin_guest() says that the calling thread enters the function of a pawl_transact(),
 * handle_end_guest() that it has left it. Between the two, handle_is_guest() returns 1, and sets
 * *misuses to 1, so that the step fails. handle_enter() asks it, and so do the functions that open
 * and close a handle. */
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

/* Returns the id of the node that this engine is; 0: it is no node. */
int64_t handle_node(pawl *p);

/* Return the scheduler, and the registry of workflows and work functions. */
struct sched *handle_sched(pawl *p);
struct registry *handle_registry(pawl *p);

/* Returns the name of this engine, for people; "" if the program gave none. */
const char *handle_name(pawl *p);

/* Returns where the handle keeps the time (the database's) until which readers have requested the
 * change feed: as this process has requested it, or as its node loop has read it. 0: no reader
 * wants it. */
_Atomic int64_t *handle_feed_until(pawl *p);

/* Gives the database's time. It is measured first if this engine has never done so. */
pawl_code handle_time(pawl *p, int64_t *now_ms, error *err);

/* Gives the latest that the database's time can be, rounded up. A duration begins at this time if
 * another process decides when it is over: so it is never cut short. */
pawl_code handle_up_time(pawl *p, int64_t *up_ms, error *err);

/* Has the node loop of this engine look for runs at once, because there is a run that no node
 * drives. */
void handle_wake(pawl *p);

/* Tells whether the run is stuck in this process: the storage refuses a result, or a claim, a read
 * or a look for what is due fails. `owner`: the owner of the run, if it is live; -1: it is not.
 * Returns 1 and the reason in `out`, in words; otherwise 0. */
int handle_unrecorded(pawl *p, int64_t run, int64_t owner, char *out, size_t size);

/* How the handle calls its scheduler, which is in a higher folder; set by api/engine.c. */
typedef struct handle_upcalls {
    int64_t (*node)(struct sched *s);
    void (*wake)(struct sched *s);
    int (*unrecorded)(struct sched *s, int64_t run, int64_t owner, char *out, size_t size);
} handle_upcalls;

/* Returns 1 if pawl_stop() can stop this engine: its open has come as far as a scheduler, and the
 * process is no child of fork(). Async-signal-safe. */
int handle_may_stop(pawl *p);

/* Refuses a call of the public function `what`, which the header declares and this library does not
 * have. Returns PAWL_UNSUPPORTED, with a message for the calling thread; PAWL_INVALID without a
 * handle, PAWL_FORKED in a child of fork(). */
pawl_code handle_unsupported(pawl *p, const char *what);

#endif
