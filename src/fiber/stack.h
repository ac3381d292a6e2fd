/* One stack: memory with a guard (inaccessible pages) below it.
 *
 * Address space is cheap and memory is not, so a stack is large, is filled by the system as it is
 * touched, and gives back what a parked fiber does not need. The guard is wider than a page because
 * a frame with a large local may begin far below the last one. */
#ifndef FIBER_STACK_H
#define FIBER_STACK_H

#include <stddef.h>

#define STACK_SIZE ((size_t)256 * 1024)
#define STACK_GUARD ((size_t)64 * 1024)

/* Bytes below its stack pointer that a parked fiber keeps, because it needs them as soon as it is
 * resumed. */
#define STACK_KEPT ((size_t)8 * 1024)

typedef struct stack {
    char *low; /* lowest byte of the stack; the guard is below */
    char *top;
    unsigned watched; /* the id that valgrind has given the stack */
    struct stack *next;
} stack;

/* Returns how many stacks a process may have: a quarter of its memory maps. A stack takes two, so
 * half of the maps are left to the application. */
size_t stack_limit(void);

/* stack_new() maps a stack with its guard. NULL: the process has no memory or no maps left. */
stack *stack_new(void);
void stack_free(stack *s);

/* Gives the pages that lie more than `kept` bytes below `sp` back to the system. Their content is
 * lost. */
void stack_trim(const stack *s, const char *sp, size_t kept);

#endif
