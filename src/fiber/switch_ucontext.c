#define _GNU_SOURCE /* ucontext.h, which POSIX has dropped */
/* The context switch by swapcontext(3), for processors that have none in assembly (switch.h). A
 * test compiles it on all processors, so that it does not rot. */
#include "fiber/switch.h"

#ifdef PAWL_FIBER_UCONTEXT

#include <stdint.h>
#include <stdlib.h>

typedef struct first_call {
    void (*entry)(void *arg);
    void *arg;
} first_call;

/* The first function on a new stack. makecontext() passes ints only, so the address of the
 * first_call comes in two halves. */
static void call_entry(unsigned high, unsigned low)
{
    first_call call = *(first_call *)(uintptr_t)((uint64_t)high << 32 | low);
    call.entry(call.arg);
    abort();
}

void switch_prepare(switch_side *side, char *low, char *top, void (*entry)(void *arg), void *arg)
{
    /* `entry` and `arg` are kept at the top of the stack until call_entry() reads them. */
    first_call *call = (first_call *)(void *)(top - sizeof *call);
    *call = (first_call){entry, arg};
    uint64_t at = (uintptr_t)call;

    if (getcontext(&side->context) != 0)
        abort(); /* cannot fail */
    side->context.uc_stack.ss_sp = low;
    side->context.uc_stack.ss_size = (size_t)((char *)call - low);
    side->context.uc_link = NULL;
    /* makecontext() demands this cast. */
    makecontext(&side->context, (void (*)(void))call_entry, 2, (unsigned)(at >> 32), (unsigned)at);
    side->sp = call;
}

void switch_go(switch_side *from, switch_side *to)
{
    from->sp = __builtin_frame_address(0);
    if (swapcontext(&from->context, &to->context) != 0)
        abort(); /* cannot fail */
}

#endif
