/* Notifications between processes, for a whole engine: one notifier (notifier.h) that is opened
 * when it is first needed.
 *
 * A notification saves waiting and nothing more. What must not be missed (a dead node, a due run)
 * is always found by polling once a second. */
#ifndef DB_NOTIFY_H
#define DB_NOTIFY_H

#include <pthread.h>

#include "base/loop_fds.h"
#include "db/notifier.h"

typedef struct notify {
    db *db;
    void (*on_heard)(void *arg); /* NULL: nothing is listened for, and nothing is opened */
    void (*on_lock)(void *arg, int64_t server);
    void *arg;
    loop_fds *loop;       /* of an engine without threads, which is driven by its caller; or NULL */
    loop_hint changes;    /* the descriptor of pawl_changes_fd() */
    pthread_mutex_t lock; /* guards all below; never taken inside the lock of the scheduler */
    notifier *notifier;   /* NULL: none was needed so far, or it could not be opened */
    int64_t node;         /* the node as which the notifier listens; 0: as an engine that is no
                             node */
    int is_told;          /* the log says that there is no notifier */
} notify;

void notify_init(notify *n, db *d);
void notify_free(notify *n);

/* Listen from the first notify_open() on, before which this is to be called. on_heard is called for
 * each notification of another process: by a thread of the notifier or, if a loop is given, in
 * notify_poll(), for which the loop's descriptor becomes readable. on_lock is that of
 * notifier_options, and must not call notify. */
void notify_listen(notify *n, loop_fds *loop, void (*on_heard)(void *arg),
                   void (*on_lock)(void *arg, int64_t server), void *arg);

/* Opens the notifier: from now on it listens as this node; 0: as an engine that is no node. */
void notify_open(notify *n, int64_t node);
void notify_close(notify *n);

/* 1: the session in which this node hears others is open, as far as this process can know. Never
 * blocks: while the notifier is being opened the answer is 0. */
int notify_has_session(notify *n);

/* Notify all processes: a run has no owner, or a run has ended for which another process waits. */
void notify_tell(notify *n);

/* ---- With a loop; otherwise these do nothing ---- */

/* By the thread that drives: hear other processes and send what is due; and when that should be
 * done next, as clock_source.mono_ns (INT64_MAX: not before the descriptor is readable). */
void notify_poll(notify *n);
int64_t notify_next_ns(notify *n);

/* The engine is not driven any more: send what is pending. */
void notify_flush(notify *n);

#endif
