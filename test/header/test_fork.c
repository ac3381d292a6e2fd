/* A handle in a child of fork() answers, and does nothing: its locks and threads are not there, and
 * taking it apart would take the parent's apart. Finalizers of other languages call everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pawl.h>

/* The first thing that is not as it should be, as an exit code; 0: all is well. */
static int look_from_the_child(pawl *p)
{
    pawl_outcome *out = NULL;
    if (pawl_wait(p, "id", 0, &out) != PAWL_FORKED)
        return 1;
    if (pawl_errcode(p) != PAWL_FORKED || !pawl_errmsg(p)[0] || !pawl_errhint(p)[0])
        return 2;
    if (strcmp(pawl_errtext(p), pawl_errmsg(p)) != 0)
        return 3;
    pawl_stop(p);
    pawl_outcome_free(out);
    if (pawl_close(p) != PAWL_FORKED)
        return 4;
    return 0;
}

static void a_child_is_told(void **state)
{
    (void)state;
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, "memory:", NULL), PAWL_OK);
    assert_int_equal(pawl_inspect(p, "nobody", &(pawl_info *){NULL}), PAWL_NOTFOUND);
    pid_t child = fork();
    if (child == 0)
        _exit(look_from_the_child(p));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* The parent goes on as before. */
    assert_int_equal(pawl_errcode(p), PAWL_NOTFOUND);
    assert_non_null(strstr(pawl_errtext(p), pawl_errhint(p)));
    assert_int_equal(pawl_close(p), PAWL_OK);
    assert_int_equal(pawl_close(NULL), PAWL_OK);
}

static void ids_are_fresh(void **state)
{
    (void)state;
    char one[PAWL_ID_SIZE], two[PAWL_ID_SIZE];
    assert_int_equal(pawl_id_new(one), PAWL_OK);
    assert_int_equal(pawl_id_new(two), PAWL_OK);
    assert_int_equal(strlen(one), PAWL_ID_SIZE - 1);
    assert_string_not_equal(one, two);
    assert_int_equal(pawl_id_new(NULL), PAWL_INVALID);
    assert_int_equal(pawl_version_number(), PAWL_VERSION_NUMBER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_told),
        cmocka_unit_test(ids_are_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
