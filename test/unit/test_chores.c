/* The table of chores: which of them the node loop runs at a look, in which order, and when each of
 * them is run next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "sched/chores.h"

typedef struct diary {
    char text[64]; /* the first letter of each chore that was run */
    int again;     /* the chore asks to be run at the next look */
} diary;

static int64_t write_letter(chore *c, db_conn *conn, int64_t now_ns)
{
    diary *d = c->arg;
    size_t size = strlen(d->text);
    assert_null(conn);
    d->text[size] = c->name[0];
    d->text[size + 1] = '\0';
    if (d->again)
        c->next_ns = now_ns;
    return 2;
}

static int64_t second(int64_t count)
{
    return clock_deadline(0, 1000 * count);
}

static void chores_run_in_order_each_at_its_time(void **state)
{
    (void)state;
    clock_fake *f = clock_fake_new(1000);
    clock_source *clock = clock_fake_source(f);
    diary d = {.text = ""};
    chore_table t = {0};
    chores_add(&t, &(chore){"slow", second(10), write_letter, &d, 0});
    chores_add(&t, &(chore){"always", 0, write_letter, &d, 0});
    chores_add(&t, &(chore){"often", second(2), write_letter, &d, 0});
    assert_int_equal(chores_run(&t, NULL, clock), 6);
    assert_string_equal(d.text, "sao");
    assert_int_equal(chores_run(&t, NULL, clock), 2);
    assert_string_equal(d.text, "saoa");
    clock_fake_advance(f, 1999);
    assert_int_equal(chores_run(&t, NULL, clock), 2);
    clock_fake_advance(f, 1);
    assert_int_equal(chores_run(&t, NULL, clock), 4);
    assert_string_equal(d.text, "saoaaao");
    clock_fake_advance(f, 8000);
    assert_int_equal(chores_run(&t, NULL, clock), 6);
    assert_string_equal(d.text, "saoaaaosao");
    clock_fake_free(f);
}

static void a_chore_with_more_to_do_runs_at_the_next_look(void **state)
{
    (void)state;
    clock_fake *f = clock_fake_new(1000);
    diary d = {.text = "", .again = 1};
    chore_table t = {0};
    chores_add(&t, &(chore){"relay", second(10), write_letter, &d, 0});
    chores_run(&t, NULL, clock_fake_source(f));
    chores_run(&t, NULL, clock_fake_source(f));
    d.again = 0;
    chores_run(&t, NULL, clock_fake_source(f));
    chores_run(&t, NULL, clock_fake_source(f));
    assert_string_equal(d.text, "rrr");
    clock_fake_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chores_run_in_order_each_at_its_time),
        cmocka_unit_test(a_chore_with_more_to_do_runs_at_the_next_look),
    };
    return cmocka_run_group_tests_name("chores", tests, NULL, NULL);
}
