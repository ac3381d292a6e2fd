/* What is declared and not built answers, and says so: no crash without a handle, no result that
 * looks like one, and a message that names the function and a way out.
 *
 * In the order of src/api/unbuilt.c. What gets built leaves both files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <pawl.h>

/* Stands for whatever a pointer could point to; no function may look inside. */
static char something[1];

static void expect(pawl *p, pawl_code got, const char *name)
{
    if (got != (p ? PAWL_UNSUPPORTED : PAWL_INVALID))
        fail_msg("%s(%s): %s", name, p ? "p" : "NULL", pawl_code_name(got));
    if (!p)
        return;
    assert_int_equal(pawl_errcode(p), PAWL_UNSUPPORTED);
    if (!strstr(pawl_errmsg(p), name) || pawl_errmsg(p)[strlen(name)] != '(')
        fail_msg("'%s' does not name %s", pawl_errmsg(p), name);
    assert_true(strlen(pawl_errhint(p)) > 0);
}

/* A call on the engine, which may be NULL. */
#define CALL(name, ...) expect(p, name(__VA_ARGS__), #name)

/* A call on something that has no messages. */
#define CODE(subject, call) assert_int_equal(call, subject ? PAWL_UNSUPPORTED : PAWL_INVALID)

static int no_metric(const char *name, const char *kind, const char *labels, double value,
                     void *arg)
{
    (void)arg;
    (void)name;
    (void)kind;
    (void)labels;
    (void)value;
    fail();
    return 0;
}

/* ---- On the engine ---- */

static void clients(pawl *p)
{
    CALL(pawl_complete, p, "ticket", "null", NULL);
    CALL(pawl_complete_failed, p, "ticket", "name", "message", NULL);
}

static void looking(pawl *p)
{
    CALL(pawl_metrics, p, no_metric, NULL);
}

static void managing(pawl *p)
{
    int64_t deleted = 1;
    CALL(pawl_prune, p, PAWL_FILTER(.limit = 1), 0, &deleted);
    assert_int_equal(deleted, 0);
    CALL(pawl_prune, p, NULL, 0, NULL);
    CALL(pawl_queue_set, p, "q", PAWL_QUEUE(.paused = 1));
    int64_t waiting = 1;
    int64_t running = 1;
    CALL(pawl_queue_depth, p, "q", &waiting, &running);
    assert_int_equal(waiting, 0);
    assert_int_equal(running, 0);
    CALL(pawl_queue_depth, p, "q", NULL, NULL);
}

static void with_and_without(void (*calls)(pawl *p))
{
    pawl *p = NULL;
    calls(NULL);
    assert_int_equal(pawl_open(&p, "memory:", NULL), PAWL_OK);
    calls(p);
    pawl_close(p);

    /* A handle whose open has failed is there to be asked, also by mistake. */
    assert_int_equal(pawl_open(&p, "", NULL), PAWL_INVALID);
    calls(p);
    pawl_close(p);
}

static void the_engine_says_so(void **state)
{
    (void)state;
    with_and_without(clients);
    with_and_without(looking);
    with_and_without(managing);
}

/* ---- On work ---- */

static void calls_of_work(pawl_work *work)
{
    assert_null(pawl_work_ticket(work));
    assert_null(pawl_work_pending(work));
    CODE(work, pawl_work_note(work, "1"));
    assert_null(pawl_work_progress(work));
}

static void work_does_nothing(void **state)
{
    (void)state;
    calls_of_work(NULL);
    calls_of_work((pawl_work *)something);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_says_so),
        cmocka_unit_test(work_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
