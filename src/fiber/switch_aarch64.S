/*
 * The switch on arm64 (AAPCS64). A stack that was left looks like this, from its sp upwards:
 *
 *     0  x19 to x28     80  x29, x30 (where it goes on)     96  d8 to d15     160  FPCR
 *
 * Both stacks have this shape at the moment of the switch, so what is said to debuggers (.cfi)
 * holds before and after it. A fiber's first frame has no caller, and says so: there a backtrace
 * ends.
 *
 * This file does not claim to support branch targets or guarded control stacks: what it is linked
 * into runs without them.
 */
#include "fiber/switch.h"

#if defined(__aarch64__) && !defined(PAWL_FIBER_UCONTEXT)

#define FRAME 176

    .text

/* void switch_go(switch_side *from, switch_side *to) */
    .globl  switch_go
    .hidden switch_go
    .type   switch_go, %function
    .p2align 4
switch_go:
    .cfi_startproc
    sub     sp, sp, #FRAME
    .cfi_adjust_cfa_offset FRAME
    stp     x19, x20, [sp, #0]
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    stp     x21, x22, [sp, #16]
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    stp     x23, x24, [sp, #32]
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    stp     x25, x26, [sp, #48]
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    stp     x27, x28, [sp, #64]
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    stp     x29, x30, [sp, #80]
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mrs     x9, fpcr
    str     x9, [sp, #160]

    mov     x10, sp
    str     x10, [x0]
    ldr     x10, [x1]
    mov     sp, x10

    /* Writing FPCR stops the pipeline, and it is nearly always the same. */
    ldr     x11, [sp, #160]
    cmp     x9, x11
    b.eq    1f
    msr     fpcr, x11
1:
    ldp     d14, d15, [sp, #144]
    ldp     d12, d13, [sp, #128]
    ldp     d10, d11, [sp, #112]
    ldp     d8, d9, [sp, #96]
    ldp     x29, x30, [sp, #80]
    .cfi_restore x29
    .cfi_restore x30
    ldp     x27, x28, [sp, #64]
    .cfi_restore x27
    .cfi_restore x28
    ldp     x25, x26, [sp, #48]
    .cfi_restore x25
    .cfi_restore x26
    ldp     x23, x24, [sp, #32]
    .cfi_restore x23
    .cfi_restore x24
    ldp     x21, x22, [sp, #16]
    .cfi_restore x21
    .cfi_restore x22
    ldp     x19, x20, [sp, #0]
    .cfi_restore x19
    .cfi_restore x20
    add     sp, sp, #FRAME
    .cfi_adjust_cfa_offset -FRAME
    /* Not "ret": the processor would expect the caller of this call, and guess wrong each time. */
    br      x30
    .cfi_endproc
    .size   switch_go, . - switch_go

/* The bottom of a fiber: entry is in x19, its argument in x20. */
    .type   switch_begin, %function
    .p2align 4
switch_begin:
    .cfi_startproc
    .cfi_undefined x30
    mov     x0, x20
    blr     x19
    brk     #1
    .cfi_endproc
    .size   switch_begin, . - switch_begin

/* void switch_prepare(switch_side *side, char *low, char *top, void (*entry)(void *), void *arg)
 * The modes of floating point are those of the caller. */
    .globl  switch_prepare
    .hidden switch_prepare
    .type   switch_prepare, %function
    .p2align 4
switch_prepare:
    .cfi_startproc
    and     x2, x2, #-16
    sub     x2, x2, #FRAME
    stp     x3, x4, [x2, #0]
    stp     xzr, xzr, [x2, #16]
    stp     xzr, xzr, [x2, #32]
    stp     xzr, xzr, [x2, #48]
    stp     xzr, xzr, [x2, #64]
    adr     x9, switch_begin
    stp     xzr, x9, [x2, #80]
    stp     xzr, xzr, [x2, #96]
    stp     xzr, xzr, [x2, #112]
    stp     xzr, xzr, [x2, #128]
    stp     xzr, xzr, [x2, #144]
    mrs     x9, fpcr
    stp     x9, xzr, [x2, #160]
    str     x2, [x0]
    ret
    .cfi_endproc
    .size   switch_prepare, . - switch_prepare

#endif

#if defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
