/* Deleting a run, with its children and everything that is recorded of them.
 *
 * The family is read first; then each run goes by a unit of its own, the youngest first, under a
 * guard that it is still as it was found. If somebody starts a child meanwhile, or the process
 * dies, what is left is a smaller family: the call can be repeated.
 *
 * Keys are never given again: what a node still writes about a run that was deleted by force under
 * its hands reaches nobody. */
#include <stdlib.h>
#include <string.h>

#include "core/client.h"
#include "core/run_units.h"

/* Where something else has written into the database a run may be its own ancestor: that ends. */
static const db_sql FAMILY = {
    "WITH RECURSIVE family (run, depth) AS ("
    " SELECT run, 0 FROM {runs} WHERE tenant = $1 AND id = $2"
    " UNION ALL SELECT r.run, f.depth + 1 FROM {runs} r, family f WHERE r.parent = f.run"
    " AND f.depth < 100000)"
    " SELECT f.run, r.status, coalesce((SELECT p.run FROM {runs} p WHERE p.run = r.parent), 0)"
    " FROM family f JOIN {runs} r ON r.run = f.run ORDER BY f.depth DESC, f.run",
    "tt"};

static const db_sql ENDED = {"DELETE FROM {runs} WHERE run = $1 AND status IN (1, 2, 3)"
                             " RETURNING run",
                             "i"};
static const db_sql ANY = {"DELETE FROM {runs} WHERE run = $1 RETURNING run", "i"};

static const db_sql REST[] = {
    {"DELETE FROM {journal} WHERE run = $1", "i"},
    {"DELETE FROM {generations} WHERE run = $1", "i"},
    {"DELETE FROM {inbox} WHERE run = $1", "i"},
    {"DELETE FROM {receipts} WHERE run = $1", "i"},
    {"DELETE FROM {attributes} WHERE run = $1", "i"},
    {"DELETE FROM {state} WHERE run = $1", "i"},
    {"DELETE FROM {tasks} WHERE run = $1", "i"},
};

typedef struct family {
    int64_t *runs;
    size_t count;
    size_t room;
    int live;      /* one of them is */
    int64_t above; /* the parent of the root */
} family;

static pawl_code note(void *arg, db_stmt *row, error *err)
{
    family *f = arg;
    int64_t status = reader_int(row, 1);
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 64;
        int64_t *more = realloc(f->runs, room * sizeof *more);
        if (!more)
            return error_set(err, PAWL_NOMEM, "out of memory");
        f->runs = more;
        f->room = room;
    }
    f->runs[f->count++] = reader_int(row, 0);
    f->live |= status == RUN_LIVE || status == RUN_FAILING;
    f->above = reader_int(row, 2); /* the root comes last */
    return PAWL_OK;
}

static pawl_code check(const family *f, int force, error *err)
{
    if (f->count == 0)
        return reader_no_run(err);
    if (f->above) {
        error_set(err, PAWL_REFUSED, "the run is the child of another one");
        error_hint(err, "delete that one, and its children go with it");
        return PAWL_REFUSED;
    }
    if (f->live && !force) {
        error_set(err, PAWL_REFUSED, "the run, or a child of it, has not ended");
        error_hint(err, "cancel it first, or delete it by force");
        return PAWL_REFUSED;
    }
    return PAWL_OK;
}

static pawl_code delete_one(drive *d, int64_t run, int force, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_set(err, PAWL_NOMEM, "out of memory");
    }
    const db_value key = db_int(run);
    unit_guard(u, force ? &ANY : &ENDED, "there", unit_key("runs", run), &key, 1);
    for (size_t i = 0; i < sizeof REST / sizeof *REST; i++)
        unit_write(u, &REST[i], unit_key("delete", run + (int64_t)i), &key, 1);
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = committer_commit(committers_of(d->options.committers, (uint64_t)run), u);
    rc = client_code(u, rc);
    if (rc == PAWL_REFUSED)
        rc = force ? PAWL_OK : error_set(err, PAWL_REFUSED, "the run has begun anew meanwhile");
    else if (rc != PAWL_OK)
        error_set(err, rc, "the run was not deleted: %s",
                  u->message ? u->message : pawl_code_text(rc));
    if (rc == PAWL_OK && force) { /* who drives it here drops it before the next work function */
        hold_stop_driving(d, run);
        drive_cancel(d, run);
    }
    arena_free(a);
    return rc;
}

static pawl_code delete_family(pawl *p, slice id, int force, error *err)
{
    db_conn *c = NULL;
    family f = {0};
    const db_value values[] = {db_text(engine_tenant(p)), db_text(id)};
    pawl_code rc = readers_begin(engine_readers(p), &c, err);
    if (rc == PAWL_OK) {
        rc = reader_rows(c, &FAMILY, values, DB_COUNT(values), note, &f, err);
        readers_end(engine_readers(p), c);
    }
    if (rc == PAWL_OK)
        rc = check(&f, force, err);
    for (size_t i = 0; rc == PAWL_OK && i < f.count; i++)
        rc = delete_one(engine_drive(p), f.runs[i], force, err);
    free(f.runs);
    return rc;
}

pawl_code pawl_delete(pawl *p, const char *id, int force)
{
    error err = {0};
    slice text;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = client_text(&text, id, PAWL_MAX_ID, "id of the run", &err);
    if (rc == PAWL_OK)
        rc = delete_family(p, text, force, &err);
    return engine_leave(p, rc, &err);
}
