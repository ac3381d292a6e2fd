/* The descriptors by which an engine calls its own threads and the event loop of its caller.
 *
 * A self-pipe carries every call from inside the process; a signal handler may write to it. An
 * engine without threads hears other processes on the notifier's descriptor, which changes when the
 * engine becomes a node. So the loop is given an epoll set that contains both, and that stays the
 * same until the engine is closed. An engine with threads has a thread that listens and writes to
 * the pipe. */
#ifndef BASE_LOOP_FDS_H
#define BASE_LOOP_FDS_H

#include <stdatomic.h>

#include "base/error.h"

typedef struct loop_fds {
    int pipe[2]; /* a byte that is written into it calls the driver */
    int set;     /* epoll: the pipe and what was added; -1: there is only the pipe */
} loop_fds;

/* `has_set`: descriptors can be added. To be closed also if it fails. */
pawl_code loop_fds_open(loop_fds *f, int has_set, error *err);
void loop_fds_close(loop_fds *f);

/* Readable when the driver is called: for pawl_fd(). */
int loop_fds_called(const loop_fds *f);

/* loop_fds_add() puts a descriptor into the set, loop_fds_remove() takes it out. 0: the system has
 * no room for it. */
int loop_fds_add(loop_fds *f, int fd);
void loop_fds_remove(loop_fds *f, int fd);

/* A descriptor that says that there may be something new, made when it is first asked for, and
 * readable then. Any thread may call these; raising and emptying do nothing before it is there. */
typedef struct loop_hint {
    atomic_int fd; /* eventfd; -1: not asked for so far */
} loop_hint;

void loop_hint_init(loop_hint *h);
void loop_hint_close(loop_hint *h);
int loop_hint_fd(loop_hint *h, error *err); /* -1: the process has no descriptor left */
void loop_hint_raise(loop_hint *h);
void loop_hint_empty(loop_hint *h);

#endif
