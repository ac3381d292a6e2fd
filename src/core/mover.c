/* Moving what is in the outbox.
 *
 * Any number of movers may be at it. Each takes the rows in their order, and waits for the answer
 * to one before it tries the next; the unit of a row begins by deleting it. So whoever comes second
 * finds the row gone (on a server he waits until that is decided), and the row behind it is moved
 * by nobody before. Rows that appear late, behind larger ones that were committed earlier, are
 * moved when they are seen: a page begins at the smallest row there is.
 *
 * What is refused for good is marked as failed, and the next one is tried. What fails because of
 * the storage ends the round: it would be the same for the next one, and the order is kept. */
#include "core/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "core/send.h"

enum { PAGE = 64, PAGE_BYTES = 1 << 20, KEEPER_PAGES = 4 };
static const int64_t AGAIN_MS = 1000;

static const db_sql READ = {
    "SELECT pos, kind, target, name, key, by, at, options, data FROM {outbox}"
    " WHERE tenant = $1 AND failed = 0 AND pos <= $2 ORDER BY pos LIMIT 64",
    "ti"};
static const db_sql LAST = {
    "SELECT pos FROM {outbox} WHERE tenant = $1 AND failed = 0 ORDER BY pos DESC LIMIT 1", "t"};
static const db_sql TAKE = {"DELETE FROM {outbox} WHERE pos = $1 AND failed = 0 RETURNING pos",
                            "i"};
static const db_sql FAIL = {"UPDATE {outbox} SET failed = 1, failed_why = $2"
                            " WHERE pos = $1 AND failed = 0 RETURNING pos",
                            "it"};

typedef struct outbox_row {
    int64_t pos, kind, at_ms;
    slice target, name, key, by, options, data; /* each with a NUL behind it; at NULL: none */
} outbox_row;

typedef struct page {
    arena *memory;
    outbox_row rows[PAGE];
    int count;
    size_t bytes;
} page;

void outbox_take(unit *u, int64_t pos)
{
    const db_value row[] = {db_int(pos)};
    unit_guard(u, &TAKE, "moved", unit_key("outbox", pos), row, DB_COUNT(row));
}

/* ---- Reading ---- */

static slice keep(page *p, db_stmt *row, int column, int *failed)
{
    db_value v = db_column(row, column);
    if (v.type == DB_NULL)
        return (slice){0};
    char *copy = arena_copy(p->memory, v.s);
    *failed |= copy == NULL;
    p->bytes += v.s.size;
    return (slice){copy, v.s.size};
}

static pawl_code keep_row(page *p, db_stmt *row, error *err)
{
    int failed = 0;
    p->rows[p->count++] = (outbox_row){
        .pos = reader_int(row, 0),
        .kind = reader_int(row, 1),
        .target = keep(p, row, 2, &failed),
        .name = keep(p, row, 3, &failed),
        .key = keep(p, row, 4, &failed),
        .by = keep(p, row, 5, &failed),
        .at_ms = reader_int(row, 6),
        .options = keep(p, row, 7, &failed),
        .data = keep(p, row, 8, &failed),
    };
    return failed ? error_set(err, PAWL_NOMEM, "out of memory") : PAWL_OK;
}

static pawl_code read_rows(drive *d, db_conn *c, int64_t bound, page *p, error *err)
{
    db_stmt *s;
    const db_value values[] = {db_text(slice_of(d->options.tenant)), db_int(bound)};
    pawl_code rc = db_prepare(c, &READ, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, DB_COUNT(values), err);
    while (rc == PAWL_OK && p->count < PAGE && p->bytes < PAGE_BYTES) {
        db_step step = db_next(s, err);
        if (step == DB_DONE)
            break;
        rc = step == DB_ROW ? keep_row(p, s, err) : err->code;
    }
    db_reset(s);
    return rc;
}

static pawl_code read_page(drive *d, const sight *v, int64_t bound, page *p, error *err)
{
    db_conn *c;
    pawl_code rc = sight_begin(v, &c, err);
    if (rc != PAWL_OK)
        return rc;
    arena_reset(p->memory);
    p->count = 0;
    p->bytes = 0;
    rc = read_rows(d, c, bound, p, err);
    sight_end(v, c);
    return rc;
}

/* ---- One row ---- */

/* A unit about the row alone. That it is gone already is as good. */
static pawl_code settle(drive *d, int64_t pos, const char *why, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_set(err, PAWL_NOMEM, "out of memory");
    }
    const db_value row[] = {db_int(pos), db_text(slice_of(why))};
    if (why)
        unit_guard(u, &FAIL, "moved", unit_key("outbox", pos), row, DB_COUNT(row));
    else
        outbox_take(u, pos);
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = client_code(u, committer_commit(committers_at(d->options.committers, 0), u));
    if (rc == PAWL_REFUSED)
        rc = PAWL_OK;
    if (rc != PAWL_OK)
        error_set(err, rc, "the outbox was not moved: %s", pawl_code_text(rc));
    arena_free(a);
    return rc;
}

static pawl_code start_answer(const unit *u, const birth *b, pawl_code rc, int *settled, error *err)
{
    if (rc == PAWL_OK || (rc == PAWL_REFUSED && strcmp(u->refused, "moved") == 0)) {
        *settled = 1;
        return PAWL_OK;
    }
    if (rc == PAWL_REFUSED && strcmp(u->refused, "id") == 0)
        return birth_is_same(b, u->found)
                   ? PAWL_OK
                   : error_set(err, PAWL_CONFLICT,
                               "the id belongs to a run of another workflow or input");
    if (rc == PAWL_REFUSED)
        rc = PAWL_FENCED;
    return error_set(err, rc, "the run was not started: %s", pawl_code_text(rc));
}

static pawl_code move_start(drive *d, arena *memory, const outbox_row *r, int64_t now_ms,
                            int *settled, error *err)
{
    start_ask ask;
    birth b;
    pawl_code rc = outbox_read_options(&ask, memory, r->options, err);
    ask.workflow = r->name;
    ask.id = r->target;
    ask.input = r->data;
    if (rc == PAWL_OK)
        rc = start_birth(d, &ask, r->at_ms, r->by, &b, err);
    if (rc != PAWL_OK)
        return rc;
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_set(err, PAWL_NOMEM, "out of memory");
    }
    b.now_ms = now_ms;
    birth_owner(d, &b);
    outbox_take(u, r->pos);
    birth_write(u, &b, 1);
    u->class = UNIT_OF_CLIENT;
    rc = committer_commit(committers_of(d->options.committers, (uint64_t)b.run), u);
    client_born(d, &b, rc == PAWL_OK);
    rc = start_answer(u, &b, rc, settled, err);
    arena_free(a);
    return rc;
}

static pawl_code move_message(drive *d, const sight *v, arena *memory, const outbox_row *r,
                              int64_t now_ms, int *settled, error *err)
{
    send_ask ask = {
        .letter.mail = {.kind = MAIL_MESSAGE,
                        .name = r->name,
                        .key = r->key,
                        .by = r->by,
                        .at_ms = now_ms,
                        .data = r->data},
        .id = r->target,
        .outbox = r->pos,
        .begin_ms = r->at_ms,
    };
    pawl_code rc = outbox_read_options(&ask.start, memory, r->options, err);
    ask.starts = ask.start.workflow.at && ask.start.input.at;
    ask.start.id = r->target;
    if (rc == PAWL_OK)
        rc = send_carry(d, v, &ask, err);
    *settled = ask.moved;
    return rc;
}

/* Is it the row's own fault? */
static int is_verdict(pawl_code rc)
{
    return rc == PAWL_CONFLICT || rc == PAWL_NOTFOUND || rc == PAWL_ENDED || rc == PAWL_INVALID ||
           rc == PAWL_LIMIT || rc == PAWL_DATA;
}

static pawl_code fail_row(drive *d, const outbox_row *r, error *err)
{
    char why[256];
    buf b;
    buf_init_fixed(&b, why, sizeof why);
    buf_printf(&b, "%s: %s", pawl_code_name(err->code), err->message);
    LOG(&d->log, LOG_WARNING, "outbox-failed", LOG_NUM("pos", r->pos),
        LOG_TEXT("code", pawl_code_name(err->code)));
    return settle(d, r->pos, why, err);
}

/* PAWL_OK: it is not in the way any more. */
static pawl_code move_row(drive *d, const sight *v, arena *memory, const outbox_row *r,
                          int64_t now_ms, error *err)
{
    int settled = 0;
    pawl_code rc;
    if (r->kind == OUTBOX_START && r->data.at)
        rc = move_start(d, memory, r, now_ms, &settled, err);
    else if (r->kind == OUTBOX_MESSAGE && r->data.at)
        rc = move_message(d, v, memory, r, now_ms, &settled, err);
    else
        rc = error_set(err, PAWL_INVALID, "the row is neither a start nor a message");
    if (is_verdict(rc))
        return fail_row(d, r, err);
    return rc == PAWL_OK && !settled ? settle(d, r->pos, NULL, err) : rc;
}

static pawl_code move_page(drive *d, const sight *v, int64_t bound, page *p, error *err)
{
    pawl_code rc = read_page(d, v, bound, p, err);
    for (int i = 0; rc == PAWL_OK && i < p->count; i++) {
        *err = (error){0};
        rc = move_row(d, v, p->memory, &p->rows[i], drive_now_ms(d), err);
    }
    return rc;
}

static page *page_new(void)
{
    arena *a = arena_new(0);
    page *p = a ? calloc(1, sizeof *p) : NULL;
    if (p)
        p->memory = a;
    else
        arena_free(a);
    return p;
}

static void page_free(page *p)
{
    if (p)
        arena_free(p->memory);
    free(p);
}

/* ---- The keeper's look ---- */

static int is_empty(drive *d, error *err)
{
    int64_t pos;
    int found = 0;
    const db_value values[] = {db_text(slice_of(d->options.tenant))};
    if (db_begin(d->looks, err) != PAWL_OK)
        return 1;
    pawl_code rc = db_number(d->looks, &LAST, values, DB_COUNT(values), &pos, &found, err);
    db_rollback(d->looks);
    return rc != PAWL_OK || !found;
}

int64_t outbox_look(drive *d)
{
    error err = {0};
    int64_t moved = 0, now_ns = d->host->mono_ns(d->host);
    if (now_ns < d->outbox_ns)
        return 0;
    d->outbox_ns = clock_deadline(now_ns, AGAIN_MS);
    page *p = is_empty(d, &err) ? NULL : page_new();
    sight v = {.own = d->looks};
    pawl_code rc = PAWL_OK;
    for (int i = 0; p && rc == PAWL_OK && i < KEEPER_PAGES; i++) {
        rc = move_page(d, &v, INT64_MAX, p, &err);
        moved += rc == PAWL_OK ? p->count : 0;
        if (p->count == 0)
            break;
        if (rc == PAWL_OK && i == KEEPER_PAGES - 1)
            d->outbox_ns = now_ns; /* there may be more */
    }
    page_free(p);
    return moved;
}

/* ---- By hand ---- */

static pawl_code read_last(drive *d, const sight *v, int64_t *pos, int *found, error *err)
{
    db_conn *c;
    const db_value values[] = {db_text(slice_of(d->options.tenant))};
    pawl_code rc = sight_begin(v, &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, &LAST, values, DB_COUNT(values), pos, found, err);
    sight_end(v, c);
    return rc;
}

/* What is there now, and not what others put in meanwhile. */
static pawl_code kick(pawl *p, error *err)
{
    drive *d = engine_drive(p);
    sight v = {.shared = engine_readers(p)};
    int64_t bound = 0, now_ms;
    int found = 0;
    pawl_code rc = engine_time(p, &now_ms, err);
    if (rc == PAWL_OK)
        rc = read_last(d, &v, &bound, &found, err);
    if (rc != PAWL_OK || !found)
        return rc;
    page *rows = page_new();
    if (!rows)
        return error_set(err, PAWL_NOMEM, "out of memory");
    do
        rc = move_page(d, &v, bound, rows, err);
    while (rc == PAWL_OK && rows->count > 0);
    page_free(rows);
    return rc;
}

pawl_code pawl_kick(pawl *p)
{
    error err = {0};
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = kick(p, &err);
    return engine_leave(p, rc, &err);
}
