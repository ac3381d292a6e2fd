/* Sagas (compensation) whose steps are executed beside each other: one fails while another is being
 * executed. A step that is undone has returned before that, and the undo is told what it gave;
 * unless it takes too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "support/served_fixture.h"

enum { INSIDE, LET_GO, LISTENS }; /* numbers of the fixture */

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

/* ---- What is done ---- */

/* In it until it is let go; or until it is told, if it listens. */
static const char *hotel(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    (void)input;
    atomic_fetch_add(fixture_number(s, INSIDE), 1);
    while (!number(s, LET_GO) && !(number(s, LISTENS) && pawl_work_cancelled(work)))
        poll(NULL, 0, 1);
    fixture_note(s, "hotel");
    atomic_fetch_sub(fixture_number(s, INSIDE), 1);
    if (!number(s, LET_GO))
        return pawl_work_fail(work, PAWL_TRANSIENT, "told", "it was asked to stop");
    return "\"room 7\"";
}

/* When the other one is being done. */
static const char *flight(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    (void)input;
    while (number(s, INSIDE) == 0)
        poll(NULL, 0, 1);
    fixture_note(s, "flight");
    return pawl_work_fail(work, PAWL_PERMANENT, "full", "no seat");
}

static const char *undo(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "%s:%s", pawl_work_name(work), input);
    return "null";
}

#define TOGETHER(work) pawl_call_later(run, work, "1", PAWL_CALL(.undo = "un" work))

static const char *trip(pawl_run *run, const char *input)
{
    pawl_future *two[] = {TOGETHER("flight"), TOGETHER("hotel")};
    pawl_all(run, two, 2);
    return input;
}

/* The workflow does not wait for the hotel any more; but it is being booked. */
static const char *changed_plans(pawl_run *run, const char *input)
{
    pawl_future *room = TOGETHER("hotel");
    (void)input;
    pawl_receive(run, "begun", PAWL_FOREVER, NULL);
    pawl_future_cancel(run, room);
    return pawl_fail(run, "changed", "plans have");
}

static const char *clean(pawl_run *run, const char *input)
{
    pawl_finally(run, "sweep", "1");
    pawl_call_later(run, "hotel", "1", NULL);
    pawl_receive(run, "begun", PAWL_FOREVER, NULL);
    return input;
}

/* ---- The engine ---- */

static void open_engine(served_fixture *v, const pawl_options *options)
{
    engine_fixture *s = v->fixture;
    const pawl_work_options *mine = PAWL_WORK(.arg = s);
    v->p = fixture_open(s, options);
    FIXTURE_REGISTER(s, v->p, trip);
    FIXTURE_REGISTER(s, v->p, changed_plans);
    FIXTURE_REGISTER(s, v->p, clean);
    FIXTURE_CODE(s, v->p, pawl_register_work(v->p, "hotel", hotel, mine), PAWL_OK);
    FIXTURE_CODE(s, v->p, pawl_register_work(v->p, "flight", flight, mine), PAWL_OK);
    FIXTURE_CODE(s, v->p, pawl_register_work(v->p, "unhotel", undo, mine), PAWL_OK);
    FIXTURE_CODE(s, v->p, pawl_register_work(v->p, "unflight", undo, mine), PAWL_OK);
    FIXTURE_CODE(s, v->p, pawl_register_work(v->p, "sweep", undo, mine), PAWL_OK);
}

static served_fixture serve(conf *c, int64_t drain_ms)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    open_engine(&v, PAWL_OPTIONS(.threads = 3, .drain_ms = drain_ms));
    served_begin(&v);
    return v;
}

/* Its function was left: it fails, or has failed. */
static int is_left(served_fixture *v)
{
    pawl_phase phase = fixture_phase(v->fixture, v->p, "run");
    return phase == PAWL_RUN_FAILING || phase == PAWL_RUN_FAILED || phase == PAWL_RUN_DONE;
}

static void let_go(served_fixture *v)
{
    TMP_AWAIT(is_left(v));
    atomic_store(fixture_number(v->fixture, LET_GO), 1);
}

/* ---- Tests ---- */

#define UNDONE(name, result) name ":{\"input\":1,\"result\":" result "}"

static void what_is_undone_has_returned(conf *c)
{
    served_fixture v = serve(c, 60000);
    engine_fixture *s = v.fixture;
    fixture_start(s, v.p, "trip", "run", "7");
    let_go(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_FAILED);
    FIXTURE_NOTES(s,
                  "flight hotel " UNDONE("unhotel", "\"room 7\"") " " UNDONE("unflight", "null"));
    FIXTURE_HISTORY(s, v.p, "run",
                    "undo-of:unflight call:flight undo-of:unhotel call:hotel failed ending:failed "
                    "done clean-up:unhotel done clean-up:unflight done");
    served_end(&v);
}

/* A work function that looks at pawl_work_cancelled() keeps no undo waiting. */
static void a_later_step_is_asked_to_stop_before_it_is_undone(conf *c)
{
    served_fixture v = serve(c, PAWL_FOREVER);
    engine_fixture *s = v.fixture;
    atomic_store(fixture_number(s, LISTENS), 1);
    fixture_start(s, v.p, "trip", "run", "7");
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_FAILED);
    FIXTURE_NOTES(s, "flight hotel " UNDONE("unhotel", "null") " " UNDONE("unflight", "null"));
    served_end(&v);
}

static void a_later_step_that_does_not_return_is_not_waited_for_for_ever(conf *c)
{
    served_fixture v = serve(c, 1);
    engine_fixture *s = v.fixture;
    fixture_start(s, v.p, "trip", "run", "7");
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_FAILED);
    assert_int_equal(number(s, INSIDE), 1);
    FIXTURE_NOTES(s, "flight " UNDONE("unhotel", "null") " " UNDONE("unflight", "null"));
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    served_end(&v);
}

static void nor_is_one_that_was_cancelled_forgotten(conf *c)
{
    served_fixture v = serve(c, 60000);
    engine_fixture *s = v.fixture;
    fixture_start(s, v.p, "changed_plans", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    FIXTURE_CODE(s, v.p, pawl_send(v.p, "run", "begun", "1", NULL), PAWL_OK);
    let_go(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_FAILED);
    FIXTURE_NOTES(s, "hotel " UNDONE("unhotel", "null"));
    FIXTURE_HISTORY(s, v.p, "run",
                    "undo-of:unhotel call:hotel receive:begun message future-cancel ending:failed "
                    "clean-up:unhotel done");
    served_end(&v);
}

static void a_finally_comes_after_all(conf *c)
{
    served_fixture v = serve(c, 60000);
    engine_fixture *s = v.fixture;
    fixture_start(s, v.p, "clean", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    FIXTURE_CODE(s, v.p, pawl_send(v.p, "run", "begun", "1", NULL), PAWL_OK);
    let_go(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(s, "hotel sweep:1");
    served_end(&v);
}

/* The engine stops in between: what came of it is recorded, and the next one goes on from that. */
static void the_result_of_a_later_step_outlives_the_process(conf *c)
{
    served_fixture v = serve(c, 60000);
    engine_fixture *s = v.fixture;
    fixture_start(s, v.p, "trip", "run", "7");
    TMP_AWAIT(is_left(&v));
    served_stop_and_set(&v, LET_GO);
    pawl_close(v.p);
    FIXTURE_NOTES(s, "flight hotel");
    open_engine(&v, NULL);
    FIXTURE_FAILED(s, v.p, "run", "full", "no seat");
    FIXTURE_NOTES(s,
                  "flight hotel " UNDONE("unhotel", "\"room 7\"") " " UNDONE("unflight", "null"));
    pawl_close(v.p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"what is undone has returned", what_is_undone_has_returned, 0},
    {"a later step is asked to stop before it is undone",
     a_later_step_is_asked_to_stop_before_it_is_undone, 0},
    {"a later step that does not return is not waited for for ever",
     a_later_step_that_does_not_return_is_not_waited_for_for_ever, 0},
    {"one that was cancelled", nor_is_one_that_was_cancelled_forgotten, 0},
    {"a finally comes after all", a_finally_comes_after_all, 0},
    {"the result of a later step outlives the process",
     the_result_of_a_later_step_outlives_the_process, DB_DURABLE},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
