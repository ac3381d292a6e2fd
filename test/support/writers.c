/* The child: threads that submit steps, and answers that go into a pipe.
 *
 * A thread has one turn at a time: up to WINDOW steps of one run, handed in without waiting in
 * between, so that a batch has several units of a submitter. It waits for the last one by
 * committer_commit(), or leaves that to the helper thread, at random. If a step was not committed,
 * the run gets a new submitter and goes on where the journal ends, as an engine would. */
#include "support/writers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/scratch.h"
#include "support/steps.h"
#include "support/vfs_shim.h"

#define WINDOW 6

typedef struct child {
    writers_plan plan;
    int64_t birth;
    int fd;
    db *database;
    committer *committer;
} child;

typedef struct thread thread;

typedef struct slot {
    thread *thread;
    arena *arena;
    unit *unit;
    step step;
} slot;

typedef struct writer_run {
    int64_t run;
    int64_t seq; /* seq of the last row; -1: it has to be read */
    submitter *submitter;
} writer_run;

struct thread {
    child *child;
    int number;
    pthread_t id;
    random_seeded random;
    db_conn *reader;
    writer_run *runs;
    slot slots[WINDOW];
    char *payload;
    int64_t marks;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    int open;      /* number of units that have no final answer yet */
    int committed; /* of this turn */
};

/* ---- In the child: answers ---- */

static void send_answer(int fd, const ledger_entry *e)
{
    const char *at = (const char *)e;
    size_t left = sizeof *e;
    while (left > 0) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno != EINTR)
            scratch_die("the pipe to the test");
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
}

/* Called on the thread of the leader. An entry is smaller than PIPE_BUF, so that two entries never
 * mix. */
static void on_answer(unit *u, void *arg)
{
    slot *s = arg;
    ledger_entry e = step_entry(&s->step, u);
    send_answer(s->thread->child->fd, &e);
    if (u->answer == UNIT_UNDECIDED)
        return;
    pthread_mutex_lock(&s->thread->lock);
    s->thread->committed += u->answer == UNIT_COMMITTED;
    s->thread->open--;
    pthread_cond_signal(&s->thread->changed);
    pthread_mutex_unlock(&s->thread->lock);
}

/* ---- In the child: one turn ---- */

static step_kind pick_kind(thread *t, int64_t seq)
{
    int64_t n = scratch_between(&t->random, 1, 64);
    if (n == 1)
        return STEP_REFUSED;
    if (n == 3)
        return STEP_ORDERED;
    return n == 2 && seq > 1 ? STEP_COLLIDES : STEP_GOOD;
}

static void hand_in(thread *t, writer_run *r, slot *s, int64_t seq, int last)
{
    arena_reset(s->arena);
    slice data = {t->payload, (size_t)scratch_between(&t->random, 0, t->child->plan.payload)};
    int64_t mark = (t->child->birth << 40) + ((int64_t)t->number << 32) + ++t->marks;
    s->step = (step){r->run, seq, mark, pick_kind(t, seq), data};
    s->unit = step_unit(s->arena, r->submitter, &s->step);
    s->unit->done = on_answer;
    s->unit->done_arg = s;
    if (last && scratch_between(&t->random, 0, 1)) {
        committer_commit(t->child->committer, s->unit);
        return;
    }
    committer_submit(t->child->committer, s->unit);
    if (last)
        committer_leave(t->child->committer);
}

static int64_t now_ns(void)
{
    return clock_system()->mono_ns(clock_system());
}

/* Reads the last seq of a run. A file that cannot be read ends the child. A server that is gone may
 * come back, and is asked again. */
static int64_t look_up(thread *t, int64_t run)
{
    int64_t until = now_ns() + (int64_t)WRITERS_BUSY_MS * 1000000;
    int64_t last = steps_last_seq(t->reader, run);
    while (last < 0 && t->child->plan.url[0] && now_ns() < until) {
        poll(NULL, 0, 5);
        last = steps_last_seq(t->reader, run);
    }
    return last;
}

static void begin_life(thread *t, writer_run *r)
{
    r->seq = look_up(t, r->run);
    if (r->seq < 0)
        scratch_die("looking up a run");
    free(r->submitter);
    r->submitter = calloc(1, sizeof *r->submitter);
    if (!r->submitter)
        scratch_die("memory");
}

static void take_turn(thread *t, writer_run *r)
{
    if (r->seq < 0)
        begin_life(t, r);
    int count = (int)scratch_between(&t->random, 1, WINDOW);
    pthread_mutex_lock(&t->lock);
    t->open = count;
    t->committed = 0;
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < count; i++)
        hand_in(t, r, &t->slots[i], r->seq + 1 + i, i == count - 1);
    pthread_mutex_lock(&t->lock);
    while (t->open > 0)
        pthread_cond_wait(&t->changed, &t->lock);
    r->seq = t->committed == count ? r->seq + count : -1;
    pthread_mutex_unlock(&t->lock);
}

static int may_go_on(const writers_plan *plan, int64_t turn)
{
    return (plan->turns == 0 || turn < plan->turns) && !(plan->stop && atomic_load(plan->stop));
}

static void *write_steps(void *arg)
{
    thread *t = arg;
    const writers_plan *plan = &t->child->plan;
    for (int64_t turn = 0; may_go_on(plan, turn); turn++)
        take_turn(t, &t->runs[turn % plan->runs]);
    return NULL;
}

/* ---- In the child: beginning and end ---- */

static _Noreturn void give_up(const char *doing, const error *err)
{
    fprintf(stderr, "%s: %s: %s (%s)\n", doing, pawl_code_name(err->code), err->message,
            err->detail);
    _exit(98);
}

static void open_child(child *c)
{
    char url[TMP_PATH + 64];
    snprintf(url, sizeof url, "sqlite:%s%s", c->plan.path,
             c->plan.relaxed ? "?durability=relaxed" : "");
    db_options options = {.url = c->plan.url[0] ? c->plan.url : url,
                          .wal_bytes = c->plan.wal_bytes,
                          .busy_ms = WRITERS_BUSY_MS,
                          .claim_ms = c->plan.claim_ms};
    if (c->plan.shim) {
        if (vfs_shim_register() != 0)
            scratch_die("registering the VFS");
        vfs_shim_reset();
        atomic_store(&vfs_shim.lossy, c->plan.lossy);
        options.vfs = VFS_SHIM_NAME;
    }
    error err = {0};
    if (db_open(&c->database, &options, &err) != PAWL_OK)
        give_up("db_open", &err);
    if (committer_open(&c->committer, c->database, NULL, &err) != PAWL_OK)
        give_up("committer_open", &err);
}

static void start_thread(thread *t, child *c, int number)
{
    error err = {0};
    t->child = c;
    t->number = number;
    random_seeded_init(&t->random, c->plan.seed + (uint64_t)(c->birth * 64 + number));
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (db_connect(c->database, DB_READER, &t->reader, &err) != PAWL_OK)
        give_up("db_connect", &err);
    t->runs = calloc((size_t)c->plan.runs, sizeof *t->runs);
    t->payload = calloc(1, (size_t)c->plan.payload + 1);
    if (!t->runs || !t->payload)
        scratch_die("memory");
    for (int64_t i = 0; i < c->plan.runs; i++)
        t->runs[i] = (writer_run){c->plan.first_run + number * c->plan.runs + i, -1, NULL};
    for (int i = 0; i < WINDOW; i++) {
        t->slots[i] = (slot){.thread = t, .arena = arena_new(0)};
        if (!t->slots[i].arena)
            scratch_die("memory");
    }
    if (pthread_create(&t->id, NULL, write_steps, t) != 0)
        scratch_die("a thread");
}

static void end_thread(thread *t)
{
    pthread_join(t->id, NULL);
    db_disconnect(t->reader);
    for (int64_t i = 0; i < t->child->plan.runs; i++)
        free(t->runs[i].submitter);
    for (int i = 0; i < WINDOW; i++)
        arena_free(t->slots[i].arena);
    free(t->runs);
    free(t->payload);
}

static void arm_syncs(const writers_plan *plan)
{
    if (!plan->sync_fails_each)
        return;
    atomic_store(&vfs_shim.suffix, "-wal");
    atomic_store(&vfs_shim.sync_forgets, 1);
    atomic_store(&vfs_shim.sync_each, plan->sync_fails_each);
}

static void run_child(child *c)
{
    open_child(c);
    arm_syncs(&c->plan);
    thread *threads = calloc((size_t)c->plan.threads, sizeof *threads);
    if (!threads)
        scratch_die("memory");
    for (int i = 0; i < c->plan.threads; i++)
        start_thread(&threads[i], c, i);
    for (int i = 0; i < c->plan.threads; i++)
        end_thread(&threads[i]);
    free(threads);
    committer_close(c->committer);
    db_close(c->database);
}

/* Makes the handlers of cmocka's signals kill the child, and the child end with the test: otherwise
 * it could wait for ever for a server to come back. */
static void be_a_child(pid_t parent)
{
    static const int SIGNALS[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaction(SIGNALS[i], &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(96);
}

/* ---- In the test ---- */

int writers_set_up(const writers_plan *plan)
{
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        scratch_die("fork");
    if (pid == 0) {
        be_a_child(parent);
        child c = {.plan = *plan};
        open_child(&c);
        pawl_code rc =
            steps_make_runs(c.committer, plan->first_run, plan->runs * (int64_t)plan->threads);
        committer_close(c.committer);
        db_close(c.database);
        _exit(rc == PAWL_OK ? 0 : 97);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

void writers_start(writers *w, const writers_plan *plan, int64_t birth)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0)
        scratch_die("pipe");
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        scratch_die("fork");
    if (pid == 0) {
        be_a_child(parent);
        close(ends[0]);
        child c = {.plan = *plan, .birth = birth, .fd = ends[1]};
        run_child(&c);
        _exit(0);
    }
    close(ends[1]);
    *w = (writers){.pid = pid, .fd = ends[0]};
}

/* Reads what is in the pipe. Returns 1; 0 at its end. */
static int take_in(writers *w, ledger *l)
{
    char bytes[sizeof(ledger_entry) * 256];
    ssize_t n = read(w->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        return 0;
    for (ssize_t i = 0; i < n; i++) {
        w->bytes[w->partial++] = bytes[i];
        if (w->partial < sizeof w->bytes)
            continue;
        ledger_entry e;
        memcpy(&e, w->bytes, sizeof e);
        w->partial = 0;
        w->acks += e.answer == UNIT_COMMITTED;
        ledger_add(l, &e);
    }
    return 1;
}

int writers_await(writers *all, int count, int which, int64_t acks, ledger *l)
{
    struct pollfd ready[16];
    int64_t now = now_ns();
    int64_t stuck = now + (int64_t)WRITERS_STUCK_MS * 1000000;
    while (all[which].acks < acks && all[which].pid && now < stuck) {
        int64_t before = all[which].acks;
        for (int i = 0; i < count; i++)
            ready[i] = (struct pollfd){.fd = all[i].pid ? all[i].fd : -1, .events = POLLIN};
        if (poll(ready, (nfds_t)count, WRITERS_STUCK_MS) <= 0)
            return -1;
        for (int i = 0; i < count; i++)
            if (ready[i].revents && !take_in(&all[i], l))
                return -1;
        now = now_ns();
        if (all[which].acks > before)
            stuck = now + (int64_t)WRITERS_STUCK_MS * 1000000;
    }
    return all[which].acks >= acks ? 0 : -1;
}

static int reap_child(writers *w, ledger *l, int *status)
{
    while (take_in(w, l))
        continue;
    close(w->fd);
    pid_t pid = w->pid;
    w->pid = 0;
    return waitpid(pid, status, 0) == pid ? 0 : -1;
}

int writers_kill(writers *w, ledger *l)
{
    int status = 0;
    kill(w->pid, SIGKILL);
    if (reap_child(w, l, &status) != 0)
        return -1;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : -1;
}

int writers_join(writers *w, ledger *l)
{
    int status = 0;
    return reap_child(w, l, &status) == 0 && status == 0 ? 0 : -1;
}
