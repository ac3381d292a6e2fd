/* Several processes on one database: nothing is lost, every process gets a turn (B2), and none has
 * to wait for a process that is dead or stopped.
 *
 * Fairness is counted in batches of the others, never in time, and by what most turns had to wait
 * for: a process that the system puts off right before it asks misses any number of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/db_sqlite.h"
#include "db/turnstile.h"
#include "support/conf.h"

enum { PROCESSES_MAX = 4, ROUNDS = 40 };

/* What all processes of a test see. */
typedef struct shared {
    atomic_int stop;
    atomic_llong batches[PROCESSES_MAX];
    long long waits[ROUNDS]; /* how many batches of others went before each of one's own */
} shared;

typedef struct job {
    const conf *conf;
    int me;
    long long count;
    shared *shared;
} job;

/* ---- In the children ---- */

static db *child_open(const conf *c)
{
    db *d = NULL;
    error err = {0};
    db_options o = {.url = c->url, .busy_ms = 60000};
    if (db_open(&d, &o, &err) != PAWL_OK) {
        fprintf(stderr, "%s: %s\n", err.message, err.detail);
        _exit(1);
    }
    return d;
}

static db_conn *child_connect(db *d)
{
    db_conn *c = NULL;
    TMP_CHECK(db_connect(d, DB_WRITER, &c, NULL) == PAWL_OK);
    return c;
}

static void child_batch(db_conn *c, int64_t run, int64_t first)
{
    for (int i = 0; i < 20; i++) {
        db_value v[] = {db_int(run), db_int(first * 20 + i), db_text(SLICE_LIT("row")), db_null()};
        TMP_CHECK(db_run(c, &CONF_APPEND, v, 4, NULL) == PAWL_OK);
    }
    TMP_CHECK(db_commit(c, NULL) == PAWL_OK);
}

static void wait_for_the_start(int in, int out)
{
    tmp_tell(out, 'r');
    TMP_CHECK(tmp_hear(in) == 'g');
}

/* ---- In the parent ---- */

static void start(tmp_child *children, int count)
{
    for (int i = 0; i < count; i++)
        tmp_expect(&children[i], 'r');
    for (int i = 0; i < count; i++)
        tmp_tell(children[i].to, 'g');
}

/* ---- Nothing is lost ---- */

static void commit_many(int in, int out, void *arg)
{
    const job *j = arg;
    db *d = child_open(j->conf);
    committer *k = NULL;
    TMP_CHECK(committer_open(&k, d, &(committer_options){.batch_units = 8}, NULL) == PAWL_OK);
    wait_for_the_start(in, out);
    for (long long i = 0; i < j->count; i++) {
        arena *a = arena_new(0);
        unit *u = unit_new(a);
        db_value v[] = {db_int(j->me), db_int(i), db_text(SLICE_LIT("row")), db_null()};
        unit_write(u, &CONF_APPEND, unit_key("journal", j->me), v, 4);
        TMP_CHECK(committer_commit(k, u) == PAWL_OK);
        arena_free(a);
    }
    committer_close(k);
    db_close(d);
}

static void nothing_is_lost(conf *c, int processes)
{
    enum { COUNT = 120 };
    db_close(conf_open(c, NULL));
    tmp_child children[PROCESSES_MAX];
    for (int i = 0; i < processes; i++) {
        job j = {c, i, COUNT, NULL};
        children[i] = tmp_fork(commit_many, &j);
    }
    start(children, processes);
    for (int i = 0; i < processes; i++)
        tmp_join(&children[i]);
    static const db_sql ALL = {"SELECT count(*) FROM {journal}", ""};
    db *d = conf_open(c, NULL);
    for (int i = 0; i < processes; i++)
        assert_int_equal(conf_rows(d, i), COUNT);
    assert_int_equal(conf_number(d, &ALL, NULL, 0), COUNT * processes);
    db_close(d);
}

static void two_processes_lose_nothing(conf *c)
{
    nothing_is_lost(c, 2);
}

static void four_processes_lose_nothing(conf *c)
{
    nothing_is_lost(c, 4);
}

/* ---- B2: turns ---- */

static void commit_in_a_loop(int in, int out, void *arg)
{
    const job *j = arg;
    db *d = child_open(j->conf);
    db_conn *w = child_connect(d);
    wait_for_the_start(in, out);
    for (long long i = 0; i < j->count && !atomic_load(&j->shared->stop); i++) {
        TMP_CHECK(db_begin(w, NULL) == PAWL_OK);
        child_batch(w, j->me, i);
        atomic_fetch_add(&j->shared->batches[j->me], 1);
    }
    db_disconnect(w);
    db_close(d);
}

static long long batches_of_others(const job *j)
{
    long long sum = 0;
    for (int i = 1; i < PROCESSES_MAX; i++)
        sum += atomic_load(&j->shared->batches[i]);
    return sum;
}

/* Each time it asks, the others are at full speed. */
static void ask_for_turns(int in, int out, void *arg)
{
    const job *j = arg;
    db *d = child_open(j->conf);
    db_conn *w = child_connect(d);
    wait_for_the_start(in, out);
    for (int i = 0; i < ROUNDS; i++) {
        long long before = batches_of_others(j);
        TMP_AWAIT(batches_of_others(j) > before + 2 * PROCESSES_MAX);
        before = batches_of_others(j);
        TMP_CHECK(db_begin(w, NULL) == PAWL_OK);
        j->shared->waits[i] = batches_of_others(j) - before;
        child_batch(w, j->me, i);
    }
    atomic_store(&j->shared->stop, 1);
    db_disconnect(w);
    db_close(d);
}

static int by_value(const void *a, const void *b)
{
    long long x = *(const long long *)a;
    long long y = *(const long long *)b;
    return (x > y) - (x < y);
}

/* The process 0 asks for turns while so many others commit in loops. Most of its turns come when
 * each of them had one, or two. */
static void ask_beside(conf *c, int others)
{
    shared *s = tmp_shared(sizeof *s);
    db_close(conf_open(c, NULL));
    tmp_child children[PROCESSES_MAX];
    for (int i = 0; i <= others; i++) {
        job j = {c, i, 1000000, s};
        children[i] = tmp_fork(i == 0 ? ask_for_turns : commit_in_a_loop, &j);
    }
    start(children, others + 1);
    for (int i = 0; i <= others; i++)
        tmp_join(&children[i]);
    qsort(s->waits, ROUNDS, sizeof s->waits[0], by_value);
    if (s->waits[ROUNDS / 2] > 2 * others)
        fail_msg("half of %d turns came after %lld batches of %d others, or more", ROUNDS,
                 s->waits[ROUNDS / 2], others);
    tmp_shared_free(s, sizeof *s);
}

/* A process that asks while another one commits in a loop is let in after the batch that is under
 * way, and perhaps one more. SQLite's own way of waiting, or one lock alone, lets dozens go
 * first. */
static void a_turn_comes_after_a_few_batches(conf *c)
{
    ask_beside(c, 1);
}

static void a_turn_comes_when_the_others_had_one(conf *c)
{
    ask_beside(c, PROCESSES_MAX - 1);
}

/* ---- The stopped and the dead ---- */

static void hold_the_turn(int in, int out, void *arg)
{
    liveness_file *f = NULL;
    TMP_CHECK(liveness_file_open(&f, arg, NULL) == PAWL_OK);
    turnstile *t = turnstile_new(f, clock_system(), 0, 60000);
    TMP_CHECK(t && turnstile_enter(t) == 1);
    tmp_tell(out, 'h');
    if (tmp_hear(in) == 's')
        raise(SIGSTOP);
    turnstile_leave(t);
    tmp_tell(out, 'l');
    tmp_hear(in);
    turnstile_free(t);
    liveness_file_close(f);
}

typedef struct visitor {
    turnstile *turn;
    atomic_int inside;
} visitor;

static void *visit(void *arg)
{
    visitor *v = arg;
    atomic_store(&v->inside, turnstile_enter(v->turn));
    return NULL;
}

/* With a thread: a clock by hand shows that the turn came by itself, or only by patience. */
static void pass_the_turnstile(conf *c, char word)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "turn");
    tmp_child holder = tmp_fork(hold_the_turn, path);
    tmp_expect(&holder, 'h');
    clock_fake *clock = clock_fake_new(0);
    liveness_file *f = NULL;
    assert_int_equal(liveness_file_open(&f, path, NULL), PAWL_OK);
    visitor v = {.turn = turnstile_new(f, clock_fake_source(clock), 0, 1000)};
    assert_non_null(v.turn);
    if (word == 's') {
        tmp_tell(holder.to, 's');
        tmp_await_stop(&holder);
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
    if (word == 's')
        TMP_AWAIT((clock_fake_advance(clock, 100), atomic_load(&v.inside) == 1));
    else if (word == 'k')
        tmp_kill(&holder);
    else
        tmp_tell(holder.to, 'l');
    pthread_join(thread, NULL);
    assert_int_equal(v.inside, 1);
    assert_int_equal(turnstile_given_up(v.turn), word == 's');
    turnstile_leave(v.turn);
    if (word == 's')
        tmp_kill(&holder);
    if (word == 'l') {
        tmp_expect(&holder, 'l');
        tmp_tell(holder.to, 'x');
        tmp_join(&holder);
    }
    /* Whatever happened: the turn is free again for all, also from what had queued for us. */
    liveness_file *other = NULL;
    assert_int_equal(liveness_file_open(&other, path, NULL), PAWL_OK);
    turnstile *t = turnstile_new(other, clock_fake_source(clock), 1, 1000);
    TMP_AWAIT(turnstile_enter(t) == 1);
    assert_int_equal(turnstile_given_up(t), 0);
    turnstile_free(t);
    liveness_file_close(other);
    turnstile_free(v.turn);
    liveness_file_close(f);
    clock_fake_free(clock);
}

static void a_turn_is_handed_on(conf *c)
{
    pass_the_turnstile(c, 'l');
}

static void a_dead_process_holds_no_turn(conf *c)
{
    pass_the_turnstile(c, 'k');
}

static void a_stopped_process_is_passed_by(conf *c)
{
    if (tmp_under_valgrind())
        skip();
    pass_the_turnstile(c, 's');
}

/* By hand nothing blocks: it is "not yet" until patience is over, from the clock's first moment. */
static void by_hand_a_stopped_process_is_passed_by(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "conf.db");
    clock_fake *clock = clock_fake_new(0);
    db_options o = {.clock = clock_fake_source(clock), .by_hand = 1, .busy_ms = 1000};
    db *d = conf_open(c, &o);
    tmp_child holder = tmp_fork(hold_the_turn, path);
    tmp_expect(&holder, 'h');
    tmp_tell(holder.to, 's');
    tmp_await_stop(&holder);
    error err = {0};
    db_conn *w = conf_connect(d, DB_WRITER);
    assert_int_equal(db_begin(w, &err), PAWL_BUSY);
    assert_true(err.message[0]);
    clock_fake_advance(clock, 500);
    assert_int_equal(db_begin(w, &err), PAWL_BUSY);
    clock_fake_advance(clock, 600);
    conf_begin(w);
    conf_commit(w);
    assert_int_equal(db_sqlite_figures(w).turns_given_up, 1);
    assert_int_equal(db_begin(w, &err), PAWL_BUSY); /* patience begins anew */
    tmp_kill(&holder);
    conf_begin(w);
    conf_commit(w);
    assert_int_equal(db_sqlite_figures(w).turns_given_up, 1);
    db_disconnect(w);
    db_close(d);
    clock_fake_free(clock);
}

/* By hand beside a process that writes all the time: at every look it has the turn, and now and
 * then SQLite's lock too. The test waits for the turn once, and then only for a gap. */
static void by_hand_a_busy_process_costs_one_time_out(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "conf.db");
    clock_fake *clock = clock_fake_new(0);
    db_options o = {.clock = clock_fake_source(clock), .by_hand = 1, .busy_ms = 1000};
    db *d = conf_open(c, &o);
    db *neighbour = conf_open(c, NULL);
    db_conn *busy = conf_connect(neighbour, DB_WRITER);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    conf_ticket t;
    conf_ticket_append(&t, 1, 1, NULL);
    committer_submit(k, t.unit);
    conf_begin(busy); /* has the turn and the lock */
    for (int i = 0; i < 15; i++) {
        committer_drive(k);
        clock_fake_advance(clock, 500);
    }
    assert_int_equal(t.finals, 0);
    liveness_file *turn = NULL; /* the turn goes to a third one, without a moment's rest … */
    assert_int_equal(liveness_file_open(&turn, path, NULL), PAWL_OK);
    db_rollback(busy);
    assert_int_equal(liveness_file_lock(turn, 0, 0), 0);
    assert_int_equal(liveness_file_lock(turn, 1, 0), 0);
    assert_int_equal(committer_drive(k), 1); /* … but SQLite's lock is free for once */
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(db_sqlite_figures(committer_connection(k)).turns_given_up, 1);
    liveness_file_close(turn);
    committer_close(k);
    conf_ticket_free(&t);
    db_disconnect(busy);
    db_close(neighbour);
    db_close(d);
    clock_fake_free(clock);
}

static void die_inside(int in, int out, void *arg)
{
    db *d = child_open(arg);
    db_conn *w = child_connect(d);
    TMP_CHECK(db_begin(w, NULL) == PAWL_OK);
    db_value v[] = {db_int(1), db_int(1), db_text(SLICE_LIT("row")), db_null()};
    TMP_CHECK(db_run(w, &CONF_APPEND, v, 4, NULL) == PAWL_OK);
    tmp_tell(out, 'h');
    tmp_hear(in);
}

static void a_killed_writer_leaves_no_lock_and_no_row(conf *c)
{
    tmp_child writer = tmp_fork(die_inside, c);
    tmp_expect(&writer, 'h');
    db *d = conf_open(c, &(db_options){.by_hand = 1});
    error err = {0};
    db_conn *w = conf_connect(d, DB_WRITER);
    assert_int_equal(db_begin(w, &err), PAWL_BUSY);
    tmp_kill(&writer);
    TMP_AWAIT(db_begin(w, &err) == PAWL_OK); /* a server hears of it a moment later */
    conf_commit(w);
    db_disconnect(w);
    assert_int_equal(conf_rows(d, 1), 0);
    db_close(d);
}

static const conf_case CASES[] = {
    {"two processes lose nothing", two_processes_lose_nothing, DB_SHARED},
    {"four processes lose nothing", four_processes_lose_nothing, DB_SHARED},
    {"a turn comes after a few batches", a_turn_comes_after_a_few_batches, DB_SHARED | DB_TURNS},
    {"a turn comes when the others had one", a_turn_comes_when_the_others_had_one,
     DB_SHARED | DB_TURNS},
    {"a turn is handed on", a_turn_is_handed_on, DB_FILE},
    {"a dead process holds no turn", a_dead_process_holds_no_turn, DB_FILE},
    {"a stopped process is passed by", a_stopped_process_is_passed_by, DB_FILE},
    {"by hand, a stopped process is passed by", by_hand_a_stopped_process_is_passed_by, DB_FILE},
    {"by hand, a busy process costs one time-out", by_hand_a_busy_process_costs_one_time_out,
     DB_FILE},
    {"a killed writer leaves no lock and no row", a_killed_writer_leaves_no_lock_and_no_row,
     DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
