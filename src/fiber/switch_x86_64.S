/*
 * The switch on x86-64 (System V). A stack that was left looks like this, from its sp upwards:
 *
 *     0  MXCSR, x87 control word     8  r15    16  r14    24  r13    32  r12
 *    40  rbx                        48  rbp    56  where it goes on
 *
 * Both stacks have this shape at the moment of the switch, so what is said to debuggers (.cfi)
 * holds before and after it. A fiber's first frame has no caller, and says so: there a backtrace
 * ends.
 *
 * This file does not claim to support shadow stacks, hence no note of that name: they are not
 * switched along.
 */
#include "fiber/switch.h"

#if defined(__x86_64__) && !defined(PAWL_FIBER_UCONTEXT)

    .text

/* void switch_go(switch_side *from, switch_side *to) */
    .globl  switch_go
    .hidden switch_go
    .type   switch_go, @function
    .p2align 4
switch_go:
    .cfi_startproc
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw  4(%rsp)

    movq    %rsp, (%rdi)
    movq    (%rsi), %rsp

    ldmxcsr (%rsp)
    fldcw   4(%rsp)
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq    %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq    %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq    %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    /* Not "ret": the processor would expect the caller of this call, and guess wrong each time. */
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rcx
    jmpq    *%rcx
    .cfi_endproc
    .size   switch_go, . - switch_go

/* The bottom of a fiber: entry is in rbx, its argument in r12. */
    .type   switch_begin, @function
    .p2align 4
switch_begin:
    .cfi_startproc
    .cfi_undefined %rip
    movq    %r12, %rdi
    callq   *%rbx
    ud2
    .cfi_endproc
    .size   switch_begin, . - switch_begin

/* void switch_prepare(switch_side *side, char *low, char *top, void (*entry)(void *), void *arg)
 * The modes of floating point are those of the caller. At switch_begin sp is a multiple of 16. */
    .globl  switch_prepare
    .hidden switch_prepare
    .type   switch_prepare, @function
    .p2align 4
switch_prepare:
    .cfi_startproc
    andq    $-16, %rdx
    subq    $64, %rdx
    stmxcsr (%rdx)
    fnstcw  4(%rdx)
    xorl    %eax, %eax
    movq    %rax, 8(%rdx)
    movq    %rax, 16(%rdx)
    movq    %rax, 24(%rdx)
    movq    %r8, 32(%rdx)
    movq    %rcx, 40(%rdx)
    movq    %rax, 48(%rdx)
    leaq    switch_begin(%rip), %rax
    movq    %rax, 56(%rdx)
    movq    %rdx, (%rdi)
    ret
    .cfi_endproc
    .size   switch_prepare, . - switch_prepare

#endif

#if defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
