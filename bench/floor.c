/* The floor on SQLite. Its settings are not written down here: they are read from a connection
 * that pawl made, applied to the bare one and read back, so that the two cannot drift apart. */
#include "floor.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "db/wal.h"

enum { BATCH_BEFORE = 1000 };

static void check(sqlite3 *file, int rc, const char *doing)
{
    if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE)
        bench_die("floor: %s: %s", doing, file ? sqlite3_errmsg(file) : sqlite3_errstr(rc));
}

static sqlite3 *file_open(const char *path)
{
    sqlite3 *file = NULL;
    int keep = 1;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    check(file, sqlite3_open_v2(path, &file, flags, NULL), path);
    check(file, sqlite3_busy_timeout(file, 5000), path);
    check(file, sqlite3_file_control(file, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep), path);
    return file;
}

static sqlite3_stmt *prepare(sqlite3 *file, const char *sql)
{
    sqlite3_stmt *s = NULL;
    check(file, sqlite3_prepare_v3(file, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL), sql);
    return s;
}

static void execute(sqlite3 *file, const char *sql)
{
    check(file, sqlite3_exec(file, sql, NULL, NULL, NULL), sql);
}

/* How many rows, and how many bytes of text they have. */
static size_t count_rows(sqlite3 *file, const char *sql, size_t *bytes)
{
    sqlite3_stmt *s = prepare(file, sql);
    check(file, sqlite3_step(s), "count the rows");
    size_t count = (size_t)sqlite3_column_int64(s, 0);
    *bytes += (size_t)sqlite3_column_int64(s, 1);
    sqlite3_finalize(s);
    return count;
}

static slice column_text(sqlite3_stmt *s, int column)
{
    slice text = {sqlite3_column_blob(s, column), (size_t)sqlite3_column_bytes(s, column)};
    if (!text.at && sqlite3_column_type(s, column) != SQLITE_NULL)
        text = SLICE_LIT("");
    return text;
}

static void runs_read(sqlite3 *file, floor_rows *r)
{
    sqlite3_stmt *s = prepare(file, "SELECT run, phase, created_at, finished_at, parent, "
                                    "parent_generation, parent_op, tenant, id, workflow, version, "
                                    "by, input, output, error FROM pawl_runs "
                                    "ORDER BY run");
    for (size_t i = 0; i < r->life_count; i++) {
        floor_run *run = &r->lives[i];
        int64_t *numbers[] = {&run->run,         &run->phase,  &run->created_ms,
                              &run->finished_ms, &run->parent, &run->parent_generation,
                              &run->parent_op};
        floor_text *texts[] = {&run->tenant, &run->id,    &run->workflow, &run->version,
                               &run->by,     &run->input, &run->output,   &run->error};
        check(file, sqlite3_step(s), "read the runs");
        for (int k = 0; k < 7; k++)
            *numbers[k] = sqlite3_column_int64(s, k);
        for (int k = 0; k < 8; k++)
            *texts[k] = floor_rows_text(r, column_text(s, 7 + k));
    }
    sqlite3_finalize(s);
}

static const char OWN_TABLE[] = "CREATE TABLE bench_rows (id INTEGER PRIMARY KEY, data TEXT)";
static const char OWN_INSERT[] = "INSERT INTO bench_rows (id, data) VALUES ($1, $2)";

/* How many rows of its own the application has, and how many bytes they are. */
static size_t own_count(sqlite3 *file, size_t *bytes)
{
    size_t ignored = 0;
    if (count_rows(file, "SELECT count(*), 0 FROM sqlite_schema WHERE name = 'bench_rows'",
                   &ignored) == 0)
        return 0;
    return count_rows(file,
                      "SELECT count(*), coalesce(sum(length(CAST(data AS BLOB))), 0) "
                      "FROM bench_rows",
                      bytes);
}

static void own_read(sqlite3 *file, floor_rows *r)
{
    if (r->own == 0)
        return;
    sqlite3_stmt *s = prepare(file, "SELECT id, data FROM bench_rows ORDER BY id");
    while (sqlite3_step(s) == SQLITE_ROW) {
        floor_row *to = floor_rows_add(r, SLICE_LIT(""), column_text(s, 1));
        to->what = FLOOR_OWN;
        to->seq = sqlite3_column_int64(s, 0);
    }
    sqlite3_finalize(s);
}

static floor_rows *read_some(const bench_db *source, int lives)
{
    sqlite3 *file = file_open(source->path);
    size_t bytes = 0;
    size_t runs = count_rows(
        file,
        "SELECT count(*), coalesce(sum(length(CAST(tenant || id || workflow || version || by AS "
        "BLOB)) + coalesce(length(input), 0) + coalesce(length(output), 0) + "
        "coalesce(length(CAST(error AS BLOB)), 0)), 0) FROM pawl_runs",
        &bytes);
    size_t count = count_rows(file,
                              "SELECT count(*), coalesce(sum(length(CAST(name AS BLOB)) + "
                              "coalesce(length(data), 0)), 0) FROM pawl_journal",
                              &bytes);
    size_t own = lives ? own_count(file, &bytes) : 0;
    floor_rows *r = floor_rows_new(count + own, bytes);
    r->own = own;
    snprintf(r->source, sizeof r->source, "%s", source->path);
    sqlite3_stmt *s = prepare(file, "SELECT run, generation, seq, kind, op, at, enc, name, data "
                                    "FROM pawl_journal ORDER BY pos");
    while (sqlite3_step(s) == SQLITE_ROW) {
        floor_row *to = floor_rows_add(r, column_text(s, 7), column_text(s, 8));
        int64_t *numbers[] = {&to->run, &to->generation, &to->seq, &to->kind,
                              &to->op,  &to->at,         &to->enc};
        for (int i = 0; i < 7; i++)
            *numbers[i] = sqlite3_column_int64(s, i);
    }
    sqlite3_finalize(s);
    own_read(file, r);
    floor_rows_complete(r);
    if (lives) {
        floor_lives_new(r, runs);
        runs_read(file, r);
        floor_lives_merge(r);
    }
    sqlite3_close(file);
    return r;
}

static floor_rows *read_rows(const bench_db *source)
{
    return read_some(source, 0);
}

static floor_rows *read_lives(const bench_db *source)
{
    return read_some(source, 1);
}

/* ---- The bare connection ---- */

static const char *const SETTINGS[] = {
    "page_size", "journal_mode",       "synchronous",  "cache_size",
    "mmap_size", "wal_autocheckpoint", "temp_store",   "locking_mode",
    "fullfsync", "journal_size_limit", "foreign_keys", "cell_size_check",
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

typedef struct settings {
    char value[SETTING_COUNT][24];
    int64_t wal_bytes;
} settings;

typedef struct bare {
    const bench_db *db;
    sqlite3 *file;
    wal_checkpointer *checkpointer;
    settings set;
} bare;

static void settings_read(sqlite3 *file, settings *out)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "PRAGMA %s", SETTINGS[i]);
        sqlite3_stmt *s = prepare(file, sql);
        const char *text =
            sqlite3_step(s) == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
        snprintf(out->value[i], sizeof out->value[i], "%s", text ? text : "");
        sqlite3_finalize(s);
    }
}

static void settings_apply(sqlite3 *file, const settings *set)
{
    settings now;
    for (int i = 0; i < SETTING_COUNT; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "PRAGMA %s=%s", SETTINGS[i], set->value[i]);
        if (set->value[i][0])
            execute(file, sql);
    }
    settings_read(file, &now);
    for (int i = 0; i < SETTING_COUNT; i++)
        if (strcmp(now.value[i], set->value[i]) != 0)
            fprintf(stderr, "bench: warning: %s is %s for the floor and %s for pawl\n", SETTINGS[i],
                    now.value[i], set->value[i]);
}

/* pawl makes the tables; its writing connection tells the settings. */
static void tables_make(const bench_db *fresh, settings *out)
{
    db_options options = {.url = fresh->url};
    error err = {.code = PAWL_OK};
    db *d = NULL;
    db_conn *c = NULL;
    bench_check(db_open(&d, &options, &err), &err, "floor: open");
    bench_check(db_connect(d, DB_WRITER, &c, &err), &err, "floor: connect");
    settings_read(d->driver->native(c), out);
    out->wal_bytes = d->options.wal_bytes;
    db_disconnect(c);
    db_close(d);
}

static void runs_copy(sqlite3 *file, const char *source)
{
    sqlite3_stmt *s = prepare(file, "ATTACH $1 AS source");
    sqlite3_bind_text(s, 1, source, -1, SQLITE_STATIC);
    check(file, sqlite3_step(s), "attach");
    sqlite3_finalize(s);
    execute(file, "INSERT INTO main.pawl_runs SELECT * FROM source.pawl_runs");
    execute(file, "DETACH source");
}

/* As pawl finds its own: tables are there, and runs, unless they are written too; the file was
 * closed once, the log has its file. */
static bare bare_open(const bench_db *fresh, const floor_rows *rows)
{
    bare b = {.db = fresh};
    tables_make(fresh, &b.set);
    if (rows && !rows->lives) {
        b.file = file_open(fresh->path);
        settings_apply(b.file, &b.set);
        runs_copy(b.file, rows->source);
        sqlite3_close(b.file);
    }
    b.file = file_open(fresh->path);
    settings_apply(b.file, &b.set);
    if (rows && rows->own > 0)
        execute(b.file, OWN_TABLE);
    sqlite3 *copier = file_open(fresh->path);
    settings_apply(copier, &b.set);
    b.checkpointer = wal_checkpointer_new(b.file, copier, b.set.wal_bytes, clock_system());
    if (!b.checkpointer)
        bench_die("floor: out of memory");
    return b;
}

static void bare_close(bare *b)
{
    wal_checkpointer_free(b->checkpointer);
    sqlite3_close(b->file);
}

/* ---- The loop ---- */

typedef struct loop {
    sqlite3_stmt *begin, *insert, *start, *end, *own, *commit;
} loop;

static const char RUN_START[] =
    "INSERT INTO pawl_runs (run, owner, fence, wake_at, created_at, updated_at, tenant, id, "
    "workflow, version, by, input, parent, parent_generation, parent_op) "
    "VALUES (?1, ?2, 1, ?3, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
static const char RUN_END[] =
    "UPDATE pawl_runs SET phase = ?2, owner = 0, wake_at = NULL, updated_at = ?3, "
    "finished_at = ?3, output = ?4, error = ?5 WHERE run = ?1";

/* `own`: there are rows of the application. */
static loop loop_prepare(sqlite3 *file, const char *insert, size_t own)
{
    return (loop){.begin = prepare(file, "BEGIN IMMEDIATE"),
                  .insert = prepare(file, insert),
                  .start = prepare(file, RUN_START),
                  .end = prepare(file, RUN_END),
                  .own = own > 0 ? prepare(file, OWN_INSERT) : NULL,
                  .commit = prepare(file, "COMMIT")};
}

static void loop_finalize(loop *l)
{
    sqlite3_finalize(l->begin);
    sqlite3_finalize(l->insert);
    sqlite3_finalize(l->start);
    sqlite3_finalize(l->end);
    sqlite3_finalize(l->own);
    sqlite3_finalize(l->commit);
}

static void step(bare *b, sqlite3_stmt *s)
{
    if (sqlite3_step(s) != SQLITE_DONE)
        bench_die("floor: %s: %s", sqlite3_sql(s), sqlite3_errmsg(b->file));
    sqlite3_reset(s);
}

static void row_insert(bare *b, sqlite3_stmt *s, const floor_rows *r, const floor_row *at)
{
    sqlite3_bind_int64(s, 1, at->run);
    sqlite3_bind_int64(s, 2, at->generation);
    sqlite3_bind_int64(s, 3, at->seq);
    sqlite3_bind_int64(s, 4, at->kind);
    sqlite3_bind_int64(s, 5, at->op);
    sqlite3_bind_text(s, 6, r->bytes + at->name, at->name_size, SQLITE_STATIC);
    sqlite3_bind_int64(s, 7, at->at);
    sqlite3_bind_int64(s, 8, at->enc);
    if (at->data_size < 0)
        sqlite3_bind_null(s, 9);
    else
        sqlite3_bind_blob(s, 9, r->bytes + at->data, at->data_size, SQLITE_STATIC);
    step(b, s);
}

static void bind_text(sqlite3_stmt *s, int place, const floor_rows *r, floor_text text)
{
    if (text.size < 0)
        sqlite3_bind_null(s, place);
    else
        sqlite3_bind_text(s, place, r->bytes + text.at, text.size, SQLITE_STATIC);
}

static void bind_blob(sqlite3_stmt *s, int place, const floor_rows *r, floor_text text)
{
    if (text.size < 0)
        sqlite3_bind_null(s, place);
    else
        sqlite3_bind_blob(s, place, r->bytes + text.at, text.size, SQLITE_STATIC);
}

static void bind_number(sqlite3_stmt *s, int place, int64_t number)
{
    if (number == 0)
        sqlite3_bind_null(s, place);
    else
        sqlite3_bind_int64(s, place, number);
}

static void run_start(bare *b, sqlite3_stmt *s, const floor_rows *r, const floor_run *run)
{
    sqlite3_bind_int64(s, 1, run->run);
    sqlite3_bind_int64(s, 2, FLOOR_OWNER);
    sqlite3_bind_int64(s, 3, run->created_ms);
    bind_text(s, 4, r, run->tenant);
    bind_text(s, 5, r, run->id);
    bind_text(s, 6, r, run->workflow);
    bind_text(s, 7, r, run->version);
    bind_text(s, 8, r, run->by);
    bind_blob(s, 9, r, run->input);
    bind_number(s, 10, run->parent);
    bind_number(s, 11, run->parent_generation);
    bind_number(s, 12, run->parent_op);
    step(b, s);
}

static void run_end(bare *b, sqlite3_stmt *s, const floor_rows *r, const floor_run *run)
{
    sqlite3_bind_int64(s, 1, run->run);
    sqlite3_bind_int64(s, 2, run->phase);
    sqlite3_bind_int64(s, 3, run->finished_ms);
    bind_blob(s, 4, r, run->output);
    bind_text(s, 5, r, run->error);
    step(b, s);
}

static void own_insert(bare *b, sqlite3_stmt *s, const floor_rows *r, const floor_row *row)
{
    sqlite3_bind_int64(s, 1, row->seq);
    bind_text(s, 2, r, (floor_text){row->data, row->data_size});
    step(b, s);
}

static void row_write(bare *b, loop *l, const floor_rows *r, const floor_row *row)
{
    switch (row->what) {
    case FLOOR_JOURNAL:
        row_insert(b, l->insert, r, row);
        break;
    case FLOOR_START:
        run_start(b, l->start, r, &r->lives[row->life]);
        break;
    case FLOOR_END:
        run_end(b, l->end, r, &r->lives[row->life]);
        break;
    case FLOOR_OWN:
        own_insert(b, l->own, r, row);
        break;
    case FLOOR_WHATS:
        break;
    }
}

/* One transaction of rows `from` to `to`, the care for the log included. */
static void batch_write(bare *b, loop *l, const floor_rows *r, size_t from, size_t to)
{
    step(b, l->begin);
    for (size_t i = from; i < to; i++)
        row_write(b, l, r, &r->rows[i]);
    step(b, l->commit);
    if (wal_checkpointer_due(b->checkpointer))
        wal_checkpointer_restart(b->checkpointer);
}

static void batches_write(bare *b, loop *l, const floor_rows *r, size_t from, size_t end,
                          size_t batch)
{
    for (size_t to; from < end; from = to) {
        to = floor_batch_end(r, from, batch, end);
        batch_write(b, l, r, from, to);
    }
}

static floor_result write_all_rows(bare *b, const char *insert, const floor_rows *r, size_t batch)
{
    loop l = loop_prepare(b->file, insert, r->own);
    batches_write(b, &l, r, 0, r->before, BATCH_BEFORE);
    floor_watch w = floor_begin(b->db);
    batches_write(b, &l, r, r->before, r->count, batch);
    floor_result result = floor_end(&w, r);
    loop_finalize(&l);
    return result;
}

#define COLUMNS                                                                                    \
    "(run, generation, seq, kind, op, name, at, enc, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
static const char JOURNAL_INSERT[] = "INSERT INTO pawl_journal " COLUMNS;
static const char PLAIN_INSERT[] = "INSERT INTO plain " COLUMNS;
static const char PLAIN_TABLE[] =
    "CREATE TABLE plain (run INTEGER, generation INTEGER, seq INTEGER, "
    "kind INTEGER, op INTEGER, name TEXT, at INTEGER, enc INTEGER, data BLOB)";

static floor_result write_rows(const bench_db *fresh, const floor_rows *rows, int batch)
{
    bare b = bare_open(fresh, rows);
    floor_result result = write_all_rows(&b, JOURNAL_INSERT, rows, (size_t)batch);
    bare_close(&b);
    return result;
}

static floor_result limit(const bench_db *fresh, const floor_rows *rows, int batch)
{
    bare b = bare_open(fresh, NULL);
    execute(b.file, PLAIN_TABLE);
    floor_result result = write_all_rows(&b, PLAIN_INSERT, rows, (size_t)batch);
    bare_close(&b);
    return result;
}

typedef struct single {
    bare bare;
    loop loop;
} single;

static void commit_one(void *arg, const floor_rows *rows, size_t i)
{
    single *s = arg;
    batch_write(&s->bare, &s->loop, rows, i, i + 1);
}

static double commit_us(const bench_db *fresh, const floor_rows *rows, int commits)
{
    single s = {.bare = bare_open(fresh, rows)};
    s.loop = loop_prepare(s.bare.file, JOURNAL_INSERT, 0);
    double us = floor_p50_us(rows, commits, commit_one, &s);
    loop_finalize(&s.loop);
    bare_close(&s.bare);
    return us;
}

static void explain(const bench_db *fresh)
{
    bare b = bare_open(fresh, NULL);
    settings now;
    settings_read(b.file, &now);
    fprintf(stderr, "sqlite %s, settings of pawl and floor:", sqlite3_libversion());
    for (int i = 0; i < SETTING_COUNT; i++)
        fprintf(stderr, "%s %s=%s", i ? "," : "", SETTINGS[i], now.value[i]);
    fprintf(stderr, ", log bounded at %lld bytes\n", (long long)b.set.wal_bytes);
    bare_close(&b);
}

const floor_kind FLOOR_SQLITE = {
    .read = read_rows,
    .read_lives = read_lives,
    .write = write_rows,
    .limit = limit,
    .commit_us = commit_us,
    .own_table = OWN_TABLE,
    .own_insert = OWN_INSERT,
    .explain = explain,
};
