/* Runs conformance tests on each backend, and has the helpers that they share. The backends stand
 * in one table; what a driver promises is asked of the driver itself. */
#include "support/conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Backends ---- */

typedef struct backend {
    const char *name;
    const char *url; /* a format that takes the test's folder; NULL: a database of a server */
} backend;

static const backend BACKENDS[] = {
    {"sqlite", "sqlite:%s/conf.db"},
    {"memory", "memory:"},
    {"postgres", NULL},
};

/* What the tests of one backend have in common, found out when the first of them runs. */
typedef struct ground {
    const backend *backend;
    pgserver *server;             /* NULL: not started yet, or none is needed */
    int reuses;                   /* 1: all cases use one database (conf_run_reused()) */
    char database[PGSERVER_NAME]; /* the name of that database; "": not made yet */
    int asked;  /* 1: ask_promises() has tried to open a database of this backend */
    int opened; /* 1: that has worked, and `promises` is what its driver promises */
    unsigned promises;
} ground;

/* One test on one backend, while it runs. */
typedef struct running {
    ground *ground;
    const conf_case *test;
    char name[160];
    conf conf;
} running;

static void place_in_folder(conf *c, const char *format)
{
    const char *mark = strstr(format, "%s");
    int head = mark ? (int)(mark - format) : (int)strlen(format);
    int n = snprintf(c->url, sizeof c->url, "%.*s%s%s", head, format, mark ? c->dir : "",
                     mark ? mark + 2 : "");
    assert_in_range(n, 1, sizeof c->url - 1);
}

/* Gives the test a database of the server, which is started first if necessary. Databases are not
 * dropped: that takes longer than making them, and they go with the server. */
static void place_on_server(conf *c, ground *g)
{
    if (!g->server)
        g->server = pgserver_start(NULL);
    else if (pgserver_pid(g->server) ==
             0) /* an earlier test has stopped the server, and then failed */
        pgserver_restart(g->server);
    c->server = g->server;
    if (!g->database[0])
        pgserver_database(g->server, c->database);
    else
        memcpy(c->database, g->database, sizeof c->database);
    pgserver_url(g->server, c->database, c->url);
}

/* Where the cases use one database: keeps that of the first case. Before each later case its tables
 * are emptied, and `meta` gets the rows back that it had at first. */
static void keep_database(conf *c, ground *g)
{
    if (!g->reuses || !c->server)
        return;
    if (g->database[0]) {
        pgserver_exec(c->server, c->database,
                      "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE"
                      " schemaname = 'pawl' LOOP EXECUTE 'DELETE FROM pawl.' || t; END LOOP;"
                      " INSERT INTO pawl.meta SELECT * FROM public.first_meta; END $$");
        return;
    }
    db_close(conf_open(c, NULL));
    pgserver_exec(c->server, c->database, "CREATE TABLE public.first_meta AS TABLE pawl.meta");
    memcpy(g->database, c->database, sizeof g->database);
}

static void conf_place(conf *c, ground *g)
{
    memset(c, 0, sizeof *c);
    c->backend = g->backend->name;
    c->promises = g->promises;
    tmp_dir_make(c->dir);
    if (g->backend->url)
        place_in_folder(c, g->backend->url);
    else
        place_on_server(c, g);
}

/* Asks a driver for its promises, once for each backend, by opening a database. If that fails, all
 * tests of the backend fail: otherwise all would be skipped, as if it promised nothing. */
static void ask_promises(ground *g)
{
    if (!g->asked) {
        g->asked = 1;
        conf c;
        conf_place(&c, g);
        error err = {0};
        db *d = NULL;
        db_options options = {.url = c.url};
        g->opened = db_open(&d, &options, &err) == PAWL_OK;
        g->promises = g->opened ? d->driver->promises : 0;
        if (!g->opened)
            fprintf(stderr, "%s: %s (%s)\n", c.backend, err.message, err.detail);
        db_close(d);
        tmp_dir_remove(c.dir);
    }
    if (!g->opened)
        fail_msg("no database of the backend %s can be opened", g->backend->name);
}

/* Does the test run on this backend? Where it may, the promises of the backend are known
 * afterwards. */
static int is_meant(running *r)
{
    if (!r->ground->backend->url && !pgserver_available())
        return 0;
    ask_promises(r->ground);
    return (r->test->needs & r->ground->promises) == r->test->needs;
}

static int set_up(void **state)
{
    running *r = *state;
    tmp_watchdog(r->name);
    if (is_meant(r)) {
        conf_place(&r->conf, r->ground);
        keep_database(&r->conf, r->ground);
    }
    return 0;
}

static int tear_down(void **state)
{
    running *r = *state;
    tmp_watchdog(NULL);
    tmp_end_children();
    if (r->conf.dir[0])
        tmp_dir_remove(r->conf.dir);
    return 0;
}

static void run_case(void **state)
{
    running *r = *state;
    if (!r->ground->backend->url)
        pgserver_need();
    if (!is_meant(r))
        skip();
    r->test->run(&r->conf);
}

static int run_backend(const backend *b, const conf_case *cases, size_t count, int reuses)
{
    const char *wanted = getenv("PAWL_TEST_CASE");
    ground g = {.backend = b, .reuses = reuses};
    running *all = calloc(count, sizeof *all);
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    size_t used = 0;
    int failed = 1;
    if (all && tests) {
        for (size_t i = 0; i < count; i++) {
            running *r = &all[used];
            if (wanted && !strstr(cases[i].name, wanted))
                continue;
            *r = (running){.ground = &g, .test = &cases[i]};
            snprintf(r->name, sizeof r->name, "%s: %s", b->name, cases[i].name);
            tests[used++] = (struct CMUnitTest){r->name, run_case, set_up, tear_down, r};
        }
        failed = _cmocka_run_group_tests(b->name, tests, used, NULL, NULL);
    }
    pgserver_free(g.server);
    free(tests);
    free(all);
    return failed;
}

static int run_on(const char *name, const conf_case *cases, size_t count, int reuses)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
    int failed = 0;
    for (size_t i = 0; i < sizeof BACKENDS / sizeof *BACKENDS; i++)
        if (!name || strcmp(name, BACKENDS[i].name) == 0)
            failed += run_backend(&BACKENDS[i], cases, count, reuses);
    return failed;
}

int conf_run_on(const char *name, const conf_case *cases, size_t count)
{
    return run_on(name, cases, count, 0);
}

int conf_run_reused(const conf_case *cases, size_t count)
{
    return run_on(getenv("PAWL_TEST_BACKEND"), cases, count, 1);
}

int conf_run(const conf_case *cases, size_t count)
{
    return conf_run_on(getenv("PAWL_TEST_BACKEND"), cases, count);
}

/* ---- Databases ---- */

void conf_ok(pawl_code code, const error *err, const char *file, int line)
{
    if (code != PAWL_OK)
        fail_msg("%s:%d: %s: %s (%s)", file, line, pawl_code_name(code), err->message, err->detail);
}

db *conf_open(const conf *c, const db_options *options)
{
    db_options o = options ? *options : (db_options){0};
    o.url = c->url;
    o.claim_ms = o.claim_ms ? o.claim_ms : CONF_CLAIM_MS;
    error err = {0};
    db *d = NULL;
    CONF_OK(db_open(&d, &o, &err), &err);
    assert_non_null(d);
    return d;
}

db *conf_open_fault(const conf *c, const db_options *options, db_fault *plan)
{
    db *d = db_fault_wrap(conf_open(c, options), plan);
    assert_non_null(d);
    return d;
}

db_conn *conf_connect(db *d, db_role role)
{
    error err = {0};
    db_conn *c = NULL;
    CONF_OK(db_connect(d, role, &c, &err), &err);
    assert_non_null(c);
    return c;
}

committer *conf_committer(db *d, const committer_options *options)
{
    error err = {0};
    committer *k = NULL;
    CONF_OK(committer_open(&k, d, options, &err), &err);
    assert_non_null(k);
    return k;
}

void conf_begin(db_conn *c)
{
    error err = {0};
    CONF_OK(db_begin(c, &err), &err);
}

void conf_commit(db_conn *c)
{
    error err = {0};
    CONF_OK(db_commit(c, &err), &err);
}

/* Where a writer does not keep committers out by itself (PostgreSQL), table locks do. PAWL_BUSY:
 * the server has one of the tables locked, for instance to vacuum it; try again. */
static pawl_code lock_tables(db_conn *c, error *err)
{
    if (c->driver->promises & DB_TURNS)
        return PAWL_OK;
    buf sql;
    buf_init(&sql, 1024);
    CONF_OK(db_expand(c->driver,
                      "LOCK TABLE {meta}, {commits}, {journal}, {runs} IN EXCLUSIVE MODE", &sql,
                      err),
            err);
    pawl_code rc = c->driver->script(c, buf_str(&sql), err);
    buf_free(&sql);
    if (rc != PAWL_OK)
        db_rollback(c);
    return rc;
}

db_conn *conf_lock(db *d)
{
    error err = {0};
    pawl_code rc;
    db_conn *c = conf_connect(d, DB_WRITER);
    TMP_AWAIT((conf_begin(c), rc = lock_tables(c, &err)) != PAWL_BUSY);
    CONF_OK(rc, &err);
    return c;
}

void conf_unlock(db_conn *c)
{
    db_rollback(c);
    db_disconnect(c);
}

void conf_do(db *d, const db_sql *sql, const db_value *values, int count)
{
    error err = {0};
    db_conn *c = conf_connect(d, DB_WRITER);
    conf_begin(c);
    CONF_OK(db_run(c, sql, values, count, &err), &err);
    conf_commit(c);
    db_disconnect(c);
}

void conf_script(db *d, const char *text)
{
    error err = {0};
    buf sql;
    buf_init(&sql, 64 * 1024);
    CONF_OK(db_expand(d->driver, text, &sql, &err), &err);
    db_conn *c = conf_connect(d, DB_WRITER);
    conf_begin(c);
    CONF_OK(c->driver->script(c, buf_str(&sql), &err), &err);
    conf_commit(c);
    db_disconnect(c);
    buf_free(&sql);
}

void conf_change(conf *c, const char *sqlite, const char *postgres)
{
    error err = {0};
    if (c->server) {
        pgserver_exec(c->server, c->database, postgres);
        return;
    }
    db *d = conf_open(c, NULL);
    db_conn *conn = conf_connect(d, DB_WRITER);
    CONF_OK(db_begin(conn, &err), &err);
    CONF_OK(conn->driver->script(conn, sqlite, &err), &err);
    CONF_OK(db_commit(conn, &err), &err);
    db_disconnect(conn);
    db_close(d);
}

int64_t conf_number_on(db_conn *c, const db_sql *sql, const db_value *values, int count)
{
    error err = {0};
    int64_t number = 0;
    int found = 0;
    CONF_OK(db_number(c, sql, values, count, &number, &found, &err), &err);
    assert_true(found);
    return number;
}

int64_t conf_number(db *d, const db_sql *sql, const db_value *values, int count)
{
    db_conn *c = conf_connect(d, DB_READER);
    conf_begin(c);
    int64_t number = conf_number_on(c, sql, values, count);
    db_rollback(c);
    db_disconnect(c);
    return number;
}

/* ---- Units that append ---- */

const db_sql CONF_APPEND = {
    "INSERT INTO {journal} (run, generation, seq, kind, name, at, data)"
    " VALUES ($1, 1, $2, 1, $3, 0, $4) RETURNING pos",
    "iitb",
};

void conf_append(unit *u, int64_t run, int64_t seq)
{
    unit_write(u, &CONF_APPEND, unit_key("journal", run),
               VALUES(db_int(run), db_int(seq), NAME("row"), db_null()));
}

int64_t conf_rows(db *d, int64_t run)
{
    static const db_sql sql = {"SELECT count(*) FROM {journal} WHERE run = $1", "i"};
    return conf_number(d, &sql, (db_value[]){db_int(run)}, 1);
}

void conf_make_run(db *d, int64_t run, int64_t mail)
{
    static const db_sql sql = {
        "INSERT INTO {runs} (run, tenant, id, workflow, version, mail, created_at, updated_at)"
        " VALUES ($1, '', $2, 'test', '1', $3, 0, 0)",
        "iti",
    };
    char id[32];
    snprintf(id, sizeof id, "run-%lld", (long long)run);
    conf_do(d, &sql, (db_value[]){db_int(run), db_text(slice_of(id)), db_int(mail)}, 3);
}

static void count_answer(unit *u, void *arg)
{
    conf_ticket *t = arg;
    if (atomic_load(&t->finals) > 0)
        atomic_fetch_add(&t->late, 1);
    atomic_store(&t->answer, u->answer);
    if (u->answer == UNIT_UNDECIDED)
        atomic_fetch_add(&t->undecided, 1);
    else
        atomic_fetch_add(&t->finals, 1);
}

void conf_ticket_open(conf_ticket *t, size_t limit)
{
    memset(t, 0, sizeof *t);
    t->arena = arena_new(limit);
    assert_non_null(t->arena);
    t->unit = unit_new(t->arena);
    assert_non_null(t->unit);
    t->unit->done = count_answer;
    t->unit->done_arg = t;
}

void conf_ticket_append(conf_ticket *t, int64_t run, int64_t seq, submitter *s)
{
    conf_ticket_open(t, 0);
    t->unit->submitter = s;
    db_value values[] = {db_int(run), db_int(seq), db_text(SLICE_LIT("row")), db_null()};
    unit_write(t->unit, &CONF_APPEND, unit_key("journal", run), values, DB_COUNT(values));
}

void conf_tickets_open(conf_ticket *t, size_t count)
{
    for (size_t i = 0; i < count; i++)
        conf_ticket_open(&t[i], 0);
}

void conf_ticket_append_class(conf_ticket *t, int64_t run, int64_t seq, unit_class class)
{
    conf_ticket_append(t, run, seq, NULL);
    t->unit->class = class;
}

void conf_ticket_free(conf_ticket *t)
{
    arena_free(t->arena);
    t->arena = NULL;
    t->unit = NULL;
}

void conf_tickets_free(conf_ticket *t, size_t count)
{
    for (size_t i = 0; i < count; i++)
        conf_ticket_free(&t[i]);
}

static int all_answered(const conf_ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (atomic_load(&tickets[i].finals) == 0)
            return 0;
    return 1;
}

void conf_drive(committer *k, clock_fake *clock, const conf_ticket *tickets, size_t count)
{
    for (int rounds = 0; !all_answered(tickets, count); rounds++) {
        if (rounds == 10000)
            fail_msg("driven 10000 times and still not answered");
        committer_drive(k);
        int64_t next = committer_next_ns(k);
        if (!clock || next == 0 || next == INT64_MAX)
            continue;
        clock_source *source = clock_fake_source(clock);
        int64_t wait = next - source->mono_ns(source);
        if (wait > 0)
            clock_fake_advance(clock, wait / 1000000 + 1);
    }
}

void conf_answer(const conf_ticket *t, unit_answer wanted, const char *file, int line)
{
    static const char *const NAMES[] = {"open", "committed", "refused", "undecided", "failed"};
    int finals = atomic_load(&t->finals);
    unit_answer answer = atomic_load(&t->answer);
    if (finals != 1 || atomic_load(&t->late) != 0 || answer != wanted)
        fail_msg("%s:%d: expected '%s' once, got '%s', %d times (%s)", file, line, NAMES[wanted],
                 NAMES[answer], finals, t->unit && t->unit->message ? t->unit->message : "");
    if (atomic_load(&t->undecided) > 1)
        fail_msg("%s:%d: undecided twice", file, line);
}
