/* The proxy: one thread, one poll(2) over all connections, and no call that blocks.
 *
 * A connection is a `hop` of two sockets. Its state (hop_state) says what happens to messages that
 * come; a plan that is carried out changes the state. Sockets are shut down before they are closed,
 * because child processes of the test may have copies of them. */
#define _GNU_SOURCE
#include "support/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/thread.h"
#include "support/daemon.h"
#include "support/proxy_wire.h"

enum {
    PORT = 5432,
    HOPS = 256,
    PENDING_MAX =
        4 * 1024 * 1024, /* bytes for one side that it has not read yet; with more, nothing is
                            read from the other side */
    READ_SIZE = 64 * 1024,
};

typedef enum {
    FREE,       /* no hop */
    PASSING,    /* everything is forwarded */
    UNTIL_SYNC, /* the COMMIT was found: it is forwarded with what the client sends up to Sync;
                   answers of the server are dropped */
    ANSWERING,  /* nothing is forwarded; both sides are closed when the server has answered */
    VANISHING,  /* nothing is forwarded, and no side is closed */
    HELD,       /* what the client sends is kept */
    LATE,       /* what was kept was forwarded, and the server is about to answer it */
    FLUSHING,   /* both sides are closed when the bytes for the server were written */
} hop_state;

typedef struct hop {
    hop_state state;
    proxy_action action; /* the plan that is being carried out on this hop */
    int client;          /* -1: closed */
    int server;
    wire from_client;
    wire from_server;
    pile to_client;
    pile to_server;
    pile held;
    int64_t asked; /* number of messages that the server has to answer with ReadyForQuery */
    int64_t ready; /* number of ReadyForQuery that it has sent */
    int aged;      /* 1: the version that the server tells is changed */
    int locks;     /* 1: the client has asked for an advisory lock */
} hop;

struct proxy {
    daemon_place place;
    struct sockaddr_un target; /* the server's socket */
    int listener;
    int wake[2]; /* a pipe that gets the thread out of poll(2) */
    pthread_t thread;

    pthread_mutex_t mutex; /* guards all fields below; the proxy's thread releases it while it is
                              in poll(2) */
    pthread_cond_t changed;
    hop hops[HOPS];
    proxy_action action;
    int64_t nth; /* number of COMMITs until the plan is carried out; 0: there is no plan */
    int refuse;
    int age;
    int stop;
    proxy_late late;
    proxy_late late_said; /* what the server has answered, before its ReadyForQuery */
    proxy_counts counts;
};

/* ---- One hop ---- */

static void close_side(int *fd)
{
    if (*fd < 0)
        return;
    shutdown(*fd, SHUT_RDWR);
    close(*fd);
    *fd = -1;
}

static void set_late(proxy *p, proxy_late late)
{
    p->late = late;
    pthread_cond_broadcast(&p->changed);
}

static void hop_end(proxy *p, hop *h)
{
    if (h->state == FREE)
        return;
    if ((h->state == HELD || h->state == LATE) && p->late == PROXY_LATE_OPEN)
        set_late(p, PROXY_LATE_CLOSED);
    close_side(&h->client);
    close_side(&h->server);
    pile_free(&h->from_client.in);
    pile_free(&h->from_server.in);
    pile_free(&h->to_client);
    pile_free(&h->to_server);
    pile_free(&h->held);
    h->state = FREE;
    p->counts.open--;
}

/* Closes both sides when the bytes for the server were written. The client gets nothing more. */
static void hop_cut(hop *h)
{
    pile_clear(&h->to_client);
    h->state = FLUSHING;
}

/* Carries out the plan at its COMMIT: sets the state of the hop. */
static void hop_fire(proxy *p, hop *h)
{
    p->counts.fired++;
    p->nth = 0;
    h->action = p->action;
    switch (h->action) {
    case PROXY_PASS:
        break;
    case PROXY_CUT_BEFORE:
        hop_cut(h);
        break;
    case PROXY_HOLE_BEFORE:
        h->state = VANISHING;
        break;
    case PROXY_LATE:
        p->late = p->late_said = PROXY_LATE_OPEN;
        h->state = HELD;
        break;
    default:
        h->state = UNTIL_SYNC;
    }
    pthread_cond_broadcast(&p->changed);
}

/* Called when the whole COMMIT was forwarded. */
static void hop_handed_on(hop *h)
{
    if (h->action == PROXY_CUT_BLIND)
        hop_cut(h);
    else
        h->state = h->action == PROXY_CUT_AFTER ? ANSWERING : VANISHING;
}

static void client_message(proxy *p, hop *h, const wire_message *m)
{
    slice all = {m->all, m->size};
    if (m->type == 'P' && memmem(m->all, m->size, "advisory_lock", sizeof "advisory_lock" - 1))
        h->locks = 1;
    if (wire_is_commit(m)) {
        p->counts.commits++;
        if (h->state == PASSING && p->nth > 0 && --p->nth == 0)
            hop_fire(p, h);
    }
    if (h->state == VANISHING || h->state == FLUSHING || h->state == ANSWERING)
        return;
    if (m->type == 0 && wire_packet_of(m) == WIRE_ENCRYPT)
        h->from_server.raw++;
    h->asked += wire_asks_ready(m);
    pile_add(h->state == HELD ? &h->held : &h->to_server, all);
    if (h->state == UNTIL_SYNC && m->type == 'S')
        hop_handed_on(h);
}

/* Notes the server's answer to a COMMIT that was kept. The answer counts once the server is ready
 * for the next query. */
static void late_answer(proxy *p, hop *h, const wire_message *m)
{
    if (m->type == 'E')
        p->late_said = PROXY_LATE_ROLLED_BACK;
    else if (m->type == 'C' && slice_starts(m->body, SLICE_LIT("COMMIT")))
        p->late_said = PROXY_LATE_COMMITTED;
    else if (m->type == 'C' && slice_starts(m->body, SLICE_LIT("ROLLBACK")))
        p->late_said = PROXY_LATE_ROLLED_BACK;
    if (m->type != 'Z' || h->ready < h->asked)
        return;
    set_late(p, p->late_said);
    h->state = h->client >= 0 ? PASSING : FLUSHING;
}

static void server_message(proxy *p, hop *h, const wire_message *m)
{
    if (m->type == 'Z')
        h->ready++;
    if (h->aged)
        wire_age_version(m);
    if (h->client >= 0 && (h->state == PASSING || h->state == HELD || h->state == LATE))
        pile_add(&h->to_client, (slice){m->all, m->size});
    if (h->state == LATE)
        late_answer(p, h, m);
    if (h->state == ANSWERING && h->ready >= h->asked)
        hop_cut(h);
}

/* Returns 1 if the hop stays when the client closes its side: the server does not notice that yet,
 * and its answer is waited for. */
static int outlives_client(hop_state at)
{
    return at == HELD || at == LATE || at == ANSWERING;
}

/* Called when one side has closed the connection. Where messages are dropped the other side does
 * not notice that. */
static void side_ended(proxy *p, hop *h, int *fd)
{
    int is_client = fd == &h->client;
    close_side(fd);
    pile_clear(is_client ? &h->to_client : &h->to_server);
    if (h->client < 0 && h->server < 0)
        hop_end(p, h);
    else if (h->state == VANISHING || (is_client && outlives_client(h->state)))
        return;
    else if (outlives_client(h->state))
        hop_end(p, h);
    else
        h->state = FLUSHING;
}

static void read_side(proxy *p, hop *h, int *fd)
{
    char bytes[READ_SIZE];
    int is_client = fd == &h->client;
    wire *w = is_client ? &h->from_client : &h->from_server;
    ssize_t got = recv(*fd, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        side_ended(p, h, fd);
        return;
    }
    pile_add(&w->in, (slice){bytes, (size_t)got});
    wire_message m;
    while (h->state != FREE && wire_next(w, &m)) {
        if (is_client)
            client_message(p, h, &m);
        else
            server_message(p, h, &m);
    }
}

static void write_side(proxy *p, hop *h, int *fd, pile *what)
{
    slice all = pile_all(what);
    if (*fd < 0) {
        pile_clear(what);
        return;
    }
    if (all.size == 0)
        return;
    ssize_t put = send(*fd, all.at, all.size, MSG_NOSIGNAL);
    if (put >= 0)
        pile_take(what, (size_t)put);
    else if (errno != EAGAIN && errno != EINTR)
        side_ended(p, h, fd);
}

/* ---- New hops ---- */

static int connect_to(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static hop *free_hop(proxy *p)
{
    for (size_t i = 0; i < HOPS; i++)
        if (p->hops[i].state == FREE)
            return &p->hops[i];
    return NULL;
}

static void take_connection(proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
        return;
    p->counts.connections++;
    hop *h = p->refuse ? NULL : free_hop(p);
    int server = h ? connect_to(&p->target) : -1;
    if (server < 0) {
        close_side(&client);
        return;
    }
    *h = (hop){.state = PASSING, .client = client, .server = server, .aged = p->age};
    h->from_server.typed = 1;
    p->counts.open++;
}

/* ---- The thread ---- */

static short wanted_events(const hop *h, int is_client)
{
    const pile *in = is_client ? &h->to_server : &h->to_client;
    const pile *out = is_client ? &h->to_client : &h->to_server;
    short events = 0;
    if (h->state != FLUSHING && pile_all(in).size < PENDING_MAX)
        events |= POLLIN;
    if (pile_all(out).size > 0)
        events |= POLLOUT;
    return events;
}

/* Lists two sockets per hop, behind the listener and the pipe. Sides that are closed are -1, which
 * poll(2) skips. */
static void list_sockets(const proxy *p, struct pollfd fds[2 + 2 * HOPS])
{
    fds[0] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = p->wake[0], .events = POLLIN};
    for (size_t i = 0; i < HOPS; i++) {
        const hop *h = &p->hops[i];
        int there = h->state != FREE;
        fds[2 + 2 * i] =
            (struct pollfd){there ? h->client : -1, there ? wanted_events(h, 1) : 0, 0};
        fds[3 + 2 * i] =
            (struct pollfd){there ? h->server : -1, there ? wanted_events(h, 0) : 0, 0};
    }
}

/* Serves the sockets of a hop. A side that is not read, as in FLUSHING, is known to have closed
 * only when a write to it fails. */
static void serve_hop(proxy *p, hop *h, short client, short server)
{
    const short readable = POLLIN | POLLHUP | POLLERR;
    if (h->state != FREE && h->state != FLUSHING && h->client >= 0 && (client & readable))
        read_side(p, h, &h->client);
    if (h->state != FREE && h->state != FLUSHING && h->server >= 0 && (server & readable))
        read_side(p, h, &h->server);
    if (h->state != FREE)
        write_side(p, h, &h->server, &h->to_server);
    if (h->state != FREE)
        write_side(p, h, &h->client, &h->to_client);
    if (h->state == FLUSHING && pile_all(&h->to_server).size == 0 &&
        pile_all(&h->to_client).size == 0)
        hop_end(p, h);
}

static void drain_wake(proxy *p)
{
    char bytes[64];
    while (read(p->wake[0], bytes, sizeof bytes) > 0)
        continue;
}

static void *serve_hops(void *arg)
{
    proxy *p = arg;
    struct pollfd *fds = calloc(2 + 2 * HOPS, sizeof *fds);
    assert(fds);
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        list_sockets(p, fds);
        pthread_mutex_unlock(&p->mutex);
        poll(fds, 2 + 2 * HOPS, -1);
        pthread_mutex_lock(&p->mutex);
        drain_wake(p);
        for (size_t i = 0; i < HOPS; i++)
            serve_hop(p, &p->hops[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
        if (fds[0].revents & POLLIN)
            take_connection(p);
    }
    for (size_t i = 0; i < HOPS; i++)
        hop_end(p, &p->hops[i]);
    pthread_mutex_unlock(&p->mutex);
    free(fds);
    return NULL;
}

/* ---- What the test calls ---- */

static void wake_thread(proxy *p)
{
    ssize_t put = write(p->wake[1], "", 1);
    (void)put; /* if the pipe is full, the thread wakes anyway */
}

static struct sockaddr_un address_of(const char *dir, int port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.%d", dir, port);
    assert_in_range(n, 1, sizeof address.sun_path - 1);
    return address;
}

static int listen_at(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)address, sizeof *address), 0);
    assert_int_equal(listen(fd, 64), 0);
    return fd;
}

proxy *proxy_start_at(const char *dir, int port)
{
    proxy *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->target = address_of(dir, port);
    daemon_place_make(&p->place, "px");
    struct sockaddr_un address = address_of(p->place.dir, PORT);
    p->listener = listen_at(&address);
    assert_int_equal(pipe2(p->wake, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pthread_mutex_init(&p->mutex, NULL), 0);
    assert_int_equal(pthread_cond_init(&p->changed, NULL), 0);
    assert_true(thread_start(&p->thread, serve_hops, p));
    return p;
}

proxy *proxy_start(const pgserver *s)
{
    return proxy_start_at(pgserver_dir(s), pgserver_port(s));
}

void proxy_stop(proxy *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = 1;
    pthread_mutex_unlock(&p->mutex);
    wake_thread(p);
    pthread_join(p->thread, NULL);
    close(p->listener);
    close(p->wake[0]);
    close(p->wake[1]);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    daemon_place_remove(&p->place);
    free(p);
}

void proxy_url(const proxy *p, const char *database, char out[PGSERVER_URL])
{
    int n = snprintf(out, PGSERVER_URL, "postgres:///%s?host=%s&user=pawl&port=%d", database,
                     p->place.dir, PORT);
    assert_in_range(n, 1, PGSERVER_URL - 1);
}

void proxy_plan(proxy *p, proxy_action action, int64_t nth)
{
    pthread_mutex_lock(&p->mutex);
    p->action = action;
    p->nth = nth;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_refuse(proxy *p, int on)
{
    pthread_mutex_lock(&p->mutex);
    p->refuse = on;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_age_version(proxy *p, int on)
{
    pthread_mutex_lock(&p->mutex);
    p->age = on;
    pthread_mutex_unlock(&p->mutex);
}

/* Sockets are only shut down, since the proxy's thread may be in poll(2) with them: it wakes by
 * that, and closes them. */
void proxy_cut(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < HOPS; i++)
        hop_end(p, &p->hops[i]);
    pthread_mutex_unlock(&p->mutex);
    wake_thread(p);
}

int proxy_halve(proxy *p, int close_client)
{
    int count = 0;
    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < HOPS; i++) {
        hop *h = &p->hops[i];
        if (h->state != PASSING || !h->locks)
            continue;
        h->state = VANISHING;
        close_side(close_client ? &h->client : &h->server);
        count++;
    }
    pthread_mutex_unlock(&p->mutex);
    wake_thread(p);
    return count;
}

void proxy_release(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < HOPS; i++) {
        hop *h = &p->hops[i];
        if (h->state != HELD)
            continue;
        pile_add(&h->to_server, pile_all(&h->held));
        pile_clear(&h->held);
        h->state = LATE;
    }
    pthread_mutex_unlock(&p->mutex);
    wake_thread(p);
}

proxy_late proxy_wait_late(proxy *p)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += tmp_patience();
    int rc = 0;
    pthread_mutex_lock(&p->mutex);
    while (p->late == PROXY_LATE_OPEN && rc == 0)
        rc = pthread_cond_timedwait(&p->changed, &p->mutex, &until);
    proxy_late late = p->late;
    pthread_mutex_unlock(&p->mutex);
    if (late == PROXY_LATE_OPEN)
        fail_msg("the late COMMIT was never answered");
    return late;
}

proxy_counts proxy_count(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    proxy_counts counts = p->counts;
    pthread_mutex_unlock(&p->mutex);
    return counts;
}
