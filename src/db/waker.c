/* What is to be told, to whom, and not too often.
 *
 * Who tells makes a note in a small table and rings a bell (an eventfd) if the one who sends would
 * sleep past it. There is a line for each target: is something to be told, and before when not,
 * because it was told just now. More targets at one time than there are lines: then everybody is
 * told. The lock is held for these notes only, never while the database is asked.
 *
 * The bell and the connection's descriptor are in one epoll set. It is a descriptor itself, and
 * stays the same when the connection behind it changes: an application that drives by hand can wait
 * for it. In the set is our own copy of the connection's descriptor; drivers close theirs when it
 * breaks, and a closed one could not be taken out any more while a forked child holds it open. */
#define _GNU_SOURCE
#include "db/waker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "db/batch.h"

enum { TARGETS = 64, GAP_MS = 5, RETRY_MS_MIN = 10, RETRY_MS_MAX = 1000 };

#define NS_PER_MS INT64_C(1000000)

/* One line of the table; line 0 is everybody's. */
typedef struct target {
    int64_t node;
    int64_t not_before_ns;
    int pending;
} target;

struct waker {
    db *db;
    clock_source *clock;
    waker_options options;
    pid_t pid;
    int bell;
    int set; /* epoll: the bell, and the ear if there is one */

    /* Whoever does the work has these to himself. */
    db_conn *conn; /* NULL: lost */
    int ear;       /* our copy of its descriptor; -1: there is nothing to hear */
    int missed;    /* on_heard has to be called, whatever is heard */
    int complained;
    int64_t retry_ns;
    int64_t retry_ms; /* kept until a new connection has been good for something */

    pthread_mutex_t lock; /* guards all below */
    target targets[TARGETS];
    int count;
    int64_t sleeps_until; /* who tells something that is due earlier rings */
    int stop;
    waker_stats stats;

    int thread_runs;
    pthread_t thread;
};

static int64_t now_ns(const waker *w)
{
    return w->clock->mono_ns(w->clock);
}

/* ---- Notes ---- */

static target *free_line(waker *w)
{
    if (w->count < TARGETS)
        return &w->targets[w->count++];
    int64_t now = now_ns(w);
    for (int i = 1; i < TARGETS; i++)
        if (!w->targets[i].pending && w->targets[i].not_before_ns <= now)
            return &w->targets[i];
    return NULL;
}

static target *line_of(waker *w, int64_t node)
{
    for (int i = 0; i < w->count; i++)
        if (w->targets[i].node == node)
            return &w->targets[i];
    target *t = free_line(w);
    if (!t)
        return &w->targets[0];
    *t = (target){.node = node};
    return t;
}

/* Gives 1 when the one who sends must be woken for it. */
static int note(waker *w, int64_t node)
{
    target *t = line_of(w, node);
    if (t->pending)
        return 0;
    t->pending = 1;
    if (t->not_before_ns >= w->sleeps_until)
        return 0;
    w->sleeps_until = INT64_MIN; /* one ring is enough */
    return 1;
}

void waker_tell(waker *w, int64_t node)
{
    static const uint64_t ONE = 1;
    pthread_mutex_lock(&w->lock);
    w->stats.told++;
    int own = node != WAKER_EVERYBODY && node == w->options.node;
    int ring = !own && note(w, node);
    pthread_mutex_unlock(&w->lock);
    if (ring)
        (void)!write(w->bell, &ONE, sizeof ONE);
}

/* Take what is due at `now`. Who tells everybody need not tell anyone else. */
static size_t take_due(waker *w, int64_t now, int64_t out[TARGETS])
{
    size_t count = 0;
    pthread_mutex_lock(&w->lock);
    int all = w->targets[0].pending && w->targets[0].not_before_ns <= now;
    for (int i = 0; i < w->count; i++) {
        target *t = &w->targets[i];
        if (!t->pending || (!all && t->not_before_ns > now))
            continue;
        t->pending = 0;
        t->not_before_ns = clock_deadline(now, GAP_MS);
        if (!all || i == 0)
            out[count++] = t->node;
    }
    pthread_mutex_unlock(&w->lock);
    return count;
}

static void put_back(waker *w, const int64_t *nodes, size_t count)
{
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < count; i++)
        (void)note(w, nodes[i]);
    pthread_mutex_unlock(&w->lock);
}

static void count_sent(waker *w, size_t count)
{
    pthread_mutex_lock(&w->lock);
    w->stats.sent += (int64_t)count;
    pthread_mutex_unlock(&w->lock);
}

/* ---- The connection ---- */

static void hang_up(waker *w)
{
    if (w->ear >= 0) {
        epoll_ctl(w->set, EPOLL_CTL_DEL, w->ear, NULL);
        close(w->ear);
        w->ear = -1;
    }
    db_disconnect(w->conn);
    w->conn = NULL;
}

static int add_to_set(waker *w, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(w->set, EPOLL_CTL_ADD, fd, &e);
}

static pawl_code open_ear(waker *w, int fd, error *err)
{
    if (fd < 0)
        return PAWL_OK;
    w->ear = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (w->ear >= 0 && add_to_set(w, w->ear) == 0)
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "no descriptor is left to listen with");
    error_hint(err, "raise the limit on open files");
    return PAWL_CANTOPEN;
}

static pawl_code dial(waker *w, error *err)
{
    int fd = -1;
    pawl_code rc = db_connect(w->db, DB_WAKER, &w->conn, err);
    if (rc == PAWL_OK)
        rc = w->conn->driver->listen(w->conn, w->options.node, &fd, err);
    if (rc == PAWL_OK)
        rc = open_ear(w, fd, err);
    if (rc != PAWL_OK) {
        hang_up(w);
        return rc;
    }
    w->missed = 1;
    w->complained = 0;
    return PAWL_OK;
}

static void dial_later(waker *w)
{
    w->retry_ms = w->retry_ms ? w->retry_ms * 2 : RETRY_MS_MIN;
    if (w->retry_ms > RETRY_MS_MAX)
        w->retry_ms = RETRY_MS_MAX;
    w->retry_ns = clock_deadline(now_ns(w), w->retry_ms);
}

static void lose(waker *w, const error *err)
{
    LOG(&w->db->options.log, LOG_WARNING, "waker-lost",
        LOG_TEXT("code", pawl_code_name(err->code)));
    hang_up(w);
    dial_later(w);
}

static void dial_again(waker *w)
{
    if (w->conn || now_ns(w) < w->retry_ns)
        return;
    error err = {0};
    if (dial(w, &err) != PAWL_OK) {
        dial_later(w);
        return;
    }
    LOG(&w->db->options.log, LOG_INFO, "waker-back", LOG_NUM("node", w->options.node));
    pthread_mutex_lock(&w->lock);
    w->stats.reconnects++;
    pthread_mutex_unlock(&w->lock);
}

/* ---- Sending and hearing ---- */

/* A wake-up that does not go out while the connection is good is let go: those it was for will
 * look by themselves. */
static void send_due(waker *w, int64_t now)
{
    int64_t nodes[TARGETS];
    size_t count = w->conn ? take_due(w, now, nodes) : 0;
    if (count == 0)
        return;
    error err = {0};
    pawl_code rc = w->conn->driver->notify(w->conn, nodes, count, &err);
    if (rc == PAWL_OK) {
        w->retry_ms = 0;
        count_sent(w, count);
    } else if (batch_is_passing(rc)) {
        put_back(w, nodes, count);
        lose(w, &err);
    } else if (!w->complained) {
        w->complained = 1;
        LOG(&w->db->options.log, LOG_WARNING, "waker-failed", LOG_TEXT("code", pawl_code_name(rc)));
    }
}

/* 1: on_heard has to be called. */
static int hear(waker *w)
{
    if (!w->conn || w->ear < 0)
        return 0;
    int heard = w->conn->driver->heard(w->conn);
    if (heard < 0)
        lose(w, &(error){.code = PAWL_UNREACHABLE});
    if (heard <= 0)
        return 0;
    w->retry_ms = 0;
    pthread_mutex_lock(&w->lock);
    w->stats.heard++;
    pthread_mutex_unlock(&w->lock);
    return 1;
}

static void quiet_bell(waker *w)
{
    uint64_t rings;
    (void)!read(w->bell, &rings, sizeof rings);
}

/* All that is due. A driver may have taken in what others said while it waited for an answer, and
 * then its descriptor says nothing any more: so one hears after sending. */
static int work(waker *w)
{
    quiet_bell(w);
    dial_again(w);
    send_due(w, now_ns(w));
    int call = hear(w) | w->missed;
    w->missed = 0;
    if (call && w->options.on_heard)
        w->options.on_heard(w->options.on_heard_arg);
    return call;
}

/* When there is work next; with the lock held. */
static int64_t next_locked(const waker *w)
{
    if (w->missed)
        return 0;
    if (!w->conn)
        return w->retry_ns;
    int64_t next = INT64_MAX;
    for (int i = 0; i < w->count; i++)
        if (w->targets[i].pending && w->targets[i].not_before_ns < next)
            next = w->targets[i].not_before_ns;
    return next;
}

/* From here on who tells something more urgent rings. Without a connection nothing is urgent. */
static int64_t fall_asleep(waker *w, int *stop)
{
    pthread_mutex_lock(&w->lock);
    int64_t next = next_locked(w);
    w->sleeps_until = w->conn ? next : INT64_MIN;
    *stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return next;
}

/* ---- The thread, or by hand ---- */

/* Rounded up: who wakes too early goes round for nothing. */
static int wait_ms(const waker *w, int64_t next)
{
    if (next == INT64_MAX)
        return -1;
    int64_t left = next - now_ns(w);
    return left <= 0 ? 0 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

static void *run(void *arg)
{
    waker *w = arg;
    for (;;) {
        int stop;
        work(w);
        int64_t next = fall_asleep(w, &stop);
        if (stop)
            return NULL;
        struct epoll_event ignored[2];
        (void)epoll_wait(w->set, ignored, 2, wait_ms(w, next));
    }
}

int waker_fd(const waker *w)
{
    return w->set;
}

int waker_poll(waker *w)
{
    int stop;
    if (w->pid != getpid())
        return 0;
    int called = work(w);
    (void)fall_asleep(w, &stop);
    return called;
}

int64_t waker_next_ns(waker *w)
{
    pthread_mutex_lock(&w->lock);
    int64_t next = next_locked(w);
    pthread_mutex_unlock(&w->lock);
    return next;
}

waker_stats waker_stats_now(waker *w)
{
    pthread_mutex_lock(&w->lock);
    waker_stats stats = w->stats;
    pthread_mutex_unlock(&w->lock);
    return stats;
}

/* ---- Opening and closing ---- */

static void dispose(waker *w)
{
    hang_up(w);
    if (w->bell >= 0)
        close(w->bell);
    if (w->set >= 0)
        close(w->set);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static pawl_code open_set(waker *w, error *err)
{
    w->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->set = epoll_create1(EPOLL_CLOEXEC);
    if (w->bell >= 0 && w->set >= 0 && add_to_set(w, w->bell) == 0)
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "no descriptor is left to wake others with");
    error_hint(err, "raise the limit on open files");
    return PAWL_CANTOPEN;
}

static pawl_code set_up(waker *w, error *err)
{
    pawl_code rc = open_set(w, err);
    if (rc != PAWL_OK)
        return rc;
    rc = dial(w, err);
    if (rc != PAWL_OK && !batch_is_passing(rc))
        return rc;
    if (rc != PAWL_OK)
        dial_later(w);
    w->sleeps_until = INT64_MAX;
    if (w->options.by_hand)
        return PAWL_OK;
    w->thread_runs = thread_start(&w->thread, run, w);
    return w->thread_runs ? PAWL_OK : error_set(err, PAWL_NOMEM, "no thread for the waker");
}

pawl_code waker_open(waker **out, db *d, const waker_options *options, error *err)
{
    *out = NULL;
    waker *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, PAWL_NOMEM, "out of memory");
    w->db = d;
    w->clock = d->options.clock;
    if (options)
        w->options = *options;
    w->pid = getpid();
    w->bell = w->set = w->ear = -1;
    w->count = 1; /* everybody's */
    pthread_mutex_init(&w->lock, NULL);
    pawl_code rc = set_up(w, err);
    if (rc != PAWL_OK) {
        dispose(w);
        return rc;
    }
    *out = w;
    return PAWL_OK;
}

void waker_close(waker *w)
{
    static const uint64_t ONE = 1;
    if (!w)
        return;
    if (w->pid != getpid()) {
        close(w->bell);
        close(w->set);
        if (w->ear >= 0)
            close(w->ear);
        free(w);
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stop = 1;
    pthread_mutex_unlock(&w->lock);
    (void)!write(w->bell, &ONE, sizeof ONE);
    if (w->thread_runs)
        pthread_join(w->thread, NULL);
    send_due(w, INT64_MAX);
    dispose(w);
}
