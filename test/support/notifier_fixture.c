/* The functions of the driver. They are called by the test's thread and by the notifier's. Fields
 * that both threads use are atomic or behind a lock; the answers are set before the notifier's
 * thread can ask for them. */
#include "support/notifier_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pawl_code count_connect(db *d, db_role role, db_conn **out, error *err)
{
    notifier_fixture *p = (notifier_fixture *)d;
    assert_int_equal(role, DB_NOTIFIER);
    atomic_fetch_add(&p->connects, 1);
    if (p->connect_code)
        return error_set(err, p->connect_code, "no connection, on purpose");
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (db_conn){.driver = d->driver, .db = d, .role = role};
    atomic_fetch_add(&p->open, 1);
    return PAWL_OK;
}

static void count_disconnect(db_conn *c)
{
    atomic_fetch_sub(&((notifier_fixture *)c->db)->open, 1);
    free(c);
}

static pawl_code pretend_listen(db_conn *c, int64_t node, int *fd, error *err)
{
    notifier_fixture *p = (notifier_fixture *)c->db;
    (void)node;
    *fd = p->deaf ? -1 : p->pipe[0];
    return p->listen_code ? error_set(err, p->listen_code, "deaf, on purpose") : PAWL_OK;
}

static int is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static int pretend_heard(db_conn *c)
{
    notifier_fixture *p = (notifier_fixture *)c->db;
    int heard = 0;
    char byte;
    assert_false(p->deaf);
    if (p->lost) {
        p->lost = 0;
        return -1;
    }
    while (is_readable(p->pipe[0]) && read(p->pipe[0], &byte, 1) == 1)
        heard = 1;
    return heard;
}

static pawl_code record_notify(db_conn *c, const int64_t *targets, size_t count, error *err)
{
    notifier_fixture *p = (notifier_fixture *)c->db;
    if (p->notify_code)
        return error_set(err, p->notify_code, "silent, on purpose");
    pthread_mutex_lock(&p->lock);
    p->trips++;
    for (size_t i = 0; i < count && p->count < NOTIFIER_FIXTURE_SENT; i++)
        p->sent[p->count++] = targets[i];
    pthread_mutex_unlock(&p->lock);
    return PAWL_OK;
}

static pawl_code pretend_lock(db_conn *c, int64_t node, int64_t *server, error *err)
{
    (void)node, (void)err;
    *server = ((notifier_fixture *)c->db)->lock_server;
    return PAWL_OK;
}

static void record_log(int level, const char *event, const char *fields, void *arg)
{
    notifier_fixture *p = arg;
    (void)level, (void)fields;
    pthread_mutex_lock(&p->lock);
    size_t size = strlen(p->log);
    snprintf(p->log + size, sizeof p->log - size, "%s ", event);
    pthread_mutex_unlock(&p->lock);
}

void notifier_fixture_open(notifier_fixture *p)
{
    memset(p, 0, sizeof *p);
    p->clock = clock_fake_new(0);
    assert_non_null(p->clock);
    assert_int_equal(pipe(p->pipe), 0);
    pthread_mutex_init(&p->lock, NULL);
    p->driver = (db_driver){.name = "post",
                            .connect = count_connect,
                            .disconnect = count_disconnect,
                            .channel.listen = pretend_listen,
                            .channel.heard = pretend_heard,
                            .channel.notify = record_notify,
                            .channel.lock_for_life = pretend_lock};
    p->base = (db){.driver = &p->driver,
                   .options = {.clock = clock_fake_source(p->clock), .log = {record_log, p}}};
}

void notifier_fixture_close(notifier_fixture *p)
{
    assert_int_equal(atomic_load(&p->open), 0);
    pthread_mutex_destroy(&p->lock);
    close(p->pipe[0]);
    close(p->pipe[1]);
    clock_fake_free(p->clock);
}

int notifier_fixture_has(notifier_fixture *p, int64_t node)
{
    int found = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->count; i++)
        found |= p->sent[i] == node;
    pthread_mutex_unlock(&p->lock);
    return found;
}

void notifier_fixture_clear(notifier_fixture *p)
{
    pthread_mutex_lock(&p->lock);
    p->count = p->trips = 0;
    pthread_mutex_unlock(&p->lock);
}

void notifier_fixture_expect_log(notifier_fixture *p, const char *events)
{
    pthread_mutex_lock(&p->lock);
    assert_string_equal(p->log, events);
    p->log[0] = '\0';
    pthread_mutex_unlock(&p->lock);
}
