/* Runs that kill their process (poison): after some deaths they are held, and no other run is.
 * Processes live here with threads, and while they do the time of the fixture goes by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/quarantine.h"
#include "support/engine_fixture.h"

enum {
    INNOCENTS = 20,
    ROUNDS_MAX = 40,
    CLAIM_MS = 100000,
    BACK_OFF_MS = 6000, /* longer than quarantined runs wait */
    SPEED = 25,         /* of the fixture's time, while processes live */
};

/* Numbers of the fixture: */
enum {
    LET_GO,   /* 1: the stubborn one may end its step */
    HARMLESS, /* 1: the deadly one does no harm any more */
    TRIES,    /* of the one that gets further */
    DEATHS,   /* so many deadly steps are expected */
    NO_FLOWS, /* 1: processes have work functions only, and no workflow */
};

/* ---- Workflows ---- */

static const char *kill_yourself(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "deadly");
    if (!atomic_load(fixture_number(s, HARMLESS)))
        raise(SIGKILL);
    return input;
}

static const char *deadly(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "before", fixture_echo, input);
    return FIXTURE_STEP(run, "kill", kill_yourself, input);
}

/* The same beside the function, while that waits for something else. */
static const char *deadly_beside(pawl_run *run, const char *input)
{
    const pawl_call_options *with = PAWL_CALL(.arg = pawl_arg(run));
    pawl_future *both[] = {pawl_step_later(run, "before", fixture_echo, input, with), NULL};
    pawl_await(run, both[0]);
    both[1] = pawl_step_later(run, "kill", kill_yourself, input, with);
    pawl_all(run, both, 2);
    return input;
}

/* Fails at once; its undo is the deadly one. */
static const char *deadly_undo(pawl_run *run, const char *input)
{
    pawl_undo(run, "kill", input);
    return pawl_fail(run, "on purpose", "so that it is undone");
}

/* Down, until its stack is used up. */
static int dive(const volatile char *above, int depth)
{
    volatile char here[512];
    here[0] = above[0];
    return depth > 0 ? dive(here, depth - 1) + here[0] : 0;
}

static const char *bottomless(pawl_run *run, const char *input)
{
    const volatile char top = 1;
    fixture_note(pawl_arg(run), "deadly");
    return dive(&top, 1 << 20) ? input : "0";
}

static const char *innocent(pawl_run *run, const char *input)
{
    for (int i = 0; i < 4; i++) {
        FIXTURE_STEP(run, "innocent", fixture_echo, input);
        pawl_sleep(run, 2000);
    }
    return input;
}

/* It is in its step whenever the process dies, and never gets any further. */
static const char *take_long(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "stubborn");
    while (!atomic_load(fixture_number(s, LET_GO)))
        poll(NULL, 0, 1);
    return input;
}

static const char *stubborn(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "long", take_long, input);
}

static const char *sleeper(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_DAYS(365));
    return input;
}

/* It tells the test where it is, and stays there. */
static const char *stand(pawl_work *work, const char *input)
{
    fixture_send_and_await(pawl_work_arg(work), 'd');
    return input;
}

static const char *standing(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "stand", stand, input);
}

/* Asked for once a day, and what it says is not recorded: it never gets any further. */
static const char *answer(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "asked");
    return atomic_load(fixture_number(s, HARMLESS)) ? input : "null";
}

static const char *asking(pawl_run *run, const char *input)
{
    return pawl_until(run, "ask", answer, input, PAWL_DAYS(1), PAWL_FOREVER);
}

static const char *kill_once(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    if (atomic_fetch_add(fixture_number(s, TRIES), 1) % 2 == 0)
        raise(SIGKILL);
    return input;
}

/* Each of its steps is deadly the first time. */
static const char *gets_further(pawl_run *run, const char *input)
{
    for (int i = 0; i < 2 * POISON_DEATHS; i++)
        FIXTURE_STEP(run, "next", kill_once, input);
    return input;
}

/* ---- Processes ---- */

static void register_all(engine_fixture *s, pawl *p)
{
    fixture_register_work(s, p, "kill", kill_yourself);
    if (atomic_load(fixture_number(s, NO_FLOWS)))
        return;
    FIXTURE_REGISTER(s, p, deadly_undo);
    FIXTURE_REGISTER(s, p, deadly);
    FIXTURE_REGISTER(s, p, bottomless);
    FIXTURE_REGISTER(s, p, deadly_beside);
    FIXTURE_REGISTER(s, p, innocent);
    FIXTURE_REGISTER(s, p, stubborn);
    FIXTURE_REGISTER(s, p, sleeper);
    FIXTURE_REGISTER(s, p, standing);
    FIXTURE_REGISTER(s, p, asking);
    fixture_register_work(s, p, "ask", answer);
    FIXTURE_REGISTER(s, p, gets_further);
}

/* In a child, which drives until it dies. */
static void serve(engine_fixture *s, void *build)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 3, .build = build, .claim_ms = CLAIM_MS));
    register_all(s, p);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); /* not a sanitizer's */
    pawl_serve(p);
}

static void start_all(engine_fixture *s, const char *const *ids, int innocents)
{
    pawl *p = fixture_open(s, NULL);
    for (; *ids; ids++)
        fixture_start(s, p, *ids, *ids, "1");
    for (int i = 0; i < innocents; i++) {
        char id[32];
        snprintf(id, sizeof id, "innocent-%d", i);
        fixture_start(s, p, "innocent", id, "1");
    }
    pawl_close(p);
}

/* Wait for its death, for a little while in which the fixture's time goes by. */
static int is_dead(engine_fixture *s, const tmp_child *c)
{
    struct pollfd fd = {c->from, POLLIN, 0};
    int64_t passed = 0;
    for (int i = 0; i < 10; i++, passed += 2)
        if (poll(&fd, 1, 2) > 0)
            return 1;
    fixture_advance(s, SPEED * passed);
    return 0;
}

/* Is it over? Asked while a process drives. */
typedef int until_fn(engine_fixture *s, pawl *p);

/* Process after process, until it is over; each gets the time to take over from the one before.
 * Gives how many have died by themselves. */
static int live_through(engine_fixture *s, const char *build, until_fn *until)
{
    int deaths = 0, over = 0;
    while (!over) {
        assert_true(deaths < ROUNDS_MAX);
        tmp_child c = fixture_fork(s, serve, (void *)build);
        pawl *p = fixture_open(s, NULL);
        int dead = 0;
        int64_t deadline = tmp_deadline();
        while (!(dead = is_dead(s, &c)) && !(over = until(s, p)))
            tmp_pause(deadline, "its end", __FILE__, __LINE__);
        pawl_close(p);
        if (!dead)
            tmp_kill(&c);
        else
            assert_true(WIFSIGNALED(tmp_reap(&c)));
        deaths += dead;
        fixture_advance(s, CLAIM_MS + 1000);
    }
    return deaths;
}

static int is_held(engine_fixture *s, pawl *p)
{
    return fixture_count(s, "deadly") >= atomic_load(fixture_number(s, DEATHS)) &&
           fixture_phase(s, p, "deadly") == PAWL_RUN_HELD;
}

/* Live through this many deaths, and no more. */
static void expect_deaths(engine_fixture *s, const char *build, int deaths)
{
    int before = fixture_count(s, "deadly");
    atomic_store(fixture_number(s, DEATHS), before + deaths);
    assert_int_equal(live_through(s, build, is_held), deaths);
    assert_int_equal(fixture_count(s, "deadly"), before + deaths);
}

static int is_done(engine_fixture *s, pawl *p)
{
    return fixture_phase(s, p, "deadly") == PAWL_RUN_DONE;
}

static int all_have_ended(engine_fixture *s, pawl *p)
{
    static const char *const IDS[] = {"stubborn", "gets_further", "deadly"};
    atomic_store(fixture_number(s, LET_GO), 1);
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++) {
        pawl_info *info = NULL;
        pawl_code rc = pawl_inspect(p, IDS[i], &info);
        pawl_phase phase = pawl_info_phase(info);
        pawl_info_free(info);
        if (rc == PAWL_OK && phase != PAWL_RUN_DONE && phase != PAWL_RUN_HELD)
            return 0;
    }
    for (int i = 0; i < INNOCENTS; i++) {
        char id[32];
        pawl_info *info = NULL;
        snprintf(id, sizeof id, "innocent-%d", i);
        pawl_code rc = pawl_inspect(p, id, &info);
        pawl_phase phase = pawl_info_phase(info);
        pawl_info_free(info);
        if (rc == PAWL_OK && phase != PAWL_RUN_DONE)
            return 0;
    }
    return 1;
}

/* ---- Cases ---- */

/* The first of its deaths comes after a step that it has got further by. */
static void only_the_run_that_kills_is_held(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"stubborn", "deadly", NULL}, INNOCENTS);
    expect_deaths(s, "a", POISON_DEATHS + 1);
    assert_int_equal(live_through(s, "a", all_have_ended), 0);
    assert_int_equal(fixture_count(s, "deadly"), POISON_DEATHS + 1);
    assert_int_equal(fixture_count(s, "before"), 1);
    pawl *p = fixture_open(s, NULL);
    assert_int_equal(fixture_phase(s, p, "stubborn"), PAWL_RUN_DONE);
    FIXTURE_HELD(s, p, "deadly", "5 times in a row the process died");
    pawl_close(p);
    fixture_free(s);
}

static void a_run_whose_job_kills_is_held(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"stubborn", NULL}, INNOCENTS);
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "deadly_beside", "deadly", "1");
    pawl_close(p);
    expect_deaths(s, "a", POISON_DEATHS + 1);
    assert_int_equal(live_through(s, "a", all_have_ended), 0);
    assert_int_equal(fixture_count(s, "before"), 1);
    p = fixture_open(s, NULL);
    assert_int_equal(fixture_phase(s, p, "stubborn"), PAWL_RUN_DONE);
    FIXTURE_HELD(s, p, "deadly", "5 times in a row the process died");
    pawl_close(p);
    fixture_free(s);
}

/* Not by its work, but in its own code. Nothing is recorded of it, and those beside it end. */
static void a_stack_that_overflows(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){NULL}, INNOCENTS);
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "bottomless", "deadly", "1");
    pawl_close(p);
    expect_deaths(s, "a", POISON_DEATHS);
    assert_int_equal(live_through(s, "a", all_have_ended), 0);
    p = fixture_open(s, NULL);
    FIXTURE_HELD(s, p, "deadly", "5 times in a row the process died");
    FIXTURE_HISTORY(s, p, "deadly", "");
    pawl_close(p);
    fixture_free(s);
}

static int has_failed(engine_fixture *s, pawl *p)
{
    return fixture_phase(s, p, "deadly") == PAWL_RUN_FAILED;
}

/* A node of another build may try, but has no such function: the run stays held for the reason for
 * which it was, and the first build does not get it again. */
static void another_build_lacks_it(engine_fixture *s)
{
    static const char *const BUILDS[] = {"b", "a", "b"};
    for (int i = 0; i < 3; i++) {
        pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = BUILDS[i]));
        if (i == 1)
            fixture_register_work(s, p, "kill", kill_yourself);
        for (int rounds = 0; rounds < 4; rounds++) {
            fixture_poll(s, p);
            fixture_advance(s, BACK_OFF_MS);
        }
        FIXTURE_HELD(s, p, "deadly", "5 times in a row the process died");
        pawl_close(p);
    }
}

/* An undo is a work function, and a node that has it needs no workflow. */
static void an_undo_is_guilty(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, deadly_undo);
    fixture_start(s, p, "deadly_undo", "deadly", "1");
    FIXTURE_HELD(s, p, "deadly", "kill"); /* there is no node with the work function yet */
    pawl_close(p);
    atomic_store(fixture_number(s, NO_FLOWS), 1);
    expect_deaths(s, "a", POISON_DEATHS + 1);
    p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = "a")); /* another one would try it */
    FIXTURE_HELD(s, p, "deadly",
                 "5 times in a row the process died while it executed this run, in its clean-up"
                 " kill");
    FIXTURE_HISTORY(s, p, "deadly", "undo:kill ending:failed clean-up:kill");
    pawl_close(p);
    another_build_lacks_it(s);
    atomic_store(fixture_number(s, HARMLESS), 1);
    assert_int_equal(live_through(s, "b", has_failed), 0);
    fixture_free(s);
}

static void a_run_that_gets_further_is_not_counted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"gets_further", NULL}, 0);
    assert_int_equal(live_through(s, "a", all_have_ended), 2 * POISON_DEATHS);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_DONE(s, p, "gets_further", "1");
    pawl_close(p);
    fixture_free(s);
}

/* Another build is let at it; so is the same one, when people say so. */
static void a_run_that_was_held_for_deaths_is_tried_by_another_build(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"deadly", NULL}, 0);
    expect_deaths(s, "a", POISON_DEATHS + 1);
    expect_deaths(s, "b", POISON_DEATHS);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_release(p, "deadly"), PAWL_OK);
    pawl_close(p);
    expect_deaths(s, "a", POISON_DEATHS);
    atomic_store(fixture_number(s, HARMLESS), 1);
    assert_int_equal(live_through(s, "c", is_done), 0);
    p = fixture_open(s, NULL);
    FIXTURE_DONE(s, p, "deadly", "1");
    pawl_close(p);
    fixture_free(s);
}

static void drive_by_hand(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, NULL);
    register_all(s, p);
    fixture_poll(s, p);
    fixture_advance(s, BACK_OFF_MS); /* then quarantined runs are let out too */
    fixture_poll(s, p);
    fixture_send_and_await(s, 'd');
}

/* It belongs to processes that die, but is not being executed. */
static void a_sleeping_run_is_not_counted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"sleeper", NULL}, 0);
    for (int i = 0; i < 2 * POISON_DEATHS; i++) {
        tmp_child child = fixture_fork(s, drive_by_hand, NULL);
        tmp_expect(&child, 'd');
        tmp_kill(&child);
        fixture_advance(s, PAWL_DAYS(1));
    }
    pawl *p = fixture_open(s, NULL);
    register_all(s, p);
    fixture_advance(s, PAWL_DAYS(365));
    FIXTURE_DONE(s, p, "sleeper", "1");
    pawl_close(p);
    fixture_free(s);
}

/* Claimed by each of those processes, and not begun: it stands behind the one that is guilty, until
 * that one is let out alone. */
static void a_waiting_run_is_not_counted(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"standing", "innocent", NULL}, 0);
    for (int i = 0; i < POISON_DEATHS; i++) {
        tmp_child child = fixture_fork(s, drive_by_hand, NULL);
        tmp_expect(&child, 'd');
        tmp_kill(&child);
        fixture_advance(s, PAWL_DAYS(1));
        int is_first = i < QUARANTINE_ALONE_FROM - 1;
        if (c->promises & DB_FILE &&
            is_first) /* elsewhere claims are not answered in their order */
            assert_int_equal(fixture_count(s, "innocent"), 0);
    }
    pawl *p = fixture_open(s, NULL);
    register_all(s, p);
    FIXTURE_HELD(s, p, "standing", "5 times in a row the process died");
    FIXTURE_DONE(s, p, "innocent", "1");
    pawl_close(p);
    fixture_free(s);
}

/* Engines that are closed in good order are no deaths. */
static void an_orderly_end_is_not_counted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    char *why = NULL;
    start_all(s, (const char *const[]){"asking", NULL}, 0);
    for (int i = 0; i < 2 * POISON_DEATHS; i++) {
        pawl *p = fixture_open(s, NULL);
        register_all(s, p);
        fixture_poll(s, p);
        pawl_close(p);
        fixture_advance(s, PAWL_DAYS(1));
    }
    assert_int_equal(fixture_count(s, "asked"), 2 * POISON_DEATHS);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_why(p, "asking", &why), PAWL_OK);
    assert_null(strstr(why, "It was claimed"));
    pawl_free(why);
    register_all(s, p);
    atomic_store(fixture_number(s, HARMLESS), 1);
    FIXTURE_DONE(s, p, "asking", "1");
    pawl_close(p);
    fixture_free(s);
}

/* Nor where a node has too many runs to give each of them back, and says only that it goes. */
static void however_many_there_are(conf *c)
{
    enum { MANY = 300, TIMES = 3 };
    char id[32];
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    for (int i = 0; i < MANY; i++) {
        snprintf(id, sizeof id, "asking-%d", i);
        fixture_start(s, p, "asking", id, "1");
    }
    pawl_close(p);
    for (int i = 0; i < TIMES; i++) {
        p = fixture_open(s, NULL);
        register_all(s, p);
        FIXTURE_UNTIL(s, p, fixture_count(s, "asked") >= (i + 1) * MANY);
        pawl_close(p);
        fixture_advance(s, PAWL_DAYS(1));
    }
    p = fixture_open(s, NULL);
    for (int i = 0; i < MANY; i += 50) {
        char *why = NULL;
        snprintf(id, sizeof id, "asking-%d", i);
        FIXTURE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
        assert_null(strstr(why, "It was claimed"));
        pawl_free(why);
    }
    pawl_close(p);
    fixture_free(s);
}

/* Nothing is left of dead nodes after the takeover. */
static int files_of_nodes(const conf *c)
{
    int count = 0;
    for (int node = 2; node < 100; node++) {
        char name[64], path[TMP_PATH];
        snprintf(name, sizeof name, "conf.db-running-%d", node);
        tmp_path(path, c->dir, name);
        count += tmp_size(path) >= 0;
    }
    return count;
}

static void in_flight_lists_are_deleted_with_their_nodes(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_all(s, (const char *const[]){"sleeper", NULL}, 0);
    for (int i = 0; i < 3; i++) {
        tmp_child child = fixture_fork(s, drive_by_hand, NULL);
        tmp_expect(&child, 'd');
        tmp_kill(&child);
    }
    assert_true(files_of_nodes(c) >= 1); /* the next node may have taken over */
    pawl *p = fixture_open(s, NULL);
    register_all(s, p);
    FIXTURE_UNTIL(s, p, files_of_nodes(c) == 1);
    pawl_close(p);
    assert_int_equal(files_of_nodes(c), 0);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-poison only the run that kills is held", only_the_run_that_kills_is_held, DB_SHARED},
        {"dx-poison a run whose job kills is held", a_run_whose_job_kills_is_held, DB_SHARED},
        {"dx-poison a stack that overflows", a_stack_that_overflows, DB_SHARED},
        {"dx-poison a run whose undo kills is held, on a node without the workflow",
         an_undo_is_guilty, DB_SHARED},
        {"dx-poison a run that gets further is not counted", a_run_that_gets_further_is_not_counted,
         DB_SHARED},
        {"dx-poison a run that was held for deaths is tried by another build",
         a_run_that_was_held_for_deaths_is_tried_by_another_build, DB_SHARED},
        {"dx-poison a sleeping run is not counted", a_sleeping_run_is_not_counted, DB_SHARED},
        {"dx-poison a waiting run is not counted", a_waiting_run_is_not_counted, DB_SHARED},
        {"an orderly end is not counted", an_orderly_end_is_not_counted, DB_SHARED},
        {"an orderly end is not counted for many runs", however_many_there_are, DB_SHARED},
        {"in-flight lists are deleted with their nodes",
         in_flight_lists_are_deleted_with_their_nodes, DB_FILE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
