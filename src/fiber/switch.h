/* The context switch: suspend one stack, continue with another.
 *
 * Written in assembly for x86-64 and arm64, where it costs some nanoseconds. Elsewhere, and with
 * -DPAWL_FIBER_UCONTEXT, swapcontext(3) does it, which makes a system call for the signal mask each
 * time and is some fifty times slower.
 *
 * A side is one of the two stacks between which a switch is made. Saved per side: the callee-saved
 * registers, and the modes of floating point. The signal mask need not be saved, although
 * swapcontext() does so. */
#ifndef FIBER_SWITCH_H
#define FIBER_SWITCH_H

#if !defined(PAWL_FIBER_UCONTEXT) &&                                                               \
    !(defined(__ELF__) && defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__)))
#define PAWL_FIBER_UCONTEXT 1
#endif

/* The assembly files include this header too; they need only the lines above. */
#ifndef __ASSEMBLER__

#ifdef PAWL_FIBER_UCONTEXT
#include <ucontext.h>
#endif

typedef struct switch_side {
    void *sp; /* stack pointer while suspended; at most one frame below it is in use */
#ifdef PAWL_FIBER_UCONTEXT
    ucontext_t context;
#endif
} switch_side;

/* Prepares a side: the first switch to it calls entry(arg) on the stack from `low` to `top`.
 * `entry` must not return. */
void switch_prepare(switch_side *side, char *low, char *top, void (*entry)(void *arg), void *arg);

/* Suspends `from` here and continues with `to`. Returns at the next switch to `from`. */
void switch_go(switch_side *from, switch_side *to);

#endif
#endif
