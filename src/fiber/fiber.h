/* Fibers, or stackful coroutines: workflow code on a small stack of its own.
 *
 * A workflow is an ordinary function that waits in the middle for days. On a stack of its own it
 * can be suspended where it waits (it parks) and resumed, or be dropped: then the run is replayed.
 * A switch costs nanoseconds, a parked fiber a little more than a page of memory.
 *
 * Work functions and callbacks of the application are called by the thread while the fiber is
 * parked, on the stack of the thread: they may need more room than a fiber has.
 *
 * A fiber belongs to the thread that made it, because compilers keep the address of errno and of
 * thread-locals over a call, and a park looks like a call to them. Only fiber_free() may be called
 * by any thread. errno is the thread's as everywhere in C: a switch does not save it. The floating
 * point modes (rounding, masks) are the fiber's own, at first those of the thread that made it.
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

/* Makes a pool of stacks that fibers use one after the other. Any number of threads may share it.
 * It has at most `max` fibers (0: no such limit), and at most a quarter of the memory maps that the
 * system lets a process have, because a stack takes two. PAWL_UNSUPPORTED: the processor keeps a
 * shadow stack, which a switch would not follow. */
pawl_code fiber_pool_new(fiber_pool **out, size_t max, error *err);

/* Frees a pool, whose fibers must all have been freed. NULL is allowed. */
void fiber_pool_free(fiber_pool *p);

/* Return the number of fibers that the pool may have, and the number that it has now. */
size_t fiber_pool_max(const fiber_pool *p);
size_t fiber_pool_live(fiber_pool *p);

/* Makes a fiber that will run fn(itself, arg); nothing runs yet. NULL: the pool has as many fibers
 * as it may, or the system has no memory; the caller can drop another fiber and try again. */
fiber *fiber_new(fiber_pool *p, void (*fn)(fiber *f, void *arg), void *arg);

/* Runs the fiber until it parks, pauses or ends. The calling thread must be the one that made
 * it. */
void fiber_resume(fiber *f);

/* Returns 1 if the calling thread has made the fiber: no other thread can resume it. */
int fiber_is_here(const fiber *f);

/* Frees a fiber that is not running, wherever its function stands, on any thread. Nothing is
 * unwound: what the function has not freed is lost, which is what pawl_defer() is for. NULL is
 * allowed. */
void fiber_free(fiber *f);

/* ---- On the fiber's stack ---- */

/* Suspends the fiber: fiber_resume() returns to its caller, and this call returns when the fiber is
 * resumed again. The unused part of the stack is given back to the system, which costs a system
 * call. */
void fiber_park(fiber *f);

/* As fiber_park(), for a short wait such as for a commit: the fiber keeps the unused part of its
 * stack, so that only the switch costs time. */
void fiber_pause(fiber *f);

/* Returns 1 if the caller runs on the stack of this fiber. */
int fiber_is_inside(const fiber *f);

/* ---- For tests ---- */

/* Returns 1 if the function of the fiber has returned. */
int fiber_done(const fiber *f);

#endif
