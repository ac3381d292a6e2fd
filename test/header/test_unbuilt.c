/* What is declared and not built answers, and says so: no crash without a handle, no result that
 * looks like one, and a message that names the function and a way out.
 *
 * In the order of src/core/unbuilt.c. What gets built leaves both files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <pawl.h>
#include <pawl_test.h>

/* Stands for whatever a pointer could point to; nobody may look inside. */
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

static const char *a_work(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *a_transaction(pawl_work *work, void *native, const char *input)
{
    (void)work;
    (void)native;
    return input;
}

static int no_info(void *arg, const pawl_info *info)
{
    (void)arg;
    (void)info;
    fail();
    return 0;
}

static int no_metric(void *arg, const char *name, const char *kind, const char *labels,
                     double value)
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
    int64_t seq = 1;
    CALL(pawl_send, p, "id", "box", "null", PAWL_SEND(.seq = &seq));
    assert_int_equal(seq, 0);
    CALL(pawl_send, p, "id", "box", "null", NULL);
    CALL(pawl_cancel, p, "id", NULL);
    int64_t created = 1;
    CALL(pawl_start_in, p, something, "w", "id", "null", PAWL_START(.created = &created));
    assert_int_equal(created, 0);
    CALL(pawl_start_in, p, something, "w", "id", "null", NULL);
    CALL(pawl_send_in, p, something, "id", "box", "null", NULL);
    CALL(pawl_kick, p);
    CALL(pawl_complete, p, "ticket", "null", NULL);
    CALL(pawl_complete_failed, p, "ticket", "name", "message", NULL);
    char *value = something;
    CALL(pawl_read_state, p, "id", "key", &value);
    assert_null(value);
}

/* The member for a result may be missing in the struct of an older program. */
static void shorter_options(pawl *p)
{
    int64_t untouched = 1;
    pawl_start_options start = {.size = offsetof(pawl_start_options, created),
                                .created = &untouched};
    CALL(pawl_start_in, p, something, "w", "id", "null", &start);
    pawl_send_options send = {.size = offsetof(pawl_send_options, seq), .seq = &untouched};
    CALL(pawl_send, p, "id", "box", "null", &send);
    assert_int_equal(untouched, 1);
}

static void looking(pawl *p)
{
    int64_t position = 5;
    CALL(pawl_changes, p, &position, 0, no_info, NULL);
    assert_int_equal(position, 5);
    CALL(pawl_metrics, p, no_metric, NULL);
}

static void managing(pawl *p)
{
    CALL(pawl_redrive, p, "id", NULL);
    CALL(pawl_delete, p, "id", 0);
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
    pawl_outcome *end = (pawl_outcome *)something;
    CALL(pawl_test_finish, p, "id", &end);
    assert_null(end);
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
    with_and_without(shorter_options);
    with_and_without(looking);
    with_and_without(managing);
}

/* ---- On a run ---- */

static void calls_of_a_run(pawl_run *run)
{
    assert_null(pawl_transact(run, "t", a_transaction, "null", NULL));
    const char *message = something;
    CODE(run, pawl_receive(run, "box", 0, &message));
    assert_null(message);
    assert_null(pawl_child(run, "w", "null", NULL));
    CODE(run, pawl_undo(run, "w", "null"));
    CODE(run, pawl_finally(run, "w", "null"));
    assert_null(pawl_again(run, "null", NULL));
}

static void futures_of_a_run(pawl_run *run)
{
    pawl_future *const futures[] = {NULL, NULL};
    assert_null(pawl_step_later(run, "s", a_work, "null", NULL));
    assert_null(pawl_call_later(run, "w", "null", NULL));
    assert_null(pawl_sleep_later(run, 1));
    assert_null(pawl_sleep_until_later(run, 1));
    assert_null(pawl_until_later(run, "u", a_work, "null", 1, 1));
    assert_int_equal(pawl_tell(run, "id", "box", "null"), run ? PAWL_UNSUPPORTED : PAWL_INVALID);
    assert_string_equal(pawl_sender(run), "");
    assert_null(pawl_receive_later(run, "box", 1));
    assert_null(pawl_child_later(run, "w", "null", NULL));
    assert_null(pawl_all_later(run, futures, 2));
    assert_null(pawl_any_later(run, futures, 2));
    assert_null(pawl_await(run, NULL));
    CODE(run, pawl_all(run, futures, 2));
    assert_int_equal(pawl_any(run, futures, 2, PAWL_KEEP), -1);
    assert_null(pawl_try(run, NULL));
    CODE(run, pawl_abandon(run, NULL));
    assert_null(pawl_value(NULL));
}

static void records_of_a_run(pawl_run *run)
{
    CODE(run, pawl_state_set(run, "k", "1"));
    assert_string_equal(pawl_state_get(run, "k"), "null");
    assert_null(pawl_state_of(run, "id", "k"));
}

static void a_run_does_nothing(void **state)
{
    (void)state;
    static void (*const CALLS[])(pawl_run * run) = {calls_of_a_run, futures_of_a_run,
                                                    records_of_a_run};
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        CALLS[i](NULL);
        CALLS[i]((pawl_run *)something);
    }
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

/* ---- pawl_test.h ---- */

static void calls_of_a_test(pawl_test *t)
{
    CODE(t, pawl_test_advance(t, 1));
    assert_int_equal(pawl_test_now(t), 0);
    CODE(t, pawl_test_crash_at(t, 1));
    assert_int_equal(pawl_test_writes(t), 0);
    CODE(t, pawl_test_always_replay(t, 1));
    pawl_test_close(t);
}

static void a_test_does_nothing(void **state)
{
    (void)state;
    pawl *p = NULL;
    pawl_test *t = (pawl_test *)something;
    pawl_code rc = pawl_test_open(&p, &t);
    assert_non_null(p);
    assert_null(t);
    expect(p, rc, "pawl_test_open");
    pawl_close(p);
    assert_int_equal(pawl_test_open(NULL, NULL), PAWL_INVALID);
    calls_of_a_test(NULL);
    calls_of_a_test((pawl_test *)something);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_says_so),
        cmocka_unit_test(a_run_does_nothing),
        cmocka_unit_test(work_does_nothing),
        cmocka_unit_test(a_test_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
