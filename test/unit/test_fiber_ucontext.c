#define _GNU_SOURCE /* as the files that are included */
/* The tests of fibers once more, with the switch for processors that have none in assembly. What
 * depends on the kind of switch is compiled into this file; the linker then leaves out the objects
 * of the library that have the same names. */
#define PAWL_FIBER_UCONTEXT 1
#include "fiber/fiber.c"
#include "fiber/switch_ucontext.c"

int test_switching(void);
int test_using(void);

#define main test_switching
#include "unit/test_fiber.c"
#undef main
#define main test_using
#include "unit/test_fiber_use.c"
#undef main

int main(void)
{
    int failed = test_switching();
    return test_using() + failed;
}
