/* Which threads drive, from when to when: serve and stop, poll in a loop of the program's own,
 * finish of one run; and what is given back when they end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handle/handle.h"
#include "support/engine_fixture.h"

enum { LET_GO, INSIDE, ENTERED, LATE, OVER };
enum { ENDLESS = 1000000, SLEEPERS = 50 };

static const char *echo(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "echo", input);
}

/* Sleeps for its input. */
static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", -1));
    return FIXTURE_ECHO(run, "woken", input);
}

static const char *standing(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    atomic_store(fixture_number(s, INSIDE), 1);
    while (!atomic_load(fixture_number(s, LET_GO)))
        poll(NULL, 0, 1);
    return input;
}

static const char *blocked(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "stand", standing, input);
}

static pawl *open_all(engine_fixture *s, int64_t threads)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = threads));
    FIXTURE_REGISTER(s, p, echo);
    FIXTURE_REGISTER(s, p, sleeping);
    FIXTURE_REGISTER(s, p, blocked);
    return p;
}

static pthread_t start_thread(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, body, arg), 0);
    return thread;
}

static void join_thread(pthread_t thread)
{
    void *failed = NULL;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

/* ---- Serve and stop ---- */

static void served_until_stopped(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 2);
    for (int i = 0; i < 2; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "echo", id, "1");
        pthread_t server = start_thread(fixture_serve, p);
        FIXTURE_CODE(s, p, pawl_wait(p, id, PAWL_FOREVER, NULL), PAWL_OK);
        if (i == 1) /* it was left, and is found */
            FIXTURE_CODE(s, p, pawl_wait(p, "left", PAWL_FOREVER, NULL), PAWL_OK);
        pawl_stop(p);
        join_thread(server);
        fixture_start(s, p, "echo", "left", "1");
        FIXTURE_CODE(s, p, pawl_wait(p, "left", 0, NULL), i == 0 ? PAWL_TIMEOUT : PAWL_OK);
    }
    pawl_close(p);
    fixture_free(s);
}

static void a_stop_before_pawl_serve_is_kept(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 1);
    fixture_start(s, p, "blocked", "run", "1");
    pawl_stop(p);
    pawl_stop(p);                               /* as often as one likes */
    FIXTURE_CODE(s, p, pawl_serve(p), PAWL_OK); /* and it comes back */
    pawl_stop(p);
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_CLOSED);
    pawl_stop(p);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_CLOSED);
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    pawl_close(p);
    fixture_free(s);
}

/* Mutable on purpose: a signal handler can be told in no other way. */
static pawl *volatile to_stop;

static void on_signal(int signal_number)
{
    (void)signal_number;
    pawl_stop(to_stop);
}

static void stopped_by_a_signal(conf *c)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 2);
    to_stop = p;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    fixture_start(s, p, "echo", "run", "1");
    pthread_t server = start_thread(fixture_serve, p);
    FIXTURE_CODE(s, p, pawl_wait(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    kill(getpid(), SIGUSR1);
    join_thread(server);
    sigaction(SIGUSR1, &before, NULL);
    pawl_close(p);
    fixture_free(s);
}

typedef struct waiter {
    pawl *p;
    pawl_code (*call)(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out);
    pawl_code rc;
    atomic_int done;
} waiter;

static void *wait_long(void *arg)
{
    waiter *w = arg;
    w->rc = w->call(w->p, "run", PAWL_FOREVER, NULL);
    atomic_store(&w->done, 1);
    return NULL;
}

/* Every wait on the handle returns. A thread that has not begun to wait yet hears the next stop. */
static void a_stop_ends_every_wait(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 2);
    fixture_start(s, p, "blocked", "run", "1");
    waiter waits = {.p = p, .call = pawl_wait}, finishes = {.p = p, .call = pawl_finish};
    pthread_t server = start_thread(fixture_serve, p);
    TMP_AWAIT(atomic_load(fixture_number(s, INSIDE)) == 1);
    pthread_t one = start_thread(wait_long, &waits), two = start_thread(wait_long, &finishes);
    TMP_AWAIT((pawl_stop(p), atomic_load(&waits.done) && atomic_load(&finishes.done)));
    join_thread(one);
    join_thread(two);
    assert_int_equal(waits.rc, PAWL_CLOSED);
    assert_int_equal(finishes.rc, PAWL_CLOSED);
    atomic_store(fixture_number(s, LET_GO), 1);
    join_thread(server);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Drain ---- */

/* The first time it stands still until it is let go, whatever it is told. */
static const char *stand_once(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "stand");
    if (atomic_fetch_add(fixture_number(s, ENTERED), 1) > 0)
        return input;
    while (!atomic_load(fixture_number(s, LET_GO)))
        poll(NULL, 0, 1);
    atomic_store(fixture_number(s, LATE), pawl_work_cancelled(work) ? 2 : 1);
    return "\"this is not heard\"";
}

static const char *once(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "stand", stand_once, input);
}

static void stop_it(pawl *p, pthread_t server)
{
    pawl_stop(p);
    join_thread(server);
}

/* What does not end in time is left where it is: the run goes on without it, here as anywhere, and
 * what it gives in the end is dropped. The handle is as good as before. */
static void a_function_that_does_not_end_is_left(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .drain_ms = 50));
    FIXTURE_REGISTER(s, p, once);
    FIXTURE_REGISTER(s, p, echo);
    pthread_t server = start_thread(fixture_serve, p);
    fixture_start(s, p, "once", "run", "5");
    TMP_AWAIT(atomic_load(fixture_number(s, ENTERED)) == 1);
    stop_it(p, server);
    assert_int_equal(atomic_load(fixture_number(s, LATE)), 0);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(atomic_load(fixture_number(s, LATE)), 0);
    fixture_start(s, p, "echo", "other", "1");
    FIXTURE_CODE(s, p, pawl_finish(p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    atomic_store(fixture_number(s, LET_GO), 1);
    server = start_thread(fixture_serve, p); /* which waits for it */
    fixture_start(s, p, "echo", "third", "1");
    FIXTURE_CODE(s, p, pawl_wait(p, "third", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(atomic_load(fixture_number(s, LATE)), 2);
    stop_it(p, server);
    FIXTURE_HISTORY(s, p, "run", "step:stand");
    FIXTURE_NOTES(s, "stand stand echo echo");
    pawl_close(p);
    fixture_free(s);
}

static void *let_go(void *arg)
{
    engine_fixture *s = arg;
    TMP_AWAIT(atomic_load(fixture_number(s, OVER)) == 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    return NULL;
}

/* So does closing wait for it. */
static void a_close_waits_for_what_was_left(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .drain_ms = 50));
    FIXTURE_REGISTER(s, p, once);
    fixture_start(s, p, "once", "run", "5");
    pthread_t server = start_thread(fixture_serve, p);
    TMP_AWAIT(atomic_load(fixture_number(s, ENTERED)) == 1);
    stop_it(p, server);
    pthread_t other = start_thread(let_go, s);
    atomic_store(fixture_number(s, OVER), 1);
    pawl_close(p);
    assert_int_equal(atomic_load(fixture_number(s, LATE)), 2);
    join_thread(other);
    fixture_free(s);
}

/* For how long one of the nodes has been silent; 0 where none has to send heartbeats. */
static int64_t silence_ms(engine_fixture *s, pawl *p)
{
    static const db_sql LAST = {"SELECT coalesce(min(at), $1) FROM {beats}", "i"};
    const db_value now[] = {db_int(fixture_now(s))};
    return fixture_now(s) - conf_number(handle_db(p), &LAST, now, 1);
}

/* While it drains a node is alive: no other node takes over what is under way. Time goes on when
 * both nodes have sent a heartbeat, so that a busy machine does not make one of them silent. */
static void a_draining_node_is_alive(conf *c)
{
    FIXTURE_BY_HAND();
    enum { CLAIM_MS = 60000 };
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(
        s, PAWL_OPTIONS(.threads = 1, .claim_ms = CLAIM_MS, .drain_ms = PAWL_HOURS(1)));
    pawl *other = fixture_open(s, PAWL_OPTIONS(.threads = -1, .claim_ms = CLAIM_MS));
    FIXTURE_REGISTER(s, p, once);
    FIXTURE_REGISTER(s, other, once);
    fixture_poll(s, other);
    pthread_t server = start_thread(fixture_serve, p);
    fixture_start(s, p, "once", "run", "5");
    TMP_AWAIT(atomic_load(fixture_number(s, ENTERED)) == 1);
    pawl_stop(p);
    for (int i = 0; i < 40; i++) { /* four claims */
        fixture_advance(s, CLAIM_MS / 10);
        TMP_AWAIT((fixture_poll(s, other), silence_ms(s, other) < CLAIM_MS / 10));
    }
    assert_int_equal(atomic_load(fixture_number(s, ENTERED)), 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    join_thread(server);
    FIXTURE_NOTES(s, "stand");
    FIXTURE_CODE(s, other, pawl_wait(other, "run", 0, NULL), PAWL_OK);
    pawl_close(p);
    pawl_close(other);
    fixture_free(s);
}

static const char *endless(pawl_run *run, const char *input)
{
    for (int i = 0; i < ENDLESS; i++)
        pawl_drop(run, FIXTURE_ECHO(run, "echo", input));
    return input;
}

/* Where the storage does not answer, a stop does not wait for it for ever. */
static void stopped_without_the_storage(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    db *d = conf_open(c, NULL);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .drain_ms = 100, .busy_ms = 100));
    FIXTURE_REGISTER(s, p, endless);
    fixture_start(s, p, "endless", "run", "1");
    pthread_t server = start_thread(fixture_serve, p);
    TMP_AWAIT(fixture_count(s, "echo") > 0);
    db_conn *lock = conf_lock(d);
    stop_it(p, server);
    conf_unlock(lock);
    db_close(d);
    pawl_code rc; /* it can be gone on with, when the committer tries again */
    TMP_AWAIT((rc = pawl_finish(p, "run", 50, NULL)) != PAWL_BUSY);
    FIXTURE_CODE(s, p, rc, PAWL_TIMEOUT);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    pawl_close(p);
    fixture_free(s);
}

static void *hold_and_release(void *arg)
{
    engine_fixture *s = ((void **)arg)[0];
    pawl *p = ((void **)arg)[1];
    for (int i = 0; !atomic_load(fixture_number(s, OVER)); i++) {
        char id[32];
        snprintf(id, sizeof id, "sleeps-%d", i % SLEEPERS);
        FIXTURE_CODE(s, p, pawl_hold(p, id, NULL), PAWL_OK);
        FIXTURE_CODE(s, p, pawl_release(p, id), PAWL_OK);
        FIXTURE_CODE(s, p, pawl_wait(p, id, 0, NULL), PAWL_TIMEOUT);
    }
    return NULL;
}

/* Clients look for runs while the node that has them goes, and comes again. */
static void clients_beside_a_stop(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 2);
    void *arg[] = {s, p};
    for (int i = 0; i < SLEEPERS; i++) {
        char id[32];
        snprintf(id, sizeof id, "sleeps-%d", i);
        fixture_start(s, p, "sleeping", id, "3600000");
    }
    pthread_t client = start_thread(hold_and_release, arg);
    for (int i = 0; i < 30; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        pthread_t server = start_thread(fixture_serve, p);
        fixture_start(s, p, "echo", id, "1");
        FIXTURE_CODE(s, p, pawl_wait(p, id, PAWL_FOREVER, NULL), PAWL_OK);
        stop_it(p, server);
    }
    atomic_store(fixture_number(s, OVER), 1);
    join_thread(client);
    pawl_close(p);
    fixture_free(s);
}

/* ---- One at a time ---- */

static void one_drives_at_a_time(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 2);
    fixture_start(s, p, "blocked", "run", "1");
    pthread_t server = start_thread(fixture_serve, p);
    TMP_AWAIT(atomic_load(fixture_number(s, INSIDE)) == 1);
    FIXTURE_CODE(s, p, pawl_serve(p), PAWL_MISUSE);
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_MISUSE);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, NULL), PAWL_TIMEOUT); /* its threads do that */
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    pawl_stop(p);
    join_thread(server);
    pawl_close(p);
    p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_serve(p), PAWL_MISUSE); /* it has no threads */
    pawl_close(p);
    fixture_free(s);
}

typedef struct finisher {
    pawl *p;
    char id[32];
    pthread_t thread;
    pawl_code rc;
} finisher;

static void *finish_one(void *arg)
{
    finisher *f = arg;
    f->rc = pawl_finish(f->p, f->id, PAWL_FOREVER, NULL);
    return NULL;
}

/* Several threads finish a run each: one after the other, all of them. */
static void several_threads_finish_a_run_each(conf *c)
{
    enum { COUNT = 5 };
    finisher all[COUNT];
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, 0);
    for (int i = 0; i < COUNT; i++) {
        all[i] = (finisher){.p = p, .rc = PAWL_INTERNAL};
        snprintf(all[i].id, sizeof all[i].id, "run-%d", i);
        fixture_start(s, p, "sleeping", all[i].id, "20");
    }
    for (int i = 0; i < COUNT; i++)
        all[i].thread = start_thread(finish_one, &all[i]);
    for (int i = 0; i < COUNT; i++) {
        join_thread(all[i].thread);
        assert_int_equal(all[i].rc, PAWL_OK);
    }
    assert_int_equal(fixture_count(s, "woken"), COUNT);
    pawl_close(p);
    fixture_free(s);
}

/* ---- In a loop of the program's own ---- */

/* The descriptor and the time-out are enough: no poll is made too much, and none too little. */
static void pawl_poll_in_an_event_loop_of_the_application(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, -1);
    int loops = 0;
    assert_int_equal(pawl_timeout(p), 0); /* before the first poll */
    for (int i = 0; i < 5; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", 10 * i);
        fixture_start(s, p, "sleeping", id, input);
    }
    while (fixture_count(s, "woken") < 5) {
        struct pollfd fd = {pawl_fd(p), POLLIN, 0};
        assert_true(poll(&fd, 1, pawl_timeout(p)) >= 0);
        FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
        loops++;
    }
    assert_in_range(loops, 1, 200);
    pawl_close(p);
    fixture_free(s);
}

typedef struct client {
    pawl *p;
    pawl_code rc;
} client;

static void *start_from_a_thread(void *arg)
{
    client *t = arg;
    t->rc = pawl_start(t->p, "echo", "run", "1", NULL);
    return NULL;
}

/* Idle, and for a long time: then another thread starts a run. */
static void the_descriptor_tells_of_a_start(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_all(s, -1);
    client t = {p, PAWL_INTERNAL};
    struct pollfd fd = {pawl_fd(p), POLLIN, 0};
    fixture_poll(s, p);
    while (poll(&fd, 1, 0) > 0)
        fixture_poll(s, p);
    assert_true(pawl_timeout(p) > 0);
    pthread_t thread = start_thread(start_from_a_thread, &t);
    assert_int_equal(poll(&fd, 1, tmp_patience() * 1000), 1);
    join_thread(thread);
    assert_int_equal(t.rc, PAWL_OK);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Finish ---- */

static void finish_drives_its_run_alone(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl_outcome *end = NULL;
    pawl *p = open_all(s, -1);
    fixture_start(s, p, "echo", "other", "1");
    fixture_start(s, p, "echo", "run", "[2]");
    fixture_start(s, p, "echo", "third", "3");
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), "[2]");
    pawl_outcome_free(end);
    FIXTURE_NOTES(s, "echo");
    assert_int_equal(fixture_phase(s, p, "other"), PAWL_RUN_LIVE);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, NULL), PAWL_OK); /* it has ended */
    FIXTURE_CODE(s, p, pawl_finish(p, "third", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "other", "1");
    pawl_close(p);
    fixture_free(s);
}

/* Out of time, it gives the run back: another engine goes on at once, without a silence. */
static void finish_gives_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_all(s, -1), *other = open_all(s, -1);
    fixture_start(s, p, "sleeping", "run", "1000");
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, NULL), PAWL_TIMEOUT);
    fixture_advance(s, 1000);
    FIXTURE_DONE(s, other, "run", "1000");
    FIXTURE_HISTORY(s, p, "run", "sleep woken step:woken");
    pawl_close(p);
    pawl_close(other);
    fixture_free(s);
}

/* A run that another node drives is waited for, not touched. */
static void finish_waits_for_another_node(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_all(s, -1), *owner = open_all(s, 1);
    fixture_start(s, owner, "blocked", "run", "9");
    pthread_t server = start_thread(fixture_serve, owner);
    TMP_AWAIT(atomic_load(fixture_number(s, INSIDE)) == 1);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 50, NULL), PAWL_TIMEOUT);
    finisher f = {.p = p, .id = "run", .rc = PAWL_INTERNAL};
    f.thread = start_thread(finish_one, &f);
    atomic_store(fixture_number(s, LET_GO), 1);
    join_thread(f.thread);
    assert_int_equal(f.rc, PAWL_OK);
    FIXTURE_HISTORY(s, p, "run", "step:stand");
    pawl_stop(owner);
    join_thread(server);
    pawl_close(owner);
    pawl_close(p);
    fixture_free(s);
}

/* A closed engine leaves its runs to others at once. */
static void a_close_gives_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_all(s, -1), *other = open_all(s, -1);
    fixture_start(s, p, "sleeping", "run", "1000");
    fixture_poll(s, p);
    fixture_poll(s, other);
    pawl_close(p);
    fixture_advance(s, 1000);
    FIXTURE_DONE(s, other, "run", "1000");
    FIXTURE_NOTES(s, "woken");
    pawl_close(other);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"served until stopped", served_until_stopped, 0},
    {"a stop before pawl_serve is kept", a_stop_before_pawl_serve_is_kept, 0},
    {"stopped by a signal", stopped_by_a_signal, 0},
    {"a stop ends every wait", a_stop_ends_every_wait, 0},
    {"a function that does not end is left", a_function_that_does_not_end_is_left, 0},
    {"a close waits for what was left", a_close_waits_for_what_was_left, 0},
    {"a draining node is alive", a_draining_node_is_alive, DB_SHARED},
    {"stopped without the storage", stopped_without_the_storage, DB_SHARED},
    {"clients beside a stop", clients_beside_a_stop, 0},
    {"one drives at a time", one_drives_at_a_time, 0},
    {"several threads finish a run each", several_threads_finish_a_run_each, 0},
    {"pawl_poll in an event loop of the application", pawl_poll_in_an_event_loop_of_the_application,
     0},
    {"the descriptor tells of a start", the_descriptor_tells_of_a_start, 0},
    {"finish drives its run alone", finish_drives_its_run_alone, 0},
    {"finish gives back", finish_gives_back, DB_SHARED},
    {"finish waits for another node", finish_waits_for_another_node, DB_SHARED},
    {"a close gives back", a_close_gives_back, DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
