/* Announces stack switches to the tools that check memory: the address, thread and leak sanitizers,
 * and valgrind. Without them these functions are empty, except for a few instructions for valgrind
 * where a stack is mapped or reused.
 *
 * The functions are inlined on purpose. The thread sanitizer counts entries and exits of functions
 * per fiber, and one that was entered on one fiber must not exit on another. */
#ifndef FIBER_WATCH_H
#define FIBER_WATCH_H

#include <stddef.h>

#include "fiber/stack.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCH_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define WATCH_THREAD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WATCH_ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__)
#define WATCH_THREAD 1
#endif

#if WATCH_ADDRESS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if WATCH_THREAD
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define WATCH_VALGRIND 1
#endif
#endif

#define WATCH_INLINE static inline __attribute__((always_inline))

typedef struct watch {
#if WATCH_ADDRESS
    /* The stacks on which the address sanitizer keeps locals, saved while the fiber (inside) or the
     * thread (outside) is suspended; and the memory of the thread's stack. */
    void *fake_inside;
    void *fake_outside;
    const void *outside_low;
    size_t outside_size;
#endif
#if WATCH_THREAD
    void *inside;
    void *outside;
#endif
    char nothing; /* a struct needs a member */
} watch;

/* ---- Stacks ---- */

WATCH_INLINE void watch_mapped(stack *s)
{
#if WATCH_VALGRIND
    s->watched = VALGRIND_STACK_REGISTER(s->low, s->top);
#endif
    (void)s;
}

WATCH_INLINE void watch_unmapped(stack *s)
{
#if WATCH_VALGRIND
    VALGRIND_STACK_DEREGISTER(s->watched);
#endif
    (void)s;
}

/* A fiber takes the stack, which is used from its top again: valgrind forgets what old frames have
 * written. While a fiber has the stack, memory that only the stack points to is no leak. */
WATCH_INLINE void watch_taken(const stack *s)
{
#if WATCH_VALGRIND
    VALGRIND_MAKE_MEM_UNDEFINED(s->low, s->top - s->low);
#endif
#if WATCH_ADDRESS
    __lsan_register_root_region(s->low, (size_t)(s->top - s->low));
#endif
    (void)s;
}

WATCH_INLINE void watch_given_back(const stack *s)
{
#if WATCH_ADDRESS
    __lsan_unregister_root_region(s->low, (size_t)(s->top - s->low));
    __asan_unpoison_memory_region(s->low, (size_t)(s->top - s->low));
#endif
    (void)s;
}

/* ---- Fibers ---- */

WATCH_INLINE void watch_begin(watch *w)
{
    *w = (watch){.nothing = 0};
#if WATCH_THREAD
    w->inside = __tsan_create_fiber(0);
#endif
}

/* A dropped fiber never makes its last switch, at which the address sanitizer would free its
 * locals. So the calling thread pretends to switch to the fiber's stack, and to leave it for good.
 * No code of the fiber runs. */
WATCH_INLINE void watch_end(watch *w, const stack *s)
{
#if WATCH_ADDRESS
    if (w->fake_inside) {
        void *ours;
        const void *low;
        size_t size;
        __sanitizer_start_switch_fiber(&ours, s->low, (size_t)(s->top - s->low));
        __sanitizer_finish_switch_fiber(w->fake_inside, &low, &size);
        __sanitizer_start_switch_fiber(NULL, low, size);
        __sanitizer_finish_switch_fiber(ours, NULL, NULL);
    }
#endif
#if WATCH_THREAD
    __tsan_destroy_fiber(w->inside);
#endif
    (void)w, (void)s;
}

/* Called on the thread's stack: watch_enter() before the switch to the fiber, watch_left() after
 * the switch back. */
WATCH_INLINE void watch_enter(watch *w, const stack *s)
{
#if WATCH_ADDRESS
    __sanitizer_start_switch_fiber(&w->fake_outside, s->low, (size_t)(s->top - s->low));
#endif
#if WATCH_THREAD
    w->outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(w->inside, 0);
#endif
    (void)w, (void)s;
}

WATCH_INLINE void watch_left(watch *w)
{
#if WATCH_ADDRESS
    __sanitizer_finish_switch_fiber(w->fake_outside, NULL, NULL);
#endif
    (void)w;
}

/* Called on the fiber's stack: watch_leave() before the switch to the thread, watch_entered() after
 * the switch back. */
WATCH_INLINE void watch_leave(watch *w, int for_good)
{
#if WATCH_ADDRESS
    __sanitizer_start_switch_fiber(for_good ? NULL : &w->fake_inside, w->outside_low,
                                   w->outside_size);
    if (for_good)
        w->fake_inside = NULL;
#endif
#if WATCH_THREAD
    __tsan_switch_to_fiber(w->outside, 0);
#endif
    (void)w, (void)for_good;
}

WATCH_INLINE void watch_entered(watch *w)
{
#if WATCH_ADDRESS
    __sanitizer_finish_switch_fiber(w->fake_inside, &w->outside_low, &w->outside_size);
    w->fake_inside = NULL; /* the fiber runs on it again */
#endif
    (void)w;
}

#endif
