/* Reading the change feed, waiting for changes, and deleting old ones.
 *
 * The feed costs a row at the start and at the end of each run. That slows a database with one
 * writer at a time, so there the feed is written only while 'feed' in {meta} is not 0: a reader
 * sets 'feed', a node loop resets it ten minutes after the last read, and each transaction reads it
 * (batch.c). The feed is complete from the position 'feed_from' in {meta} on. When a feed is
 * switched on again, it gets a row for no run, whose position becomes 'feed_from', so that older
 * positions are refused. Deleting old rows raises 'feed_from' too. */
#include "query/change_feed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/map.h"
#include "handle/handle.h"
#include "query/info.h"

static const int64_t ASKED_MS = 600000;  /* how long the feed is written after a reader has asked
                                            for it */
static const int64_t KEEP_MS = 3600000;  /* rows younger than this are kept */
static const int64_t KEEP_ROWS = 100000; /* so many of the newest rows are kept too */

enum {
    PAGE = 256,        /* rows that are read at once; more if one transaction has more */
    SWEEP_PAGE = 5000, /* rows that are deleted at once */
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

/* Of the oldest rows, those that may be deleted: the largest `pos`, the largest feed position, and
 * the number of rows. */
static const db_sql OLD = {
    "SELECT max(pos), max({FEED_AT}), count(*) FROM (SELECT pos, xact, at FROM {changes}"
    " WHERE pos <= (SELECT max(pos) FROM {changes}) - $2 AND {FEED_IS_OVER}"
    " ORDER BY pos LIMIT $3) s WHERE at < $1",
    "iii"};

static const db_sql REMOVE = {"DELETE FROM {changes} WHERE pos <= $1 AND at < $2", "ii"};

/* ---- Asking for the feed ---- */

static committer *committer_of(pawl *p)
{
    return committers_at(handle_committers(p), 0);
}

/* Returns 1 if the database has one writer at a time, so that the feed is written only while it is
 * read. */
static int is_switched(pawl *p)
{
    return (handle_db(p)->driver->promises & DB_TURNS) != 0;
}

static pawl_code commit_unit(pawl *p, unit *u, error *err)
{
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = unit_shut_out(u, committer_commit(committer_of(p), u));
    if (rc == PAWL_OK || rc == PAWL_REFUSED)
        return rc;
    error_set(err, rc, "cannot ask for changes: %s", pawl_code_text(rc));
    error_detail(err, "%s", u->message ? u->message : "");
    return rc;
}

static pawl_code stay_on(pawl *p, arena *a, int64_t until, error *err)
{
    unit *u = unit_new(a);
    const db_value value[] = {db_int(until)};
    if (!u)
        return error_nomem(err);
    unit_guard(u, &STAY_ON, "on", unit_key_text("meta", SLICE_LIT("feed")), value, 1);
    return commit_unit(p, u, err);
}

static pawl_code turn_on(pawl *p, arena *a, int64_t until, int64_t now, error *err)
{
    unit *u = unit_new(a);
    const db_value value[] = {db_int(until)}, at[] = {db_int(now)};
    if (!u)
        return error_nomem(err);
    unit_guard(u, &TURN_ON, "off", unit_key_text("meta", SLICE_LIT("feed")), value, 1);
    int row = is_switched(p) ? unit_write(u, &BEGIN, 0, at, 1) : -1;
    const db_value begin[] = {db_from(row, 0)};
    if (row >= 0)
        unit_write(u, &FROM, unit_key_text("meta", SLICE_LIT("feed_from")), begin, 1);
    pawl_code rc = commit_unit(p, u, err);
    return rc == PAWL_REFUSED ? PAWL_OK : rc; /* another reader has switched the feed on */
}

/* Makes sure that the feed is written for the next ten minutes, or for more than half of that if
 * this process has asked already. */
static pawl_code keep_on(pawl *p, error *err)
{
    _Atomic int64_t *asked = handle_feed_until(p);
    int64_t now;
    pawl_code rc = handle_time(p, &now, err);
    if (rc != PAWL_OK || now < atomic_load(asked) - ASKED_MS / 2)
        return rc; /* the last request is recent enough */
    arena *a = arena_new(0);
    int64_t until = now + ASKED_MS;
    rc = a ? stay_on(p, a, until, err) : error_nomem(err);
    if (rc == PAWL_REFUSED)
        rc = turn_on(p, a, until, now, err);
    arena_free(a);
    if (rc == PAWL_OK)
        atomic_store(asked, until);
    return rc;
}

/* ---- Reading the feed ---- */

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
    int whole; /* 1: no later rows are in the feed */
    int off;   /* 1: the feed is switched off, so no later rows will come */
    info_page page;
    size_t *ends; /* for each info of the page: the index of the row that it was read for */
} changes;

static void free_changes(changes *f)
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
        return error_nomem(err); /* cannot happen: ROWS has a limit */
    f->rows[f->count++] = (change){read_pool_int(row, 0), read_pool_int(row, 1)};
    return PAWL_OK;
}

/* Drops the rows of the last position, of which the page may have only some: a reader that
 * continues after a position must have seen all rows of it. */
static void drop_last_position(changes *f)
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
            return error_nomem(err);
        pawl_code rc = read_pool_rows(c, &ROWS, values, DB_COUNT(values), add_row, f, err);
        if (rc != PAWL_OK)
            return rc;
        f->whole = f->count < f->room;
        if (!f->whole) /* RULE B6-a-position-has-all-rows-of-its-transaction */
            drop_last_position(f);
        if (f->whole || f->count > 0)
            return PAWL_OK;
    }
}

/* Reads each run of the page once, as it is now. Leaves out runs that are deleted, or belong to
 * another tenant. */
static pawl_code read_infos(changes *f, db_conn *c, error *err)
{
    map seen = {0};
    pawl_code rc = PAWL_OK;
    f->ends = calloc(f->count + 1, sizeof *f->ends);
    if (!f->ends)
        return error_nomem(err);
    for (size_t i = 0; rc == PAWL_OK && i < f->count; i++) {
        const db_value values[] = {db_int(f->rows[i].run), db_text(handle_tenant(f->p))};
        if (f->rows[i].run == 0 || map_get(&seen, (uint64_t)f->rows[i].run))
            continue;
        size_t before = f->page.count;
        rc = read_pool_rows(c, &RUN, values, DB_COUNT(values), info_page_add, &f->page, err);
        if (rc == PAWL_OK && f->page.count > before)
            f->ends[before] = i;
        if (rc == PAWL_OK && map_put(&seen, (uint64_t)f->rows[i].run, f) < 0)
            rc = error_nomem(err);
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

static pawl_code read_after_position(changes *f, db_conn *c, error *err)
{
    int64_t meta[META_COUNT];
    int found;
    pawl_code rc = read_pool_numbers(c, &META, NULL, 0, meta, META_COUNT, &found, err);
    if (rc != PAWL_OK)
        return rc;
    f->off = meta[META_UNTIL] == 0;
    if (f->position == 0) { /* from now on */
        f->position = meta[META_END];
        f->whole = 1;
        return PAWL_OK;
    }
    if (f->position < meta[META_FROM]) /* RULE B6-a-feed-that-was-off-fits-no-old-position */
        return too_old(f->position, meta[META_FROM], err);
    rc = read_rows(f, c, err);
    return rc == PAWL_OK ? read_infos(f, c, err) : rc;
}

static pawl_code read_page(changes *f, error *err)
{
    db_conn *c;
    free_changes(f);
    pawl_code rc = read_pool_begin(handle_read_pool(f->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_after_position(f, c, err);
    read_pool_end(handle_read_pool(f->p), c);
    return rc;
}

/* ---- Reporting changes ---- */

/* Returns the position from which a later call goes on when `fn` has ended the list at the info
 * `i`: the position of that info, up to which everything was reported. But if later rows have the
 * same position, it is the position before. */
static int64_t position_after(const changes *f, size_t i)
{
    assert(f->ends && f->rows);
    size_t row = f->ends[i];
    int64_t at = f->rows[row].at;
    int more = row + 1 < f->count && f->rows[row + 1].at == at;
    while (more && row > 0 && f->rows[row].at == at)
        row--;
    return more ? (f->rows[row].at == at ? f->position : f->rows[row].at) : at;
}

/* Calls `fn` for each info of the page, and moves the position. Returns 1 if `fn` has ended the
 * list. */
static int report_page(changes *f, pawl_info_fn *fn, void *arg)
{
    for (size_t i = 0; i < f->page.count; i++) {
        if (fn(f->page.at[i], arg) == 0)
            continue;
        f->position = position_after(f, i);
        return 1;
    }
    if (f->count > 0)
        f->position = f->rows[f->count - 1].at;
    return 0;
}

/* Reports all changes that there are. Sets *told if there was one. */
static pawl_code report_all(changes *f, pawl_info_fn *fn, void *arg, int *told, error *err)
{
    pawl_code rc;
    do {
        rc = read_page(f, err);
        *told |= rc == PAWL_OK && f->page.count > 0;
    } while (rc == PAWL_OK && !report_page(f, fn, arg) && !f->whole);
    return rc;
}

static pawl_code report_or_wait(changes *f, int64_t deadline_ns, pawl_info_fn *fn, void *arg,
                                error *err)
{
    watches *all = handle_watches(f->p);
    watch w;
    int told = 0;
    pawl_code rc = watches_add(all, &w, WATCH_FEED, err);
    if (rc != PAWL_OK)
        return rc;
    notify_open(handle_notify(f->p), handle_node(f->p));
    /* The descriptor is emptied before the feed is read, so that a later commit makes it readable
     * again. */
    if (all->clock->mono_ns(all->clock) >= deadline_ns)
        /* RULE H2-a-question-without-waiting-empties-the-descriptor */
        loop_hint_empty(&handle_notify(f->p)->changes);
    rc = keep_on(f->p, err);
    while (rc == PAWL_OK) {
        rc = report_all(f, fn, arg, &told, err);
        if (rc != PAWL_OK || told)
            break;
        if (f->off) /* the feed was switched off although it is read, since a clock was wrong: ask
                       for it again */
            atomic_store(handle_feed_until(f->p), 0);
        else if (all->clock->mono_ns(all->clock) >= deadline_ns)
            rc = error_set(err, PAWL_TIMEOUT, "nothing has changed");
        else
            rc = watches_sleep(all, &w, deadline_ns, err);
        if (rc == PAWL_OK)
            rc = keep_on(f->p, err);
    }
    watches_remove(all, &w);
    return rc;
}

pawl_code pawl_changes(pawl *p, int64_t timeout_ms, pawl_info_fn *fn, void *arg, int64_t *position)
{
    error err = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK && !position)
        rc = argument_no_place(&err);
    if (rc == PAWL_OK && !fn)
        rc = argument_no_function(&err);
    if (rc == PAWL_OK && position && *position < 0)
        rc = error_set(&err, PAWL_INVALID, "the position is negative");
    if (rc == PAWL_OK && timeout_ms < 0)
        rc = error_set(&err, PAWL_INVALID, "the time-out is negative");
    if (rc != PAWL_OK || !position)
        return handle_leave(p, rc, &err);
    clock_source *clock = handle_db(p)->options.clock;
    changes f = {.p = p, .position = *position};
    rc = report_or_wait(&f, clock_deadline(clock->mono_ns(clock), timeout_ms), fn, arg, &err);
    free_changes(&f);
    *position = f.position;
    return handle_leave(p, rc, &err);
}

/* ---- Notifications ---- */

int pawl_changes_fd(pawl *p)
{
    error err = {0};
    int fd = -1;
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK) {
        fd = loop_hint_fd(&handle_notify(p)->changes, &err);
        rc = fd < 0 ? err.code : PAWL_OK;
    }
    if (fd >= 0)
        notify_open(handle_notify(p), handle_node(p));
    handle_leave(p, rc, &err);
    return fd;
}

void change_feed_noted(void *arg)
{
    pawl *p = arg;
    watches_tell(handle_watches(p), WATCH_FEED);
    /* RULE H2-own-changes-make-the-descriptor-readable */
    loop_hint_raise(&handle_notify(p)->changes);
    if (atomic_load_explicit(handle_feed_until(p), memory_order_relaxed) != 0)
        notify_tell(handle_notify(p));
}

/* ---- Deleting old rows ---- */

static pawl_code commit_sweep(pawl *p, const int64_t old[3], int64_t before, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = error_nomem(err);
    if (u) {
        const db_value from[] = {db_int(old[1])}, rows[] = {db_int(old[0]), db_int(before)};
        unit_write(u, &FROM, unit_key_text("meta", SLICE_LIT("feed_from")), from, 1);
        unit_write(u, &REMOVE, unit_key_text("changes", SLICE_LIT("old")), rows, 2);
        rc = commit_unit(p, u, err);
    }
    arena_free(a);
    return rc;
}

static void turn_off(pawl *p, int64_t now)
{
    error err = {0};
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    const db_value value[] = {db_int(now)};
    if (u) {
        unit_guard(u, &TURN_OFF, "forgotten", unit_key_text("meta", SLICE_LIT("feed")), value, 1);
        commit_unit(p, u, &err);
    }
    arena_free(a);
}

/* Returns the time of the database, which the node loop has measured; 0: it is not known. */
static int64_t database_now_ms(pawl *p, error *err)
{
    int64_t now;
    return handle_time(p, &now, err) == PAWL_OK ? now : 0;
}

int change_feed_sweep(pawl *p, db_conn *conn)
{
    int64_t old[3] = {0};
    int found;
    error err = {0};
    int64_t before = database_now_ms(p, &err) - KEEP_MS;
    const db_value which[] = {db_int(before), db_int(KEEP_ROWS), db_int(SWEEP_PAGE)};
    if (db_begin(conn, &err) != PAWL_OK)
        return 0;
    pawl_code rc = read_pool_numbers(conn, &OLD, which, DB_COUNT(which), old, 3, &found, &err);
    db_rollback(conn);
    if (rc != PAWL_OK || old[2] == 0 || commit_sweep(p, old, before, &err) != PAWL_OK)
        return 0;
    return old[2] == SWEEP_PAGE;
}

void change_feed_look(pawl *p, db_conn *conn)
{
    int64_t meta[META_COUNT];
    int found;
    error err = {0};
    int64_t now = database_now_ms(p, &err);
    if (db_begin(conn, &err) != PAWL_OK)
        return;
    pawl_code rc = read_pool_numbers(conn, &META, NULL, 0, meta, META_COUNT, &found, &err);
    db_rollback(conn);
    if (rc != PAWL_OK)
        return;
    atomic_store(handle_feed_until(p), meta[META_UNTIL] > now ? meta[META_UNTIL] : 0);
    if (meta[META_UNTIL] != 0 && meta[META_UNTIL] < now && is_switched(p))
        turn_off(p, now);
}
