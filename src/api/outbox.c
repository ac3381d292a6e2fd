/* The writing side of the transactional outbox: starts and messages inside a transaction of the
 * application, on its own connection.
 *
 * The row is appended first and checked afterwards, and deleted again if it is refused or not
 * needed: on SQLite a transaction that reads before it writes may not be able to write any more.
 * The insert itself has the condition that the connection is to the engine's own database.
 *
 * The check answers as pawl_start() and pawl_send() would, from the rows that the transaction sees:
 * the run, the receipt of a key, and earlier rows of the outbox. The outbox relay decides the rest
 * at delivery. */
#include "api/outbox.h"

#include <inttypes.h>
#include <string.h>

#include "api/send.h"
#include "base/json.h"
#include "base/json_canonical.h"
#include "base/json_write.h"
#include "base/options.h"
#include "handle/handle.h"
#include "rows/origin.h"

static const db_sql APPEND = {
    "INSERT INTO {outbox} (tenant, kind, target, name, key, by, at, options, data)"
    " SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9"
    /* RULE C2-the-outbox-is-that-of-the-same-database */
    " WHERE EXISTS (SELECT 1 FROM {meta} WHERE name = 'database' AND value = $10) RETURNING pos",
    "tittttitbt"};
static const db_sql TAKE_BACK = {"DELETE FROM {outbox} WHERE pos = $1", "i"};

static const db_sql RUN = {
    "SELECT r.run, r.phase, r.workflow, coalesce(j.data, CASE WHEN r.generation = 1 THEN r.input"
    " END) FROM {runs} AS r LEFT JOIN {journal} AS j"
    " ON j.run = r.run AND j.generation = 1 AND j.seq = 1 AND j.kind = {OP_STARTED}"
    " WHERE r.tenant = $1 AND r.id = $2",
    "tt"};
static const db_sql START_BEFORE = {
    "SELECT name, data FROM {outbox} WHERE tenant = $1 AND target = $2 AND failed = 0"
    " AND kind = {OUTBOX_START} AND pos < $3 ORDER BY pos LIMIT 1",
    "tti"};
static const db_sql ANY_START_BEFORE = {
    "SELECT pos FROM {outbox} WHERE tenant = $1 AND target = $2 AND failed = 0"
    " AND (kind = {OUTBOX_START} OR options IS NOT NULL) AND pos < $3 LIMIT 1",
    "tti"};
static const db_sql RECEIPT = {
    "SELECT kind, seq, answer FROM {receipts} WHERE run = $1 AND key = $2", "it"};
static const db_sql KEY_BEFORE = {
    "SELECT name, data FROM {outbox} WHERE tenant = $1 AND target = $2 AND failed = 0"
    " AND kind = {OUTBOX_MESSAGE} AND key = $4 AND pos < $3 ORDER BY pos LIMIT 1",
    "ttit"};

/* A row that is to be appended to the outbox. */
typedef struct entry {
    pawl *p;
    db_conn *conn; /* the connection of the application */
    int64_t kind, at_ms, pos;
    slice target, name, key, data;
    const char *options;
} entry;

/* ---- Options ---- */

static const char BEHIND = 30; /* separates the options from an input: no JSON text has this byte */

static char *write_json(arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = value_write_arena(a, NULL, format, args);
    va_end(args);
    return text;
}

static char *write_options(arena *a, const start_ask *ask, int with_input)
{
    const pawl_start_options *o = &ask->options;
    char *head = write_json(a,
                            "{'version':%s,'attributes':%j,'delay_ms':%" PRId64
                            ",'deadline_ms':%" PRId64 ",'start':%s}",
                            o->version, o->attributes, o->delay_ms, o->deadline_ms,
                            with_input ? ask->workflow.at : NULL);
    if (!head || !with_input)
        return head;
    size_t size = strlen(head);
    char *all = arena_alloc(a, size + 1 + ask->input.size + 1);
    if (!all)
        return NULL;
    memcpy(all, head, size);
    all[size] = BEHIND;
    memcpy(all + size + 1, ask->input.at, ask->input.size);
    return all;
}

static const char *read_text(arena *a, slice json, const char *pointer)
{
    slice part;
    return value_find(json, slice_of(pointer), &part) == PAWL_STRING ? value_text(a, part) : NULL;
}

pawl_code outbox_read_options(start_ask *out, arena *a, slice options, error *err)
{
    slice part;
    *out = (start_ask){0};
    const char *behind = options.at ? memchr(options.at, BEHIND, options.size) : NULL;
    if (behind) {
        out->input = slice_of(behind + 1);
        options.size = (size_t)(behind - options.at);
    }
    const char *json = options.at ? arena_copy(a, options) : "{}";
    if (!json)
        return error_nomem(err);
    options = slice_of(json);
    out->options.version = read_text(a, options, "/version");
    out->options.delay_ms = pawl_get_int(json, "/delay_ms", 0);
    out->options.deadline_ms = pawl_get_int(json, "/deadline_ms", 0);
    out->workflow = slice_of(read_text(a, options, "/start"));
    if (value_find(options, SLICE_LIT("/attributes"), &part) != PAWL_OBJECT)
        return PAWL_OK;
    char *attributes = arena_copy(a, part);
    return attributes ? attributes_read_all(&out->attributes, a, attributes, err)
                      : error_nomem(err);
}

/* ---- Looking, on the application's connection ---- */

/* The answer of a query, whose rows are compared with the entry while they are read. */
typedef struct found {
    const entry *e;
    const inbox_message *l;
    int any;
    int same;
    int64_t run, phase, seq;
} found;

/* Compares a row with the entry: the same name, and the same JSON value. */
static pawl_code compare_row(found *f, slice name, slice data, error *err)
{
    /* RULE what-is-in-the-outbox-is-compared-as-a-value */
    int same = slice_equal(name, f->e->name) ? value_is_same(data, f->e->data) : 0;
    f->same = same > 0;
    return same < 0 ? error_nomem(err) : PAWL_OK;
}

static pawl_code see_run(void *arg, db_stmt *row, error *err)
{
    found *f = arg;
    f->any = 1;
    f->run = read_pool_int(row, 0);
    f->phase = read_pool_int(row, 1);
    return compare_row(f, read_pool_text(row, 2), read_pool_text(row, 3), err);
}

static pawl_code see_row(void *arg, db_stmt *row, error *err)
{
    found *f = arg;
    f->any = 1;
    return compare_row(f, read_pool_text(row, 0), read_pool_text(row, 1), err);
}

static pawl_code see_any(void *arg, db_stmt *row, error *err)
{
    found *f = arg;
    (void)row;
    (void)err;
    f->any = 1;
    return PAWL_OK;
}

static pawl_code see_receipt(void *arg, db_stmt *row, error *err)
{
    found *f = arg;
    (void)err;
    f->any = 1;
    f->seq = read_pool_int(row, 1);
    f->same = read_pool_int(row, 0) == RECEIPT_MESSAGE &&
              inbox_message_has_answer(f->l, read_pool_text(row, 2));
    return PAWL_OK;
}

static pawl_code query_outbox(const entry *e, const db_sql *sql, read_pool_fn *see, found *out,
                              error *err)
{
    *out = (found){.e = e, .l = out->l};
    const db_value values[] = {db_text(handle_tenant(e->p)), db_text(e->target), db_int(e->pos),
                               db_text(e->key)};
    return read_pool_rows(e->conn, sql, values, (int)strlen(sql->binds), see, out, err);
}

/* ---- The row ---- */

/* Reads the id of the engine's database, for the condition of APPEND. Where several processes can
 * open the database, it is read on a connection of the engine. Otherwise the driver has already
 * refused connections to other databases, and the application's connection is asked. */
static pawl_code read_origin(const entry *e, char origin[ID_TEXT_SIZE], error *err)
{
    db_conn *c;
    if (!(handle_db(e->p)->driver->promises & DB_SHARED))
        return origin_find(origin, e->conn, err);
    pawl_code rc = read_pool_begin(handle_read_pool(e->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = origin_find(origin, c, err);
    read_pool_end(handle_read_pool(e->p), c);
    return rc;
}

static pawl_code append_row(entry *e, error *err)
{
    int there = 0;
    char origin[ID_TEXT_SIZE];
    pawl_code rc = read_origin(e, origin, err);
    if (rc != PAWL_OK)
        return rc;
    const db_value row[] = {
        db_text(handle_tenant(e->p)),
        db_int(e->kind),
        db_text(e->target),
        db_text(e->name),
        e->key.at ? db_text(e->key) : db_null(),
        db_text(slice_of(handle_name(e->p))),
        db_int(e->at_ms),
        e->options ? db_text(slice_of(e->options)) : db_null(),
        db_bytes(e->data),
        db_text(slice_of(origin)),
    };
    rc = db_number(e->conn, &APPEND, row, DB_COUNT(row), &e->pos, &there, err);
    if (rc == PAWL_OK && !there)
        rc = error_set(err, PAWL_INVALID, "the connection is to another database");
    return rc;
}

static pawl_code take_back(const entry *e, error *err)
{
    const db_value row[] = {db_int(e->pos)};
    return db_run(e->conn, &TAKE_BACK, row, DB_COUNT(row), err);
}

/* Decides whether the appended row stays (*needed = 1) or is deleted (0, as it is before the call).
 * A judge that returns an error leaves *needed at 0, so that the row is deleted. */
typedef pawl_code judge_fn(const entry *e, void *arg, int *needed, error *err);

static pawl_code put_entry(entry *e, void *native, judge_fn *judge, void *arg, error *err)
{
    int needed = 0;
    const db_driver *driver = handle_db(e->p)->driver;
    if (!native)
        return error_set(err, PAWL_INVALID, "the connection is NULL");
    pawl_code rc = handle_up_time(e->p, &e->at_ms, err);
    if (rc == PAWL_OK)
        rc = driver->guests.borrow(handle_db(e->p), native, &e->conn, err);
    if (rc != PAWL_OK)
        return rc;
    rc = append_row(e, err);
    if (rc == PAWL_OK) {
        error trouble = {0};
        rc = judge(e, arg, &needed, err);
        if (!needed && take_back(e, &trouble) != PAWL_OK) {
            *err = trouble;
            rc = trouble.code;
        }
    }
    db_disconnect(e->conn);
    return rc;
}

/* ---- Starts ---- */

static pawl_code judge_start(const entry *e, void *arg, int *needed, error *err)
{
    found f = {0};
    int64_t *created = arg;
    pawl_code rc = query_outbox(e, &RUN, see_run, &f, err);
    if (rc == PAWL_OK && !f.any)
        rc = query_outbox(e, &START_BEFORE, see_row, &f, err);
    if (rc != PAWL_OK)
        return rc;
    *created = *needed = !f.any;
    if (f.any && !f.same)
        return error_set(err, PAWL_CONFLICT,
                         "the id belongs to a run of another workflow or input");
    return PAWL_OK;
}

pawl_code pawl_start_in(pawl *p, void *native, const char *name, const char *id, const char *input,
                        const pawl_start_options *options)
{
    error err = {0};
    start_ask ask = {0};
    int64_t created = 0;
    pawl_code rc = handle_enter_to_write(p, &err);
    arena *memory = rc == PAWL_OK ? arena_new(0) : NULL;
    if (rc == PAWL_OK && !memory)
        rc = error_nomem(&err);
    if (rc == PAWL_OK)
        rc = start_read(&ask, memory, name, id, input, options, &err);
    if (rc == PAWL_OK) {
        entry e = {.p = p,
                   .kind = OUTBOX_START,
                   .target = ask.id,
                   .name = ask.workflow,
                   .data = ask.input,
                   .options = write_options(memory, &ask, 0)};
        rc = e.options ? put_entry(&e, native, judge_start, &created, &err) : error_nomem(&err);
    }
    arena_free(memory);
    if (ask.options.created)
        *ask.options.created = rc == PAWL_OK ? created : 0;
    return handle_leave(p, rc, &err);
}

/* ---- Messages ---- */

static pawl_code judge_key(const entry *e, const found *run, send_ask *ask, int *settled,
                           error *err)
{
    found f = {.l = &ask->message};
    pawl_code rc = PAWL_OK;
    const db_value key[] = {db_int(run->run), db_text(e->key)};
    if (!e->key.at)
        return PAWL_OK;
    if (run->any)
        rc = read_pool_rows(e->conn, &RECEIPT, key, DB_COUNT(key), see_receipt, &f, err);
    if (rc == PAWL_OK && !f.any)
        rc = query_outbox(e, &KEY_BEFORE, see_row, &f, err);
    if (rc != PAWL_OK || !f.any)
        return rc;
    *settled = 1;
    ask->seq = f.seq;
    return f.same ? PAWL_OK : error_set(err, PAWL_CONFLICT, "the key was used for something else");
}

static pawl_code judge_message(const entry *e, void *arg, int *needed, error *err)
{
    send_ask *ask = arg;
    found run = {0}, before = {0};
    int settled = 0;
    pawl_code rc = query_outbox(e, &RUN, see_run, &run, err);
    if (rc == PAWL_OK)
        rc = judge_key(e, &run, ask, &settled, err);
    if (rc != PAWL_OK || settled)
        return rc;
    if (run.any && run.phase != PHASE_LIVE && run.phase != PHASE_FAILING)
        return error_set(err, PAWL_ENDED, "the run has ended already");
    if (!run.any && !ask->starts) {
        rc = query_outbox(e, &ANY_START_BEFORE, see_any, &before, err);
        if (rc == PAWL_OK && !before.any)
            rc = read_pool_no_run(err);
    }
    *needed = rc == PAWL_OK;
    return rc;
}

static pawl_code put_message(pawl *p, void *native, send_ask *ask, arena *memory, error *err)
{
    const run_inbox_row *m = &ask->message.row;
    entry e = {.p = p,
               .kind = OUTBOX_MESSAGE,
               .target = ask->id,
               .name = m->name,
               .key = m->key,
               .data = m->data};
    if (inbox_message_seal(&ask->message) != PAWL_OK)
        return error_nomem(err);
    if (ask->starts && !(e.options = write_options(memory, &ask->start, 1)))
        return error_nomem(err);
    return put_entry(&e, native, judge_message, ask, err);
}

pawl_code pawl_send_in(pawl *p, void *native, const char *id, const char *mailbox,
                       const char *message, const pawl_send_options *options)
{
    error err = {0};
    pawl_send_options o = {0};
    send_ask ask = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    arena *memory = rc == PAWL_OK ? arena_new(0) : NULL;
    if (rc == PAWL_OK && !memory)
        rc = error_nomem(&err);
    if (rc == PAWL_OK)
        rc = options_read(&o, sizeof o, options, &err);
    if (rc == PAWL_OK)
        rc = send_read(&ask.message, &ask.id, id, mailbox, message, &o, &err);
    if (rc == PAWL_OK)
        rc = send_read_start(&ask, &o, id, memory, &err);
    if (rc == PAWL_OK)
        rc = put_message(p, native, &ask, memory, &err);
    arena_free(memory);
    if (o.seq)
        *o.seq = rc == PAWL_OK ? ask.seq : 0;
    if (ask.start.options.created)
        *ask.start.options.created = 0; /* whether the run exists is known only when the relay
                                           delivers the row */
    return handle_leave(p, rc, &err);
}
