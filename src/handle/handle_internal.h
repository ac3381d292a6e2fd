/* The struct behind a `pawl *`, for the two files that know it: handle.c, and api/engine.c, which
 * fills it in and takes it apart. All others use the functions of handle.h. */
#ifndef HANDLE_HANDLE_INTERNAL_H
#define HANDLE_HANDLE_INTERNAL_H

#include <sys/types.h>

#include "base/arena.h"
#include "db/db_clock.h"
#include "handle/handle.h"
#include "handle/hooks.h"

struct pawl {
    pid_t pid; /* of the process that opened the handle */
    error_store *errors;
    arena *memory; /* the texts below */
    hooks hooks;
    const char *tenant;
    const char *name;
    const char *build;
    db *db;
    db_clock clock;
    notify notify;
    watches watches;
    _Atomic int64_t feed_until_ms; /* of the change feed: see handle_feed_until() */
    committers *committers;
    read_pool *read_pool; /* NULL: the open has failed, and handle_enter() refuses all calls */
    struct registry *registry;
    struct sched *sched;
    const handle_upcalls *upcalls; /* how the handle calls `sched` */
};

/* Returns 1 in a child of fork(). The child has the handle's memory but neither its threads nor its
 * locks. Whatever the child did with the handle, freeing it included, would harm the parent. */
int handle_is_forked(const pawl *p);

/* Refuses a call that comes from the function of a pawl_transact(): sets the error, and returns
 * PAWL_MISUSE. */
pawl_code handle_refuse_guest(error *err);

#endif
