/* Fibers, or stackful coroutines: workflow code on a small stack of its own.
 *
 * A workflow is an ordinary function that waits in the middle for days. On a stack of its own it
 * can be suspended where it waits (it parks) and resumed, or be dropped: then the run is replayed.
 * A switch costs nanoseconds, a parked fiber a little more than a page of memory.
 *
 * Everything that is not workflow code (work functions, callbacks, reading JSON) is called outside,
 * on the stack of the thread: code of the application may need more room than there is here.
 *
 * A fiber belongs to the thread that made it, for compilers keep the address of errno and of
 * thread-locals over a call, and a park looks like a call to them. Only dropping may be done by any
 * thread. errno is the thread's as everywhere in C: it is not saved by a switch, and a value that a
 * function called outside left in it stays. The floating point modes (rounding, masks) are the
 * fiber's own, at first those of the thread that made it.
 *
 * There are no signal handlers. A stack that overflows meets its guard: SIGSEGV, the process dies.
 * A frame that is larger than the guard can step over it, unless its function was compiled with
 * -fstack-clash-protection. */
#ifndef FIBER_FIBER_H
#define FIBER_FIBER_H

#include <stddef.h>

#include "base/error.h"

typedef struct fiber fiber;
typedef struct fiber_pool fiber_pool;

/* Stacks that are used again. Any number of threads may share a pool. At most `max` fibers, and at
 * most a quarter of the maps that the system lets a process have, since a stack takes two; 0: only
 * the latter. PAWL_UNSUPPORTED: the system keeps a second stack that a switch would not follow. */
pawl_code fiber_pool_new(fiber_pool **out, size_t max, error *err);

/* All its fibers must have been freed. NULL is allowed. */
void fiber_pool_free(fiber_pool *p);

/* How many fibers there may be, and how many there are. */
size_t fiber_pool_max(const fiber_pool *p);
size_t fiber_pool_live(fiber_pool *p);

/* A fiber that will run fn(itself, arg); nothing runs yet. NULL: there are as many as there may be,
 * or the system has no memory. Dropping another one helps. */
fiber *fiber_new(fiber_pool *p, void (*fn)(fiber *f, void *arg), void *arg);

/* Run it on the calling thread, which made it, until it parks, pauses or has ended. */
void fiber_resume(fiber *f);

/* Can it be resumed here? Only the thread that made it can. */
int fiber_is_here(const fiber *f);

/* Free a fiber that is not running, wherever it stands, on any thread. Nothing is unwound: what
 * its function has not freed is lost, hence pawl_defer(). NULL is allowed. */
void fiber_free(fiber *f);

/* ---- On the fiber's stack ---- */

/* Return to the caller of fiber_resume(); comes back when the fiber is resumed again. Unused stack
 * below is given back to the system, which costs a system call. */
void fiber_park(fiber *f);

/* As fiber_park(), for a short wait such as for a commit: the unused stack is kept, so that it
 * costs the switch only. */
void fiber_pause(fiber *f);

/* Call fn(arg) on the stack of the thread and return its result. It may resume other fibers, but
 * not park or free this one. Where the caller is outside already, it is an ordinary call. */
void *fiber_call_outside(fiber *f, void *(*fn)(void *arg), void *arg);

/* Is the caller on this fiber's stack? */
int fiber_is_inside(const fiber *f);

/* ---- For tests ---- */

/* Has its function returned? */
int fiber_done(const fiber *f);

#endif
