/* The number of forks: a child of fork() sees another one than its parent, and so does its own
 * child. The parent is not disturbed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

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

/* The other side hears that the parent has closed its copy, although the child lives. */
static void hold_on(int in, int out, void *arg)
{
    TMP_CHECK(fcntl(*(int *)arg, F_GETFD) == -1);
    tmp_tell(out, 'c');
    (void)tmp_hear(in);
}

static void a_child_closes_what_it_is_told_to(void **state)
{
    int ends[2], others[2];
    forks_fd closes[2];
    char byte;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(others), 0);
    forks_close(&closes[0], ends[1]);
    forks_close(&closes[1], others[1]);
    forks_keep(&closes[1]);
    tmp_child child = tmp_fork(hold_on, &ends[1]);
    tmp_expect(&child, 'c');
    forks_keep(&closes[0]);
    close(ends[1]);
    close(others[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(fcntl(others[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(others[0], &byte, 1), -1); /* the child has kept its copy */
    tmp_tell(child.to, 'e');
    tmp_join(&child);
    close(ends[0]);
    close(others[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_child_has_another_number),
        cmocka_unit_test(a_child_closes_what_it_is_told_to),
    };
    return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
