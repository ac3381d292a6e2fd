/* The context switch: suspend one stack, continue with another.
 *
 * Written in assembly for x86-64 and arm64, where it costs some nanoseconds. Elsewhere, and with
 * -DPAWL_FIBER_UCONTEXT, swapcontext(3) does it, which makes a system call for the signal mask each
 * time and is some fifty times slower.
 *
 * Saved per side: the callee-saved registers, and the modes of floating point. The signal mask is
 * not part of a side; swapcontext() keeps it all the same. */
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
    void *sp; /* its stack pointer when suspended: nothing below is needed, give or take a frame */
#ifdef PAWL_FIBER_UCONTEXT
    ucontext_t context;
#endif
} switch_side;

/* The first switch to `side` calls entry(arg) on the stack from `low` to `top`. It must not
 * return. */
void switch_prepare(switch_side *side, char *low, char *top, void (*entry)(void *arg), void *arg);

/* Suspend `from` here and continue with `to`. Returns at the next switch to `from`. */
void switch_go(switch_side *from, switch_side *to);

#endif
#endif
