/* The write-ahead log of a SQLite file keeps within its bound (B1), under load, beside readers, and
 * is reused instead of growing. Sizes are those of the file itself, and those that the checkpointer
 * counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "db/db_sqlite.h"
#include "support/conf.h"
#include "support/scratch.h"

enum { BOUND = 1024 * 1024, ROW = 4000, BATCH = 10 };

typedef struct fixture {
    char wal[TMP_PATH];
    db *db;
    db_conn *w;
    int64_t seq;
    int64_t largest; /* the log has been, as stat(2) has it */
} fixture;

static void fixture_open_bound(fixture *b, const conf *c, int by_hand, int64_t bound)
{
    memset(b, 0, sizeof *b);
    tmp_path(b->wal, c->dir, "conf.db-wal");
    b->db = conf_open(c, &(db_options){.wal_bytes = bound, .by_hand = by_hand});
    b->w = conf_connect(b->db, DB_WRITER);
}

static void fixture_open(fixture *b, const conf *c, int by_hand)
{
    fixture_open_bound(b, c, by_hand, BOUND);
}

static void fixture_close(fixture *b)
{
    db_disconnect(b->w);
    db_close(b->db);
}

static void write_batch(fixture *b)
{
    static const char bytes[ROW];
    error err = {0};
    conf_begin(b->w);
    for (int i = 0; i < BATCH; i++) {
        db_value v[] = {db_int(1), db_int(b->seq++), db_text(SLICE_LIT("row")),
                        db_bytes((slice){bytes, ROW})};
        CONF_OK(db_run(b->w, &CONF_APPEND, v, 4, &err), &err);
    }
    conf_commit(b->w);
}

static void batch(fixture *b)
{
    write_batch(b);
    b->w->driver->between(b->w);
    int64_t size = tmp_size(b->wal);
    b->largest = size > b->largest ? size : b->largest;
}

/* Ten times the bound goes through it. */
static void under_load(conf *c, int by_hand)
{
    fixture b;
    fixture_open(&b, c, by_hand);
    while (b.seq * ROW < 10 * BOUND)
        batch(&b);
    db_sqlite_stats s = db_sqlite_figures(b.w);
    if (b.largest > 2 * BOUND)
        fail_msg("the log has been %lld bytes", (long long)b.largest);
    assert_true(b.largest > BOUND / 4); /* it is used, not emptied at each commit */
    assert_in_range(s.wal.restarts, 3, 200);
    assert_in_range(s.wal.bytes_max, BOUND / 4, 2 * BOUND);
    assert_int_equal(s.wal.blocked, 0);
    assert_true(s.wal.stall_ns_max > 0);
    assert_int_equal(conf_rows(b.db, 1), b.seq);
    fixture_close(&b);
}

static void the_log_stays_within_its_bound(conf *c)
{
    under_load(c, 0);
}

static void by_hand_it_does_too(conf *c)
{
    under_load(c, 1);
}

/* Through the committer, as an engine does it: batch after batch, without a call for
 * housekeeping. */
static void the_committer_keeps_it_too(conf *c)
{
    static const char bytes[ROW];
    char wal[TMP_PATH];
    tmp_path(wal, c->dir, "conf.db-wal");
    db *d = conf_open(c, &(db_options){.wal_bytes = BOUND});
    committer *k = conf_committer(d, NULL);
    int64_t largest = 0;
    for (int64_t i = 0; i * BATCH * ROW < 5 * BOUND; i++) {
        conf_ticket t;
        conf_ticket_open(&t, 0);
        for (int j = 0; j < BATCH; j++) {
            db_value v[] = {db_int(1), db_int(i * BATCH + j), db_text(SLICE_LIT("row")),
                            db_bytes((slice){bytes, ROW})};
            unit_write(t.unit, &CONF_APPEND, unit_key("journal", 1), v, 4);
        }
        assert_int_equal(committer_commit(k, t.unit), PAWL_OK);
        conf_ticket_free(&t);
        int64_t size = tmp_size(wal);
        largest = size > largest ? size : largest;
    }
    assert_in_range(largest, BOUND / 4, 2 * BOUND);
    committer_close(k);
    db_close(d);
}

/* A reader that looks at an old state is in the way; the log grows, and nothing else happens. When
 * it has gone, the log begins anew in the same bytes. */
static void a_long_reader_delays_it_only(conf *c)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {journal}", ""};
    fixture b;
    fixture_open(&b, c, 0);
    batch(&b);
    db_conn *r = conf_connect(b.db, DB_READER);
    conf_begin(r);
    int64_t before = conf_number_on(r, &COUNT, NULL, 0);
    while (b.seq * ROW < 5 * BOUND)
        batch(&b);
    assert_int_equal(conf_number_on(r, &COUNT, NULL, 0), before); /* and keeps its state */
    db_sqlite_stats s = db_sqlite_figures(b.w);
    assert_true(s.wal.blocked > 0);
    assert_int_equal(s.wal.restarts, 0);
    assert_true(b.largest > 3 * BOUND);
    db_rollback(r);

    int64_t grown = b.largest;
    int64_t seq = b.seq;
    while ((b.seq - seq) * ROW < 8 * BOUND)
        batch(&b);
    s = db_sqlite_figures(b.w);
    assert_true(s.wal.restarts >= 3);
    if (b.largest > grown + BOUND) /* the last piece before the reader was found gone */
        fail_msg("it went on growing: %lld, then %lld", (long long)grown, (long long)b.largest);
    db_disconnect(r);
    fixture_close(&b);
}

/* ---- Growing ahead ---- */

static void small_batch(fixture *b)
{
    static const char bytes[ROW];
    error err = {0};
    db_value v[] = {db_int(1), db_int(b->seq++), db_text(SLICE_LIT("row")),
                    db_bytes((slice){bytes, ROW})};
    conf_begin(b->w);
    CONF_OK(db_run(b->w, &CONF_APPEND, v, 4, &err), &err);
    conf_commit(b->w);
    b->w->driver->between(b->w);
    int64_t size = tmp_size(b->wal);
    b->largest = size > b->largest ? size : b->largest;
}

/* How many of these batches have made the file longer? */
static int growths(fixture *b, int batches)
{
    int count = 0;
    for (int i = 0; i < batches; i++) {
        int64_t size = tmp_size(b->wal);
        small_batch(b);
        count += tmp_size(b->wal) != size;
    }
    return count;
}

/* The log grows for many commits at once. The zeroes behind its frames mean nothing: in the files
 * that a crash leaves there is what was committed. */
static void the_log_grows_for_many_commits_at_once(conf *c)
{
    char path[TMP_PATH], copy[TMP_PATH];
    error err = {0};
    fixture b;
    db *left;
    fixture_open_bound(&b, c, 0, 64 * BOUND);
    growths(&b, 50);
    assert_in_range(growths(&b, 200), 1, 10);
    assert_true(tmp_size(b.wal) > db_sqlite_figures(b.w).wal.bytes_max);
    tmp_path(path, c->dir, "conf.db");
    tmp_path(copy, c->dir, "copy.db");
    scratch_copy_db(path, copy);
    CONF_OK(db_open(&left, &(db_options){.url = copy}, &err), &err);
    assert_int_equal(conf_rows(left, 1), b.seq);
    db_close(left);
    fixture_close(&b);
}

/* With several bounds, since the last step of the log may end just before one of them by chance. */
static void it_does_not_grow_ahead_of_its_bound(conf *c)
{
    int64_t written = 0;
    for (int64_t bound = BOUND / 2; bound < BOUND / 2 + 8 * ROW; bound += 2 * ROW) {
        fixture b;
        fixture_open_bound(&b, c, 1, bound);
        b.seq = written;
        while (db_sqlite_figures(b.w).wal.restarts == 0)
            small_batch(&b);
        assert_true(b.largest >= bound);
        assert_true(b.largest <= db_sqlite_figures(b.w).wal.bytes_max + ROW);
        written = b.seq;
        fixture_close(&b);
    }
}

/* The disk is full: the log keeps its size, and commits go on while they find room in it. */
static void a_log_that_cannot_grow_keeps_its_size(conf *c)
{
    struct rlimit before, full;
    fixture b;
    fixture_open_bound(&b, c, 1, 64 * BOUND);
    while (tmp_size(b.wal) < BOUND)
        small_batch(&b);
    int64_t size = tmp_size(b.wal);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = (rlim_t)size + ROW;
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    assert_int_equal(sigaction(SIGXFSZ, &ignored, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    while (db_sqlite_figures(b.w).wal.bytes_max < size - BOUND / 16)
        small_batch(&b);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(tmp_size(b.wal), size);
    assert_int_equal(conf_rows(b.db, 1), b.seq);
    fixture_close(&b);
}

/* Made once and kept, whatever is in it: a log that is deleted and made anew costs a sync of the
 * folder each time. The test's own connections are not asked; looking at the file is enough. */
static void the_log_survives_closing(conf *c)
{
    struct stat first;
    struct stat now;
    fixture b;
    fixture_open(&b, c, 0);
    batch(&b);
    assert_int_equal(stat(b.wal, &first), 0);
    for (int i = 1; i <= 3; i++) {
        fixture_close(&b);
        assert_int_equal(stat(b.wal, &now), 0);
        assert_true(now.st_ino == first.st_ino);
        fixture_open(&b, c, 0);
        assert_int_equal(stat(b.wal, &now), 0);
        assert_true(now.st_ino == first.st_ino);
        assert_int_equal(conf_rows(b.db, 1), BATCH);
    }
    fixture_close(&b);
}

/* Figures of a connection that has not written yet are zero, not garbage. */
static void figures_are_there_from_the_beginning(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    db_sqlite_stats s = db_sqlite_figures(b.w);
    assert_int_equal(s.wal.restarts, 0);
    assert_int_equal(s.wal.bytes_max, 0);
    assert_int_equal(s.turns_given_up, 0);
    batch(&b);
    batch(&b);
    s = db_sqlite_figures(b.w);
    assert_true(s.wal.bytes_max > 0);
    fixture_close(&b);
}

/* ---- The thread that copies ---- */

/* The system's clock, which counts how often a thread began to wait by it. With nothing in the way
 * of a writer, that is the copying thread alone. */
typedef struct counting_clock {
    clock_source source; /* first: the clock is what it counts for */
    atomic_int waits;
} counting_clock;

static int64_t counted_now_ms(clock_source *c)
{
    (void)c;
    return clock_system()->now_ms(clock_system());
}

static int64_t counted_mono_ns(clock_source *c)
{
    (void)c;
    return clock_system()->mono_ns(clock_system());
}

static int counted_wait(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        int64_t deadline_ns)
{
    atomic_fetch_add(&((counting_clock *)c)->waits, 1);
    return clock_system()->wait(clock_system(), cond, mutex, deadline_ns);
}

static void fixture_open_counting(fixture *b, const conf *c, counting_clock *clock, int64_t bound)
{
    memset(b, 0, sizeof *b);
    *clock = (counting_clock){.source = {counted_now_ms, counted_mono_ns, counted_wait, NULL}};
    tmp_path(b->wal, c->dir, "conf.db-wal");
    b->db = conf_open(c, &(db_options){.wal_bytes = bound, .clock = &clock->source});
    b->w = conf_connect(b->db, DB_WRITER);
}

/* It tries once for each piece and goes to sleep again, also when a reader lets it do nothing:
 * trying until it succeeds would take a whole processor as long as the reader is there. */
static void beside_a_reader_the_copying_thread_sleeps(conf *c)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {journal}", ""};
    counting_clock clock;
    fixture b;
    fixture_open_counting(&b, c, &clock, BOUND);
    batch(&b); /* makes the thread, which has nothing to do yet */
    TMP_AWAIT(atomic_load(&clock.waits) == 1);
    db_conn *r = conf_connect(b.db, DB_READER);
    conf_begin(r);
    assert_int_equal(conf_number_on(r, &COUNT, NULL, 0), BATCH);
    for (int i = 0; i < 3; i++) {
        int waits = atomic_load(&clock.waits);
        for (int j = 0; j < 4; j++) /* more than a piece, of which it hears at once */
            write_batch(&b);
        assert_true(4 * BATCH * ROW > BOUND / 16);
        b.w->driver->between(b.w);
        TMP_AWAIT(atomic_load(&clock.waits) > waits);
    }
    db_rollback(r);
    db_disconnect(r);
    fixture_close(&b);
}

/* A sixteenth of a tiny bound is nothing, and nothing is always there to be copied. */
static void with_a_tiny_bound_it_sleeps_too(conf *c)
{
    counting_clock clock;
    fixture b;
    fixture_open_counting(&b, c, &clock, 1);
    batch(&b); /* makes the thread */
    TMP_AWAIT(atomic_load(&clock.waits) > 0);
    int waits = atomic_load(&clock.waits);
    batch(&b);
    TMP_AWAIT(atomic_load(&clock.waits) > waits);
    fixture_close(&b);
}

/* An application that blocks every writer, and the events that it is told. */
typedef struct gate {
    int closed;
    int told;
} gate;

static int let_in(void *native, void *arg)
{
    (void)native;
    return ((gate *)arg)->closed;
}

static void note_no_copier(int level, const char *event, const char *fields, void *arg)
{
    (void)level, (void)fields;
    ((gate *)arg)->told += strcmp(event, "no-copier") == 0;
}

/* Without a connection for the thread the writer does it all; the bound holds. */
static void without_the_thread_it_stays_within_its_bound(conf *c)
{
    gate g = {0};
    fixture b = {.seq = 0};
    tmp_path(b.wal, c->dir, "conf.db-wal");
    b.db = conf_open(c, &(db_options){.wal_bytes = BOUND,
                                      .on_connect = let_in,
                                      .on_connect_arg = &g,
                                      .log = {note_no_copier, &g}});
    b.w = conf_connect(b.db, DB_WRITER);
    g.closed = 1;
    while (b.seq * ROW < 10 * BOUND)
        batch(&b);
    if (b.largest > 2 * BOUND)
        fail_msg("the log has been %lld bytes", (long long)b.largest);
    assert_true(db_sqlite_figures(b.w).wal.restarts >= 3);
    assert_int_equal(g.told, 1);
    g.closed = 0;
    assert_int_equal(conf_rows(b.db, 1), b.seq);
    fixture_close(&b);
}

static const conf_case CASES[] = {
    {"the log stays within its bound", the_log_stays_within_its_bound, 0},
    {"by hand it does, too", by_hand_it_does_too, 0},
    {"the committer keeps it, too", the_committer_keeps_it_too, 0},
    {"a long reader delays it only", a_long_reader_delays_it_only, 0},
    {"beside a reader the copying thread sleeps", beside_a_reader_the_copying_thread_sleeps, 0},
    {"with a tiny bound it sleeps, too", with_a_tiny_bound_it_sleeps_too, 0},
    {"without the thread it stays within its bound", without_the_thread_it_stays_within_its_bound,
     0},
    {"the log grows for many commits at once", the_log_grows_for_many_commits_at_once, 0},
    {"it does not grow ahead of its bound", it_does_not_grow_ahead_of_its_bound, 0},
    {"a log that cannot grow keeps its size", a_log_that_cannot_grow_keeps_its_size, 0},
    {"the log survives closing", the_log_survives_closing, 0},
    {"figures are there from the beginning", figures_are_there_from_the_beginning, 0},
};

int main(void)
{
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
