/* The number of forks: a child of fork() sees another one than its parent, and so does its own
 * child. The parent is not disturbed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/forks.h"
#include "support/tmp.h"

static void compare(int in, int out, void *arg)
{
    (void)in;
    (void)out;
    TMP_CHECK(forks_count() != *(int *)arg);
}

static void fork_again(int in, int out, void *arg)
{
    compare(in, out, arg);
    int mine = forks_count();
    tmp_child child = tmp_fork(compare, &mine);
    TMP_CHECK(tmp_reap(&child) == 0);
    TMP_CHECK(forks_count() == mine);
}

static void every_child_has_another_number(void **state)
{
    (void)state;
    int mine = forks_count();
    for (int i = 0; i < 3; i++) {
        tmp_child child = tmp_fork(fork_again, &mine);
        tmp_join(&child);
        assert_int_equal(forks_count(), mine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_child_has_another_number),
    };
    return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
