/* Reading the change feed, waiting for it, and keeping it short.
 *
 * The feed costs a row at the birth and at the end of each run. Where that is felt, on a database
 * with one writer at a time, it is written only while 'feed' in {meta} is not 0: who asks sets
 * that, a keeper takes it back ten minutes after the last question, and each transaction looks at
 * it (batch.c). A feed that was off begins anew with a row for no run, so that no old position fits
 * it: 'feed_from' is where it is whole. That is moved when old rows are removed, too. */
#include "core/changes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "core/client.h"
#include "core/drive.h"
#include "core/engine.h"
#include "core/info.h"
#include "core/look.h"
#include "core/wait.h"

static const int64_t ASKED_MS = 600000;  /* so long after a question it is written */
static const int64_t KEEP_MS = 3600000;  /* rows that are younger stay, … */
static const int64_t KEEP_ROWS = 100000; /* … and the newest */
static const int64_t LOOK_NS = INT64_C(5000000000);
static const int64_t SWEEP_NS = INT64_C(60000000000);

enum {
    PAGE = 256,        /* rows that are read at once; more if one transaction has more */
    SWEEP_PAGE = 5000, /* rows that are removed at once */
};

static const db_sql META = {"SELECT (SELECT number FROM {meta} WHERE name = 'feed'),"
                            " (SELECT number FROM {meta} WHERE name = 'feed_from'), {FEED_END}",
                            ""};
enum { META_UNTIL, META_FROM, META_END, META_COUNT };

static const db_sql ROWS = {"SELECT {FEED_AT}, run FROM {changes} WHERE {FEED_AT} > $1"
                            " AND {FEED_IS_OVER} ORDER BY {FEED_AT}, pos LIMIT $2",
                            "ii"};

static const db_sql RUN = {"SELECT " INFO_COLUMNS INFO_FROM "WHERE r.run = $1 AND r.tenant = $2",
                           "it"};

static const db_sql STAY_ON = {
    "UPDATE {meta} SET number = $1 WHERE name = 'feed' AND number <> 0 RETURNING number", "i"};

static const db_sql TURN_ON = {
    "UPDATE {meta} SET number = $1 WHERE name = 'feed' AND number = 0 RETURNING number", "i"};

static const db_sql BEGIN = {"INSERT INTO {changes} (run, at) VALUES (0, $1) RETURNING {FEED_AT}",
                             "i"};

static const db_sql FROM = {"UPDATE {meta} SET number = CASE WHEN number < $1 THEN $1 ELSE number"
                            " END WHERE name = 'feed_from'",
                            "i"};

static const db_sql TURN_OFF = {
    "UPDATE {meta} SET number = 0 WHERE name = 'feed' AND number <> 0 AND number < $1"
    " RETURNING number",
    "i"};

/* What is old among the oldest, and not among the newest: its last key, and its last position. */
static const db_sql OLD = {
    "SELECT max(pos), max({FEED_AT}), count(*) FROM (SELECT pos, xact, at FROM {changes}"
    " WHERE pos <= (SELECT max(pos) FROM {changes}) - $2 AND {FEED_IS_OVER}"
    " ORDER BY pos LIMIT $3) s WHERE at < $1",
    "iii"};

static const db_sql REMOVE = {"DELETE FROM {changes} WHERE pos <= $1 AND at < $2", "ii"};

/* ---- Asking for it ---- */

static committer *committer_of(drive *d)
{
    return committers_at(d->options.committers, 0);
}

/* Is it written only while somebody wants it? */
static int is_switched(const drive *d)
{
    return (d->options.db->driver->promises & DB_TURNS) != 0;
}

static pawl_code commit(drive *d, unit *u, error *err)
{
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = client_code(u, committer_commit(committer_of(d), u));
    if (rc == PAWL_OK || rc == PAWL_REFUSED)
        return rc;
    error_set(err, rc, "cannot ask for changes: %s", pawl_code_text(rc));
    error_detail(err, "%s", u->message ? u->message : "");
    return rc;
}

static pawl_code stay_on(drive *d, arena *a, int64_t until, error *err)
{
    unit *u = unit_new(a);
    const db_value value[] = {db_int(until)};
    if (!u)
        return error_set(err, PAWL_NOMEM, "out of memory");
    unit_guard(u, &STAY_ON, "on", unit_key_text("meta", SLICE_LIT("feed")), value, 1);
    return commit(d, u, err);
}

static pawl_code turn_on(drive *d, arena *a, int64_t until, int64_t now, error *err)
{
    unit *u = unit_new(a);
    const db_value value[] = {db_int(until)}, at[] = {db_int(now)};
    if (!u)
        return error_set(err, PAWL_NOMEM, "out of memory");
    unit_guard(u, &TURN_ON, "off", unit_key_text("meta", SLICE_LIT("feed")), value, 1);
    int row = is_switched(d) ? unit_write(u, &BEGIN, 0, at, 1) : -1;
    const db_value begin[] = {db_from(row, 0)};
    if (row >= 0)
        unit_write(u, &FROM, unit_key_text("meta", SLICE_LIT("feed_from")), begin, 1);
    pawl_code rc = commit(d, u, err);
    return rc == PAWL_REFUSED ? PAWL_OK : rc; /* somebody else has done so */
}

/* Have it written, for a while from now on. */
static pawl_code ask(pawl *p, error *err)
{
    drive *d = engine_drive(p);
    int64_t now;
    pawl_code rc = engine_time(p, &now, err);
    if (rc != PAWL_OK || now < atomic_load(&d->feed_ms) - ASKED_MS / 2)
        return rc; /* not long ago */
    arena *a = arena_new(0);
    int64_t until = now + ASKED_MS;
    rc = a ? stay_on(d, a, until, err) : error_set(err, PAWL_NOMEM, "out of memory");
    if (rc == PAWL_REFUSED)
        rc = turn_on(d, a, until, now, err);
    arena_free(a);
    if (rc == PAWL_OK)
        atomic_store(&d->feed_ms, until);
    return rc;
}

/* ---- Reading it ---- */

typedef struct change {
    int64_t at;
    int64_t run;
} change;

typedef struct changes {
    pawl *p;
    int64_t position;
    change *rows;
    size_t count;
    size_t room;
    int whole; /* there are no more behind them */
    int off;   /* and there will not be any: it is not written */
    info_page page;
    size_t *ends; /* for each info: the row that it was read for */
} changes;

static pawl_code no_memory(error *err)
{
    return error_set(err, PAWL_NOMEM, "out of memory");
}

static void drop(changes *f)
{
    info_page_free(&f->page);
    free(f->rows);
    free(f->ends);
    f->rows = NULL;
    f->ends = NULL;
    f->count = f->room = 0;
}

static pawl_code add_row(void *arg, db_stmt *row, error *err)
{
    changes *f = arg;
    if (f->count == f->room)
        return no_memory(err); /* more than were asked for */
    f->rows[f->count++] = (change){reader_int(row, 0), reader_int(row, 1)};
    return PAWL_OK;
}

/* All rows of a position, or none: who goes on behind it must have missed nothing. */
static void cut(changes *f)
{
    size_t count = f->count;
    while (count > 0 && f->rows[count - 1].at == f->rows[f->count - 1].at)
        count--;
    f->count = count;
}

static pawl_code read_rows(changes *f, db_conn *c, error *err)
{
    for (int64_t most = PAGE;; most *= 2) {
        const db_value values[] = {db_int(f->position), db_int(most)};
        free(f->rows);
        f->room = (size_t)most;
        f->count = 0;
        f->rows = calloc(f->room, sizeof *f->rows);
        if (!f->rows)
            return no_memory(err);
        pawl_code rc = reader_rows(c, &ROWS, values, DB_COUNT(values), add_row, f, err);
        if (rc != PAWL_OK)
            return rc;
        f->whole = f->count < f->room;
        if (!f->whole)
            cut(f);
        if (f->whole || f->count > 0)
            return PAWL_OK;
    }
}

/* Each run once, as it is now; what is gone, or another tenant's, is passed over. */
static pawl_code read_infos(changes *f, db_conn *c, error *err)
{
    map seen = {0};
    pawl_code rc = PAWL_OK;
    f->ends = calloc(f->count + 1, sizeof *f->ends);
    if (!f->ends)
        return no_memory(err);
    for (size_t i = 0; rc == PAWL_OK && i < f->count; i++) {
        const db_value values[] = {db_int(f->rows[i].run), db_text(engine_tenant(f->p))};
        if (f->rows[i].run == 0 || map_get(&seen, (uint64_t)f->rows[i].run))
            continue;
        size_t before = f->page.count;
        rc = reader_rows(c, &RUN, values, DB_COUNT(values), info_page_add, &f->page, err);
        if (rc == PAWL_OK && f->page.count > before)
            f->ends[before] = i;
        if (rc == PAWL_OK && map_put(&seen, (uint64_t)f->rows[i].run, f) < 0)
            rc = no_memory(err);
    }
    map_free(&seen);
    return rc;
}

static pawl_code too_old(int64_t position, int64_t from, error *err)
{
    error_set(err, PAWL_NOTFOUND, "the changes since this position are not kept any more");
    error_detail(err, "position %lld; kept is what came after %lld", (long long)position,
                 (long long)from);
    error_hint(err, "list the runs anew (pawl_list()), and go on from position 0, taken before");
    return PAWL_NOTFOUND;
}

static pawl_code read_on(changes *f, db_conn *c, error *err)
{
    int64_t meta[META_COUNT];
    int found;
    pawl_code rc = reader_numbers(c, &META, NULL, 0, meta, META_COUNT, &found, err);
    if (rc != PAWL_OK)
        return rc;
    f->off = meta[META_UNTIL] == 0;
    if (f->position == 0) { /* from now on */
        f->position = meta[META_END];
        f->whole = 1;
        return PAWL_OK;
    }
    if (f->position < meta[META_FROM])
        return too_old(f->position, meta[META_FROM], err);
    rc = read_rows(f, c, err);
    return rc == PAWL_OK ? read_infos(f, c, err) : rc;
}

static pawl_code read_page(changes *f, error *err)
{
    db_conn *c;
    drop(f);
    pawl_code rc = readers_begin(engine_readers(f->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_on(f, c, err);
    readers_end(engine_readers(f->p), c);
    return rc;
}

/* ---- Telling ---- */

/* Up to where everything was told when the info `i` was the last: below its own position there is
 * nothing else, but there it may not be the only one. */
static int64_t told_up_to(const changes *f, size_t i)
{
    assert(f->ends && f->rows);
    size_t row = f->ends[i];
    int64_t at = f->rows[row].at;
    int more = row + 1 < f->count && f->rows[row + 1].at == at;
    while (more && row > 0 && f->rows[row].at == at)
        row--;
    return more ? (f->rows[row].at == at ? f->position : f->rows[row].at) : at;
}

/* 1: enough. The position is where it goes on. */
static int tell(changes *f, pawl_info_fn *fn, void *arg)
{
    for (size_t i = 0; i < f->page.count; i++) {
        if (fn(arg, f->page.at[i]) == 0)
            continue;
        f->position = told_up_to(f, i);
        return 1;
    }
    if (f->count > 0)
        f->position = f->rows[f->count - 1].at;
    return 0;
}

/* All that there is. *told: it was something. */
static pawl_code tell_all(changes *f, pawl_info_fn *fn, void *arg, int *told, error *err)
{
    pawl_code rc;
    do {
        rc = read_page(f, err);
        *told |= rc == PAWL_OK && f->page.count > 0;
    } while (rc == PAWL_OK && !tell(f, fn, arg) && !f->whole);
    return rc;
}

static pawl_code follow(changes *f, int64_t deadline_ns, pawl_info_fn *fn, void *arg, error *err)
{
    drive *d = engine_drive(f->p);
    drive_watch w = {.id = SLICE_LIT("")}; /* which no run has */
    int told = 0;
    if (clock_cond_init(&w.cond) != 0)
        return no_memory(err);
    wait_watch(d, &w);
    wake_open(d);
    pawl_code rc = ask(f->p, err);
    while (rc == PAWL_OK) {
        rc = tell_all(f, fn, arg, &told, err);
        if (rc != PAWL_OK || told)
            break;
        if (f->off) /* somebody's clock has gone wrong */
            atomic_store(&d->feed_ms, 0);
        else if (d->host->mono_ns(d->host) >= deadline_ns)
            rc = error_set(err, PAWL_TIMEOUT, "nothing has changed");
        else
            rc = wait_sleep(d, &w, deadline_ns, err);
        if (rc == PAWL_OK)
            rc = ask(f->p, err);
    }
    wait_unwatch(d, &w);
    return rc;
}

pawl_code pawl_changes(pawl *p, int64_t *position, int64_t timeout_ms, pawl_info_fn *fn, void *arg)
{
    error err = {0};
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK && !position)
        rc = look_no_place(&err);
    if (rc == PAWL_OK && !fn)
        rc = look_no_function(&err);
    if (rc == PAWL_OK && position && *position < 0)
        rc = error_set(&err, PAWL_INVALID, "the position is negative");
    if (rc == PAWL_OK && timeout_ms < 0)
        rc = error_set(&err, PAWL_INVALID, "the time-out is negative");
    if (rc != PAWL_OK || !position)
        return engine_leave(p, rc, &err);
    drive *d = engine_drive(p);
    changes f = {.p = p, .position = *position};
    rc = follow(&f, clock_deadline(d->host->mono_ns(d->host), timeout_ms), fn, arg, &err);
    drop(&f);
    *position = f.position;
    return engine_leave(p, rc, &err);
}

/* ---- Being told ---- */

void changes_noted(void *arg)
{
    drive *d = engine_drive(arg);
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    for (drive_watch *w = d->watch_count ? *drive_watches(d, SLICE_LIT("")) : NULL; w;
         w = w->next) {
        w->ended |= w->id.size == 0;
        if (w->id.size == 0)
            pthread_cond_signal(&w->cond);
    }
    pthread_mutex_unlock(&d->lock);
    if (atomic_load_explicit(&d->feed_ms, memory_order_relaxed) != 0)
        wake_tell(d);
}

/* ---- Keeping it short ---- */

static pawl_code commit_sweep(drive *d, const int64_t old[3], int64_t before, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = no_memory(err);
    if (u) {
        const db_value from[] = {db_int(old[1])}, rows[] = {db_int(old[0]), db_int(before)};
        unit_write(u, &FROM, unit_key_text("meta", SLICE_LIT("feed_from")), from, 1);
        unit_write(u, &REMOVE, unit_key_text("changes", SLICE_LIT("old")), rows, 2);
        rc = commit(d, u, err);
    }
    arena_free(a);
    return rc;
}

static void turn_off(drive *d, int64_t now)
{
    error err = {0};
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    const db_value value[] = {db_int(now)};
    if (u) {
        unit_guard(u, &TURN_OFF, "forgotten", unit_key_text("meta", SLICE_LIT("feed")), value, 1);
        commit(d, u, &err);
    }
    arena_free(a);
}

/* Gives the number of rows that were removed. */
static int64_t sweep(drive *d, int64_t now, error *err)
{
    int64_t old[3] = {0};
    int found;
    const db_value which[] = {db_int(now - KEEP_MS), db_int(KEEP_ROWS), db_int(SWEEP_PAGE)};
    if (db_begin(d->looks, err) != PAWL_OK)
        return 0;
    pawl_code rc = reader_numbers(d->looks, &OLD, which, DB_COUNT(which), old, 3, &found, err);
    db_rollback(d->looks);
    if (rc != PAWL_OK || old[2] == 0 || commit_sweep(d, old, now - KEEP_MS, err) != PAWL_OK)
        return 0;
    return old[2];
}

/* Does anybody want it? Those who do are to be woken. */
static void look_at_switch(drive *d, int64_t now, error *err)
{
    int64_t meta[META_COUNT];
    int found;
    if (db_begin(d->looks, err) != PAWL_OK)
        return;
    pawl_code rc = reader_numbers(d->looks, &META, NULL, 0, meta, META_COUNT, &found, err);
    db_rollback(d->looks);
    if (rc != PAWL_OK)
        return;
    atomic_store(&d->feed_ms, meta[META_UNTIL] > now ? meta[META_UNTIL] : 0);
    if (meta[META_UNTIL] != 0 && meta[META_UNTIL] < now && is_switched(d))
        turn_off(d, now);
}

void changes_keep(drive *d)
{
    error err = {0};
    int64_t host = d->host->mono_ns(d->host), now = drive_now_ms(d);
    if (host >= d->feed_at_ns) {
        look_at_switch(d, now, &err);
        d->feed_at_ns = host + LOOK_NS;
    }
    if (host >= d->feed_sweep_ns)
        d->feed_sweep_ns = sweep(d, now, &err) == SWEEP_PAGE ? host : host + SWEEP_NS;
}
