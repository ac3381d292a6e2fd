/* The example heartbeat_loop: its rhythm, what messages do to it, and that its count goes on in the
 * next generation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/example_fixture.h"

int example_main(int argc, char **argv);
#define main example_main
#define printf example_print
#include "../../examples/heartbeat_loop.c"
#undef printf
#undef main

static void begin(example_fixture *s)
{
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "heart", heart, NULL));
    EXAMPLE_OK(s, pawl_start(s->p, "heart", "heart", "{}", NULL));
}

static void tell(example_fixture *s, const char *message)
{
    EXAMPLE_OK(s, pawl_send(s->p, "heart", "control", message, NULL));
}

static void told(example_fixture *s)
{
    begin(s);
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(25)));
    example_has(s, "beat 2");
    example_has_not(s, "beat 3");
    tell(s, "{\"every_ms\":1000}"); /* which is a beat too */
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(2)));
    example_has(s, "beat 5");
    example_has_not(s, "beat 6");
    tell(s, "{\"pause_ms\":60000}");
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(59)));
    example_has_not(s, "beat 6");
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(1)));
    example_has(s, "beat 6");
    tell(s, "{\"stop\":true}");
    example_done(s, "heart", "{\"beats\":6}");
}

static void messages(void **state)
{
    (void)state;
    example_run(told, 1);
}

static void day_and_night(example_fixture *s)
{
    pawl_info *info = NULL;
    begin(s);
    tell(s, "{\"every_ms\":10}");
    for (int i = 0; i < 100 && pawl_info_generation(info) < 2; i++) {
        pawl_info_free(info);
        s->printed[0] = '\0';
        EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(3)));
        EXAMPLE_OK(s, pawl_inspect(s->p, "heart", &info));
    }
    assert_int_equal(pawl_info_generation(info), 2);
    pawl_info_free(info);
    int64_t beats = strtoll(s->printed + strlen("beat "), NULL, 10) + example_count(s, "beat") - 1;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "{\"beats\":%lld}", (long long)beats);
    tell(s, "{\"stop\":true}");
    example_done(s, "heart", wanted);
}

static void the_next_generation(void **state)
{
    (void)state;
    example_run_once(day_and_night);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(the_next_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
