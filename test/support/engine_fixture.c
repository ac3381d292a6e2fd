/* The engine fixture. Its clock is a page of memory that all processes of a test share, and a file
 * at the same time, so that a server can read it: in the test's own database on PostgreSQL
 * clock_timestamp() is replaced by a function that reads that file. */
#include "support/engine_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/engine_test.h"
#include "base/clock.h"
#include "support/engine_fixture_serve.h"

enum { NOTES_MAX = 256 * 1024, POLLS_MAX = 20000, MOVES_MAX = 2000, HISTORY_MAX = 64 * 1024 };

/* 2026-01-01, a little after midnight. */
static const int64_t BEGIN_MS = 1767225600123;

/* The memory that all processes of the test share. `date` and `since` are for a database server,
 * which reads them as big-endian numbers. */
typedef struct page {
    _Atomic uint64_t date;    /* now_ms */
    _Atomic uint64_t since;   /* the server's time at fixture_run_clock(); 0: time stands still */
    _Atomic int64_t now_ms;   /* the wall clock, without the time since fixture_run_clock() */
    _Atomic int64_t mono_ns;  /* the monotonic clock, the same */
    _Atomic int64_t since_ns; /* the system's monotonic clock at fixture_run_clock(); 0: as above */
    _Atomic int chance;       /* the value of all random bytes; -1: random ones */
    _Atomic int64_t numbers[FIXTURE_NUMBERS];
} page;

struct engine_fixture {
    const conf *conf;
    pid_t pid; /* the process of the test itself */
    page *page;
    char notes[TMP_PATH];
    pawl_hooks hooks;
    int in, out; /* in a child: the pipes from the test, and to it */
};

_Noreturn void fixture_fail(const engine_fixture *s, int line, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int is_child = getpid() != s->pid;
    /* Outside the thread of the test cmocka ends the process, and may say nothing. */
    fprintf(stderr, "%sline %d: %s\n", is_child ? "in a child: " : "", line, text);
    if (!is_child)
        fail_msg("line %d: %s", line, text);
    fflush(stderr);
    _exit(99);
}

/* ---- Dawdling ---- */

enum { DAWDLE_MS = 20, DAWDLES_MAX = 200 };

/* How many pauses the test still may make; some tests make very many calls. */
static atomic_int dawdles;

/* Pause, if PAWL_TEST_DAWDLE says so. */
static void dawdle_at(const char *at)
{
    const char *where = getenv("PAWL_TEST_DAWDLE");
    if (where && strcmp(where, at) == 0 && atomic_fetch_sub(&dawdles, 1) > 0)
        poll(NULL, 0, DAWDLE_MS);
}

pawl_code fixture_dawdle(pawl_code rc)
{
    dawdle_at("calls");
    return rc;
}

/* ---- Time ---- */

/* The time that has passed since fixture_run_clock(); 0: it was not called. */
static int64_t running_ns(const engine_fixture *s)
{
    int64_t since = atomic_load(&s->page->since_ns);
    return since ? clock_system()->mono_ns(clock_system()) - since : 0;
}

static int64_t hook_now(void *arg)
{
    return fixture_now(arg);
}

static int64_t hook_mono(void *arg)
{
    return atomic_load(&((engine_fixture *)arg)->page->mono_ns) + running_ns(arg);
}

static int hook_random(void *bytes, size_t count, void *arg)
{
    int chance = atomic_load(&((engine_fixture *)arg)->page->chance);
    if (chance < 0)
        return random_system()->fill(random_system(), bytes, count);
    memset(bytes, chance, count);
    return 0;
}

int64_t fixture_now(const engine_fixture *s)
{
    return atomic_load(&s->page->now_ms) + running_ns(s) / 1000000;
}

/* The number in big-endian order, as a server reads it. */
static uint64_t big_endian(uint64_t number)
{
    unsigned char bytes[sizeof number];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    memcpy(&number, bytes, sizeof number);
    return number;
}

/* Writes the date for the server. Where several threads move the clock at the same time, the loop
 * makes sure that the date ends up equal to now_ms. */
static void publish_date(engine_fixture *s)
{
    int64_t now_ms;
    do {
        now_ms = atomic_load(&s->page->now_ms);
        atomic_store(&s->page->date, big_endian((uint64_t)now_ms));
    } while (atomic_load(&s->page->now_ms) != now_ms);
}

void fixture_set_clock(engine_fixture *s, int64_t now_ms)
{
    atomic_store(&s->page->now_ms, now_ms - running_ns(s) / 1000000);
    publish_date(s);
    dawdle_at("calls");
}

void fixture_advance(engine_fixture *s, int64_t ms)
{
    atomic_fetch_add(&s->page->mono_ns, ms * 1000000);
    atomic_fetch_add(&s->page->now_ms, ms);
    publish_date(s);
    dawdle_at("calls");
}

void fixture_run_clock(engine_fixture *s)
{
    clock_source *real = clock_system();
    atomic_store(&s->page->since, big_endian((uint64_t)real->now_ms(real)));
    atomic_store(&s->page->since_ns, real->mono_ns(real));
}

void fixture_set_random(engine_fixture *s, int byte)
{
    atomic_store(&s->page->chance, byte);
}

_Atomic int64_t *fixture_number(engine_fixture *s, int which)
{
    return &s->page->numbers[which];
}

/* ---- Making ---- */

static page *map_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)sizeof(page)), 0);
    page *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    return at;
}

/* pawl calls pg_catalog.clock_timestamp(), whatever the search path is: so that function itself is
 * replaced. */
static void replace_clock(const conf *c, const char *path)
{
    char sql[2 * TMP_PATH + 1536];
    snprintf(sql, sizeof sql,
             "DO $$ BEGIN ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO server_timestamp;"
             " EXCEPTION WHEN duplicate_function THEN NULL; END $$;"
             " CREATE OR REPLACE FUNCTION pg_catalog.fixture_number(which bigint) RETURNS bigint"
             " LANGUAGE sql AS"
             " $$ SELECT ('x' || encode(pg_read_binary_file('%s', 8 * which, 8), 'hex'))"
             "::bit(64)::bigint $$;"
             " CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz"
             " LANGUAGE sql AS $$ SELECT to_timestamp((fixture_number(0) +"
             " CASE WHEN fixture_number(1) = 0 THEN 0"
             " ELSE (extract(epoch FROM server_timestamp()) * 1000)::bigint"
             " - fixture_number(1) END) / 1000.0::numeric) $$",
             path);
    pgserver_exec(c->server, c->database, sql);
}

engine_fixture *fixture_new(const conf *c)
{
    char path[TMP_PATH], name[PGSERVER_NAME + 16];
    engine_fixture *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->conf = c;
    s->pid = getpid();
    atomic_store(&dawdles, DAWDLES_MAX);
    s->in = s->out = -1;
    snprintf(name, sizeof name, "clock-%s", c->database);
    tmp_path(path, c->server ? pgserver_dir(c->server) : c->dir, name);
    tmp_path(s->notes, c->dir, "notes");
    s->page = map_page(path);
    atomic_store(&s->page->mono_ns, INT64_C(1000000000000));
    fixture_set_clock(s, BEGIN_MS);
    fixture_set_random(s, -1);
    if (c->server)
        replace_clock(c, path);
    s->hooks = (pawl_hooks){sizeof s->hooks, hook_now, hook_mono, hook_random, s};
    return s;
}

void fixture_free(engine_fixture *s)
{
    munmap(s->page, sizeof *s->page);
    free(s);
}

/* ---- Engines ---- */

void fixture_code(engine_fixture *s, pawl *p, pawl_code got, pawl_code wanted, int line)
{
    if (got != wanted)
        fixture_fail(s, line, "expected %s, got %s (%s)", pawl_code_name(wanted),
                     pawl_code_name(got), got == PAWL_OK ? "" : pawl_errtext(p));
}

pawl *fixture_open(engine_fixture *s, const pawl_options *options)
{
    pawl *p = NULL;
    pawl_options o = {.size = sizeof o, .threads = -1};
    if (options)
        o = *options;
    o.hooks = &s->hooks;
    o.claim_ms = o.claim_ms ? o.claim_ms : FIXTURE_CLAIM_MS;
    int by_hand = o.threads < 0;
    if (by_hand && fixture_serves())
        o.threads = 2;
    FIXTURE_CODE(s, p, pawl_open(&p, s->conf->url, &o), PAWL_OK);
    if (by_hand && fixture_serves())
        serves_add(p);
    return p;
}

static db *wrap_with_faults(void *arg, db *inner)
{
    db *wrapped = db_fault_wrap(inner, arg);
    TMP_CHECK(wrapped);
    return wrapped;
}

pawl *fixture_open_fault(engine_fixture *s, const pawl_options *options, db_fault *plan)
{
    pawl *p = NULL;
    pawl_options o = *options;
    engine_test test = {.arg = plan, .wrap = wrap_with_faults};
    o.hooks = &s->hooks;
    FIXTURE_CODE(s, p, engine_test_open(&p, s->conf->url, &o, &test), PAWL_OK);
    return p;
}

/* The header replaces pawl_close() by this function; here the real one is needed. */
#undef pawl_close
pawl_code fixture_close(pawl *p)
{
    serves_end(p);
    return pawl_close(p);
}

void fixture_register(engine_fixture *s, pawl *p, const char *name, pawl_workflow_fn *fn)
{
    FIXTURE_CODE(s, p, pawl_register_workflow(p, name, fn, PAWL_WORKFLOW(.arg = s)), PAWL_OK);
}

void fixture_register_limited(engine_fixture *s, pawl *p, const char *name, pawl_work_fn *fn,
                              int64_t at_most)
{
    pawl_code rc = pawl_register_work(p, name, fn, PAWL_WORK(.arg = s, .at_most = at_most));
    FIXTURE_CODE(s, p, rc, PAWL_OK);
}

void fixture_register_work(engine_fixture *s, pawl *p, const char *name, pawl_work_fn *fn)
{
    fixture_register_limited(s, p, name, fn, 0);
}

void fixture_start(engine_fixture *s, pawl *p, const char *workflow, const char *id,
                   const char *input)
{
    FIXTURE_CODE(s, p, pawl_start(p, workflow, id, input, NULL), PAWL_OK);
}

void *fixture_serve(void *engine)
{
    return pawl_serve(engine) == PAWL_OK ? NULL : engine;
}

void fixture_poll(engine_fixture *s, pawl *p)
{
    int64_t did, rounds = 0;
    if (serves_until_idle(s, p))
        return;
    int64_t until = tmp_deadline();
    do {
        pawl_code rc;
        while ((rc = pawl_poll(p, &did)) == PAWL_BUSY) /* another process has the database */
            tmp_pause(until, "the database is free", __FILE__, __LINE__);
        FIXTURE_CODE(s, p, rc, PAWL_OK);
        if (++rounds > POLLS_MAX)
            fixture_fail(s, __LINE__, "the engine always has something to do");
    } while (did > 0);
}

void fixture_move_clock(engine_fixture *s, pawl *p, int64_t rounds, const char *condition, int line)
{
    int ms = pawl_timeout(p);
    if (rounds > MOVES_MAX)
        fixture_fail(s, line, "never came: %s", condition);
    fixture_advance(s, ms > 0 ? ms : 1);
}

/* ---- What has become of a run ---- */

pawl_phase fixture_phase(engine_fixture *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, id, &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    pawl_info_free(info);
    return phase;
}

int64_t fixture_wake_at(engine_fixture *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, id, &info), PAWL_OK);
    int64_t wakes = pawl_info_wake_ms(info);
    pawl_info_free(info);
    return wakes;
}

static pawl_outcome *await_end(engine_fixture *s, pawl *p, const char *id, pawl_code wanted,
                               int line)
{
    pawl_outcome *o = NULL;
    pawl_code rc;
    FIXTURE_UNTIL(s, p, (rc = pawl_wait(p, id, 0, &o)) != PAWL_TIMEOUT);
    fixture_code(s, p, rc, wanted, line);
    FIXTURE_CHECK(s, pawl_outcome_code(o) == wanted);
    return o;
}

static void expect_text(engine_fixture *s, const char *got, const char *wanted, int line)
{
    if (strcmp(got, wanted) != 0)
        fixture_fail(s, line, "expected '%s', got '%s'", wanted, got);
}

static void expect_words(engine_fixture *s, const char *got, const char *words, int line)
{
    if (!strstr(got, words))
        fixture_fail(s, line, "expected '%s' in '%s'", words, got);
}

void fixture_done(engine_fixture *s, pawl *p, const char *id, const char *value, int line)
{
    pawl_outcome *o = await_end(s, p, id, PAWL_OK, line);
    expect_text(s, pawl_outcome_value(o), value, line);
    pawl_outcome_free(o);
}

void fixture_failed(engine_fixture *s, pawl *p, const char *id, const char *name, const char *words,
                    int line)
{
    pawl_outcome *o = await_end(s, p, id, PAWL_FAILED, line);
    expect_text(s, pawl_outcome_name(o), name, line);
    expect_words(s, pawl_outcome_message(o), words, line);
    expect_text(s, pawl_outcome_value(o), "null", line);
    pawl_outcome_free(o);
}

void fixture_held(engine_fixture *s, pawl *p, const char *id, const char *words, int line)
{
    pawl_outcome *o = await_end(s, p, id, PAWL_HELD, line);
    expect_words(s, pawl_outcome_message(o), words, line);
    pawl_outcome_free(o);
}

static int put_event(const pawl_event *e, void *arg)
{
    char *line = arg;
    size_t used = strlen(line);
    if (pawl_event_seq(e) > 1)
        snprintf(line + used, HISTORY_MAX - used, "%s%s%s%s", used ? " " : "", pawl_event_kind(e),
                 pawl_event_name(e)[0] ? ":" : "", pawl_event_name(e));
    return 0;
}

void fixture_history(engine_fixture *s, pawl *p, const char *id, const char *wanted, int line)
{
    char *got = calloc(1, HISTORY_MAX);
    FIXTURE_CHECK(s, got);
    fixture_code(s, p, pawl_history(p, id, 0, 0, put_event, got), PAWL_OK, line);
    expect_text(s, got, wanted, line);
    free(got);
}

/* ---- What was executed ---- */

void fixture_note(engine_fixture *s, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    int fd = open(s->notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    FIXTURE_CHECK(s, fd >= 0 && size > 0 && size < (int)sizeof text - 1);
    text[size++] = '\n';
    FIXTURE_CHECK(s, write(fd, text, (size_t)size) == size);
    close(fd);
    dawdle_at("notes");
}

/* All recorded lines; the caller frees the memory. */
static char *read_notes(engine_fixture *s)
{
    char *text = calloc(1, NOTES_MAX);
    FIXTURE_CHECK(s, text);
    int fd = open(s->notes, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return text;
    ssize_t size = read(fd, text, NOTES_MAX - 1);
    FIXTURE_CHECK(s, size >= 0 && size < NOTES_MAX - 1);
    close(fd);
    return text;
}

int fixture_count(engine_fixture *s, const char *text)
{
    int count = 0;
    char *all = read_notes(s), *rest = NULL;
    for (char *line = strtok_r(all, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        count += strcmp(line, text) == 0;
    free(all);
    return count;
}

void fixture_notes(engine_fixture *s, const char *wanted, int line)
{
    char *all = read_notes(s);
    size_t size = strlen(all);
    if (size > 0)
        all[size - 1] = '\0';
    for (char *at = all; *at; at++)
        if (*at == '\n')
            *at = ' ';
    expect_text(s, all, wanted, line);
    free(all);
}

void fixture_notes_once(engine_fixture *s, const char *wanted, int line)
{
    char *all = read_notes(s), *rest = NULL, *to = all, *before = NULL;
    for (char *at = strtok_r(all, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        size_t size = strlen(at);
        if (before && strcmp(before, at) == 0)
            continue;
        if (before)
            to[-1] = ' ';
        before = memmove(to, at, size + 1);
        to += size + 1;
    }
    *to = '\0';
    expect_text(s, all, wanted, line);
    free(all);
}

void fixture_clear_notes(engine_fixture *s)
{
    unlink(s->notes);
}

const char *fixture_echo(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "%s", pawl_work_name(work));
    return input;
}

const char *fixture_echo_input(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "%s-%s", pawl_work_name(work), input);
    return input;
}

/* ---- Other processes ---- */

typedef struct child_call {
    engine_fixture *fixture;
    fixture_body *body;
    void *arg;
} child_call;

static void run_child(int in, int out, void *arg)
{
    child_call *call = arg;
    call->fixture->in = in;
    call->fixture->out = out;
    call->body(call->fixture, call->arg);
}

tmp_child fixture_fork(engine_fixture *s, fixture_body *body, void *arg)
{
    child_call call = {s, body, arg};
    return tmp_fork(run_child, &call);
}

void fixture_send_byte(engine_fixture *s, char what)
{
    tmp_tell(s->out, what);
}

void fixture_send_and_await(engine_fixture *s, char what)
{
    fixture_send_byte(s, what);
    while (tmp_hear(s->in) < 0)
        continue; /* the test has gone, or does not answer yet; the watchdog ends this loop */
}

int fixture_poll_until_byte(engine_fixture *s, pawl *p)
{
    struct pollfd fd = {s->in, POLLIN, 0};
    fixture_poll(s, p);
    return poll(&fd, 1, 1) == 0;
}
