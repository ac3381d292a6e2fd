/* The example fan_out: ten parts and one sum, wherever it is interrupted. Which node counts what is
 * not seen here: there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/example_fixture.h"

int example_main(int argc, char **argv);
#define main example_main
#include "../../examples/fan_out.c"
#undef main

static void set_up(example_fixture *s)
{
    EXAMPLE_OK(s, pawl_register_work(s->p, "count", count, NULL));
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "primes", primes, NULL));
}

static void ten_parts(example_fixture *s)
{
    set_up(s);
    EXAMPLE_OK(s, pawl_start(s->p, "primes", "primes-10", "{\"parts\":10}", NULL));
    example_done(s, "primes-10", "{\"below\":1000000,\"primes\":78498}");
}

static void no_parts(example_fixture *s)
{
    set_up(s);
    EXAMPLE_OK(s, pawl_start(s->p, "primes", "primes-0", "{\"parts\":0}", NULL));
    example_failed(s, "primes-0", "parts");
}

static void a_sum(void **state)
{
    (void)state;
    example_run(ten_parts, 7); /* each of them computes */
}

static void a_wrong_number(void **state)
{
    (void)state;
    example_run(no_parts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum),
        cmocka_unit_test(a_wrong_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
