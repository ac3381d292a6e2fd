/* The floor on PostgreSQL: the quickest way that is known to write rows, without anything else.
 *
 * Many rows are arrays in binary format and one INSERT … SELECT FROM unnest(…) between BEGIN and
 * COMMIT, sent together and answered together: one trip per transaction. A single row is one
 * prepared statement that checks its run's fence and inserts, one trip, committed by itself. What
 * a session of pawl's has set for itself is read from one, applied here and read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "pq.h"

enum { COLUMNS = 8, NUMBER_OID = 20, TEXT_OID = 25, BYTES_OID = 17 };

/* ---- Rows in memory ---- */

static floor_rows *rows_new(PGconn *conn)
{
    int64_t count = pq_number(conn, "SELECT count(*) FROM pawl.journal");
    int64_t bytes = pq_number(conn, "SELECT coalesce(sum(octet_length(name) + "
                                    "coalesce(length(data), 0)), 0) FROM pawl.journal");
    return floor_rows_new((size_t)count, (size_t)bytes);
}

static slice field(PGresult *result, int column)
{
    if (PQgetisnull(result, 0, column))
        return (slice){NULL, 0};
    return (slice){PQgetvalue(result, 0, column), (size_t)PQgetlength(result, 0, column)};
}

static void row_keep(floor_rows *r, PGresult *result)
{
    floor_row *to = floor_rows_add(r, field(result, 7), field(result, 8));
    int64_t *numbers[] = {&to->run, &to->generation, &to->seq,  &to->kind,
                          &to->at,  &to->enc,        &to->fence};
    for (int i = 0; i < 7; i++)
        *numbers[i] = pq_int64(PQgetvalue(result, 0, i));
}

static void journal_read(PGconn *conn, floor_rows *r)
{
    static const char sql[] =
        "SELECT j.run, j.generation, j.seq, j.kind, j.at, j.enc, r.fence, j.name, j.data"
        " FROM pawl.journal j JOIN pawl.runs r ON r.run = j.run ORDER BY j.pos";
    if (!PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1) || !PQsetSingleRowMode(conn))
        bench_die("floor: %s", PQerrorMessage(conn));
    for (PGresult *result = PQgetResult(conn); result; result = PQgetResult(conn)) {
        pq_check(conn, result, sql);
        if (PQntuples(result) == 1)
            row_keep(r, result);
        PQclear(result);
    }
}

static void runs_read(PGconn *conn, buf *out)
{
    char *piece = NULL;
    int size;
    pq_run(conn, "COPY pawl.runs TO STDOUT");
    while ((size = PQgetCopyData(conn, &piece, 0)) > 0) {
        buf_add(out, (slice){piece, (size_t)size});
        PQfreemem(piece);
    }
    PQclear(pq_check(conn, PQgetResult(conn), "read the runs"));
    if (out->failed)
        bench_die("floor: too many runs");
}

static void runs_write(PGconn *conn, const buf *runs)
{
    pq_run(conn, "COPY pawl.runs FROM STDIN");
    if (PQputCopyData(conn, runs->at, (int)runs->size) != 1 || PQputCopyEnd(conn, NULL) != 1)
        bench_die("floor: %s", PQerrorMessage(conn));
    for (PGresult *result = PQgetResult(conn); result; result = PQgetResult(conn))
        PQclear(pq_check(conn, result, "write the runs"));
}

static floor_rows *read_rows(const bench_db *source)
{
    PGconn *conn = pq_open(source->url);
    floor_rows *r = rows_new(conn);
    journal_read(conn, r);
    floor_rows_complete(r);
    runs_read(conn, &r->runs);
    pq_close(conn);
    return r;
}

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

/* As pawl finds its own: tables and runs are there, nothing is left to be written back. */
static PGconn *bare_open(const bench_db *fresh, const floor_rows *rows)
{
    settings set;
    tables_make(fresh, &set);
    PGconn *conn = pq_open(fresh->url);
    if (rows)
        runs_write(conn, &rows->runs);
    settings_apply(conn, &set);
    return conn;
}

/* ---- Many rows in a transaction: arrays ---- */

typedef struct column {
    char *at;
    size_t size;
    size_t room;
} column;

typedef struct loop {
    PGconn *conn;
    column columns[COLUMNS];
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

static void column_number(column *c, int64_t value)
{
    char *to = column_extend(c, 12);
    pq_put_int32(to, 8);
    pq_put_int64(to + 4, value);
}

static void column_bytes(column *c, const char *from, int size)
{
    char *to = column_extend(c, 4 + (size > 0 ? (size_t)size : 0));
    pq_put_int32(to, size);
    if (size > 0)
        memcpy(to + 4, from, (size_t)size);
}

static void columns_fill(column *c, const floor_rows *r, size_t from, size_t to)
{
    static const int oids[COLUMNS] = {NUMBER_OID, NUMBER_OID, NUMBER_OID, NUMBER_OID,
                                      TEXT_OID,   NUMBER_OID, NUMBER_OID, BYTES_OID};
    for (int i = 0; i < COLUMNS; i++)
        column_begin(&c[i], oids[i], to - from);
    for (size_t i = from; i < to; i++) {
        const floor_row *row = &r->rows[i];
        column_number(&c[0], row->run);
        column_number(&c[1], row->generation);
        column_number(&c[2], row->seq);
        column_number(&c[3], row->kind);
        column_bytes(&c[4], r->bytes + row->name, row->name_size);
        column_number(&c[5], row->at);
        column_number(&c[6], row->enc);
        column_bytes(&c[7], r->bytes + row->data, row->data_size);
    }
}

static void loop_prepare(loop *l, PGconn *conn, const char *table)
{
    char sql[400];
    snprintf(sql, sizeof sql,
             "INSERT INTO %s (run, generation, seq, kind, name, at, enc, data) SELECT * FROM "
             "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], "
             "$6::bigint[], $7::bigint[], $8::bytea[])",
             table);
    *l = (loop){.conn = conn};
    pq_prepare(conn, "begin", "BEGIN");
    pq_prepare(conn, "rows", sql);
    pq_prepare(conn, "commit", "COMMIT");
    if (!PQenterPipelineMode(conn))
        bench_die("floor: no pipeline");
}

static void loop_free(loop *l)
{
    for (int i = 0; i < COLUMNS; i++)
        free(l->columns[i].at);
}

/* One transaction of rows `from` to `to`: three statements, one trip. */
static void batch_write(loop *l, const floor_rows *r, size_t from, size_t to)
{
    static const int formats[COLUMNS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const char *values[COLUMNS];
    int sizes[COLUMNS];
    columns_fill(l->columns, r, from, to);
    for (int i = 0; i < COLUMNS; i++) {
        values[i] = l->columns[i].at;
        sizes[i] = (int)l->columns[i].size;
    }
    if (!PQsendQueryPrepared(l->conn, "begin", 0, NULL, NULL, NULL, 0) ||
        !PQsendQueryPrepared(l->conn, "rows", COLUMNS, values, sizes, formats, 0) ||
        !PQsendQueryPrepared(l->conn, "commit", 0, NULL, NULL, NULL, 0) || !PQpipelineSync(l->conn))
        bench_die("floor: %s", PQerrorMessage(l->conn));
    for (int i = 0; i < 3; i++) {
        PQclear(pq_check(l->conn, PQgetResult(l->conn), "floor: a batch"));
        PQclear(PQgetResult(l->conn)); /* NULL: the end of one statement's results */
    }
    PQclear(pq_check(l->conn, PQgetResult(l->conn), "floor: a batch"));
}

static floor_result write_batches(PGconn *conn, const bench_db *d, const char *table,
                                  const floor_rows *r, size_t batch)
{
    loop l;
    loop_prepare(&l, conn, table);
    floor_watch w = floor_begin(d);
    for (size_t i = 0; i < r->count; i += batch)
        batch_write(&l, r, i, i + batch < r->count ? i + batch : r->count);
    floor_result result = floor_end(&w, r);
    loop_free(&l);
    return result;
}

/* ---- One row in a transaction: a statement that checks and inserts ---- */

static void single_prepare(PGconn *conn)
{
    pq_prepare(conn, "row",
               "INSERT INTO pawl.journal (run, generation, seq, kind, name, at, enc, data) "
               "SELECT $1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::text, $6::bigint, "
               "$7::bigint, $8::bytea "
               "WHERE EXISTS (SELECT 1 FROM pawl.runs WHERE run = $1 AND fence = $9::bigint)");
}

static void single_write(void *arg, const floor_rows *r, size_t i)
{
    static const int formats[COLUMNS + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    PGconn *conn = arg;
    const floor_row *row = &r->rows[i];
    const int64_t numbers[] = {row->run, row->generation, row->seq, row->kind, 0,
                               row->at,  row->enc,        0,        row->fence};
    char bytes[COLUMNS + 1][8];
    const char *values[COLUMNS + 1];
    int sizes[COLUMNS + 1];
    for (int k = 0; k <= COLUMNS; k++) {
        pq_put_int64(bytes[k], numbers[k]);
        values[k] = bytes[k];
        sizes[k] = 8;
    }
    values[4] = r->bytes + row->name;
    sizes[4] = row->name_size;
    values[7] = row->data_size < 0 ? NULL : r->bytes + row->data;
    sizes[7] = row->data_size < 0 ? 0 : row->data_size;
    PGresult *result = PQexecPrepared(conn, "row", COLUMNS + 1, values, sizes, formats, 0);
    pq_check(conn, result, "floor: a row");
    if (strcmp(PQcmdTuples(result), "1") != 0)
        bench_die("floor: a row was not inserted");
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
    floor_result result = batch == 1
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
           "name text COLLATE \"C\", at bigint, enc bigint, data bytea)");
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
    .read = read_rows,
    .write = write_rows,
    .limit = limit,
    .commit_us = commit_us,
    .explain = explain,
};
