/* The committer, part 2: bounds (backpressure), locked databases, closing. Rule 5 of committer.h,
 * and C5: a queue that only the submitting thread drains must not stand still, and units of runs
 * get through when starts and messages from outside fill the queue.
 *
 * Time is a fake clock, moved by the tests, wherever a time-out of a unit matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/committer_fixture.h"

/* A connection waits five seconds for a lock of another one. */
static void open_with(committer_fixture *b, const conf *c, committer_options options)
{
    committer_fixture_open_fault(b, c, options, (db_options){.busy_ms = 5000});
}

/* ---- The bounds of a batch ---- */

/* Seen from below: how many transactions, and how many rows in the largest. */
typedef struct trace {
    int begins;
    int commits;
    int rows;
    int rows_max;
} trace;

static void trace_before(void *arg, int64_t number, fault_call call, const char *sql)
{
    (void)number;
    trace *t = arg;
    if (call == FAULT_CALL_BEGIN) {
        t->begins++;
        t->rows = 0;
    }
    if (call == FAULT_CALL_COMMIT)
        t->commits++;
    /* A row's statement is stepped twice: to its row, and to its end. */
    if (call == FAULT_CALL_NEXT && strstr(sql, "INSERT") && ++t->rows > t->rows_max)
        t->rows_max = t->rows;
}

static void a_batch_is_cut_by_units(conf *c)
{
    enum { COUNT = 7 };
    committer_fixture b;
    trace seen = {0};
    open_with(&b, c, (committer_options){.batch_units = 3});
    b.plan.before = trace_before;
    b.plan.before_arg = &seen;
    conf_ticket t[COUNT];
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_append_class(&t[i], 1, i, UNIT_OF_RUN);
        committer_submit(b.k, t[i].unit);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(committer_drive(b.k), 1);
    assert_int_equal(committer_drive(b.k), 0);
    for (int i = 0; i < COUNT; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(seen.begins, 3);
    assert_int_equal(seen.commits, 3);
    assert_int_equal(seen.rows_max, 6);
    committer_stats s = committer_stats_now(b.k);
    assert_int_equal(s.batches, 3);
    assert_int_equal(s.batch_max, 3);
    b.plan.before = NULL;
    conf_tickets_free(t, COUNT);
    committer_fixture_close(&b);
}

static void a_batch_is_cut_by_bytes(conf *c)
{
    enum { COUNT = 6, WIDTH = 100000 };
    static const char wide[WIDTH];
    committer_fixture b;
    trace seen = {0};
    open_with(&b, c, (committer_options){.batch_bytes = 2 * WIDTH + WIDTH / 2});
    b.plan.before = trace_before;
    b.plan.before_arg = &seen;
    conf_ticket t[COUNT + 1];
    for (int i = 0; i <= COUNT; i++) {
        conf_ticket_open(&t[i], 0);
        /* The last one is larger than a batch may be, and goes alone. */
        for (int j = 0; j < (i == COUNT ? 4 : 1); j++) {
            db_value v[] = {db_int(1), db_int(i * 10 + j), db_text(SLICE_LIT("wide")),
                            db_bytes((slice){wide, WIDTH})};
            unit_write(t[i].unit, &CONF_APPEND, unit_key("journal", 1), v, DB_COUNT(v));
        }
        committer_submit(b.k, t[i].unit);
    }
    conf_drive(b.k, b.clock, t, COUNT + 1);
    for (int i = 0; i <= COUNT; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(seen.begins, 4);
    assert_int_equal(committer_stats_now(b.k).batch_max, 2);
    b.plan.before = NULL;
    assert_int_equal(conf_rows(b.db, 1), COUNT + 4);
    conf_tickets_free(t, COUNT + 1);
    committer_fixture_close(&b);
}

/* ---- The bounds of the queue ---- */

/* C5: by hand, only the submitting thread can make room. */
static void by_hand_a_full_queue_is_led_by_its_submitter(conf *c)
{
    enum { COUNT = 20 };
    committer_fixture b;
    open_with(&b, c, (committer_options){.units_max = 2});
    conf_ticket t[COUNT];
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_append_class(&t[i], 1, i, i % 2 ? UNIT_OF_CLIENT : UNIT_OF_RUN);
        committer_submit(b.k, t[i].unit);
        int queued = 0;
        for (int j = 0; j <= i; j++)
            queued += atomic_load(&t[j].finals) == 0;
        assert_in_range(queued, 1, 4); /* two of each class */
    }
    conf_drive(b.k, b.clock, t, COUNT);
    for (int i = 0; i < COUNT; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    conf_tickets_free(t, COUNT);
    committer_fixture_close(&b);
}

static void bytes_fill_the_queue_too(conf *c)
{
    static const char wide[1000];
    committer_fixture b;
    open_with(&b, c, (committer_options){.bytes_max = 4000});
    conf_ticket t[10];
    for (int i = 0; i < 10; i++) {
        conf_ticket_open(&t[i], 0);
        db_value v[] = {db_int(1), db_int(i), db_text(SLICE_LIT("wide")),
                        db_bytes((slice){wide, sizeof wide})};
        unit_write(t[i].unit, &CONF_APPEND, unit_key("journal", 1), v, DB_COUNT(v));
        committer_submit(b.k, t[i].unit);
        int queued = 0;
        for (int j = 0; j <= i; j++)
            queued += atomic_load(&t[j].finals) == 0;
        assert_in_range(queued, 1, 4);
    }
    conf_drive(b.k, b.clock, t, 10);
    for (int i = 0; i < 10; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    conf_tickets_free(t, 10);
    committer_fixture_close(&b);
}

typedef struct filler {
    committer *k;
    conf_ticket *tickets;
    int count;
} filler;

static void *fill(void *arg)
{
    filler *f = arg;
    for (int i = 0; i < f->count; i++)
        committer_submit(f->k, f->tickets[i].unit);
    return NULL;
}

/* With threads: the thread that finds the queue full leads; no thread has called
 * committer_leave(). */
static void threads_that_fill_the_queue_empty_it(conf *c)
{
    enum { THREADS = 4, EACH = 60 };
    conf_ticket *t = calloc((size_t)THREADS * EACH, sizeof *t);
    assert_non_null(t);
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.units_max = 3});
    filler fillers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        fillers[i] = (filler){k, t + (ptrdiff_t)i * EACH, EACH};
        for (int j = 0; j < EACH; j++)
            conf_ticket_append_class(&fillers[i].tickets[j], i, j, UNIT_OF_RUN);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fill, &fillers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    committer_flush(k);
    for (int i = 0; i < THREADS * EACH; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_in_range(committer_stats_now(k).batch_max, 1, 3);
    committer_close(k);
    db_close(d);
    conf_tickets_free(t, (size_t)THREADS * EACH);
    free(t);
}

/* ---- Another connection has the database locked ---- */

static void a_locked_database_is_waited_for(conf *c)
{
    committer_fixture b;
    open_with(&b, c, (committer_options){0});
    committer_fixture_lock(&b);
    conf_ticket t;
    conf_ticket_append_class(&t, 1, 1, UNIT_OF_RUN);
    assert_true(committer_next_ns(b.k) == INT64_MAX);
    committer_submit(b.k, t.unit);
    assert_int_equal(committer_next_ns(b.k), 0);
    for (int i = 0; i < 20; i++) { /* far past every time-out */
        committer_drive(b.k);
        assert_int_equal(t.finals, 0);
        int64_t next = committer_next_ns(b.k);
        assert_true(next > clock_fake_source(b.clock)->mono_ns(clock_fake_source(b.clock)));
        assert_true(next != INT64_MAX);
        assert_int_equal(committer_drive(b.k), 0); /* not time yet */
        clock_fake_advance(b.clock, 1000);
    }
    committer_fixture_unlock(&b);
    conf_drive(b.k, b.clock, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_true(committer_next_ns(b.k) == INT64_MAX);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* Rule 5: clients hear BUSY when their patience is over, and nothing of theirs is written later;
 * units of runs stay and are committed when the lock goes away. */
static void units_of_clients_are_answered_busy_and_units_of_runs_get_through(conf *c)
{
    committer_fixture b;
    open_with(&b, c, (committer_options){.busy_ms = 100, .units_max = 2});
    committer_fixture_lock(&b);
    conf_ticket client[2];
    conf_ticket run[2];
    for (int i = 0; i < 2; i++) {
        conf_ticket_append_class(&client[i], 1, i, UNIT_OF_CLIENT);
        committer_submit(b.k, client[i].unit);
    }
    for (int i = 0; i < 2; i++) { /* the clients' share is full, theirs is not */
        conf_ticket_append_class(&run[i], 2, i, UNIT_OF_RUN);
        committer_submit(b.k, run[i].unit);
    }
    committer_drive(b.k);
    clock_fake_advance(b.clock, 50);
    committer_drive(b.k);
    for (int i = 0; i < 2; i++)
        assert_int_equal(client[i].finals, 0);
    clock_fake_advance(b.clock, 60);
    conf_drive(b.k, b.clock, client, 2);
    for (int i = 0; i < 2; i++) {
        CONF_ANSWER(&client[i], UNIT_FAILED);
        assert_int_equal(client[i].unit->code, PAWL_BUSY);
        assert_int_equal(run[i].finals, 0);
    }
    assert_int_equal(committer_stats_now(b.k).busy, 2);
    committer_fixture_unlock(&b);
    conf_drive(b.k, b.clock, run, 2);
    for (int i = 0; i < 2; i++)
        CONF_ANSWER(&run[i], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 1), 0);
    assert_int_equal(conf_rows(b.db, 2), 2);
    conf_tickets_free(client, 2);
    conf_tickets_free(run, 2);
    committer_fixture_close(&b);
}

/* Patience counts from the submission, and a client that comes later has its own. */
static void each_unit_of_a_client_has_its_own_deadline(conf *c)
{
    committer_fixture b;
    open_with(&b, c, (committer_options){.busy_ms = 100});
    committer_fixture_lock(&b);
    conf_ticket t[2];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_CLIENT);
    committer_submit(b.k, t[0].unit);
    committer_drive(b.k);
    clock_fake_advance(b.clock, 60);
    conf_ticket_append_class(&t[1], 1, 1, UNIT_OF_CLIENT);
    committer_submit(b.k, t[1].unit);
    clock_fake_advance(b.clock, 60);
    conf_drive(b.k, NULL, &t[0], 1);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_equal(t[1].finals, 0);
    committer_fixture_unlock(&b);
    clock_fake_advance(b.clock, 20);
    conf_drive(b.k, NULL, &t[1], 1);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* "For ever" is a time too, and no overflow. */
static void a_unit_without_a_deadline_is_never_given_up(conf *c)
{
    committer_fixture b;
    open_with(&b, c, (committer_options){.busy_ms = INT64_MAX});
    conf_ticket t;
    conf_ticket_append_class(&t, 1, 0, UNIT_OF_CLIENT);
    committer_submit(b.k, t.unit);
    clock_fake_advance(b.clock, 1000000);
    conf_drive(b.k, b.clock, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* On the system's clock, as no other thread is there to move one by hand. */
static void by_hand_a_waiting_call_is_answered_busy(conf *c)
{
    db *d = conf_open(c, &(db_options){.by_hand = 1, .busy_ms = 20});
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1, .busy_ms = 20});
    db_conn *other = conf_lock(d);
    conf_ticket t[2];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_CLIENT);
    assert_int_equal(committer_commit(k, t[0].unit), PAWL_BUSY);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    conf_unlock(other);
    conf_ticket_append_class(&t[1], 1, 1, UNIT_OF_CLIENT);
    assert_int_equal(committer_commit(k, t[1].unit), PAWL_OK);
    committer_close(k);
    assert_int_equal(conf_rows(d, 1), 1);
    db_close(d);
    conf_tickets_free(t, 2);
}

static void by_hand_a_full_queue_on_a_locked_database(conf *c)
{
    db *d = conf_open(c, &(db_options){.by_hand = 1, .busy_ms = 20});
    committer *k =
        conf_committer(d, &(committer_options){.by_hand = 1, .busy_ms = 20, .units_max = 1});
    db_conn *other = conf_lock(d);
    conf_ticket t[3];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_CLIENT);
    conf_ticket_append_class(&t[1], 1, 1, UNIT_OF_CLIENT);
    conf_ticket_append_class(&t[2], 1, 2, UNIT_OF_RUN);
    committer_submit(k, t[0].unit);
    committer_submit(k, t[2].unit); /* has a share of its own, so it does not wait */
    committer_submit(k, t[1].unit); /* waits for room until one of the two has given up */
    conf_unlock(other);
    committer_flush(k);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_equal(t[0].unit->code, PAWL_BUSY);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    assert_int_equal(t[1].finals, 1);
    int late = t[1].answer == UNIT_COMMITTED;
    if (!late)
        assert_int_equal(t[1].unit->code, PAWL_BUSY);
    committer_close(k);
    assert_int_equal(conf_rows(d, 1), 1 + late);
    db_close(d);
    conf_tickets_free(t, 3);
}

static void *wait_for_one(void *arg)
{
    filler *f = arg;
    committer_commit(f->k, f->tickets[0].unit);
    return NULL;
}

/* With threads and a clock that the test moves: a waiting client gives up by itself, and a waiting
 * run is committed as soon as possible. */
static void waiting_threads_on_a_locked_database(conf *c)
{
    clock_fake *clock = clock_fake_new(1000);
    db *d = conf_open(c, &(db_options){.clock = clock_fake_source(clock), .by_hand = 1});
    committer *k = conf_committer(d, &(committer_options){.busy_ms = 100});
    db_conn *other = conf_lock(d);
    conf_ticket t[2];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_CLIENT);
    conf_ticket_append_class(&t[1], 2, 0, UNIT_OF_RUN);
    filler f[2] = {{k, &t[0], 1}, {k, &t[1], 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, &f[i]), 0);
    TMP_AWAIT((clock_fake_advance(clock, 10), atomic_load(&t[0].finals) == 1));
    pthread_join(threads[0], NULL);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_equal(t[0].unit->code, PAWL_BUSY);
    assert_int_equal(atomic_load(&t[1].finals), 0);
    conf_unlock(other);
    TMP_AWAIT((clock_fake_advance(clock, 10), atomic_load(&t[1].finals) == 1));
    pthread_join(threads[1], NULL);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    committer_close(k);
    db_close(d);
    conf_tickets_free(t, 2);
    clock_fake_free(clock);
}

/* ---- Closing ---- */

static void closing_commits_what_is_queued(conf *c)
{
    for (int by_hand = 0; by_hand <= 1; by_hand++) {
        db *d = conf_open(c, NULL);
        committer *k =
            conf_committer(d, &(committer_options){.by_hand = by_hand, .batch_units = 2});
        conf_ticket t[5];
        for (int i = 0; i < 5; i++) {
            conf_ticket_append_class(&t[i], by_hand, i, UNIT_OF_RUN);
            committer_submit(k, t[i].unit);
        }
        committer_close(k);
        for (int i = 0; i < 5; i++)
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
        assert_int_equal(conf_rows(d, by_hand), 5);
        conf_tickets_free(t, 5);
        db_close(d);
    }
}

static void closing_answers_what_it_cannot_commit(conf *c)
{
    committer_fixture b;
    open_with(&b, c, (committer_options){0});
    committer_fixture_lock(&b);
    conf_ticket t[3];
    for (int i = 0; i < 3; i++) {
        conf_ticket_append_class(&t[i], 1, i, i == 1 ? UNIT_OF_CLIENT : UNIT_OF_RUN);
        committer_submit(b.k, t[i].unit);
    }
    committer_close(b.k);
    for (int i = 0; i < 3; i++) {
        CONF_ANSWER(&t[i], UNIT_FAILED);
        assert_int_equal(t[i].unit->code, PAWL_CLOSED);
        assert_non_null(t[i].unit->message);
    }
    committer_fixture_unlock(&b);
    assert_int_equal(conf_rows(b.db, 1), 0);
    b.k = NULL;
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* The fate of a commit is not known at the end: the answer says so, and is the last one. */
static void closing_answers_what_is_undecided(conf *c)
{
    committer_fixture b;
    open_with(&b, c, (committer_options){0});
    b.plan.lose_commit = b.plan.commits + 1;
    b.plan.unknown_times = 1000;
    conf_ticket t[2];
    for (int i = 0; i < 2; i++)
        conf_ticket_append_class(&t[i], 1, i, UNIT_OF_RUN);
    committer_submit(b.k, t[0].unit);
    committer_drive(b.k);
    assert_int_equal(t[0].undecided, 1);
    committer_submit(b.k, t[1].unit);
    committer_close(b.k);
    b.k = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t[i].finals, 1);
        assert_int_equal(t[i].late, 0);
    }
    assert_int_equal(t[0].unit->code, PAWL_UNDECIDED);
    assert_int_equal(t[1].unit->code, PAWL_CLOSED);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

static const conf_case CASES[] = {
    {"a batch is cut by units", a_batch_is_cut_by_units, 0},
    {"a batch is cut by bytes", a_batch_is_cut_by_bytes, 0},
    {"by hand, a full queue is led by its submitter", by_hand_a_full_queue_is_led_by_its_submitter,
     0},
    {"bytes fill the queue too", bytes_fill_the_queue_too, 0},
    {"threads that fill the queue empty it", threads_that_fill_the_queue_empty_it, 0},
    {"a locked database is waited for", a_locked_database_is_waited_for, DB_ISOLATED},
    {"units of clients are answered BUSY and units of runs get through",
     units_of_clients_are_answered_busy_and_units_of_runs_get_through, DB_ISOLATED},
    {"each unit of a client has its own deadline", each_unit_of_a_client_has_its_own_deadline,
     DB_ISOLATED},
    {"by hand, a waiting call is answered BUSY", by_hand_a_waiting_call_is_answered_busy,
     DB_ISOLATED},
    {"by hand, a full queue on a locked database", by_hand_a_full_queue_on_a_locked_database,
     DB_ISOLATED},
    {"waiting threads on a locked database", waiting_threads_on_a_locked_database, DB_ISOLATED},
    {"closing commits what is queued", closing_commits_what_is_queued, 0},
    {"closing answers what it cannot commit", closing_answers_what_it_cannot_commit, DB_ISOLATED},
    {"closing answers what is undecided", closing_answers_what_is_undecided, 0},
    {"a unit without a deadline is never given up", a_unit_without_a_deadline_is_never_given_up, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
