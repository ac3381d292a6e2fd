/* Event loops and other processes: the descriptors of pawl_fd() and pawl_changes_fd() become
 * readable when another process has done something that concerns this engine. These engines go by
 * the system's clock, since only they listen without threads.
 *
 * The loop awaits nothing but the descriptor, without its time-out: looking once a second, which
 * would find everything too, does not happen here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "support/conf.h"

#include <pawl.h>

enum { MESSAGES = 3 };

typedef struct loop_fixture {
    conf *conf;
    pawl *p;
    int64_t position; /* in the change feed */
    int seen;         /* infos that were told of */
    atomic_int woken; /* messages that were received, runs that were executed */
} loop_fixture;

static const char *receiving(pawl_run *run, const char *input)
{
    loop_fixture *f = pawl_arg(run);
    for (int i = 0; i < MESSAGES; i++) {
        pawl_receive(run, "box", PAWL_FOREVER, NULL);
        if (atomic_load(&f->woken) <= i) /* a replay counts nothing twice */
            atomic_store(&f->woken, i + 1);
    }
    return input;
}

static const char *counting(pawl_run *run, const char *input)
{
    loop_fixture *f = pawl_arg(run);
    atomic_fetch_add(&f->woken, 1);
    return input;
}

static void open_engine(loop_fixture *f, conf *c, int64_t threads)
{
    *f = (loop_fixture){.conf = c};
    assert_int_equal(pawl_open(&f->p, c->url, PAWL_OPTIONS(.threads = threads)), PAWL_OK);
    assert_int_equal(pawl_register_workflow(f->p, "receiving", receiving, PAWL_WORKFLOW(.arg = f)),
                     PAWL_OK);
    assert_int_equal(pawl_register_workflow(f->p, "counting", counting, PAWL_WORKFLOW(.arg = f)),
                     PAWL_OK);
}

static int is_readable(int fd, int timeout_ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, timeout_ms) == 1;
}

/* Drive until there is nothing to do and nothing is said any more. */
static void settle(loop_fixture *f)
{
    int64_t did;
    do {
        assert_int_equal(pawl_poll(f->p, &did), PAWL_OK);
    } while (did > 0 || pawl_timeout(f->p) == 0 || is_readable(pawl_fd(f->p), 0));
}

/* Await the descriptor, and nothing else, until so much was done. */
static void await_woken(loop_fixture *f, int count)
{
    while (atomic_load(&f->woken) < count) {
        assert_true(is_readable(pawl_fd(f->p), tmp_patience() * 1000));
        settle(f);
    }
    assert_int_equal(atomic_load(&f->woken), count);
}

/* ---- Another process ---- */

/* What it does, each time that it is told to; with threads of its own, or without. */
typedef struct other_process {
    const char *url;
    int64_t threads;
    pawl_code (*act)(pawl *p, int number);
} other_process;

static void live(int in, int out, void *arg)
{
    const other_process *o = arg;
    pawl *p = NULL;
    TMP_CHECK(pawl_open(&p, o->url, PAWL_OPTIONS(.threads = o->threads)) == PAWL_OK);
    for (int i = 0; tmp_hear(in) == 'g'; i++) {
        TMP_CHECK(o->act(p, i) == PAWL_OK);
        tmp_tell(out, 'd');
    }
    pawl_close(p);
}

static tmp_child begin(other_process *o)
{
    return tmp_fork(live, o);
}

static void act(const tmp_child *c)
{
    tmp_tell(c->to, 'g');
    tmp_expect(c, 'd');
}

static void end(tmp_child *c)
{
    tmp_tell(c->to, 'e');
    tmp_join(c);
}

static pawl_code send_message(pawl *p, int number)
{
    (void)number;
    return pawl_send(p, "run", "box", "1", NULL);
}

static pawl_code start_run(pawl *p, int number)
{
    char id[32];
    snprintf(id, sizeof id, "other-%d", number);
    return pawl_start(p, "counting", id, "1", NULL);
}

static pawl_code release_run(pawl *p, int number)
{
    (void)number;
    return pawl_release(p, "run");
}

/* ---- pawl_fd ---- */

/* One message after the other, each sent when the one before it was received. */
static void hear_messages(conf *c, int64_t threads)
{
    loop_fixture f;
    other_process o = {c->url, threads, send_message};
    tmp_child child = begin(&o);
    open_engine(&f, c, -1);
    assert_int_equal(pawl_start(f.p, "receiving", "run", "1", NULL), PAWL_OK);
    settle(&f);
    for (int i = 1; i <= MESSAGES; i++) {
        act(&child);
        await_woken(&f, i);
    }
    end(&child);
    assert_int_equal(pawl_wait(f.p, "run", 0, NULL), PAWL_OK);
    pawl_close(f.p);
}

static void a_message_from_a_process_without_threads(conf *c)
{
    hear_messages(c, -1);
}

static void a_message_from_a_process_with_threads(conf *c)
{
    hear_messages(c, 1);
}

static void a_start_in_another_process(conf *c)
{
    loop_fixture f;
    other_process o = {c->url, -1, start_run};
    tmp_child child = begin(&o);
    open_engine(&f, c, -1);
    settle(&f);
    for (int i = 1; i <= 2; i++) {
        act(&child);
        await_woken(&f, i);
    }
    end(&child);
    pawl_close(f.p);
}

static void a_release_in_another_process(conf *c)
{
    loop_fixture f;
    other_process o = {c->url, -1, release_run};
    tmp_child child = begin(&o);
    open_engine(&f, c, -1);
    assert_int_equal(pawl_start(f.p, "counting", "run", "1", NULL), PAWL_OK);
    assert_int_equal(pawl_hold(f.p, "run", "for a test"), PAWL_OK);
    settle(&f);
    assert_int_equal(atomic_load(&f.woken), 0);
    act(&child);
    await_woken(&f, 1);
    end(&child);
    pawl_close(f.p);
}

/* A loop that is a node itself. Its second message comes too soon after the first for another
 * notification: the loop is called again when that may be sent. */
static pawl_code poll_and_send(pawl *p, int number)
{
    pawl_code rc = pawl_poll(p, NULL);
    for (int i = 0; rc == PAWL_OK && i < MESSAGES; i++) {
        rc = send_message(p, number);
        int64_t did = 1;
        while (rc == PAWL_OK && (did > 0 || pawl_timeout(p) < 10 || is_readable(pawl_fd(p), 0)))
            rc = pawl_poll(p, &did);
    }
    return rc;
}

static void messages_from_another_loop(conf *c)
{
    loop_fixture f;
    other_process o = {c->url, -1, poll_and_send};
    tmp_child child = begin(&o);
    open_engine(&f, c, -1);
    assert_int_equal(pawl_start(f.p, "receiving", "run", "1", NULL), PAWL_OK);
    settle(&f);
    act(&child);
    await_woken(&f, MESSAGES);
    end(&child);
    pawl_close(f.p);
}

/* ---- pawl_changes_fd ---- */

static int count_info(const pawl_info *info, void *arg)
{
    loop_fixture *f = arg;
    f->seen += info != NULL;
    return 0;
}

static pawl_code changes(loop_fixture *f)
{
    return pawl_changes(f->p, 0, count_info, f, &f->position);
}

/* Empty the descriptor until it stays so, as hints may come late. */
static void read_changes(loop_fixture *f)
{
    while (is_readable(pawl_changes_fd(f->p), 0)) {
        pawl_code rc = changes(f);
        assert_true(rc == PAWL_OK || rc == PAWL_TIMEOUT);
    }
}

static void await_seen(loop_fixture *f, int count)
{
    while (f->seen < count) {
        assert_true(is_readable(pawl_changes_fd(f->p), tmp_patience() * 1000));
        read_changes(f);
    }
}

static void *serve(void *arg)
{
    pawl *p = arg;
    return pawl_serve(p) == PAWL_OK ? NULL : p;
}

/* The loop of a dashboard beside pawl_serve(): runs are made and end on the engine's threads. */
static void changes_beside_serve(conf *c)
{
    loop_fixture f;
    pthread_t server;
    void *failed;
    open_engine(&f, c, 1);
    int fd = pawl_changes_fd(f.p);
    assert_true(fd >= 0);
    assert_true(is_readable(fd, 0)); /* at first */
    assert_int_equal(changes(&f), PAWL_TIMEOUT);
    assert_int_equal(pthread_create(&server, NULL, serve, f.p), 0);
    assert_int_equal(pawl_start(f.p, "counting", "run", "1", NULL), PAWL_OK);
    await_seen(&f, 1);
    assert_int_equal(pawl_wait(f.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(pawl_changes_fd(f.p), fd);
    pawl_stop(f.p);
    assert_int_equal(pthread_join(server, &failed), 0);
    assert_null(failed);
    pawl_close(f.p);
}

/* A descriptor that was emptied becomes readable by the next change, and not before. */
static void a_question_empties_the_descriptor(conf *c)
{
    loop_fixture f;
    open_engine(&f, c, -1);
    int fd = pawl_changes_fd(f.p);
    assert_int_equal(changes(&f), PAWL_TIMEOUT);
    assert_false(is_readable(fd, 0));
    assert_int_equal(pawl_start(f.p, "counting", "run", "1", NULL), PAWL_OK);
    assert_true(is_readable(fd, 0));
    assert_int_equal(changes(&f), PAWL_OK);
    assert_int_equal(f.seen, 1);
    assert_false(is_readable(fd, 0));
    assert_int_equal(pawl_changes_fd(NULL), -1);
    pawl_close(f.p);
}

/* The end of a run that another process drives. */
static const char *nothing(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static pawl_code finish_run(pawl *p, int number)
{
    char id[32];
    snprintf(id, sizeof id, "other-%d", number);
    pawl_code rc = number == 0 ? pawl_register_workflow(p, "nothing", nothing, NULL) : PAWL_OK;
    if (rc == PAWL_OK)
        rc = pawl_start(p, "nothing", id, "1", NULL);
    return rc == PAWL_OK ? pawl_finish(p, id, PAWL_FOREVER, NULL) : rc;
}

static void changes_of_another_process(conf *c)
{
    loop_fixture f;
    other_process o = {c->url, -1, finish_run};
    tmp_child child = begin(&o);
    open_engine(&f, c, 1);
    read_changes(&f);
    for (int i = 1; i <= 2; i++) {
        int before = f.seen;
        act(&child);
        await_seen(&f, before + 1);
        char id[32];
        snprintf(id, sizeof id, "other-%d", i - 1);
        assert_int_equal(pawl_wait(f.p, id, 0, NULL), PAWL_OK);
    }
    end(&child);
    pawl_close(f.p);
}

/* ---- The end of a run ---- */

/* Takes longer than a poll may. */
static const char *take_long(pawl_work *work, const char *input)
{
    (void)work;
    poll(NULL, 0, 20);
    return input;
}

static const char *stepping(pawl_run *run, const char *input)
{
    return pawl_step(run, "long", take_long, input, NULL);
}

/* Empty the descriptor of pawl_changes_fd(), without turning the change feed on: that tells other
 * processes of all that happens. */
static void read_hints(loop_fixture *f)
{
    char bytes[8];
    while (is_readable(pawl_changes_fd(f->p), 100))
        assert_true(read(pawl_changes_fd(f->p), bytes, sizeof bytes) > 0);
}

/* The last unit of the run is committed by the close, behind the last poll. A client that waits for
 * the end hears of it all the same. */
static void an_end_that_a_close_commits(conf *c)
{
    loop_fixture f = {.conf = c}, client;
    open_engine(&client, c, 1);
    assert_int_equal(pawl_open(&f.p, c->url, PAWL_OPTIONS(.threads = -1, .poll_ms = 1)), PAWL_OK);
    assert_int_equal(pawl_register_workflow(f.p, "stepping", stepping, NULL), PAWL_OK);
    settle(&f);
    assert_int_equal(pawl_start(f.p, "stepping", "run", "1", NULL), PAWL_OK);
    assert_int_equal(pawl_wait(client.p, "run", 500, NULL), PAWL_TIMEOUT); /* watched now */
    assert_int_equal(pawl_poll(f.p, NULL), PAWL_OK);
    read_hints(&client);
    assert_int_equal(pawl_wait(client.p, "run", 0, NULL), PAWL_TIMEOUT);
    pawl_close(f.p);
    assert_true(is_readable(pawl_changes_fd(client.p), tmp_patience() * 1000));
    assert_int_equal(pawl_wait(client.p, "run", 0, NULL), PAWL_OK);
    pawl_close(client.p);
}

static const conf_case CASES[] = {
    {"an end that a close commits", an_end_that_a_close_commits, DB_SHARED},
    {"a message from a process without threads", a_message_from_a_process_without_threads,
     DB_SHARED},
    {"a message from a process with threads", a_message_from_a_process_with_threads, DB_SHARED},
    {"a start in another process", a_start_in_another_process, DB_SHARED},
    {"a release in another process", a_release_in_another_process, DB_SHARED},
    {"messages from another loop", messages_from_another_loop, DB_SHARED},
    {"changes beside serve", changes_beside_serve, 0},
    {"a question empties the descriptor", a_question_empties_the_descriptor, 0},
    {"changes of another process", changes_of_another_process, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
