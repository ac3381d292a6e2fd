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

/* Kept below the stack pointer of a parked fiber, which needs it as soon as it is resumed. */
#define STACK_KEPT ((size_t)8 * 1024)

typedef struct stack {
    char *low; /* the guard ends here */
    char *top;
    unsigned watched; /* its id in valgrind */
    struct stack *next;
} stack;

/* How many stacks a process may have: a quarter of its maps, which leaves it half of them. */
size_t stack_limit(void);

/* NULL: no memory, or no maps. */
stack *stack_new(void);
void stack_free(stack *s);

/* Give back the pages that lie more than `kept` bytes below `sp`. Their content is lost. */
void stack_trim(const stack *s, const char *sp, size_t kept);

#endif
