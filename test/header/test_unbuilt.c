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

static const char *a_workflow(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

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

static void a_clean_up(void *arg)
{
    (void)arg;
    fail();
}

static int no_info(void *arg, const pawl_info *info)
{
    (void)arg;
    (void)info;
    fail();
    return 0;
}

static int no_event(void *arg, const pawl_event *event)
{
    (void)arg;
    (void)event;
    fail();
    return 0;
}

static int no_node(void *arg, int64_t node, const char *name, const char *build, int64_t since_ms)
{
    (void)arg;
    (void)node;
    (void)name;
    (void)build;
    (void)since_ms;
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

static void registering_and_driving(pawl *p)
{
    CALL(pawl_register_workflow, p, "w", a_workflow, NULL);
    CALL(pawl_register_work, p, "w", a_work, PAWL_WORK(.at_most = 1));
    CALL(pawl_serve, p);
    pawl_stop(p);
    int64_t did = 1;
    CALL(pawl_poll, p, &did);
    assert_int_equal(did, 0);
    CALL(pawl_poll, p, NULL);
    assert_int_equal(pawl_fd(p), -1);
    assert_int_equal(pawl_timeout(p), -1);
    pawl_outcome *end = (pawl_outcome *)something;
    CALL(pawl_finish, p, "id", PAWL_FOREVER, &end);
    assert_null(end);
    CALL(pawl_finish, p, "id", PAWL_FOREVER, NULL);
}

static void clients(pawl *p)
{
    int64_t created = 1;
    CALL(pawl_start, p, "w", "id", "null", PAWL_START(.created = &created));
    assert_int_equal(created, 0);
    CALL(pawl_start, p, "w", "id", "null", NULL);
    int64_t seq = 1;
    CALL(pawl_send, p, "id", "box", "null", PAWL_SEND(.seq = &seq));
    assert_int_equal(seq, 0);
    CALL(pawl_send, p, "id", "box", "null", NULL);
    pawl_outcome *end = (pawl_outcome *)something;
    CALL(pawl_wait, p, "id", 0, &end);
    assert_null(end);
    CALL(pawl_wait, p, "id", 0, NULL);
    CALL(pawl_cancel, p, "id", NULL);
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
    CALL(pawl_start, p, "w", "id", "null", &start);
    pawl_send_options send = {.size = offsetof(pawl_send_options, seq), .seq = &untouched};
    CALL(pawl_send, p, "id", "box", "null", &send);
    assert_int_equal(untouched, 1);
}

static void looking(pawl *p)
{
    pawl_info *info = (pawl_info *)something;
    CALL(pawl_status, p, "id", &info);
    assert_null(info);
    info = (pawl_info *)something;
    CALL(pawl_wait_status, p, "id", 0, 0, &info);
    assert_null(info);
    CALL(pawl_list, p, NULL, no_info, NULL);
    CALL(pawl_tree, p, "id", no_info, NULL);
    CALL(pawl_history, p, "id", 0, 0, no_event, NULL);
    char *text = something;
    CALL(pawl_why, p, "id", &text);
    assert_null(text);
    int64_t position = 5;
    CALL(pawl_changes, p, &position, 0, no_info, NULL);
    assert_int_equal(position, 5);
    CALL(pawl_nodes, p, no_node, NULL);
    CALL(pawl_metrics, p, no_metric, NULL);
}

static void managing(pawl *p)
{
    CALL(pawl_hold, p, "id", "reason");
    CALL(pawl_release, p, "id");
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
    with_and_without(registering_and_driving);
    with_and_without(clients);
    with_and_without(shorter_options);
    with_and_without(looking);
    with_and_without(managing);
}

/* ---- On a run ---- */

static void calls_of_a_run(pawl_run *run)
{
    assert_null(pawl_step(run, "s", a_work, "null", NULL));
    assert_null(pawl_call(run, "w", "null", PAWL_CALL(.attempts = 5)));
    assert_null(pawl_transact(run, "t", a_transaction, "null", NULL));
    CODE(run, pawl_sleep(run, 1));
    CODE(run, pawl_sleep_until(run, 1));
    const char *message = something;
    CODE(run, pawl_receive(run, "box", 0, &message));
    assert_null(message);
    assert_null(pawl_until(run, "u", a_work, "null", 1, 1));
    assert_null(pawl_child(run, "w", "null", NULL));
    CODE(run, pawl_undo(run, "w", "null"));
    CODE(run, pawl_finally(run, "w", "null"));
    CODE(run, pawl_defer(run, a_clean_up, NULL));
    assert_null(pawl_fail(run, "name", "%d", 1));
    assert_null(pawl_again(run, "null", NULL));
    assert_int_equal(pawl_should_continue(run), 0);
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
    assert_null(pawl_part(run, "{}", ""));
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
    assert_int_equal(pawl_now(run), 0);
    assert_null(pawl_uuid(run));
    assert_int_equal(pawl_random(run), 0);
    assert_int_equal(pawl_patch(run, "p"), 0);
    CODE(run, pawl_set_status(run, "null"));
    CODE(run, pawl_attr(run, "a", "1"));
    CODE(run, pawl_state_set(run, "k", "1"));
    assert_string_equal(pawl_state_get(run, "k"), "null");
    assert_null(pawl_state_of(run, "id", "k"));
    CODE(run, pawl_log(run, 1, "%d", 1));
    CODE(run, pawl_run_error(run));
    assert_string_equal(pawl_run_id(run), "");
    assert_string_equal(pawl_phase_name(PAWL_RUN_HELD), "?");
    assert_string_equal(pawl_run_workflow(run), "");
    assert_string_equal(pawl_run_version(run), "");
    assert_int_equal(pawl_run_generation(run), 0);
    assert_null(pawl_arg(run));
    assert_null(pawl_alloc(run, 1));
    CODE(run, pawl_drop(run, NULL));
    assert_null(pawl_json(run, "{}"));
    assert_string_equal(pawl_text(run, "\"x\"", "", "fallback"), "fallback");
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
    assert_null(pawl_work_key(work));
    assert_null(pawl_work_fail(work, PAWL_PERMANENT, "name", "%d", 1));
    assert_null(pawl_work_retry(work, 1, "%d", 1));
    assert_null(pawl_work_ticket(work));
    assert_null(pawl_work_pending(work));
    assert_int_equal(pawl_work_cancelled(work), 0);
    CODE(work, pawl_work_note(work, "1"));
    assert_null(pawl_work_progress(work));
    assert_int_equal(pawl_work_fence(work), 0);
    assert_int_equal(pawl_work_attempt(work), 0);
    assert_string_equal(pawl_work_name(work), "");
    assert_string_equal(pawl_work_run_id(work), "");
    assert_null(pawl_work_arg(work));
    CODE(work, pawl_work_log(work, 1, "%d", 1));
    assert_null(pawl_work_alloc(work, 1));
    assert_null(pawl_work_json(work, "{}"));
    assert_null(pawl_work_part(work, "{}", ""));
    assert_string_equal(pawl_work_text(work, "\"x\"", "", "fallback"), "fallback");
}

static void work_does_nothing(void **state)
{
    (void)state;
    calls_of_work(NULL);
    calls_of_work((pawl_work *)something);
}

/* ---- Outcomes, infos, events: what clients would be given ---- */

static void ask_an_outcome(pawl_outcome *o)
{
    assert_string_equal(pawl_outcome_value(o), "null");
    CODE(o, pawl_outcome_code(o)); /* not PAWL_OK: nothing has ended well */
    assert_string_equal(pawl_outcome_name(o), "");
    assert_string_equal(pawl_outcome_message(o), "");
    assert_string_equal(pawl_outcome_where(o), "");
    pawl_outcome_free(o);
}

static void ask_an_info(pawl_info *i)
{
    assert_string_equal(pawl_info_id(i), "");
    assert_string_equal(pawl_info_workflow(i), "");
    assert_string_equal(pawl_info_version(i), "");
    assert_int_equal(pawl_info_phase(i), 0);
    assert_int_equal(pawl_info_generation(i), 0);
    assert_string_equal(pawl_info_status(i), "null");
    assert_int_equal(pawl_info_status_seq(i), 0);
    assert_string_equal(pawl_info_held(i), "");
    assert_string_equal(pawl_info_parent(i), "");
    assert_int_equal(pawl_info_depth(i), 0);
    assert_string_equal(pawl_info_by(i), "");
    assert_int_equal(pawl_info_created_ms(i), 0);
    assert_int_equal(pawl_info_updated_ms(i), 0);
    assert_int_equal(pawl_info_finished_ms(i), 0);
    assert_int_equal(pawl_info_wake_ms(i), 0);
    pawl_info_free(i);
}

static void ask_an_event(const pawl_event *e)
{
    assert_int_equal(pawl_event_seq(e), 0);
    assert_int_equal(pawl_event_generation(e), 0);
    assert_string_equal(pawl_event_kind(e), "");
    assert_string_equal(pawl_event_name(e), "");
    assert_int_equal(pawl_event_at_ms(e), 0);
    assert_string_equal(pawl_event_data(e), "null");
}

static void questions_have_neutral_answers(void **state)
{
    (void)state;
    ask_an_outcome(NULL);
    ask_an_outcome((pawl_outcome *)something);
    ask_an_info(NULL);
    ask_an_info((pawl_info *)something);
    ask_an_event(NULL);
    ask_an_event((const pawl_event *)something);
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
        cmocka_unit_test(the_engine_says_so),  cmocka_unit_test(a_run_does_nothing),
        cmocka_unit_test(work_does_nothing),   cmocka_unit_test(questions_have_neutral_answers),
        cmocka_unit_test(a_test_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
