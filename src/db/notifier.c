/* Notifications, coalesced per target.
 *
 *   1. notifier_tell() marks its target as pending in a small table, with one line per target.
 *   2. If the sending thread would sleep past that, it is woken by an eventfd, the bell.
 *   3. The sending thread takes the lines that are pending and whose last notification is at least
 *      GAP_MS ago, and sends them.
 * With more targets than lines all nodes are notified. The lock guards the table only, and is never
 * held while the database is called.
 *
 * The bell and the connection's descriptor are in one epoll set. It is a descriptor itself, and
 * stays the same when the connection behind it changes: an application that drives by hand can wait
 * for it. The set holds a duplicate of the connection's descriptor: drivers close theirs when the
 * connection breaks, and a closed one could not be removed from the set while a forked child holds
 * it open. */
#define _GNU_SOURCE
#include "db/notifier.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/thread.h"
#include "db/batch.h"

enum { TARGETS = 64, GAP_MS = 5, RETRY_MS_MIN = 10, RETRY_MS_MAX = 1000 };

#define NS_PER_MS INT64_C(1000000)

/* One line of the table; line 0 stands for all nodes. */
typedef struct target {
    int64_t node;
    int64_t not_before_ns;
    int pending;
} target;

struct notifier {
    db *db;
    clock_source *clock;
    notifier_options options;
    pid_t pid;
    int bell;
    int set; /* epoll: the bell, and `ear` if there is one */

    /* Used only by the notifier's thread, or by the thread that polls by hand. */
    db_conn *conn; /* NULL: lost */
    int ear;       /* a copy of the connection's descriptor, which is readable when a notification
                arrives; -1: there is none. Changed with the lock held */
    int missed;    /* 1: on_heard is to be called even if nothing is heard, after a reconnect */
    int locked;    /* the connection has the lock by which other nodes see that this one is alive */
    forks_fd held[2]; /* while `locked`: `ear` and the connection's own descriptor, which a child of
                         fork() closes, so that the server sees when this process ends */
    int failed;       /* the log says that notifications are refused */
    int unlocked;     /* the log says that the node could not get that lock */
    int64_t retry_ns;
    int64_t retry_ms; /* the back-off; 0 again when a connection has sent or heard something */

    pthread_mutex_t lock; /* guards all below */
    target targets[TARGETS];
    int count;
    int64_t sleeps_until; /* notifier_tell() rings the bell for something that is due earlier */
    int stop;
    notifier_stats stats;

    int thread_runs;
    pthread_t thread;
};

static int64_t now_ns(const notifier *w)
{
    return w->clock->mono_ns(w->clock);
}

/* ---- Notes ---- */

static target *free_line(notifier *w)
{
    if (w->count < TARGETS)
        return &w->targets[w->count++];
    int64_t now = now_ns(w);
    for (int i = 1; i < TARGETS; i++)
        if (!w->targets[i].pending && w->targets[i].not_before_ns <= now)
            return &w->targets[i];
    return NULL;
}

static target *line_of(notifier *w, int64_t node)
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

/* Marks the target of the node as pending. 1: the sending thread must be woken. */
static int mark_pending(notifier *w, int64_t node)
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

void notifier_tell(notifier *w, int64_t node)
{
    static const uint64_t ONE = 1;
    pthread_mutex_lock(&w->lock);
    w->stats.told++;
    int own = node != NOTIFY_ALL_NODES && node == w->options.node;
    int ring = !own && mark_pending(w, node);
    pthread_mutex_unlock(&w->lock);
    if (ring)
        (void)!write(w->bell, &ONE, sizeof ONE);
}

/* Take the targets that are due at `until`. If all nodes are notified, no other target is needed.
 */
static size_t take_due(notifier *w, int64_t until, int64_t out[TARGETS])
{
    size_t count = 0;
    pthread_mutex_lock(&w->lock);
    int64_t next = clock_deadline(now_ns(w), GAP_MS);
    int all = w->targets[0].pending && w->targets[0].not_before_ns <= until;
    for (int i = 0; i < w->count; i++) {
        target *t = &w->targets[i];
        if (!t->pending || (!all && t->not_before_ns > until))
            continue;
        t->pending = 0;
        t->not_before_ns = next;
        if (!all || i == 0)
            out[count++] = t->node;
    }
    pthread_mutex_unlock(&w->lock);
    return count;
}

static void mark_pending_again(notifier *w, const int64_t *nodes, size_t count)
{
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < count; i++)
        (void)mark_pending(w, nodes[i]);
    pthread_mutex_unlock(&w->lock);
}

static void count_sent(notifier *w, size_t count)
{
    pthread_mutex_lock(&w->lock);
    w->stats.sent += (int64_t)count;
    pthread_mutex_unlock(&w->lock);
}

/* ---- The connection ---- */

/* The node has lost its lock. on_lock comes first, so that other nodes hear of it before they
 * look. */
static void lose_lock(notifier *w)
{
    if (!w->locked)
        return;
    w->locked = 0;
    w->options.on_lock(w->options.on_lock_arg, 0);
    forks_keep(&w->held[0]);
    forks_keep(&w->held[1]);
}

static void disconnect(notifier *w)
{
    lose_lock(w);
    if (w->ear >= 0) {
        pthread_mutex_lock(&w->lock);
        epoll_ctl(w->set, EPOLL_CTL_DEL, w->ear, NULL);
        close(w->ear);
        w->ear = -1;
        pthread_mutex_unlock(&w->lock);
    }
    db_disconnect(w->conn);
    w->conn = NULL;
}

static int add_to_set(notifier *w, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(w->set, EPOLL_CTL_ADD, fd, &e);
}

static pawl_code open_ear(notifier *w, int fd, error *err)
{
    if (fd < 0)
        return PAWL_OK;
    int ear = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_lock(&w->lock);
    w->ear = ear;
    pthread_mutex_unlock(&w->lock);
    if (w->ear >= 0 && add_to_set(w, w->ear) == 0)
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "no descriptor is left to listen with");
    error_hint(err, "raise the limit on open files");
    return PAWL_CANTOPEN;
}

/* Logs once that the node could not get its lock, and once that it has it again. PAWL_OK without a
 * lock: the server has refused it. */
static void tell_lock(notifier *w, pawl_code rc, const error *err)
{
    const log_sink *log = &w->db->options.log;
    const char *why = rc == PAWL_OK
                          ? "the server has not granted it, or a pooler shares the session"
                          : err->message;
    if (!w->locked && !w->unlocked) /* RULE L6-a-node-without-a-lock-is-told-once */
        LOG(log, LOG_WARNING, "no-node-lock", LOG_NUM("node", w->options.node),
            LOG_TEXT("code", pawl_code_name(rc == PAWL_OK ? PAWL_REFUSED : rc)),
            LOG_TEXT("why", why));
    else if (w->locked && w->unlocked)
        LOG(log, LOG_INFO, "node-lock-again", LOG_NUM("node", w->options.node));
    w->unlocked = !w->locked;
}

/* A child of fork() has copies of the socket, and the server would take it for the node: they are
 * closed there. */
static pawl_code take_lock(notifier *w, int fd, error *err)
{
    int64_t server = 0;
    const db_channel *channel = &w->conn->driver->channel;
    if (!channel->lock_for_life || !w->options.on_lock || w->options.node == 0 || w->ear < 0)
        return PAWL_OK;
    pawl_code rc = channel->lock_for_life(w->conn, w->options.node, &server, err);
    if (rc == PAWL_OK && server != 0) {
        w->locked = 1;
        forks_close(&w->held[0], w->ear); /* RULE A10-a-child-does-not-keep-the-lock-of-its-node */
        forks_close(&w->held[1], fd);
        w->options.on_lock(w->options.on_lock_arg, server);
    }
    tell_lock(w, rc, err);
    return batch_is_passing(rc) ? rc : PAWL_OK;
}

static pawl_code connect_and_listen(notifier *w, error *err)
{
    int fd = -1;
    pawl_code rc = db_connect(w->db, DB_NOTIFIER, &w->conn, err);
    if (rc == PAWL_OK)
        rc = w->conn->driver->channel.listen(w->conn, w->options.node, &fd, err);
    if (rc == PAWL_OK)
        rc = open_ear(w, fd, err);
    if (rc == PAWL_OK)
        rc = take_lock(w, fd, err);
    if (rc != PAWL_OK) {
        disconnect(w);
        return rc;
    }
    w->missed = 1;
    return PAWL_OK;
}

static void schedule_reconnect(notifier *w)
{
    w->retry_ms = w->retry_ms ? w->retry_ms * 2 : RETRY_MS_MIN;
    if (w->retry_ms > RETRY_MS_MAX)
        w->retry_ms = RETRY_MS_MAX;
    w->retry_ns = clock_deadline(now_ns(w), w->retry_ms);
}

/* Logs that the connection could not be made, or was lost. */
static void tell_lost(const notifier *w, pawl_code code)
{
    LOG(&w->db->options.log, LOG_WARNING, "notifier-lost", LOG_TEXT("code", pawl_code_name(code)));
}

static void drop_connection(notifier *w, const error *err)
{
    disconnect(w);
    tell_lost(w, err->code);
    schedule_reconnect(w);
}

static void reconnect_if_due(notifier *w)
{
    if (w->conn || now_ns(w) < w->retry_ns)
        return;
    error err = {0};
    if (connect_and_listen(w, &err) != PAWL_OK) {
        schedule_reconnect(w);
        return;
    }
    LOG(&w->db->options.log, LOG_INFO, "notifier-back", LOG_NUM("node", w->options.node));
    pthread_mutex_lock(&w->lock);
    w->stats.reconnects++;
    pthread_mutex_unlock(&w->lock);
}

/* ---- Sending and hearing ---- */

/* Logs once that the server refuses notifications, and once that it does not any more. */
static void tell_refused(notifier *w, pawl_code code)
{
    const log_sink *log = &w->db->options.log;
    int fails = code != PAWL_OK;
    if (fails && !w->failed) /* RULE L6-notifications-that-are-refused-are-told-once */
        LOG(log, LOG_WARNING, "notifier-failed", LOG_TEXT("code", pawl_code_name(code)));
    else if (!fails && w->failed)
        LOG(log, LOG_INFO, "notifier-again", LOG_NUM("node", w->options.node));
    w->failed = fails;
}

/* A notification that fails while the connection is good is dropped: its targets poll the database
 * anyway. */
static void send_due(notifier *w, int64_t until)
{
    int64_t nodes[TARGETS];
    size_t count = w->conn ? take_due(w, until, nodes) : 0;
    if (count == 0)
        return;
    error err = {0};
    pawl_code rc = w->conn->driver->channel.notify(w->conn, nodes, count, &err);
    if (rc == PAWL_OK) {
        w->retry_ms = 0;
        count_sent(w, count);
        tell_refused(w, PAWL_OK);
    } else if (batch_is_passing(rc)) {
        mark_pending_again(w, nodes, count);
        drop_connection(w, &err);
    } else {
        tell_refused(w, rc);
    }
}

/* Consumes the notifications that have arrived. 1: there were some. */
static int hear_notifications(notifier *w)
{
    if (!w->conn || w->ear < 0)
        return 0;
    int heard = w->conn->driver->channel.heard(w->conn);
    if (heard < 0)
        drop_connection(w, &(error){.code = PAWL_UNREACHABLE});
    if (heard <= 0)
        return 0;
    w->retry_ms = 0;
    pthread_mutex_lock(&w->lock);
    w->stats.heard++;
    pthread_mutex_unlock(&w->lock);
    return 1;
}

static void quiet_bell(notifier *w)
{
    uint64_t rings;
    (void)!read(w->bell, &rings, sizeof rings);
}

/* Sends and hears everything that is due. It sends first: while a driver waits for the server's
 * answer it may receive notifications, and for those the descriptor does not become readable any
 * more. */
static int do_due(notifier *w)
{
    quiet_bell(w);
    reconnect_if_due(w);
    send_due(w, now_ns(w));
    int call = hear_notifications(w) | w->missed;
    w->missed = 0;
    if (call && w->options.on_heard)
        w->options.on_heard(w->options.on_heard_arg);
    return call;
}

/* When something is due next; with the lock held. */
static int64_t next_locked(const notifier *w)
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

/* From here on notifier_tell() rings the bell for anything that is due earlier. Without a
 * connection nothing can be sent, so nothing is. */
static int64_t fall_asleep(notifier *w, int *stop)
{
    pthread_mutex_lock(&w->lock);
    int64_t next = next_locked(w);
    w->sleeps_until = w->conn ? next : INT64_MIN;
    *stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return next;
}

/* ---- The thread, or by hand ---- */

/* Rounded up: a wake-up before the time would be for nothing. */
static int wait_ms(const notifier *w, int64_t next)
{
    if (next == INT64_MAX)
        return -1;
    int64_t left = next - now_ns(w);
    return left <= 0 ? 0 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

static void *serve_notifications(void *arg)
{
    notifier *w = arg;
    for (;;) {
        int stop;
        do_due(w);
        int64_t next = fall_asleep(w, &stop);
        if (stop)
            return NULL;
        struct epoll_event ignored[2];
        (void)epoll_wait(w->set, ignored, 2, wait_ms(w, next));
    }
}

int notifier_has_session(notifier *w)
{
    pthread_mutex_lock(&w->lock);
    struct pollfd p = {.fd = w->ear, .events = POLLRDHUP};
    int has = w->ear >= 0 && poll(&p, 1, 0) == 0;
    pthread_mutex_unlock(&w->lock);
    return has;
}

int notifier_fd(const notifier *w)
{
    return w->set;
}

int notifier_poll(notifier *w)
{
    int stop;
    if (w->pid != getpid())
        return 0;
    int called = do_due(w);
    (void)fall_asleep(w, &stop);
    return called;
}

void notifier_flush(notifier *w)
{
    if (w->pid == getpid())
        send_due(w, INT64_MAX);
}

int64_t notifier_next_ns(notifier *w)
{
    pthread_mutex_lock(&w->lock);
    int64_t next = next_locked(w);
    pthread_mutex_unlock(&w->lock);
    return next;
}

notifier_stats notifier_stats_now(notifier *w)
{
    pthread_mutex_lock(&w->lock);
    notifier_stats stats = w->stats;
    pthread_mutex_unlock(&w->lock);
    return stats;
}

/* ---- Opening and closing ---- */

static void free_notifier(notifier *w)
{
    disconnect(w);
    if (w->bell >= 0)
        close(w->bell);
    if (w->set >= 0)
        close(w->set);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static pawl_code open_set(notifier *w, error *err)
{
    w->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->set = epoll_create1(EPOLL_CLOEXEC);
    if (w->bell >= 0 && w->set >= 0 && add_to_set(w, w->bell) == 0)
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "no descriptor is left to wake others with");
    error_hint(err, "raise the limit on open files");
    return PAWL_CANTOPEN;
}

static pawl_code set_up(notifier *w, error *err)
{
    pawl_code rc = open_set(w, err);
    if (rc != PAWL_OK)
        return rc;
    rc = connect_and_listen(w, err);
    if (rc != PAWL_OK && !batch_is_passing(rc))
        return rc;
    if (rc != PAWL_OK) {
        tell_lost(w, rc); /* RULE L6-a-notifier-without-a-connection-at-first-is-told */
        schedule_reconnect(w);
    }
    w->sleeps_until = INT64_MAX;
    if (w->options.by_hand)
        return PAWL_OK;
    w->thread_runs = thread_start(&w->thread, serve_notifications, w);
    return w->thread_runs ? PAWL_OK : error_set(err, PAWL_NOMEM, "no thread for the notifier");
}

pawl_code notifier_open(notifier **out, db *d, const notifier_options *options, error *err)
{
    *out = NULL;
    notifier *w = calloc(1, sizeof *w);
    if (!w)
        return error_nomem(err);
    w->db = d;
    w->clock = d->options.clock;
    if (options)
        w->options = *options;
    w->pid = getpid();
    w->bell = w->set = w->ear = -1;
    w->count = 1; /* all nodes */
    pthread_mutex_init(&w->lock, NULL);
    pawl_code rc = set_up(w, err);
    if (rc != PAWL_OK) {
        free_notifier(w);
        return rc;
    }
    *out = w;
    return PAWL_OK;
}

void notifier_close(notifier *w)
{
    static const uint64_t ONE = 1;
    if (!w)
        return;
    if (w->pid != getpid()) {
        close(w->bell);
        close(w->set);
        if (w->ear >= 0 && !w->locked) /* otherwise it was closed when the child began */
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
    free_notifier(w);
}
