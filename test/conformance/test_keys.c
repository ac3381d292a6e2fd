/* A6: a key that was given once is never given again, whatever was deleted in between.
 *
 * A stale task, a late completion or the cursor of a feed would otherwise meet another row under
 * the old number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "db/key_block.h"
#include "support/conf.h"

/* ---- Keys that the database gives ---- */

static const db_sql TASK = {
    "INSERT INTO {tasks} (tenant, queue, run, generation, op, name, visible_at, at)"
    " VALUES ('', '', $1, 1, $2, 'work', 0, 0) RETURNING task",
    "ii"};
static const db_sql OUTBOX = {"INSERT INTO {outbox} (tenant, kind, target, name, at, options)"
                              " VALUES ('', $1, '', 'start', $2, NULL) RETURNING pos",
                              "ii"};
static const db_sql JOURNAL = {"INSERT INTO {journal} (run, generation, seq, kind, name, at)"
                               " VALUES ($1, 1, $2, 1, 'row', 0) RETURNING pos",
                               "ii"};
static const db_sql DROP_TASK = {"DELETE FROM {tasks} WHERE task >= $1", "i"};
static const db_sql DROP_OUTBOX = {"DELETE FROM {outbox} WHERE pos >= $1", "i"};
static const db_sql DROP_JOURNAL = {"DELETE FROM {journal} WHERE pos >= $1", "i"};

typedef struct table {
    const db_sql *put;
    const db_sql *drop;
} table;

static const table TABLES[] = {
    {&TASK, &DROP_TASK}, {&OUTBOX, &DROP_OUTBOX}, {&JOURNAL, &DROP_JOURNAL}};

static int64_t give(db *d, const table *t, int64_t nr)
{
    error err = {0};
    int64_t key = 0;
    int found = 0;
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    CONF_OK(db_number(w, t->put, (db_value[]){db_int(1), db_int(nr)}, 2, &key, &found, &err), &err);
    assert_true(found);
    conf_commit(w);
    db_disconnect(w);
    return key;
}

static void deleted_keys_do_not_come_back(conf *c)
{
    db *d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++) {
        int64_t last = 0;
        for (int64_t nr = 1; nr <= 3; nr++) {
            int64_t key = give(d, &TABLES[i], nr);
            assert_true(key > last);
            last = key;
        }
        conf_do(d, TABLES[i].drop, (db_value[]){db_int(last)}, 1); /* the highest */
        int64_t next = give(d, &TABLES[i], 4);
        assert_true(next > last);
        conf_do(d, TABLES[i].drop, (db_value[]){db_int(0)}, 1); /* all */
        assert_true(give(d, &TABLES[i], 5) > next);
    }
    db_close(d);
}

static void deleted_keys_do_not_come_back_after_reopening(conf *c)
{
    int64_t last[sizeof TABLES / sizeof *TABLES];
    db *d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++) {
        give(d, &TABLES[i], 1);
        last[i] = give(d, &TABLES[i], 2);
        conf_do(d, TABLES[i].drop, (db_value[]){db_int(0)}, 1);
    }
    db_close(d);
    d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++)
        assert_true(give(d, &TABLES[i], 3) > last[i]);
    db_close(d);
}

/* ---- Keys that are taken in blocks ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void expect_distinct(int64_t *all, size_t count)
{
    qsort(all, count, sizeof *all, by_value);
    assert_true(all[0] > 0);
    for (size_t i = 1; i < count; i++)
        assert_true(all[i] > all[i - 1]);
}

static int64_t next_of(keys *k)
{
    error err = {0};
    int64_t key = 0;
    CONF_OK(key_block_next(k, &key, &err), &err);
    return key;
}

static void keys_are_taken_in_blocks(conf *c)
{
    enum { COUNT = 2 * KEYS_BLOCK + 10 };
    int64_t *all = calloc(COUNT, sizeof *all);
    assert_non_null(all);
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    keys runs;
    keys others;
    conf_script(d, "INSERT INTO {meta} (name, number) VALUES ('test.other', 1)");
    key_block_init(&runs, k, "next_run");
    key_block_init(&others, k, "test.other");
    for (int i = 0; i < COUNT; i++) {
        all[i] = next_of(&runs);
        if (i > 0 && i % KEYS_BLOCK != 0)
            assert_int_equal(all[i], all[i - 1] + 1); /* neighbours stay neighbours */
    }
    assert_int_equal(committer_stats_now(k).committed, 3); /* a unit per block, not per key */
    int64_t other = next_of(&others);                      /* another name counts for itself */
    assert_true(other <= KEYS_BLOCK);
    expect_distinct(all, COUNT);
    key_block_free(&others);
    key_block_free(&runs);
    committer_close(k);
    db_close(d);
    free(all);
}

typedef struct taker {
    keys *keys;
    int64_t *out;
    int count;
    int failed;
} taker;

static void *take_many(void *arg)
{
    taker *t = arg;
    error err = {0};
    for (int i = 0; i < t->count; i++)
        t->failed += key_block_next(t->keys, &t->out[i], &err) != PAWL_OK;
    return NULL;
}

static void threads_share_a_block(conf *c)
{
    enum { THREADS = 4, EACH = 700 };
    int64_t *all = calloc((size_t)THREADS * EACH, sizeof *all);
    assert_non_null(all);
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    keys runs;
    key_block_init(&runs, k, "next_run");
    pthread_t threads[THREADS];
    taker takers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (taker){&runs, all + (ptrdiff_t)i * EACH, EACH, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(takers[i].failed, 0);
    }
    expect_distinct(all, (size_t)THREADS * EACH);
    key_block_free(&runs);
    committer_close(k);
    db_close(d);
    free(all);
}

static void two_engines_never_get_the_same_key(conf *c)
{
    enum { EACH = KEYS_BLOCK + KEYS_BLOCK / 2 };
    int64_t *all = calloc(2 * EACH, sizeof *all);
    assert_non_null(all);
    db *d[2];
    committer *k[2];
    keys runs[2];
    for (int i = 0; i < 2; i++) {
        d[i] = conf_open(c, NULL);
        k[i] = conf_committer(d[i], NULL);
        key_block_init(&runs[i], k[i], "next_run");
    }
    for (int i = 0; i < 2 * EACH; i++)
        all[i] = next_of(&runs[i % 2]);
    expect_distinct(all, 2 * EACH);
    for (int i = 0; i < 2; i++) {
        key_block_free(&runs[i]);
        committer_close(k[i]);
        db_close(d[i]);
    }
    free(all);
}

static void reopened_keys_go_on(conf *c)
{
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        db *d = conf_open(c, NULL);
        committer *k = conf_committer(d, NULL);
        keys runs;
        key_block_init(&runs, k, "next_run");
        int64_t key = next_of(&runs);
        assert_true(key > last);
        last = next_of(&runs);
        assert_true(last > key);
        key_block_free(&runs);
        committer_close(k);
        db_close(d);
    }
}

/* A block that could not be taken is an error, and no number is made up. */
static void without_the_database_there_is_no_key(conf *c)
{
    db_fault plan = {0};
    db *d = conf_open_fault(c, NULL, &plan);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    keys runs;
    key_block_init(&runs, k, "next_run");
    error err = {0};
    int64_t key = -5;
    plan.lose_commit = plan.commits + 1;
    pawl_code code = key_block_next(&runs, &key, &err);
    assert_int_not_equal(code, PAWL_OK);
    assert_true(err.message[0] != '\0');
    int64_t first = next_of(&runs);
    assert_true(first > 0);
    assert_int_equal(next_of(&runs), first + 1);
    key_block_free(&runs);
    committer_close(k);
    db_close(d);
}

/* C5: asking for a key has the time-out of a client, not of a run. */
static void on_a_locked_database_there_is_no_key(conf *c)
{
    db *d = conf_open(c, &(db_options){.by_hand = 1, .busy_ms = 20});
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    keys runs;
    key_block_init(&runs, k, "next_run");
    db_conn *other = conf_lock(d);
    error err = {0};
    int64_t key = -5;
    assert_int_equal(key_block_next(&runs, &key, &err), PAWL_BUSY);
    assert_int_equal(err.code, PAWL_BUSY);
    assert_true(err.message[0] != '\0');
    assert_int_equal(key, -5);
    conf_unlock(other);
    TMP_AWAIT(key_block_next(&runs, &key, &err) ==
              PAWL_OK); /* its patience is short on a busy machine */
    assert_true(key > 0);
    key_block_free(&runs);
    committer_close(k);
    db_close(d);
}

/* A counter that is no number, or not there, gives none: otherwise all callers would get the key
 * 0. */
static void without_a_counter_there_is_no_key(conf *c)
{
    static const char *const DAMAGES[] = {
        "UPDATE {meta} SET number = NULL WHERE name = 'next_run'",
        "DELETE FROM {meta} WHERE name = 'next_run'",
    };
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    keys runs;
    key_block_init(&runs, k, "next_run");
    for (size_t i = 0; i < sizeof DAMAGES / sizeof *DAMAGES; i++) {
        conf_script(d, DAMAGES[i]);
        for (int times = 0; times < 2; times++) {
            error err = {0};
            int64_t key = -5;
            assert_int_equal(key_block_next(&runs, &key, &err), PAWL_CORRUPT);
            assert_non_null(strstr(err.message, "next_run"));
            assert_int_equal(key, -5);
        }
    }
    key_block_free(&runs);
    committer_close(k);
    db_close(d);
}

static const conf_case CASES[] = {
    {"deleted keys do not come back", deleted_keys_do_not_come_back, 0},
    {"deleted keys do not come back after reopening", deleted_keys_do_not_come_back_after_reopening,
     DB_DURABLE},
    {"keys are taken in blocks", keys_are_taken_in_blocks, 0},
    {"threads share a block", threads_share_a_block, 0},
    {"two engines never get the same key", two_engines_never_get_the_same_key, DB_SHARED},
    {"reopened keys go on", reopened_keys_go_on, DB_DURABLE},
    {"without the database there is no key", without_the_database_there_is_no_key, 0},
    {"on a locked database there is no key", on_a_locked_database_there_is_no_key, 0},
    {"without a counter there is no key", without_a_counter_there_is_no_key, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
