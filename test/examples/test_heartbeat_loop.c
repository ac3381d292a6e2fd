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
#define printf story_print
#include "../../examples/heartbeat_loop.c"
#undef printf
#undef main

static void begin(story *s)
{
    STORY_OK(s, pawl_register_workflow(s->p, "heart", heart, NULL));
    STORY_OK(s, pawl_start(s->p, "heart", "heart", "{}", NULL));
}

static void tell(story *s, const char *message)
{
    STORY_OK(s, pawl_send(s->p, "heart", "control", message, NULL));
}

static void told(story *s)
{
    begin(s);
    STORY_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(25)));
    story_has(s, "beat 2");
    story_has_not(s, "beat 3");
    tell(s, "{\"every_ms\":1000}"); /* which is a beat too */
    STORY_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(2)));
    story_has(s, "beat 5");
    story_has_not(s, "beat 6");
    tell(s, "{\"pause_ms\":60000}");
    STORY_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(59)));
    story_has_not(s, "beat 6");
    STORY_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(1)));
    story_has(s, "beat 6");
    tell(s, "{\"stop\":true}");
    story_done(s, "heart", "{\"beats\":6}");
}

static void messages(void **state)
{
    (void)state;
    story_tell(told, 1);
}

static void day_and_night(story *s)
{
    pawl_info *info = NULL;
    begin(s);
    tell(s, "{\"every_ms\":10}");
    for (int i = 0; i < 100 && pawl_info_generation(info) < 2; i++) {
        pawl_info_free(info);
        s->said[0] = '\0';
        STORY_OK(s, pawl_test_advance(s->t, PAWL_SECONDS(3)));
        STORY_OK(s, pawl_inspect(s->p, "heart", &info));
    }
    assert_int_equal(pawl_info_generation(info), 2);
    pawl_info_free(info);
    int64_t beats = strtoll(s->said + strlen("beat "), NULL, 10) + story_count(s, "beat") - 1;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "{\"beats\":%lld}", (long long)beats);
    tell(s, "{\"stop\":true}");
    story_done(s, "heart", wanted);
}

static void the_next_generation(void **state)
{
    (void)state;
    story_tell_once(day_and_night);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(the_next_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
