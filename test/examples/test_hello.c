/* The example hello: a day would take no longer than its ten seconds, and whatever is interrupted,
 * the greeting is the one that was recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/example_fixture.h"

int example_main(void);
#define main example_main
#include "../../examples/hello.c"
#undef main

static void greeted(example_fixture *s)
{
    int64_t began = pawl_test_now(s->t);
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "hello", hello, NULL));
    EXAMPLE_OK(s, pawl_start(s->p, "hello", "hello-1", "\"world\"", NULL));
    example_done(s, "hello-1", "\"Hello, world!\"");
    assert_int_equal(pawl_test_now(s->t), began + PAWL_SECONDS(10));
}

static void a_greeting(void **state)
{
    (void)state;
    example_run(greeted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greeting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
