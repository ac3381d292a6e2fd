/* The example event_loop: reminders ring in the order of their times, the same line twice is one of
 * them, and no crash loses any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/example_fixture.h"

int example_main(void);
#define main example_main
#define printf example_print
#include "../../examples/event_loop.c"
#undef printf
#undef main

static void note(example_fixture *s, const char *text)
{
    char line[128];
    snprintf(line, sizeof line, "%s\n", text);
    EXAMPLE_OK(s, remind(s->p, line));
}

static void reminded(example_fixture *s)
{
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "reminder", reminder, NULL));
    note(s, "86400 the parcel comes");
    note(s, "20 the tea is ready");
    note(s, "20 the tea is ready");
    note(s, "no number");
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(19)));
    example_has_not(s, "\athe tea is ready");
    example_done(s, "the parcel comes", "null");
    example_has(s, "\athe tea is ready");
    example_has(s, "\athe parcel comes");
    example_in_order(s, "\athe tea is ready", "\athe parcel comes");
}

static void reminders(void **state)
{
    (void)state;
    example_run(reminded, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reminders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
