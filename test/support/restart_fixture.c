/* Child processes that drive a run and are killed. What they share is in one piece of memory that
 * is mapped before the first of them is made. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include "support/restart_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "api/engine_test.h"
#include "journal/op.h"

static const int64_t START_MS = INT64_C(1700000000000);
static const int64_t MS_NS = 1000000;

enum { POLLS_MAX = 20000 };

/* What is not shared, but belongs to the current child process. */
typedef struct child {
    clock_source clock; /* the first member, because the engine gets a pointer to it */
    random_seeded dice;
    restart_fixture *fixture;
    db_fault plan;
    db *inner;
    db_conn *look; /* another connection to the database, to see what is durable */
    int64_t die_before;
    int64_t die_after;
} child;

static child self; /* used in the child only, of which there is one at a time */

/* ---- Time and randomness ---- */

static int64_t now_ms(clock_source *c)
{
    return ((child *)(void *)c)->fixture->now_ms;
}

static int64_t mono_ns(clock_source *c)
{
    return ((child *)(void *)c)->fixture->mono_ns;
}

static void move_clocks(restart_fixture *l, int64_t ms)
{
    l->now_ms += ms;
    l->mono_ns += ms * MS_NS;
}

/* The child has one thread, so no other one can end a wait: only the deadline does, and the clock
 * is moved there. */
static int wait_until(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                      int64_t deadline_ns)
{
    restart_fixture *l = ((child *)(void *)c)->fixture;
    (void)cond;
    (void)mutex;
    TMP_CHECK(deadline_ns != INT64_MAX);
    if (deadline_ns > l->mono_ns)
        move_clocks(l, (deadline_ns - l->mono_ns + MS_NS - 1) / MS_NS);
    return 1;
}

static int give_random(void *bytes, size_t count, void *arg)
{
    random_source *r = arg;
    return r->fill(r, bytes, count);
}

/* ---- Work ---- */

static uint64_t hash_text(const char *text)
{
    uint64_t h = 1469598103934665603u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static void begin_looking(void)
{
    if (!self.look)
        TMP_CHECK(db_connect(self.inner, DB_READER, &self.look, NULL) == PAWL_OK);
    TMP_CHECK(db_begin(self.look, NULL) == PAWL_OK);
}

/* Reads how many rows the journal of the run has in the database now, and the last one. */
static void read_journal_state(restart_note *note, int64_t run)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {journal} WHERE run = $1", "i"};
    static const db_sql LAST = {"SELECT coalesce(max(seq), 0) FROM {journal} WHERE run = $1", "i"};
    const db_value key[] = {db_int(run)};
    int found;
    begin_looking();
    TMP_CHECK(db_number(self.look, &COUNT, key, 1, &note->rows, &found, NULL) == PAWL_OK);
    TMP_CHECK(db_number(self.look, &LAST, key, 1, &note->seen, &found, NULL) == PAWL_OK);
    db_rollback(self.look);
}

static int64_t number_behind(const char *name, const char *word)
{
    size_t length = strlen(word);
    return strncmp(name, word, length) == 0 ? strtol(name + length, NULL, 10) : 0;
}

static restart_note *take_note(restart_fixture *l, pawl_work *work, const char *input)
{
    int64_t run, generation;
    TMP_CHECK(l->note_count < RESTART_NOTES);
    restart_note *n = &l->notes[l->note_count];
    *n = (restart_note){
        .process = l->process, .attempt = pawl_work_attempt(work), .input = hash_text(input)};
    snprintf(n->name, sizeof n->name, "%s", pawl_work_name(work));
    TMP_CHECK(sscanf(strchr(pawl_work_key(work), '.') + 1, "%" SCNd64 ".%" SCNd64 ".%" SCNd64, &run,
                     &generation, &n->op) == 3);
    read_journal_state(n, run);
    l->note_count++;
    return n;
}

const char *restart_work(pawl_work *work, const char *input)
{
    restart_fixture *l = self.fixture;
    const restart_note *n = take_note(l, work, input);
    const char *name = pawl_work_name(work);
    if (strncmp(name, "wrong-", 6) == 0)
        return pawl_work_fail(work, PAWL_PERMANENT, "wrong", "it never works");
    if (n->attempt <= number_behind(name, "slow-"))
        move_clocks(l, RESTART_SLOW_MS);
    if (n->attempt <= number_behind(name, "fails-"))
        return pawl_work_fail(work, PAWL_TRANSIENT, "not-yet", "attempt %d", (int)n->attempt);
    if (strncmp(name, "poll-", 5) == 0 &&
        ++l->polls[n->op % RESTART_ROWS] <= number_behind(name, "poll-"))
        return "null";
    if (strncmp(name, "big-", 4) != 0)
        return pawl_work_json(work, "{'by':%s}", name);
    char *big = pawl_work_alloc(work, RESTART_BIG + 1);
    memset(big, name[4], RESTART_BIG);
    big[0] = big[RESTART_BIG - 1] = '"';
    return big;
}

int restart_build(void)
{
    return self.fixture->build;
}

/* ---- Reading what is in the database when the run has ended ---- */

/* Copies a text, or the hash of a long one, which is enough to compare two runs. */
static void put_text(char *out, size_t room, const char *text)
{
    size_t size = strlen(text);
    if (size < room)
        memcpy(out, text, size + 1);
    else
        snprintf(out, room, "{\"same\":\"%zu bytes, %" PRIx64 "\"}", size, hash_text(text));
}

/* Replace the times and random values, which differ between two runs of the same workflow. */
static void set_data(restart_row *r)
{
    char text[256];
    switch (r->kind) {
    case OP_NOW:
    case OP_UUID:
    case OP_RANDOM:
    case OP_SLEEP:
    case OP_UNTIL:
        snprintf(r->data, sizeof r->data, "*");
        break;
    case OP_STEP_AGAIN:
    case OP_ATTEMPT:
        pawl_get_text(r->raw, "/message", text, sizeof text);
        snprintf(r->data, sizeof r->data, "%s", text);
        break;
    default:
        memcpy(r->data, r->raw, sizeof r->data);
    }
}

/* Writes a value as text; of a long text its hash. */
static void get_text(db_value v, char *out, size_t room)
{
    char *text = calloc(1, v.s.size + 1);
    TMP_CHECK(text != NULL);
    if (v.type != DB_NULL)
        memcpy(text, v.s.at, v.s.size);
    put_text(out, room, text);
    free(text);
}

static void read_row(restart_fixture *l, db_stmt *s)
{
    TMP_CHECK(l->row_count < RESTART_ROWS);
    restart_row *r = &l->rows[l->row_count++];
    *r =
        (restart_row){.seq = db_column(s, 0).i, .kind = db_column(s, 1).i, .op = db_column(s, 2).i};
    get_text(db_column(s, 3), r->name, sizeof r->name);
    get_text(db_column(s, 4), r->raw, sizeof r->raw);
    set_data(r);
}

/* Adds a pair of a text and a number to what is compared. */
static void read_pair(restart_fixture *l, db_stmt *s)
{
    char text[64];
    size_t used = strlen(l->row);
    get_text(db_column(s, 0), text, sizeof text);
    snprintf(l->row + used, sizeof l->row - used, "%s %s %" PRId64, used ? "," : "", text,
             db_column(s, 1).i);
}

static void read_all(restart_fixture *l, const db_sql *sql,
                     void (*take)(restart_fixture *l, db_stmt *s))
{
    db_stmt *s;
    db_step step;
    const db_value id = db_text(slice_of(l->id));
    TMP_CHECK(db_prepare(self.look, sql, &s, NULL) == PAWL_OK);
    TMP_CHECK(db_bind_all(s, &id, 1, NULL) == PAWL_OK);
    while ((step = db_next(s, NULL)) == DB_ROW)
        take(l, s);
    TMP_CHECK(step == DB_DONE);
    db_reset(s);
}

static void read_end(restart_fixture *l)
{
    static const db_sql ROWS = {"SELECT j.seq, j.kind, j.op, j.name, j.data FROM {journal} j"
                                " JOIN {runs} r ON r.run = j.run WHERE r.id = $1 ORDER BY j.seq",
                                "t"};
    static const db_sql RUN = {
        "SELECT 'phase', phase FROM {runs} WHERE id = $1"
        " UNION ALL SELECT 'generation', generation FROM {runs} WHERE id = $1"
        " UNION ALL SELECT 'owner', owner FROM {runs} WHERE id = $1"
        " UNION ALL SELECT 'held', held FROM {runs} WHERE id = $1"
        " UNION ALL SELECT 'wakes', coalesce(wake_at, -1) FROM {runs} WHERE id = $1"
        " UNION ALL SELECT 'inbox', count(*) FROM {inbox} i JOIN {runs} r ON r.run = i.run"
        " WHERE r.id = $1",
        "t"};
    static const db_sql ATTRIBUTES = {
        "SELECT coalesce(a.name || '=' || a.value, a.name), cast(coalesce(a.number, 0) AS bigint)"
        " FROM {attributes} a JOIN {runs} r ON r.run = a.run WHERE r.id = $1 ORDER BY a.name",
        "t"};
    begin_looking();
    l->row_count = 0;
    l->row[0] = '\0';
    read_all(l, &ROWS, read_row);
    read_all(l, &RUN, read_pair);
    read_all(l, &ATTRIBUTES, read_pair);
    db_rollback(self.look);
}

/* ---- A process ---- */

static db *wrap_db(void *arg, db *inner)
{
    child *c = arg;
    c->inner = inner;
    db *wrapped = db_fault_wrap(inner, &c->plan);
    TMP_CHECK(wrapped != NULL);
    return wrapped;
}

static const char *const CALLED[] = {"called", "fails-1-called", "slow-1-called", "called-late"};

static pawl *open_engine(child *c)
{
    pawl *p;
    char build[16];
    restart_fixture *l = c->fixture;
    int count = (int)(sizeof CALLED / sizeof *CALLED) - (l->build == 0);
    snprintf(build, sizeof build, "build-%d", l->build);
    pawl_hooks hooks = {.size = sizeof hooks, .random = give_random, .arg = &c->dice.source};
    engine_test test = {.arg = c, .wrap = wrap_db, .clock = &c->clock};
    pawl_options o = {.size = sizeof o, .threads = -1, .hooks = &hooks, .build = build};
    TMP_CHECK(engine_test_open(&p, l->conf->url, &o, &test) == PAWL_OK);
    TMP_CHECK(pawl_register_workflow(p, l->workflow, l->fn, NULL) == PAWL_OK);
    for (int i = 0; i < count; i++)
        TMP_CHECK(pawl_register_work(p, CALLED[i], restart_work, NULL) == PAWL_OK);
    return p;
}

static void close_engine(child *c, pawl *p)
{
    db_disconnect(c->look);
    c->look = NULL;
    pawl_close(p);
}

/* Returns 1 if the run has ended, and keeps how. */
static int is_over(restart_fixture *l, pawl *p)
{
    pawl_outcome *end = NULL;
    pawl_info *info = NULL;
    l->code = pawl_wait(p, l->id, 0, &end);
    if (l->code == PAWL_TIMEOUT || l->code == PAWL_HELD) {
        pawl_outcome_free(end);
        return 0;
    }
    put_text(l->result, sizeof l->result,
             l->code == PAWL_OK ? pawl_outcome_value(end) : pawl_outcome_message(end));
    TMP_CHECK(pawl_inspect(p, l->id, &info) == PAWL_OK);
    snprintf(l->status, sizeof l->status, "%lld %s", (long long)pawl_info_status_seq(info),
             pawl_info_status(info));
    pawl_info_free(info);
    pawl_outcome_free(end);
    return 1;
}

/* Does what an operator does when the engine has nothing left to do: holds and releases. It counts
 * as done only when the call has returned, so a process that was killed during the call has its
 * next one repeat it. */
static void hold_and_release(child *c, pawl **p)
{
    restart_fixture *l = c->fixture;
    if (l->code != PAWL_HELD && l->holds > 0) {
        TMP_CHECK(pawl_hold(*p, l->id, "to have a look") == PAWL_OK);
    } else if (l->code == PAWL_HELD && l->holds > 0) {
        TMP_CHECK(pawl_release(*p, l->id) == PAWL_OK);
        l->holds--;
    } else if (l->code == PAWL_HELD) {
        close_engine(c, *p);
        TMP_CHECK(++l->build < 10);
        *p = open_engine(c);
    }
}

static void run_process(int in, int out, void *arg)
{
    child *c = arg;
    (void)in;
    (void)out;
    self = *c;
    c = &self;
    restart_fixture *l = c->fixture;
    random_seeded_init(&c->dice, (uint64_t)l->process);
    c->clock = (clock_source){now_ms, mono_ns, wait_until, NULL};
    c->plan =
        (db_fault){.die_before = c->die_before, .die_after = c->die_after, .clock = &c->clock};
    pawl *p = open_engine(c);
    int64_t did, polls = 0;
    TMP_CHECK(pawl_start(p, l->workflow, l->id, l->input, NULL) == PAWL_OK);
    for (;;) {
        TMP_CHECK(++polls < POLLS_MAX);
        TMP_CHECK(pawl_poll(p, &did) == PAWL_OK);
        if (did > 0)
            continue;
        if (is_over(l, p))
            break;
        hold_and_release(c, &p);
        move_clocks(l, pawl_timeout(p));
    }
    l->commits = c->plan.commits;
    read_end(l);
    close_engine(c, p);
}

int restart_process(restart_fixture *l, int64_t die_before, int64_t die_after)
{
    child c = {.fixture = l, .die_before = die_before, .die_after = die_after};
    l->process++;
    move_clocks(l, 1000);
    tmp_child process = tmp_fork(run_process, &c);
    int status = tmp_reap(&process);
    if (!WIFSIGNALED(status))
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

/* ---- The whole ---- */

restart_fixture *restart_new(const conf *c, const char *workflow, pawl_workflow_fn *fn,
                             const char *input)
{
    restart_fixture *l =
        mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(l != MAP_FAILED);
    l->conf = c;
    l->workflow = workflow;
    l->fn = fn;
    l->input = input;
    l->now_ms = START_MS;
    return l;
}

void restart_free(restart_fixture *l)
{
    munmap(l, sizeof *l);
}

void restart_begin(restart_fixture *l, const char *id, int holds)
{
    snprintf(l->id, sizeof l->id, "%s", id);
    memset(l->polls, 0, sizeof l->polls);
    l->note_count = l->process = l->build = 0;
    l->holds = holds;
    l->row_count = 0;
    l->code = PAWL_TIMEOUT;
}

int restart_count(const restart_fixture *l, int64_t op, int64_t attempt)
{
    int count = 0;
    for (int i = 0; i < l->note_count; i++)
        count += l->notes[i].op == op && l->notes[i].attempt == attempt;
    return count;
}
