/* The committer (group commit, leader and followers), part 1: order, answers, which thread leads,
 * and which one is woken. Rules are those of committer.h. Threads meet at conditions, never after a
 * pause; what must not block is called while the thread that it could wait for is known to stand
 * still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/conf.h"

/* A pair whose row with the higher seq does not lie behind: there is none. */
static const db_sql OUT_OF_ORDER = {"SELECT count(*) FROM {journal} a, {journal} b"
                                    " WHERE a.run = b.run AND b.seq = a.seq + 1 AND b.pos <= a.pos",
                                    ""};

/* ---- Rule 1 ---- */

static void units_are_applied_in_queue_order(conf *c)
{
    enum { COUNT = 50 };
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    conf_ticket t[COUNT];
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_append(&t[i], 1, i + 1, NULL);
        committer_submit(k, t[i].unit);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(t[i].finals, 0); /* by hand nothing happens by itself */
    assert_int_equal(committer_drive(k), 1);
    for (int i = 0; i < COUNT; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(committer_drive(k), 0);
    assert_int_equal(conf_number(d, &OUT_OF_ORDER, NULL, 0), 0);
    assert_int_equal(conf_rows(d, 1), COUNT);
    conf_tickets_free(t, COUNT);
    committer_close(k);
    db_close(d);
}

/* ---- Rules 1 and 2 with many threads ---- */

enum { THREADS = 8, EACH = 60 };

typedef struct crowd {
    committer *k;
    conf_ticket *tickets;
    int64_t run;
    int mode; /* 0: waits for each; 1: hands in and goes; 2: in turn */
    int wrong;
} crowd;

static void *crowd_main(void *arg)
{
    crowd *me = arg;
    for (int i = 0; i < EACH; i++) {
        conf_ticket *t = &me->tickets[i];
        if (me->mode == 0 || (me->mode == 2 && i % 3 == 0)) {
            if (committer_commit(me->k, t->unit) != PAWL_OK)
                me->wrong++;
            if (atomic_load(&t->finals) != 1) /* the answer is there when the call returns */
                me->wrong++;
        } else {
            committer_submit(me->k, t->unit);
        }
    }
    committer_leave(me->k);
    return NULL;
}

static void run_crowd(conf *c, int mode)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.batch_units = 20});
    conf_ticket *t = calloc((size_t)THREADS * EACH, sizeof *t);
    assert_non_null(t);
    submitter submitters[THREADS];
    memset(submitters, 0, sizeof submitters);
    crowd members[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        members[i] = (crowd){k, t + (ptrdiff_t)i * EACH, i + 1, mode < 3 ? mode : i % 3, 0};
        for (int j = 0; j < EACH; j++)
            conf_ticket_append(&members[i].tickets[j], i + 1, j + 1, &submitters[i]);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, &members[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(members[i].wrong, 0);
    }
    committer_flush(k);
    for (int i = 0; i < THREADS * EACH; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    committer_stats s = committer_stats_now(k);
    assert_int_equal(s.committed, THREADS * EACH);
    assert_int_equal(s.refused + s.failed + s.undecided + s.busy, 0);
    assert_in_range(s.batches, THREADS * EACH / 20, THREADS * EACH);
    assert_in_range(s.batch_max, 1, 20);
    committer_close(k);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(conf_rows(d, i + 1), EACH);
    assert_int_equal(conf_number(d, &OUT_OF_ORDER, NULL, 0), 0);
    db_close(d);
    conf_tickets_free(t, (size_t)THREADS * EACH);
    free(t);
}

static void many_threads_that_wait(conf *c)
{
    run_crowd(c, 0);
}

static void many_threads_that_do_not_wait(conf *c)
{
    run_crowd(c, 1);
}

static void many_threads_of_which_some_wait(conf *c)
{
    run_crowd(c, 3);
}

/* Alone, a thread leads itself: no unit waits for the helper. */
static void a_thread_that_is_alone_leads(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    for (int i = 1; i <= 5; i++) {
        conf_ticket t;
        conf_ticket_append(&t, 1, i, NULL);
        assert_int_equal(committer_commit(k, t.unit), PAWL_OK);
        CONF_ANSWER(&t, UNIT_COMMITTED);
        conf_ticket_free(&t);
    }
    assert_int_equal(committer_stats_now(k).batches, 5);
    committer_close(k);
    db_close(d);
}

static void a_call_that_waits_returns_the_answer_of_its_unit(conf *c)
{
    static const db_sql NEVER = {"UPDATE {meta} SET number = 1 WHERE name = $1 RETURNING number",
                                 "t"};
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    conf_ticket t[3];
    conf_ticket_open(&t[0], 0);
    unit_guard(t[0].unit, &NEVER, "never", unit_key("meta", 1),
               (db_value[]){db_text(SLICE_LIT("test.never"))}, 1);
    assert_int_equal(committer_commit(k, t[0].unit), PAWL_REFUSED);
    CONF_ANSWER(&t[0], UNIT_REFUSED);
    conf_ticket_append(&t[1], 1, 1, NULL);
    assert_int_equal(committer_commit(k, t[1].unit), PAWL_OK);
    conf_ticket_append(&t[2], 1, 1, NULL);
    t[2].unit->done = NULL; /* a waiting call needs none */
    assert_int_equal(committer_commit(k, t[2].unit), PAWL_DATA);
    assert_int_equal(t[2].unit->answer, UNIT_FAILED);
    conf_tickets_free(t, 3);
    committer_close(k);
    db_close(d);
}

/* ---- Units without a waiting thread ---- */

static void leaving_wakes_the_helper(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    for (int round = 0; round < 20; round++) {
        conf_ticket t[3];
        for (int i = 0; i < 3; i++) {
            conf_ticket_append(&t[i], 1, round * 3 + i, NULL);
            committer_submit(k, t[i].unit);
        }
        committer_leave(k);
        for (int i = 0; i < 3; i++)
            TMP_AWAIT(atomic_load(&t[i].finals) == 1);
        conf_tickets_free(t, 3);
    }
    assert_int_equal(committer_stats_now(k).committed, 60);
    committer_leave(k); /* with nothing to do */
    committer_close(k);
    db_close(d);
}

static void by_hand_leaving_drives_once(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    conf_ticket t;
    conf_ticket_append(&t, 1, 1, NULL);
    committer_submit(k, t.unit);
    committer_leave(k);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
    committer_close(k);
    db_close(d);
}

/* Rule 7: no thread leaves, waits, flushes or drives, and the units are committed all the same. So
 * are the next ones, after the watch over the queue has ended. The fake clock shows that the
 * committer does it by its own time. */
static void a_unit_without_a_waiting_thread_is_committed(conf *c)
{
    clock_fake *clock = clock_fake_new(1000000);
    db *d = conf_open(c, &(db_options){.clock = clock_fake_source(clock)});
    committer *k = conf_committer(d, NULL);
    for (int round = 0; round < 3; round++) {
        conf_ticket t[3];
        for (int i = 0; i < 3; i++) {
            conf_ticket_append(&t[i], 1, round * 3 + i, NULL);
            committer_submit(k, t[i].unit);
        }
        for (int i = 0; i < 3; i++)
            while (atomic_load(&t[i].finals) == 0)
                clock_fake_advance(clock, 10);
        for (int i = 0; i < 3; i++)
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
        conf_tickets_free(t, 3);
        clock_fake_advance(clock, 10000);
    }
    committer_close(k);
    db_close(d);
    clock_fake_free(clock);
}

static void by_hand_a_unit_without_a_waiting_thread_is_told(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    conf_ticket t;
    assert_int_equal(committer_next_ns(k), INT64_MAX);
    conf_ticket_append(&t, 1, 1, NULL);
    committer_submit(k, t.unit);
    assert_int_equal(committer_next_ns(k), 0);
    assert_int_equal(committer_drive(k), 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
    committer_close(k);
    db_close(d);
}

static void flushing_waits_for_all(conf *c)
{
    enum { COUNT = 300 };
    conf_ticket *t = calloc(COUNT, sizeof *t);
    assert_non_null(t);
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.batch_units = 16});
    committer_flush(k); /* nothing is no reason to wait */
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_append(&t[i], 1, i, NULL);
        committer_submit(k, t[i].unit);
    }
    committer_flush(k);
    for (int i = 0; i < COUNT; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    conf_tickets_free(t, COUNT);
    free(t);
    committer_close(k);
    db_close(d);
}

/* ---- A done function that submits ---- */

typedef struct chain {
    committer *k;
    conf_ticket *tickets;
    int count;
    atomic_int next;
} chain;

/* Three for one: more than the queue has room for. */
static void chain_done(unit *u, void *arg)
{
    chain *ch = arg;
    if (u->answer != UNIT_COMMITTED)
        return;
    for (int i = 0; i < 3; i++) {
        int next = atomic_fetch_add(&ch->next, 1);
        if (next < ch->count)
            committer_submit(ch->k, ch->tickets[next].unit);
    }
}

static void run_chain(conf *c, int by_hand)
{
    enum { COUNT = 40 };
    conf_ticket t[COUNT];
    db *d = conf_open(c, NULL);
    /* Smaller than what it gets at once: the leader itself must never wait for room. */
    committer_options o = {.by_hand = by_hand, .units_max = 2};
    committer *k = conf_committer(d, &o);
    chain ch = {.k = k, .tickets = t, .count = COUNT, .next = 1};
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_append(&t[i], 1, i, NULL);
        t[i].unit->done = chain_done;
        t[i].unit->done_arg = &ch;
    }
    committer_submit(k, t[0].unit);
    committer_flush(k);
    assert_int_equal(atomic_load(&ch.next), 1 + 3 * COUNT);
    assert_int_equal(conf_rows(d, 1), COUNT);
    committer_close(k);
    conf_tickets_free(t, COUNT);
    db_close(d);
}

static void a_done_function_may_submit(conf *c)
{
    run_chain(c, 0);
}

static void by_hand_a_done_function_may_submit(conf *c)
{
    run_chain(c, 1);
}

/* ---- Rule 6 ---- */

/* Stops the leader inside a statement until it is told to go on. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    fault_call at;
    int armed;
    int arrived;
    int open;
} gate;

static void gate_before(void *arg, int64_t number, fault_call call, const char *sql)
{
    (void)number;
    (void)sql;
    gate *g = arg;
    pthread_mutex_lock(&g->lock);
    if (g->armed && call == g->at) {
        g->armed = 0;
        g->arrived = 1;
        pthread_cond_broadcast(&g->changed);
        while (!g->open)
            pthread_cond_wait(&g->changed, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

static void gate_await(gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->arrived)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void *commit_one(void *arg)
{
    crowd *me = arg;
    committer_commit(me->k, me->tickets[0].unit);
    return NULL;
}

/* While the leader is inside the database, at whichever call, other threads are not held up by it:
 * they queue, ask, leave. If one of these calls took the lock that the leader held, the test would
 * hang. Rule 4: no unit has an answer before the commit has one. */
static void no_thread_waits_for_a_leader_at_work(conf *c)
{
    static const fault_call CALLS[] = {FAULT_CALL_BEGIN, FAULT_CALL_NEXT, FAULT_CALL_BIND,
                                       FAULT_CALL_COMMIT};
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        gate g = {.at = CALLS[i], .armed = 1};
        pthread_mutex_init(&g.lock, NULL);
        pthread_cond_init(&g.changed, NULL);
        db_fault plan = {0};
        db *d = conf_open_fault(c, NULL, &plan);
        committer *k = conf_committer(d, NULL);
        plan.before = gate_before;
        plan.before_arg = &g;
        conf_ticket t[4];
        for (int j = 0; j < 4; j++)
            conf_ticket_append(&t[j], (int64_t)i, j, NULL);
        crowd leader = {.k = k, .tickets = t};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, commit_one, &leader), 0);
        gate_await(&g);
        for (int j = 1; j < 4; j++)
            committer_submit(k, t[j].unit);
        committer_leave(k);
        assert_int_equal(committer_drive(k), 0); /* a thread leads */
        assert_int_equal(committer_stats_now(k).committed, 0);
        for (int j = 0; j < 4; j++)
            assert_int_equal(atomic_load(&t[j].finals), 0);
        gate_open(&g);
        pthread_join(thread, NULL);
        /* A thread that left while another one led relies on the leader to hand on. */
        for (int j = 0; j < 4; j++)
            TMP_AWAIT(atomic_load(&t[j].finals) == 1);
        for (int j = 0; j < 4; j++)
            CONF_ANSWER(&t[j], UNIT_COMMITTED);
        committer_close(k);
        assert_int_equal(conf_rows(d, (int64_t)i), 4);
        db_close(d);
        conf_tickets_free(t, 4);
        pthread_cond_destroy(&g.changed);
        pthread_mutex_destroy(&g.lock);
    }
}

/* A clock that tells how many threads wait on it. */
typedef struct watched_clock {
    clock_source source;
    atomic_int waiting;
} watched_clock;

static int64_t watched_now_ms(clock_source *c)
{
    (void)c;
    return clock_system()->now_ms(clock_system());
}

static int64_t watched_mono_ns(clock_source *c)
{
    (void)c;
    return clock_system()->mono_ns(clock_system());
}

static int watched_wait(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        int64_t until)
{
    watched_clock *w = (watched_clock *)c;
    atomic_fetch_add(&w->waiting, 1);
    int passed = clock_system()->wait(clock_system(), cond, mutex, until);
    atomic_fetch_sub(&w->waiting, 1);
    return passed;
}

static void *drive_once(void *arg)
{
    crowd *me = arg;
    committer_drive(me->k);
    return NULL;
}

/* A leader that waits for nothing goes away afterwards. A thread that waits behind it, without a
 * helper thread, must be woken to lead. */
static void a_leader_that_goes_wakes_a_waiting_thread(conf *c)
{
    watched_clock clock = {.source = {watched_now_ms, watched_mono_ns, watched_wait, NULL}};
    gate g = {.at = FAULT_CALL_COMMIT, .armed = 1};
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.changed, NULL);
    db_fault plan = {0};
    db *d = conf_open_fault(c, &(db_options){.clock = &clock.source}, &plan);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    plan.before = gate_before;
    plan.before_arg = &g;
    conf_ticket t[2];
    for (int i = 0; i < 2; i++)
        conf_ticket_append(&t[i], 1, i, NULL);
    crowd members[2] = {{.k = k, .tickets = &t[0]}, {.k = k, .tickets = &t[1]}};
    pthread_t threads[2];
    committer_submit(k, t[0].unit);
    assert_int_equal(pthread_create(&threads[0], NULL, drive_once, &members[0]), 0);
    gate_await(&g);
    int before = atomic_load(&clock.waiting);
    assert_int_equal(pthread_create(&threads[1], NULL, commit_one, &members[1]), 0);
    TMP_AWAIT(atomic_load(&clock.waiting) > before);
    gate_open(&g);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    committer_close(k);
    db_close(d);
    conf_tickets_free(t, 2);
    pthread_cond_destroy(&g.changed);
    pthread_mutex_destroy(&g.lock);
}

/* ---- Connections beside the committer ---- */

typedef struct reader {
    db *db;
    atomic_int *stop;
    int rounds;
    int wrong;
} reader;

static void *read_on(void *arg)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {journal}", ""};
    reader *r = arg;
    int64_t last = 0;
    while (!atomic_load(r->stop) || r->rounds == 0) {
        error err = {0};
        db_conn *conn = NULL;
        int64_t count = 0;
        int found = 0;
        if (db_connect(r->db, DB_READER, &conn, &err) != PAWL_OK) {
            r->wrong++;
            break;
        }
        if (db_begin(conn, &err) == PAWL_OK) {
            r->wrong += db_number(conn, &COUNT, NULL, 0, &count, &found, &err) != PAWL_OK;
            r->wrong += count < last;
            last = count;
            db_rollback(conn);
            r->rounds++;
        }
        db_disconnect(conn);
    }
    return NULL;
}

/* C1: also where all connections share one handle. */
static void readers_come_and_go_beside_the_committer(conf *c)
{
    enum { READERS = 3, COUNT = 300 };
    atomic_int stop = 0;
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    pthread_t threads[READERS];
    reader readers[READERS];
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){d, &stop, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        conf_ticket t;
        conf_ticket_append(&t, 1, i, NULL);
        assert_int_equal(committer_commit(k, t.unit), PAWL_OK);
        conf_ticket_free(&t);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
    committer_close(k);
    assert_int_equal(conf_rows(d, 1), COUNT);
    db_close(d);
}

static const conf_case CASES[] = {
    {"units are applied in queue order", units_are_applied_in_queue_order, 0},
    {"many threads that wait", many_threads_that_wait, 0},
    {"many threads that do not wait", many_threads_that_do_not_wait, 0},
    {"many threads, of which some wait", many_threads_of_which_some_wait, 0},
    {"a thread that is alone leads", a_thread_that_is_alone_leads, 0},
    {"a call that waits returns the answer of its unit",
     a_call_that_waits_returns_the_answer_of_its_unit, 0},
    {"leaving wakes the helper", leaving_wakes_the_helper, 0},
    {"by hand, leaving drives once", by_hand_leaving_drives_once, 0},
    {"a unit without a waiting thread is committed", a_unit_without_a_waiting_thread_is_committed,
     0},
    {"by hand a unit without a waiting thread is told",
     by_hand_a_unit_without_a_waiting_thread_is_told, 0},
    {"flushing waits for all", flushing_waits_for_all, 0},
    {"a done function may submit", a_done_function_may_submit, 0},
    {"by hand, a done function may submit", by_hand_a_done_function_may_submit, 0},
    {"no thread waits for a leader at work", no_thread_waits_for_a_leader_at_work, 0},
    {"a leader that goes wakes a waiting thread", a_leader_that_goes_wakes_a_waiting_thread, 0},
    {"readers come and go beside the committer", readers_come_and_go_beside_the_committer, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
