/* The outbox relay: turns rows of the outbox into runs and messages.
 *
 * Any number of relays may run at once. Each delivers the rows in the order of their positions, and
 * waits for the commit of one before it tries the next. The unit of a row begins by deleting the
 * row: a second relay finds it gone (on a server it waits for the first relay's commit), so no
 * relay delivers a row before the one in front of it is settled. A row whose transaction commits
 * late may have a smaller position than rows that were delivered already. It is found all the same,
 * since each page begins at the smallest position in the table.
 *
 * A row that is refused for good is marked as failed (a dead letter), and the next one is tried. A
 * row that meets a lock of another transaction is passed over, and so are the later rows of its
 * target (outbox_backoff.h); rows of other targets are delivered. A failure of the storage ends the
 * round, since it would meet the next row too. */
#include "api/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "base/text.h"
#include "rows/node.h"

enum { PAGE = 64, PAGE_BYTES = 1 << 20, NODE_LOOP_PAGES = 4 };
static const int64_t LOOK_LOCKS_NS = 500000000; /* how much time a round of the node loop may lose
                                                   to locks */

static const db_sql READ = {
    "SELECT pos, kind, target, name, key, by, at, options, data FROM {outbox}"
    " WHERE tenant = $1 AND failed = 0 AND pos >= $2 AND pos <= $3 ORDER BY pos LIMIT 64",
    "tii"};
static const db_sql SKIM = {
    "SELECT pos, target FROM {outbox}"
    " WHERE tenant = $1 AND failed = 0 AND pos >= $2 AND pos <= $3 ORDER BY pos LIMIT 1000",
    "tii"};
static const db_sql LAST = {
    "SELECT pos FROM {outbox} WHERE tenant = $1 AND failed = 0 ORDER BY pos DESC LIMIT 1", "t"};
static const db_sql TAKE = {"DELETE FROM {outbox} WHERE pos = $1 AND failed = 0 RETURNING pos",
                            "i"};
static const db_sql FAIL = {"UPDATE {outbox} SET failed = 1, failed_why = $2"
                            " WHERE pos = $1 AND failed = 0 RETURNING pos",
                            "it"};

typedef struct outbox_row {
    int64_t pos, kind, at_ms;
    slice target, name, key, by, options, data; /* each ends with a NUL; `at` is NULL where the
                                                   column is */
    int settled;                                /* the row was deleted, by this relay or another
                                                   one */
    int is_dead;                                /* this relay has made it a dead letter */
    int waits; /* with PAWL_BUSY: only this target is locked, rows of others may get through */
} outbox_row;

typedef struct page {
    sched *sched;
    sight sight;
    int64_t bound;         /* rows above this position are not read */
    outbox_backoff *waits; /* the targets that are passed over */
    int by_node_loop; /* 1: read by the node loop: waiting targets are tried again, and logged */
    int64_t now_ns;   /* when the page was read; see outbox_backoff_passes() */
    int64_t lost_ns;  /* time lost to locks, on all pages so far */
    int64_t moved;    /* rows delivered, on all pages so far */
    int is_cut;       /* lost_ns was too much: the rest of the page was left */
    arena *memory;
    outbox_row rows[PAGE];
    int count;
    size_t bytes;
} page;

void outbox_relay_take(unit *u, int64_t pos)
{
    const db_value row[] = {db_int(pos)};
    /* RULE A6-a-row-of-the-outbox-is-moved-once */
    unit_guard(u, &TAKE, "moved", unit_key("outbox", pos), row, DB_COUNT(row));
}

/* ---- Reading ---- */

static slice copy_column(page *p, db_stmt *row, int column, int *failed)
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
        .pos = read_pool_int(row, 0),
        .kind = read_pool_int(row, 1),
        .target = copy_column(p, row, 2, &failed),
        .name = copy_column(p, row, 3, &failed),
        .key = copy_column(p, row, 4, &failed),
        .by = copy_column(p, row, 5, &failed),
        .at_ms = read_pool_int(row, 6),
        .options = copy_column(p, row, 7, &failed),
        .data = copy_column(p, row, 8, &failed),
    };
    return failed ? error_nomem(err) : PAWL_OK;
}

static pawl_code read_rows(page *p, db_conn *c, int64_t from, error *err)
{
    db_stmt *s;
    const db_value values[] = {db_text(slice_of(sched_options_of(p->sched)->tenant)), db_int(from),
                               db_int(p->bound)};
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

/* The search for the first row whose target is not passed over. */
typedef struct skimming {
    page *page;
    int64_t from;
    int rows;
    int found;
} skimming;

static pawl_code skim_row(void *arg, db_stmt *row, error *err)
{
    skimming *k = arg;
    (void)err;
    if (k->found)
        return PAWL_OK;
    k->found = !outbox_backoff_passes(k->page->waits, read_pool_text(row, 1), k->page->now_ns);
    k->from = read_pool_int(row, 0) + !k->found;
    k->rows++;
    return PAWL_OK;
}

static void tell_ended(const page *p, outbox_backoff_row *one)
{
    int64_t now_ns = sched_mono_ns(p->sched);
    if (one && p->by_node_loop)
        LOG(sched_log(p->sched), LOG_INFO, "outbox-waits-ended", LOG_TEXT("run", one->id),
            LOG_NUM("waited_ms", (now_ns - one->since_ns) / 1000000));
    free(one);
}

/* Finds the first row whose target is not passed over. If there is none, every row was read, and a
 * waiting target without a row was delivered by another relay. */
static pawl_code skim(page *p, db_conn *c, int64_t *from, int *found, error *err)
{
    pawl_code rc = PAWL_OK;
    skimming k = {.page = p, .from = *from, .rows = 1};
    outbox_backoff_unsee(p->waits);
    /* RULE L4-the-outbox-is-searched-behind-all-that-waits */
    while (rc == PAWL_OK && !k.found && k.rows > 0) {
        const db_value values[] = {db_text(slice_of(sched_options_of(p->sched)->tenant)),
                                   db_int(k.from), db_int(p->bound)};
        k.rows = 0;
        rc = read_pool_rows(c, &SKIM, values, DB_COUNT(values), skim_row, &k, err);
    }
    for (outbox_backoff_row *gone; rc == PAWL_OK && !k.found;) {
        /* RULE L6-a-wait-of-the-outbox-ends-also-when-another-has-moved-the-rows */
        gone = outbox_backoff_take_unseen(p->waits);
        if (!gone)
            break;
        tell_ended(p, gone);
    }
    *from = k.from;
    *found = k.found;
    return rc;
}

/* A page is read in one transaction, beginning with the smallest position: a row of the page is
 * never delivered before an older row of its target that was committed earlier. */
static pawl_code read_page(page *p, error *err)
{
    db_conn *c;
    int64_t from = INT64_MIN;
    int found = 1;
    pawl_code rc = sight_begin(&p->sight, &c, err);
    if (rc != PAWL_OK)
        return rc;
    arena_reset(p->memory);
    p->count = 0;
    p->bytes = 0;
    p->now_ns = p->by_node_loop ? sched_mono_ns(p->sched) : 0;
    if (p->waits->first)
        rc = skim(p, c, &from, &found, err);
    if (rc == PAWL_OK && found)
        rc = read_rows(p, c, from, err);
    sight_end(&p->sight, c);
    return rc;
}

/* ---- One row ---- */

/* Commits a unit that only deletes the row or, with `why`, marks it as a dead letter. A row that is
 * already gone counts as success. */
static pawl_code settle_row(sched *s, outbox_row *r, const char *why, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    const db_value row[] = {db_int(r->pos), db_text(slice_of(why))};
    if (why)
        unit_guard(u, &FAIL, "moved", unit_key("outbox", r->pos), row, DB_COUNT(row));
    else
        outbox_relay_take(u, r->pos);
    u->class = UNIT_OF_CLIENT;
    u->lock_ms = NODE_LOOP_LOCK_MS;
    pawl_code rc =
        unit_shut_out(u, committer_commit(committers_at(sched_options_of(s)->committers, 0), u));
    r->is_dead = rc == PAWL_OK && why;
    if (rc == PAWL_REFUSED)
        rc = PAWL_OK;
    r->waits = u->row_locked;
    if (rc != PAWL_OK)
        error_set(err, rc, "the outbox was not moved: %s", pawl_code_text(rc));
    arena_free(a);
    return rc;
}

static pawl_code start_answer(const unit *u, const run_insert *b, pawl_code rc, outbox_row *r,
                              error *err)
{
    r->waits = u->row_locked;
    if (rc == PAWL_OK || (rc == PAWL_REFUSED && strcmp(u->refused, "moved") == 0)) {
        r->settled = 1;
        return PAWL_OK;
    }
    if (rc == PAWL_REFUSED && strcmp(u->refused, "id") == 0) {
        int same = run_insert_is_same(b, u->found);
        if (same > 0)
            return PAWL_OK;
        if (same < 0)
            return error_nomem(err);
        return error_set(err, PAWL_CONFLICT,
                         "the id belongs to a run of another workflow or input");
    }
    rc = unit_shut_out(u, rc);
    return error_set(err, rc, "the run was not started: %s", pawl_code_text(rc));
}

static pawl_code move_start(sched *s, arena *memory, outbox_row *r, int64_t now_ms, error *err)
{
    start_ask ask;
    run_insert b;
    pawl_code rc = outbox_read_options(&ask, memory, r->options, err);
    ask.workflow = r->name;
    ask.id = r->target;
    ask.input = r->data;
    ask.begins_ms = r->at_ms; /* RULE a-delay-counts-from-the-transaction */
    if (rc == PAWL_OK)
        rc = start_birth(s, &ask, now_ms, r->by, &b, err);
    if (rc != PAWL_OK)
        return rc;
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    handover_owner(s, &b);
    outbox_relay_take(u, r->pos);
    run_insert_write(u, &b, 1);
    u->class = UNIT_OF_CLIENT;
    u->lock_ms = NODE_LOOP_LOCK_MS;
    rc = committer_commit(sched_committer_of(s, b.run), u);
    handover_started(s, &b, rc == PAWL_OK);
    rc = start_answer(u, &b, rc, r, err);
    arena_free(a);
    return rc;
}

static pawl_code move_message(sched *s, const sight *v, arena *memory, outbox_row *r,
                              int64_t now_ms, error *err)
{
    send_ask ask = {
        .message.row = {.kind = INBOX_MESSAGE,
                        .name = r->name,
                        .key = r->key,
                        .by = r->by,
                        .at_ms = now_ms,
                        .data = r->data},
        .id = r->target,
        .outbox = r->pos,
    };
    pawl_code rc = outbox_read_options(&ask.start, memory, r->options, err);
    ask.starts = ask.start.workflow.at && ask.start.input.at;
    ask.start.id = r->target;
    ask.start.begins_ms = r->at_ms;
    if (rc == PAWL_OK)
        rc = send_carry(s, v, &ask, err);
    r->settled = ask.moved;
    r->waits = ask.waits;
    return rc;
}

/* Tells whether the row can never be delivered, as opposed to trouble of the storage. */
static int is_verdict(pawl_code rc)
{
    return rc == PAWL_CONFLICT || rc == PAWL_NOTFOUND || rc == PAWL_ENDED || rc == PAWL_INVALID ||
           rc == PAWL_LIMIT || rc == PAWL_DATA;
}

static pawl_code fail_row(sched *s, outbox_row *r, error *err)
{
    char why[256];
    buf b;
    buf_init_fixed(&b, why, sizeof why);
    buf_printf(&b, "%s: %s", pawl_code_name(err->code), err->message);
    text_drop_empty_parts(why);
    const char *code = pawl_code_name(err->code);
    pawl_code rc = settle_row(s, r, why, err);
    if (r->is_dead) /* RULE L6-a-dead-letter-is-told-when-it-is-durable */
        LOG(sched_log(s), LOG_WARNING, "outbox-failed", LOG_NUM("pos", r->pos),
            LOG_TEXT("code", code));
    return rc;
}

/* PAWL_OK: the row was delivered, or is a dead letter now. */
static pawl_code move_row(page *p, outbox_row *r, error *err)
{
    sched *s = p->sched;
    int64_t now_ms = sched_now_ms(s);
    pawl_code rc;
    if (r->kind == OUTBOX_START && r->data.at)
        rc = move_start(s, p->memory, r, now_ms, err);
    else if (r->kind == OUTBOX_MESSAGE && r->data.at)
        rc = move_message(s, &p->sight, p->memory, r, now_ms, err);
    else
        rc = error_set(err, PAWL_INVALID, "the row is neither a start nor a message");
    if (is_verdict(rc)) /* RULE A6-a-dead-letter-blocks-no-other-row */
        return fail_row(s, r, err);
    return rc == PAWL_OK && !r->settled ? settle_row(s, r, NULL, err) : rc;
}

/* Lets the target of a row that has met a lock wait. PAWL_OK: the relay passes over the row and all
 * others of its target. */
static pawl_code pass_over(page *p, const outbox_row *r, int64_t took_ns)
{
    sched *s = p->sched;
    int64_t now_ns = p->by_node_loop ? sched_mono_ns(s) : 0;
    int begins = outbox_backoff_put(p->waits, r->target, now_ns, took_ns);
    p->lost_ns += took_ns;
    if (begins < 0)
        return PAWL_BUSY;
    if (begins && p->by_node_loop)
        /* RULE L6-the-log-tells-of-a-target-of-the-outbox-that-waits */
        LOG(sched_log(s), LOG_WARNING, "outbox-waits", LOG_TEXT("run", r->target.at),
            LOG_NUM("pos", r->pos),
            LOG_TEXT("why", "another transaction keeps a row locked that is needed"),
            LOG_TEXT("hint", "look for it in pg_stat_activity and pg_locks, and end it"));
    return PAWL_OK;
}

static pawl_code move_page(page *p, error *err)
{
    clock_source *clock = sched_options_of(p->sched)->db->options.clock;
    pawl_code rc = read_page(p, err);
    p->is_cut = 0;
    for (int i = 0; rc == PAWL_OK && i < p->count && !p->is_cut; i++) {
        outbox_row *r = &p->rows[i];
        if (outbox_backoff_passes(p->waits, r->target, p->now_ns))
            continue;
        *err = (error){0};
        int64_t began_ns = clock->mono_ns(clock);
        rc = move_row(p, r, err);
        if (rc == PAWL_OK) {
            p->moved++;
            tell_ended(p, outbox_backoff_take(p->waits, r->target));
            /* RULE L4-a-row-of-the-outbox-that-meets-a-lock-is-passed-over */
        } else if (rc == PAWL_BUSY && r->waits) {
            rc = pass_over(p, r, clock->mono_ns(clock) - began_ns);
        }
        p->is_cut = p->by_node_loop && p->lost_ns > LOOK_LOCKS_NS;
    }
    return rc;
}

static page *page_new(sched *s, sight v, int64_t bound, outbox_backoff *waits)
{
    arena *a = arena_new(0);
    page *p = a ? calloc(1, sizeof *p) : NULL;
    if (p)
        *p = (page){.sched = s, .sight = v, .bound = bound, .waits = waits, .memory = a};
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

/* ---- The round of the node loop ---- */

static int is_empty(sched *s, db_conn *conn, error *err)
{
    int64_t pos;
    int found = 0;
    const db_value values[] = {db_text(slice_of(sched_options_of(s)->tenant))};
    if (db_begin(conn, err) != PAWL_OK)
        return 1;
    pawl_code rc = db_number(conn, &LAST, values, DB_COUNT(values), &pos, &found, err);
    db_rollback(conn);
    return rc != PAWL_OK || !found;
}

int64_t outbox_relay_look(chore *c, db_conn *conn, int64_t now_ns)
{
    outbox_relay *r = c->arg;
    error err = {0};
    if (is_empty(r->sched, conn, &err) && !r->backoff.first)
        return 0;
    page *p = page_new(r->sched, (sight){.own = conn}, INT64_MAX, &r->backoff);
    if (!p)
        return 0;
    p->by_node_loop = 1;
    for (int i = 0; i < NODE_LOOP_PAGES; i++) {
        pawl_code rc = move_page(p, &err);
        if (rc != PAWL_OK || p->count == 0)
            break;
        if (p->is_cut || i == NODE_LOOP_PAGES - 1)
            c->next_ns = now_ns; /* there may be more */
        if (p->is_cut)
            break;
    }
    int64_t did = p->moved + p->is_cut;
    page_free(p);
    return did;
}

void outbox_relay_clear(outbox_relay *r)
{
    outbox_backoff_clear(&r->backoff);
}

/* ---- By hand ---- */

static pawl_code read_last(sched *s, const sight *v, int64_t *pos, int *found, error *err)
{
    db_conn *c;
    const db_value values[] = {db_text(slice_of(sched_options_of(s)->tenant))};
    pawl_code rc = sight_begin(v, &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, &LAST, values, DB_COUNT(values), pos, found, err);
    sight_end(v, c);
    return rc;
}

static pawl_code left_behind(const outbox_backoff *w, error *err)
{
    error_set(err, PAWL_BUSY,
              "other transactions keep rows of %d run%s locked; what is for them is in the outbox",
              w->count, w->count == 1 ? "" : "s");
    error_detail(err, "one of them is %s", w->first->id);
    error_hint(err, "a node tries again by itself; or call this again when they have ended");
    return PAWL_BUSY;
}

/* Delivers the rows that are in the outbox now, and not those that are added meanwhile. */
static pawl_code flush_outbox(pawl *p, error *err)
{
    sched *s = handle_sched(p);
    sight v = {.shared = handle_read_pool(p)};
    int64_t bound = 0, now_ms;
    int found = 0;
    pawl_code rc = handle_time(p, &now_ms, err);
    if (rc == PAWL_OK)
        rc = read_last(s, &v, &bound, &found, err);
    if (rc != PAWL_OK || !found)
        return rc;
    outbox_backoff waits = {0};
    page *rows = page_new(s, v, bound, &waits);
    if (!rows)
        return error_nomem(err);
    do
        rc = move_page(rows, err);
    while (rc == PAWL_OK && rows->count > 0);
    page_free(rows);
    if (rc == PAWL_OK && waits.first) /* RULE L4-a-flush-says-that-something-was-left */
        rc = left_behind(&waits, err);
    outbox_backoff_clear(&waits);
    return rc;
}

pawl_code pawl_outbox_flush(pawl *p)
{
    error err = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK)
        rc = flush_outbox(p, &err);
    return handle_leave(p, rc, &err);
}
