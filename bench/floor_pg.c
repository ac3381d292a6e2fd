/* The floor on PostgreSQL: the quickest way that is known to write rows, without anything else.
 *
 * Many rows are arrays in binary format and one INSERT … SELECT FROM unnest(…) between BEGIN and
 * COMMIT, sent together and answered together: one trip per transaction. Where runs are written
 * too, an INSERT of their beginnings goes before it, and an UPDATE … FROM unnest(…) for their ends
 * behind it. A single row is one prepared statement that checks its run's fence and inserts, one
 * trip, committed by itself. What a session of pawl's has set for itself is read from one, applied
 * here and read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "pq.h"

enum { COLUMNS_MAX = 12, BATCH_BEFORE = 1000, NUMBER_OID = 20, TEXT_OID = 25, BYTES_OID = 17 };

static const char OWN_TABLE[] = "CREATE TABLE public.bench_rows (id bigint PRIMARY KEY, data text)";
static const char OWN_INSERT[] = "INSERT INTO public.bench_rows (id, data) VALUES ($1, $2)";

/* ---- The bare connection ---- */

enum { SETTINGS_MAX = 32 };

typedef struct setting {
    char name[64];
    char value[128];
} setting;

typedef struct settings {
    setting at[SETTINGS_MAX];
    int count;
} settings;

static const db_sql SESSION_SETTINGS = {
    "SELECT name, setting FROM pg_settings WHERE source IN ('session', 'client')"
    " AND name NOT LIKE 'transaction_%' ORDER BY name",
    ""};

static void setting_keep(settings *out, slice name, slice value)
{
    if (out->count == SETTINGS_MAX)
        bench_die("floor: a session has too many settings");
    setting *s = &out->at[out->count++];
    snprintf(s->name, sizeof s->name, "%.*s", (int)name.size, name.at);
    snprintf(s->value, sizeof s->value, "%.*s", (int)value.size, value.at);
}

/* pawl makes the tables; the connection of a committer tells its settings, those that last for
 * one transaction included. */
static void tables_make(const bench_db *fresh, settings *out)
{
    db_options options = {.url = fresh->url};
    error err = {.code = PAWL_OK};
    db *d = NULL;
    db_conn *c = NULL;
    db_stmt *s = NULL;
    out->count = 0;
    bench_check(db_open(&d, &options, &err), &err, "floor: open");
    bench_check(db_connect(d, DB_COMMITTER, &c, &err), &err, "floor: connect");
    bench_check(db_begin(c, &err), &err, "floor: begin");
    bench_check(db_prepare(c, &SESSION_SETTINGS, &s, &err), &err, "floor: settings");
    while (db_next(s, &err) == DB_ROW)
        setting_keep(out, db_column(s, 0).s, db_column(s, 1).s);
    db_reset(s);
    db_rollback(c);
    db_disconnect(c);
    db_close(d);
    bench_check(err.code, &err, "floor: settings");
}

static void settings_apply(PGconn *conn, const settings *set)
{
    for (int i = 0; i < set->count; i++) {
        const char *values[] = {set->at[i].name, set->at[i].value};
        static const char sql[] = "SELECT set_config($1, $2, false), current_setting($1)";
        PGresult *result = PQexecParams(conn, sql, 2, NULL, values, NULL, NULL, 0);
        if (PQresultStatus(result) != PGRES_TUPLES_OK)
            fprintf(stderr, "bench: warning: %s is %s for pawl, and cannot be for the floor\n",
                    values[0], values[1]);
        PQclear(result);
    }
}

static void runs_write(PGconn *conn, const buf *runs)
{
    pq_run(conn, "COPY pawl.runs FROM STDIN");
    if (PQputCopyData(conn, runs->at, (int)runs->size) != 1 || PQputCopyEnd(conn, NULL) != 1)
        bench_die("floor: %s", PQerrorMessage(conn));
    for (PGresult *result = PQgetResult(conn); result; result = PQgetResult(conn))
        PQclear(pq_check(conn, result, "write the runs"));
}

/* As pawl finds its own: tables are there, and runs, unless they are written too; nothing is left
 * to be written back. */
static PGconn *bare_open(const bench_db *fresh, const floor_rows *rows)
{
    settings set;
    tables_make(fresh, &set);
    PGconn *conn = pq_open(fresh->url);
    if (rows && !rows->lives)
        runs_write(conn, &rows->runs);
    if (rows && rows->own > 0)
        pq_run(conn, OWN_TABLE);
    settings_apply(conn, &set);
    return conn;
}

/* ---- Many rows in a transaction: arrays ---- */

typedef struct column {
    char *at;
    size_t size;
    size_t room;
} column;

/* What a statement takes, a letter per column: i a number, n one or NULL, t text, b bytes. */
typedef struct statement {
    const char *name;
    const char *types;
    const char *many; /* of arrays (of JOURNAL: behind the name of its table) … */
    const char *one;  /* … and of single values */
} statement;

static const statement STATEMENTS[] = {
    [FLOOR_JOURNAL] = {"row", "iiiiitiib",
                       "(run, generation, seq, kind, op, name, at, enc, data) "
                       "SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], "
                       "$4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], "
                       "$9::bytea[])",
                       NULL},
    [FLOOR_START] = {"start", "iiitttttbnnn",
                     "INSERT INTO pawl.runs (run, owner, fence, wake_at, created_at, updated_at, "
                     "tenant, id, workflow, version, by, input, parent, parent_generation, "
                     "parent_op) SELECT run, owner, 1, at, at, at, tenant, id, workflow, version, "
                     "by, input, parent, parent_generation, parent_op FROM unnest($1::bigint[], "
                     "$2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], "
                     "$7::text[], $8::text[], $9::bytea[], $10::bigint[], $11::bigint[], "
                     "$12::bigint[]) AS s (run, owner, at, tenant, id, workflow, version, by, "
                     "input, parent, parent_generation, parent_op)",
                     "INSERT INTO pawl.runs (run, owner, fence, wake_at, created_at, updated_at, "
                     "tenant, id, workflow, version, by, input, parent, parent_generation, "
                     "parent_op) VALUES ($1::bigint, $2::bigint, 1, $3::bigint, $3, $3, $4::text, "
                     "$5::text, $6::text, $7::text, $8::text, $9::bytea, $10::bigint, "
                     "$11::bigint, $12::bigint)"},
    [FLOOR_END] = {"end", "iiibt",
                   "UPDATE pawl.runs AS r SET phase = s.phase, owner = 0, wake_at = NULL, "
                   "updated_at = s.at, finished_at = s.at, output = s.output, error = s.error "
                   "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], "
                   "$5::text[]) AS s (run, phase, at, output, error) WHERE r.run = s.run",
                   "UPDATE pawl.runs SET phase = $2::bigint, owner = 0, wake_at = NULL, "
                   "updated_at = $3::bigint, finished_at = $3, output = $4::bytea, "
                   "error = $5::text WHERE run = $1::bigint AND fence = 1"},
    [FLOOR_OWN] = {"own", "it",
                   "INSERT INTO public.bench_rows (id, data) "
                   "SELECT * FROM unnest($1::bigint[], $2::text[])",
                   OWN_INSERT},
};

/* A value of a row, by its column's letter. */
typedef struct value {
    int64_t number;
    floor_text text;
} value;

/* The values of a row, in the order in which its statement takes them. */
static void row_values(const floor_rows *r, const floor_row *row, value out[COLUMNS_MAX])
{
    const floor_run *run = r->lives ? &r->lives[row->life] : NULL;
    if (row->what == FLOOR_JOURNAL) {
        const value all[] = {
            {.number = row->run},
            {.number = row->generation},
            {.number = row->seq},
            {.number = row->kind},
            {.number = row->op},
            {.text = {row->name, row->name_size}},
            {.number = row->at},
            {.number = row->enc},
            {.text = {row->data, row->data_size}},
        };
        memcpy(out, all, sizeof all);
    } else if (row->what == FLOOR_START) {
        const value all[] = {
            {.number = run->run},
            {.number = FLOOR_OWNER},
            {.number = run->created_ms},
            {.text = run->tenant},
            {.text = run->id},
            {.text = run->workflow},
            {.text = run->version},
            {.text = run->by},
            {.text = run->input},
            {.number = run->parent},
            {.number = run->parent_generation},
            {.number = run->parent_op},
        };
        memcpy(out, all, sizeof all);
    } else if (row->what == FLOOR_OWN) {
        const value all[] = {{.number = row->seq}, {.text = {row->data, row->data_size}}};
        memcpy(out, all, sizeof all);
    } else {
        const value all[] = {
            {.number = run->run},  {.number = run->phase}, {.number = run->finished_ms},
            {.text = run->output}, {.text = run->error},
        };
        memcpy(out, all, sizeof all);
    }
}

typedef struct loop {
    PGconn *conn;
    column columns[FLOOR_WHATS][COLUMNS_MAX];
} loop;

static char *column_extend(column *c, size_t size)
{
    if (c->size + size > c->room) {
        c->room = 2 * (c->size + size);
        c->at = realloc(c->at, c->room);
        if (!c->at)
            bench_die("floor: out of memory");
    }
    c->size += size;
    return c->at + c->size - size;
}

/* One dimension, with its type, its length and the number of its first element. */
static void column_begin(column *c, int oid, size_t count)
{
    const int32_t head[] = {1, 1, oid, (int32_t)count, 1};
    c->size = 0;
    char *to = column_extend(c, sizeof head);
    for (int i = 0; i < 5; i++)
        pq_put_int32(to + (size_t)i * 4, head[i]);
}

static void column_number(column *c, int64_t number)
{
    char *to = column_extend(c, 12);
    pq_put_int32(to, 8);
    pq_put_int64(to + 4, number);
}

static void column_bytes(column *c, const char *from, int size)
{
    char *to = column_extend(c, 4 + (size > 0 ? (size_t)size : 0));
    pq_put_int32(to, size);
    if (size > 0)
        memcpy(to + 4, from, (size_t)size);
}

static void column_optional(column *c, int64_t number)
{
    if (number != 0)
        column_number(c, number);
    else
        column_bytes(c, NULL, -1);
}

static int oid_of(char letter)
{
    return letter == 'i' || letter == 'n' ? NUMBER_OID : letter == 't' ? TEXT_OID : BYTES_OID;
}

/* The rows of one kind among `from` to `to`; how many there are. */
static size_t columns_fill(loop *l, floor_what what, const floor_rows *r, size_t from, size_t to)
{
    const char *types = STATEMENTS[what].types;
    column *c = l->columns[what];
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        count += r->rows[i].what == what;
    for (int k = 0; types[k]; k++)
        column_begin(&c[k], oid_of(types[k]), count);
    for (size_t i = from; i < to; i++) {
        value values[COLUMNS_MAX];
        if (r->rows[i].what != what)
            continue;
        row_values(r, &r->rows[i], values);
        for (int k = 0; types[k]; k++) {
            if (types[k] == 'i')
                column_number(&c[k], values[k].number);
            else if (types[k] == 'n')
                column_optional(&c[k], values[k].number);
            else
                column_bytes(&c[k], r->bytes + values[k].text.at, values[k].text.size);
        }
    }
    return count;
}

static void loop_prepare(loop *l, PGconn *conn, const char *table, const floor_rows *r)
{
    char sql[500];
    memset(l, 0, sizeof *l);
    l->conn = conn;
    pq_prepare(conn, "begin", "BEGIN");
    snprintf(sql, sizeof sql, "INSERT INTO %s %s", table, STATEMENTS[FLOOR_JOURNAL].many);
    pq_prepare(conn, STATEMENTS[FLOOR_JOURNAL].name, sql);
    pq_prepare(conn, STATEMENTS[FLOOR_START].name, STATEMENTS[FLOOR_START].many);
    pq_prepare(conn, STATEMENTS[FLOOR_END].name, STATEMENTS[FLOOR_END].many);
    if (r->own > 0)
        pq_prepare(conn, STATEMENTS[FLOOR_OWN].name, STATEMENTS[FLOOR_OWN].many);
    pq_prepare(conn, "commit", "COMMIT");
    if (!PQenterPipelineMode(conn))
        bench_die("floor: no pipeline");
}

static void loop_free(loop *l)
{
    for (int what = 0; what < FLOOR_WHATS; what++)
        for (int i = 0; i < COLUMNS_MAX; i++)
            free(l->columns[what][i].at);
}

static void send_plain(loop *l, const char *name)
{
    if (!PQsendQueryPrepared(l->conn, name, 0, NULL, NULL, NULL, 0))
        bench_die("floor: %s", PQerrorMessage(l->conn));
}

static const int BINARY[COLUMNS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* 1: sent. 0: there are no such rows. */
static int send_rows(loop *l, floor_what what, const floor_rows *r, size_t from, size_t to)
{
    const statement *s = &STATEMENTS[what];
    const char *values[COLUMNS_MAX];
    int sizes[COLUMNS_MAX], count = (int)strlen(s->types);
    if (columns_fill(l, what, r, from, to) == 0)
        return 0;
    for (int i = 0; i < count; i++) {
        values[i] = l->columns[what][i].at;
        sizes[i] = (int)l->columns[what][i].size;
    }
    if (!PQsendQueryPrepared(l->conn, s->name, count, values, sizes, BINARY, 0))
        bench_die("floor: %s", PQerrorMessage(l->conn));
    return 1;
}

/* One transaction of rows `from` to `to`: a statement for each kind of row, one trip. */
static void batch_write(loop *l, const floor_rows *r, size_t from, size_t to)
{
    int sent = 2;
    send_plain(l, "begin");
    sent += r->lives ? send_rows(l, FLOOR_START, r, from, to) : 0;
    sent += send_rows(l, FLOOR_JOURNAL, r, from, to);
    sent += r->own ? send_rows(l, FLOOR_OWN, r, from, to) : 0;
    sent += r->lives ? send_rows(l, FLOOR_END, r, from, to) : 0;
    send_plain(l, "commit");
    if (!PQpipelineSync(l->conn))
        bench_die("floor: %s", PQerrorMessage(l->conn));
    for (int i = 0; i < sent; i++) {
        PQclear(pq_check(l->conn, PQgetResult(l->conn), "floor: a batch"));
        PQclear(PQgetResult(l->conn)); /* NULL: the end of one statement's results */
    }
    PQclear(pq_check(l->conn, PQgetResult(l->conn), "floor: a batch"));
}

static void batches_write(loop *l, const floor_rows *r, size_t from, size_t end, size_t batch)
{
    for (size_t to; from < end; from = to) {
        to = floor_batch_end(r, from, batch, end);
        batch_write(l, r, from, to);
    }
}

static floor_result write_batches(PGconn *conn, const bench_db *d, const char *table,
                                  const floor_rows *r, size_t batch)
{
    loop l;
    loop_prepare(&l, conn, table, r);
    batches_write(&l, r, 0, r->before, BATCH_BEFORE);
    floor_watch w = floor_begin(d);
    batches_write(&l, r, r->before, r->count, batch);
    floor_result result = floor_end(&w, r);
    loop_free(&l);
    return result;
}

/* ---- One row in a transaction: a statement that checks and inserts ---- */

static void single_prepare(PGconn *conn)
{
    pq_prepare(conn, STATEMENTS[FLOOR_JOURNAL].name,
               "INSERT INTO pawl.journal (run, generation, seq, kind, op, name, at, enc, data) "
               "SELECT $1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::text, "
               "$7::bigint, $8::bigint, $9::bytea "
               "WHERE EXISTS (SELECT 1 FROM pawl.runs WHERE run = $1 AND fence = $10::bigint)");
    pq_prepare(conn, STATEMENTS[FLOOR_START].name, STATEMENTS[FLOOR_START].one);
    pq_prepare(conn, STATEMENTS[FLOOR_END].name, STATEMENTS[FLOOR_END].one);
}

static void single_write(void *arg, const floor_rows *r, size_t i)
{
    PGconn *conn = arg;
    const floor_row *row = &r->rows[i];
    const statement *s = &STATEMENTS[row->what];
    int count = (int)strlen(s->types);
    char bytes[COLUMNS_MAX][8];
    const char *at[COLUMNS_MAX];
    int sizes[COLUMNS_MAX];
    value values[COLUMNS_MAX];
    row_values(r, row, values);
    if (row->what == FLOOR_JOURNAL)
        values[count++].number = row->fence;
    for (int k = 0; k < count; k++) {
        if (!s->types[k] || s->types[k] == 'i' || s->types[k] == 'n') {
            pq_put_int64(bytes[k], values[k].number);
            at[k] = s->types[k] == 'n' && values[k].number == 0 ? NULL : bytes[k];
            sizes[k] = 8;
        } else {
            at[k] = values[k].text.size < 0 ? NULL : r->bytes + values[k].text.at;
            sizes[k] = values[k].text.size < 0 ? 0 : values[k].text.size;
        }
    }
    PGresult *result = PQexecPrepared(conn, s->name, count, at, sizes, BINARY, 0);
    pq_check(conn, result, "floor: a row");
    if (strcmp(PQcmdTuples(result), "1") != 0)
        bench_die("floor: a row was not written");
    PQclear(result);
}

static floor_result write_singles(PGconn *conn, const bench_db *d, const floor_rows *r)
{
    single_prepare(conn);
    floor_watch w = floor_begin(d);
    for (size_t i = 0; i < r->count; i++)
        single_write(conn, r, i);
    return floor_end(&w, r);
}

/* ---- What the benchmarks ask for ---- */

static floor_result write_rows(const bench_db *fresh, const floor_rows *rows, int batch)
{
    PGconn *conn = bare_open(fresh, rows);
    pq_run(conn, "CHECKPOINT");
    floor_result result = batch == 1 && rows->own == 0 && rows->before == 0
                              ? write_singles(conn, fresh, rows)
                              : write_batches(conn, fresh, "pawl.journal", rows, (size_t)batch);
    pq_close(conn);
    return result;
}

static floor_result limit(const bench_db *fresh, const floor_rows *rows, int batch)
{
    PGconn *conn = bare_open(fresh, NULL);
    pq_run(conn,
           "CREATE TABLE public.plain (run bigint, generation bigint, seq bigint, kind bigint, "
           "op bigint, name text COLLATE \"C\", at bigint, enc bigint, data bytea)");
    pq_run(conn, "CHECKPOINT");
    floor_result result = write_batches(conn, fresh, "public.plain", rows, (size_t)batch);
    pq_close(conn);
    return result;
}

static double commit_us(const bench_db *fresh, const floor_rows *rows, int commits)
{
    PGconn *conn = bare_open(fresh, rows);
    single_prepare(conn);
    pq_run(conn, "CHECKPOINT");
    double us = floor_p50_us(rows, commits, single_write, conn);
    pq_close(conn);
    return us;
}

static void settings_print(PGconn *conn, const char *title, const char *sql)
{
    PGresult *result = pq_check(conn, PQexec(conn, sql), sql);
    fputs(title, stderr);
    for (int i = 0; i < PQntuples(result); i++)
        fprintf(stderr, "%s %s=%s", i ? "," : "", PQgetvalue(result, i, 0),
                PQgetvalue(result, i, 1));
    fputc('\n', stderr);
    PQclear(result);
}

static void explain(const bench_db *fresh)
{
    PGconn *conn = bare_open(fresh, NULL);
    fprintf(stderr, "postgres %s", PQparameterStatus(conn, "server_version"));
    settings_print(conn, ", its server:",
                   "SELECT name, current_setting(name) FROM unnest(ARRAY['fsync', "
                   "'synchronous_commit', 'full_page_writes', 'shared_buffers', 'wal_buffers', "
                   "'max_wal_size', 'checkpoint_timeout', 'wal_sync_method', 'wal_level']) name");
    settings_print(conn, "settings of pawl's sessions and the floor's:",
                   "SELECT name, current_setting(name) FROM pg_settings"
                   " WHERE source IN ('session', 'client') AND name NOT LIKE"
                   " 'transaction_%' ORDER BY name");
    pq_close(conn);
}

const floor_kind FLOOR_POSTGRES = {
    .read = floor_pg_read,
    .read_lives = floor_pg_read_lives,
    .write = write_rows,
    .limit = limit,
    .commit_us = commit_us,
    .own_table = OWN_TABLE,
    .own_insert = OWN_INSERT,
    .explain = explain,
};
