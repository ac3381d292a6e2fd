/* bench engine loop: a message from another process into an engine that is driven by an epoll loop.
 *
 * One process has an engine without threads in a loop of epoll_wait() and pawl_poll(), with a run
 * that waits for messages. The other process sends one message at a time, and pauses in between for
 * longer than the 5 ms in which notifications are coalesced. What is timed goes from the call of
 * pawl_send() until the function has received the message; both processes have the same monotonic
 * clock. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

enum { SENDS = 200 };

static const int64_t PAUSE_NS = 20000000, LOOK_NS = 200000;

/* In memory that the processes share. */
typedef struct loop_sheet {
    atomic_int waits; /* messages that were received when the loop became idle; -1: not yet */
    _Atomic int64_t received_ns[SENDS];
} loop_sheet;

typedef struct loop_task {
    bench_db db;
    loop_sheet *sheet;
} loop_task;

typedef struct loop_result {
    double p50_us, p99_us;
} loop_result;

static void good(pawl *p, pawl_code code, const char *doing)
{
    if (code != PAWL_OK)
        bench_die("%s: %s", doing, pawl_errtext(p));
}

static const char *receiver(pawl_run *run, const char *input)
{
    loop_sheet *s = pawl_arg(run);
    for (int i = 0; i < SENDS; i++) {
        pawl_receive(run, "box", PAWL_FOREVER, NULL);
        atomic_store(&s->received_ns[i], bench_now_ns());
    }
    return input;
}

static int received(loop_sheet *s, int from)
{
    while (from < SENDS && atomic_load(&s->received_ns[from]) != 0)
        from++;
    return from;
}

static void loop(const loop_task *t)
{
    pawl *p = NULL;
    good(p, pawl_open(&p, t->db.url, PAWL_OPTIONS(.threads = -1)), "open");
    good(p, pawl_register_workflow(p, "receiver", receiver, PAWL_WORKFLOW(.arg = t->sheet)),
         "register");
    good(p, pawl_start(p, "receiver", "receiver", "null", NULL), "start");
    int epoll = epoll_create1(EPOLL_CLOEXEC), count = 0;
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, pawl_fd(p), &event) != 0)
        bench_die("no descriptor for the loop");
    while (count < SENDS) {
        good(p, pawl_poll(p, NULL), "poll");
        count = received(t->sheet, count);
        int timeout = pawl_timeout(p);
        if (timeout != 0)
            atomic_store(&t->sheet->waits, count);
        epoll_wait(epoll, &event, 1, timeout);
    }
    close(epoll);
    pawl_close(p);
}

static void send_all(const loop_task *t, loop_result *out)
{
    static bench_hist h;
    pawl *p = NULL;
    good(p, pawl_open(&p, t->db.url, NULL), "open");
    for (int i = 0; i < SENDS; i++) {
        while (atomic_load(&t->sheet->waits) < i)
            bench_sleep_ns(LOOK_NS);
        bench_sleep_ns(PAUSE_NS);
        int64_t began = bench_now_ns();
        good(p, pawl_send(p, "receiver", "box", "1", NULL), "send");
        while (atomic_load(&t->sheet->received_ns[i]) == 0)
            bench_sleep_ns(LOOK_NS);
        bench_hist_add(&h, atomic_load(&t->sheet->received_ns[i]) - began);
    }
    *out = (loop_result){.p50_us = (double)bench_hist_at(&h, 0.5) / 1e3,
                         .p99_us = (double)bench_hist_at(&h, 0.99) / 1e3};
    pawl_close(p);
}

static void child_live(const void *arg, int number, void *result)
{
    if (number == 0)
        loop(arg);
    else
        send_all(arg, result);
}

static void child_commit(const void *arg, int number, void *result)
{
    const loop_task *t = arg;
    (void)number;
    *(double *)result = backend_commit_us(&t->db);
}

static loop_result live(loop_task *t)
{
    loop_result out[2] = {{0}};
    t->sheet =
        mmap(NULL, sizeof *t->sheet, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->sheet == MAP_FAILED)
        bench_die("out of memory");
    atomic_store(&t->sheet->waits, -1);
    t->db.backend->fresh(&t->db);
    bench_children(2, child_live, t, out, sizeof *out);
    munmap(t->sheet, sizeof *t->sheet);
    return out[1];
}

void case_loop(const bench_case *c, const backend *on)
{
    loop_task t = {.db = on->named("pawl")};
    report r = {.bench = "engine", .name = c->name, .in = "us", .on = on};
    for (int i = 0; i < report_rounds(); i++) {
        double commit_us = 0;
        if (i % 2 == 1)
            bench_children(1, child_commit, &t, &commit_us, sizeof commit_us);
        loop_result one = live(&t);
        if (i % 2 == 0)
            bench_children(1, child_commit, &t, &commit_us, sizeof commit_us);
        report_set(&r, i, "value", one.p50_us, 0);
        report_set(&r, i, "ratio", one.p50_us / commit_us, 2);
        report_set(&r, i, "p99", one.p99_us, 0);
        report_set(&r, i, "commit_us", commit_us, 1);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}
