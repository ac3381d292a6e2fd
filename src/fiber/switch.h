/* The switch: leave one stack where it stands, go on with another.
 *
 * Written in assembly for the processors that most run on, where it costs some nanoseconds.
 * Elsewhere, and with -DPAWL_FIBER_UCONTEXT, swapcontext(3) does it, which asks the system about
 * signals each time and is some fifty times slower.
 *
 * Kept per side: the registers that a function must leave as they were, and the modes of floating
 * point. The signal mask is not part of a side; swapcontext() keeps it all the same. */
#ifndef FIBER_SWITCH_H
#define FIBER_SWITCH_H

#if !defined(PAWL_FIBER_UCONTEXT) &&                                                               \
    !(defined(__ELF__) && defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__)))
#define PAWL_FIBER_UCONTEXT 1
#endif

/* The assembly reads the lines above only. */
#ifndef __ASSEMBLER__

#ifdef PAWL_FIBER_UCONTEXT
#include <ucontext.h>
#endif

typedef struct switch_side {
    void *sp; /* where it was left: nothing below is needed, give or take a frame */
#ifdef PAWL_FIBER_UCONTEXT
    ucontext_t context;
#endif
} switch_side;

/* The first switch to `side` calls entry(arg) on the stack from `low` to `top`. It must not
 * return. */
void switch_prepare(switch_side *side, char *low, char *top, void (*entry)(void *arg), void *arg);

/* Leave `from` here and go on with `to`. Returns when somebody switches to `from`. */
void switch_go(switch_side *from, switch_side *to);

#endif
#endif
