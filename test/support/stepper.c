/* All sides and the test's thread share one lock. The test's thread lets one side go on, and waits
 * until that side stands at its next stop, has ended, or is known to wait for the other side. A run
 * is described by its choices. For the next run the last choice that has another possibility is
 * changed, and later ones are forgotten, as one counts in binary. */
#include "support/stepper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "db/world.h"

enum {
    CHOICES = 64,
    TRACE = 256,
    LOOK_MS = 1,            /* a step that takes longer than this may be waiting for a lock */
    CLAIM_MS = 1000 * 1000, /* longer than any test takes */
};

typedef enum { RUNS, STANDS, ENDED } where;

struct stepper_side {
    stepper *stepper;
    int number;
    db *db;
    db_conn *conn;
    db_fault plan;
    db *direct_db;
    db_conn *direct; /* a connection that is not stopped */
    int64_t pids[2]; /* the server's processes of both connections; 0: on this database no
                        statement waits for a lock */
    int goes_direct;
    pthread_t thread;
    void *arg;
    uint64_t passes;
    int fresh; /* 1: a statement was given values, and was not executed yet */

    /* Under the lock. */
    where where;
    int inside; /* 1: the side is in a transaction, or was when it was let go on */
    int again;  /* 1: the side stands before a further attempt of its unit */
    int tired;  /* 1: and the other side has not gone on since its last attempt */
    int waits;  /* 1: the side was found waiting for the other side */
    pthread_cond_t go;
};

struct stepper {
    db *db;
    db_conn *spy; /* asks the server which side waits for which */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stepper_side sides[STEPPER_SIDES];
    stepper_body body;
    int active; /* 1: an order is being executed, and sides stop */
    int whole;

    unsigned char choice[CHOICES];
    int planned; /* number of choices that are given; further ones are made on the way */
    int made;
    char trace[TRACE];
    size_t traced;
    stepper_counts counts;
};

/* ---- A side ---- */

/* Stops the side until it is let go on. */
static void stand_still(stepper_side *s, int inside)
{
    stepper *t = s->stepper;
    pthread_mutex_lock(&t->lock);
    s->inside = inside;
    s->where = STANDS;
    pthread_cond_signal(&t->changed);
    while (s->where == STANDS)
        pthread_cond_wait(&s->go, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* Called before each call of the database. A statement is executed when it is asked for its first
 * row, which is the first such call after it was given values. */
static void before_call(void *arg, int64_t number, fault_call call, const char *sql)
{
    (void)number;
    (void)sql;
    stepper_side *s = arg;
    if (!s->stepper->active)
        return;
    if (call == FAULT_CALL_BEGIN || call == FAULT_CALL_COMMIT ||
        (call == FAULT_CALL_NEXT && s->fresh))
        stand_still(s, call != FAULT_CALL_BEGIN);
    s->fresh = call == FAULT_CALL_BIND;
}

int stepper_number(const stepper_side *s)
{
    return s->number;
}

void stepper_stop(stepper_side *s)
{
    stand_still(s, 0);
}

static batch_result apply_unit(stepper_side *s, unit *u, error *err)
{
    if (!s->goes_direct)
        return batch_apply(s->conn, &u, 1, &s->passes, err);
    stand_still(s, 0);
    s->direct->node = s->conn->node;
    s->direct->slot = s->conn->slot;
    return s->direct->driver->apply(s->direct, &u, 1, &s->passes, err);
}

void stepper_apply(stepper_side *s, unit *u)
{
    error err = {0};
    stepper *t = s->stepper;
    while (apply_unit(s, u, &err).taken == 0) {
        pthread_mutex_lock(&t->lock);
        s->again = s->tired = 1;
        t->counts.retries++;
        pthread_mutex_unlock(&t->lock);
    }
}

static void *run_side(void *arg)
{
    stepper_side *s = arg;
    stepper *t = s->stepper;
    t->body(s, s->arg);
    pthread_mutex_lock(&t->lock);
    s->where = ENDED;
    s->inside = s->again = s->tired = 0;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- Which side waits for which ---- */

/* Asked only where several transactions can write at a time. */
static const db_sql PID = {"SELECT pg_backend_pid()::bigint", ""};
static const db_sql WAITS = {
    "SELECT count(*) FROM unnest(pg_blocking_pids($1::int)) AS b WHERE b = $2", "ii"};

static int is_waiting(stepper *t, const stepper_side *s)
{
    const stepper_side *other = &t->sides[!s->number];
    db_value values[] = {db_int(s->pids[s->goes_direct]), db_int(other->pids[other->goes_direct])};
    if (values[0].i == 0)
        return 0;
    conf_begin(t->spy);
    int64_t waits = conf_number_on(t->spy, &WAITS, values, DB_COUNT(values));
    db_rollback(t->spy);
    return waits > 0;
}

/* Waits until each side stands, has ended, or waits for a side that stands. If the two wait for
 * each other, the database will end that deadlock. */
static void settle_sides(stepper *t)
{
    clock_source *real = clock_system();
    for (;;) {
        stepper_side *running = NULL;
        int count = 0;
        for (int i = 0; i < STEPPER_SIDES; i++) {
            stepper_side *s = &t->sides[i];
            if (s->where != RUNS)
                s->waits = 0;
            else if (++count)
                running = s;
        }
        if (count == 0)
            return;
        int64_t until = clock_deadline(real->mono_ns(real), LOOK_MS);
        if (!real->wait(real, &t->changed, &t->lock, until) || count > 1)
            continue;
        pthread_mutex_unlock(&t->lock);
        int waits = is_waiting(t, running);
        pthread_mutex_lock(&t->lock);
        if (waits && running->where == RUNS) {
            t->counts.waits += !running->waits;
            running->waits = 1;
            return;
        }
    }
}

/* ---- Orders ---- */

static void trace_order(stepper *t, char what)
{
    if (t->traced + 1 < TRACE)
        t->trace[t->traced++] = what;
    t->trace[t->traced] = 0;
}

/* Returns 1 if this side may take the next step. */
static int may_go(const stepper *t, const stepper_side *s)
{
    const stepper_side *other = &t->sides[!s->number];
    if (s->where != STANDS)
        return 0;
    if (t->whole && !s->inside && other->inside)
        return 0;
    if (s->again && (other->inside || (s->tired && other->where == STANDS && !other->tired)))
        return 0;
    return 1;
}

/* Chooses the side that goes on; NULL: all have ended. */
static stepper_side *choose_side(stepper *t)
{
    stepper_side *can[STEPPER_SIDES];
    int count = 0, left = 0;
    for (int i = 0; i < STEPPER_SIDES; i++) {
        left += t->sides[i].where != ENDED;
        if (may_go(t, &t->sides[i]))
            can[count++] = &t->sides[i];
    }
    if (left == 0)
        return NULL;
    if (count == 0)
        fail_msg("no side can go on after %s", t->trace);
    if (count == 1)
        return can[0];
    if (t->made == CHOICES)
        fail_msg("more than %d choices: %s", CHOICES, t->trace);
    if (t->made >= t->planned)
        t->choice[t->made] = 0;
    return can[t->choice[t->made++]];
}

static void let_go(stepper *t, stepper_side *s)
{
    trace_order(t, s->number ? 'R' : 'L');
    t->counts.steps++;
    t->sides[!s->number].tired = 0;
    s->again = s->tired = 0;
    s->inside = 1; /* assumed until the side says otherwise */
    s->where = RUNS;
    pthread_cond_signal(&s->go);
}

static void start_side(stepper_side *s, void *arg)
{
    s->arg = arg;
    s->where = RUNS;
    s->inside = s->again = s->tired = s->waits = s->fresh = 0;
    assert_true(thread_start(&s->thread, run_side, s));
}

void stepper_run(stepper *t, stepper_body body, void *args[STEPPER_SIDES])
{
    t->body = body;
    t->active = 1;
    t->made = 0;
    t->traced = 0;
    t->trace[0] = 0;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < STEPPER_SIDES; i++)
        start_side(&t->sides[i], args[i]);
    stepper_side *next;
    while (settle_sides(t), (next = choose_side(t))) {
        int waited = t->sides[!next->number].waits;
        let_go(t, next);
        if (waited)
            trace_order(t, '|');
    }
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < STEPPER_SIDES; i++)
        pthread_join(t->sides[i].thread, NULL);
    t->active = 0;
    t->counts.orders++;
}

void stepper_first(stepper *t, stepper_how how)
{
    t->whole = how == STEPPER_WHOLE;
    t->sides[0].goes_direct = how == STEPPER_LEFT_DIRECT;
    t->sides[1].goes_direct = how == STEPPER_RIGHT_DIRECT;
    t->planned = t->made = 0;
}

int stepper_next(stepper *t)
{
    int last = t->made - 1;
    while (last >= 0 && t->choice[last] == 1)
        last--;
    if (last < 0)
        return 0;
    t->choice[last] = 1;
    t->planned = last + 1;
    return 1;
}

const char *stepper_order(const stepper *t)
{
    return t->trace;
}

stepper_counts stepper_counted(const stepper *t)
{
    return t->counts;
}

/* ---- Opening ---- */

/* Prepares a connection for waits: deadlocks are wanted here, and are to be found quickly, not
 * after a second. Returns the id of the server's process. */
static int64_t prepare_waiting(db_conn *c)
{
    error err = {0};
    conf_begin(c);
    int64_t pid = conf_number_on(c, &PID, NULL, 0);
    CONF_OK(c->driver->script(c, "SET deadlock_timeout = '10ms'", &err), &err);
    conf_commit(c);
    return pid;
}

static void open_side(stepper *t, stepper_side *s, const conf *c)
{
    /* Where only one transaction can write at a time, another one gets an answer at once instead of
     * waiting. */
    db_options options = {.by_hand = (c->promises & DB_TURNS) != 0, .claim_ms = CLAIM_MS};
    s->stepper = t;
    s->plan = (db_fault){.before = before_call, .before_arg = s};
    s->db = conf_open_fault(c, &options, &s->plan);
    s->conn = conf_connect(s->db, DB_COMMITTER);
    s->direct_db = conf_open(c, &options);
    s->direct = conf_connect(s->direct_db, DB_COMMITTER);
    assert_int_equal(clock_cond_init(&s->go), 0);
    if (c->promises & DB_TURNS)
        return;
    s->pids[0] = prepare_waiting(s->conn);
    s->pids[1] = prepare_waiting(s->direct);
}

stepper *stepper_open(const conf *c)
{
    stepper *t = calloc(1, sizeof *t);
    assert_non_null(t);
    pthread_mutex_init(&t->lock, NULL);
    assert_int_equal(clock_cond_init(&t->changed), 0);
    t->db = conf_open(c, NULL);
    t->spy = conf_connect(t->db, DB_READER);
    for (int i = 0; i < STEPPER_SIDES; i++) {
        t->sides[i].number = i;
        open_side(t, &t->sides[i], c);
    }
    return t;
}

static void close_side(stepper_side *s)
{
    db_disconnect(s->conn);
    db_close(s->db);
    db_disconnect(s->direct);
    db_close(s->direct_db);
    pthread_cond_destroy(&s->go);
}

void stepper_close(stepper *t)
{
    for (int i = 0; i < STEPPER_SIDES; i++)
        close_side(&t->sides[i]);
    db_disconnect(t->spy);
    db_close(t->db);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
}

db *stepper_db(stepper *t)
{
    return t->db;
}

db_conn *stepper_connection(stepper *t, int side)
{
    return t->sides[side].conn;
}

void stepper_begin_anew(stepper *t)
{
    error err = {0};
    if (!(t->db->driver->promises & DB_FILE))
        return;
    for (int i = 0; i < STEPPER_SIDES; i++) {
        world_gone_back(t->sides[i].db, &err);
        world_gone_back(t->sides[i].direct_db, &err);
    }
}
