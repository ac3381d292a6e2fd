/* The read pool: whatever fails in between, each connection comes back to the pool, once, and in no
 * transaction; more threads than connections wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "handle/read_pool.h"
#include "support/conf.h"

static const db_sql THREE = {"SELECT n FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3) s"
                             " WHERE n <> $1 ORDER BY n",
                             "i"};

static pawl_code add_up(void *arg, db_stmt *row, error *err)
{
    int64_t *sum = arg;
    *sum += read_pool_int(row, 0);
    return *sum < 100 ? PAWL_OK : error_set(err, PAWL_LIMIT, "enough");
}

/* One look, as all of them go. */
static pawl_code look(read_pool *r, int64_t *sum, error *err)
{
    const db_value two[] = {db_int(2)};
    db_conn *c = NULL;
    int64_t now_ms;
    pawl_code rc = read_pool_begin_now(r, &c, &now_ms, err);
    if (rc != PAWL_OK) {
        assert_null(c);
        return rc;
    }
    rc = read_pool_rows(c, &THREE, two, DB_COUNT(two), add_up, sum, err);
    read_pool_end(r, c);
    return rc;
}

/* Every call to the database fails once; the next look is as good as the first. */
static void a_read_that_fails_is_followed_by_one_that_works(conf *c)
{
    db_fault plan = {0};
    db *d = conf_open_fault(c, NULL, &plan);
    read_pool *r = read_pool_new(d);
    error err = {0};
    int64_t sum = 0;
    assert_non_null(r);
    CONF_OK(look(r, &sum, &err), &err);
    assert_int_equal(sum, 4);
    int64_t calls = plan.calls;
    assert_true(calls > 2);
    for (int64_t n = 1; n <= calls; n++) {
        sum = 0;
        plan = (db_fault){.fail_call = n, .fail_code = PAWL_IO};
        pawl_code rc = look(r, &sum, &err);
        assert_true(rc == PAWL_IO || rc == PAWL_OK); /* what was prepared is not prepared again */
        sum = 0;
        plan = (db_fault){0};
        CONF_OK(look(r, &sum, &err), &err);
        assert_int_equal(sum, 4);
    }
    read_pool_free(r); /* all of them are there */
    db_close(d);
}

static void a_walk_may_be_stopped(conf *c)
{
    db *d = conf_open(c, NULL);
    read_pool *r = read_pool_new(d);
    error err = {0};
    int64_t sum = 99;
    int64_t found[2] = {7, 7};
    int any = 7;
    db_conn *conn;
    assert_non_null(r);
    assert_int_equal(look(r, &sum, &err), PAWL_LIMIT);
    assert_int_equal(sum, 100);
    CONF_OK(read_pool_begin(r, &conn, &err), &err);
    const db_value none[] = {db_int(9)};
    CONF_OK(read_pool_numbers(conn, &THREE, none, DB_COUNT(none), found, 1, &any, &err), &err);
    assert_int_equal(any, 1);
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 7);
    assert_int_equal(read_pool_run(conn, SLICE_LIT(""), SLICE_LIT("nobody"), &found[0], &err),
                     PAWL_NOTFOUND);
    read_pool_end(r, conn);
    read_pool_free(r);
    db_close(d);
}

/* ---- Threads ---- */

typedef struct crowd {
    read_pool *readers;
    atomic_int inside;
    atomic_int most;
    atomic_int failures;
} crowd;

static void *look_often(void *arg)
{
    crowd *all = arg;
    for (int i = 0; i < 30; i++) {
        db_conn *c = NULL;
        error err = {0};
        if (read_pool_begin(all->readers, &c, &err) != PAWL_OK) {
            atomic_fetch_add(&all->failures, 1);
            continue;
        }
        int now = atomic_fetch_add(&all->inside, 1) + 1;
        int most = atomic_load(&all->most);
        while (now > most && !atomic_compare_exchange_weak(&all->most, &most, now))
            ;
        atomic_fetch_sub(&all->inside, 1);
        read_pool_end(all->readers, c);
    }
    return NULL;
}

static void the_number_of_connections_is_bounded(conf *c)
{
    enum { THREADS = 24, CONNECTIONS = 8 };
    db *d = conf_open(c, &(db_options){.busy_ms = 60000});
    crowd all = {.readers = read_pool_new(d)};
    pthread_t threads[THREADS];
    assert_non_null(all.readers);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_often, &all), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&all.failures), 0);
    assert_in_range(atomic_load(&all.most), 1, CONNECTIONS);
    read_pool_free(all.readers);
    db_close(d);
}

/* A driver that refuses every connection, and counts that. */
typedef struct full {
    db_driver driver;
    atomic_int refused;
    pawl_code code;
} full;

static pawl_code refuse(db *d, db_role role, db_conn **out, error *err)
{
    (void)role;
    atomic_fetch_add(&((full *)d->driver)->refused, 1);
    *out = NULL;
    return error_set(err, ((full *)d->driver)->code, "no more connections");
}

/* Counts how often the log has told that the connections are few, and that they are not. */
typedef struct told {
    atomic_int few;
    atomic_int again;
} told;

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level, (void)fields;
    told *t = arg;
    atomic_fetch_add(&t->few, strcmp(event, "few-connections") == 0);
    atomic_fetch_add(&t->again, strcmp(event, "connections-again") == 0);
}

/* The server gives one connection and no other: all threads share it. Without any connection no
 * thread waits. */
static void one_connection_is_shared_by_all_threads(conf *c)
{
    enum { THREADS = 6 };
    db *d = conf_open(c, &(db_options){.busy_ms = 60000});
    crowd all = {.readers = read_pool_new(d)}, none = {.readers = read_pool_new(d)};
    pthread_t threads[THREADS];
    error err = {0};
    assert_non_null(all.readers);
    db_conn *conn;
    CONF_OK(read_pool_begin(all.readers, &conn, &err), &err);
    const db_driver *usual = d->driver;
    full f = {.driver = *usual, .code = PAWL_UNREACHABLE};
    f.driver.connect = refuse;
    d->driver = &f.driver;
    assert_int_equal(read_pool_need(none.readers, &err), PAWL_UNREACHABLE);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_often, &all), 0);
    TMP_AWAIT(atomic_load(&f.refused) > 1); /* one of them wanted one more, and waits now */
    read_pool_end(all.readers, conn);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&all.failures), 0);
    assert_int_equal(atomic_load(&all.most), 1);
    d->driver = usual;
    CONF_OK(read_pool_need(none.readers, &err), &err);
    read_pool_free(none.readers);
    read_pool_free(all.readers);
    db_close(d);
}

/* The log tells of it once, and once when there are more again; a request that fails for another
 * reason in between is neither. */
static void few_connections_are_logged_once(conf *c)
{
    told log = {0};
    db *d = conf_open(c, &(db_options){.busy_ms = 20, .log = {hear, &log}});
    read_pool *r = read_pool_new(d);
    error err = {0};
    db_conn *first, *further;
    assert_non_null(r);
    CONF_OK(read_pool_begin(r, &first, &err), &err);
    const db_driver *usual = d->driver;
    full f = {.driver = *usual, .code = PAWL_UNREACHABLE};
    f.driver.connect = refuse;
    d->driver = &f.driver;
    TMP_AWAIT(atomic_load(&f.refused) > 1 || read_pool_begin(r, &further, &err) != PAWL_BUSY);
    assert_int_equal(atomic_load(&log.few), 1);
    f.code = PAWL_NOMEM;
    TMP_AWAIT(read_pool_begin(r, &further, &err) == PAWL_NOMEM);
    assert_int_equal(atomic_load(&log.again), 0);
    d->driver = usual;
    CONF_OK(read_pool_begin(r, &further, &err), &err);
    assert_int_equal(atomic_load(&log.few), 1);
    assert_int_equal(atomic_load(&log.again), 1);
    read_pool_end(r, further);
    read_pool_end(r, first);
    read_pool_free(r);
    db_close(d);
}

/* A thread that finds all connections taken, and gets none back, gets an error in time. In memory
 * all connections are one, and the second would wait for the first. */
static void a_wait_for_a_connection_ends(conf *c)
{
    enum { CONNECTIONS = 8 };
    db *d = conf_open(c, &(db_options){.busy_ms = 20});
    read_pool *r = read_pool_new(d);
    db_conn *taken[CONNECTIONS + 1];
    error err = {0};
    assert_non_null(r);
    for (int i = 0; i < CONNECTIONS; i++)
        CONF_OK(read_pool_begin(r, &taken[i], &err), &err);
    assert_int_equal(read_pool_begin(r, &taken[CONNECTIONS], &err), PAWL_BUSY);
    assert_null(taken[CONNECTIONS]);
    assert_true(err.hint[0]);
    read_pool_end(r, taken[3]);
    CONF_OK(read_pool_begin(r, &taken[3], &err), &err);
    for (int i = 0; i < CONNECTIONS; i++)
        read_pool_end(r, taken[i]);
    read_pool_free(r);
    db_close(d);
}

static const conf_case CASES[] = {
    {"a read that fails is followed by one that works",
     a_read_that_fails_is_followed_by_one_that_works, 0},
    {"a walk may be stopped", a_walk_may_be_stopped, 0},
    {"the number of connections is bounded", the_number_of_connections_is_bounded, 0},
    {"one connection is shared by all threads", one_connection_is_shared_by_all_threads,
     DB_ISOLATED},
    {"few connections are logged once", few_connections_are_logged_once, DB_ISOLATED},
    {"a wait for a connection ends", a_wait_for_a_connection_ends, DB_ISOLATED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
