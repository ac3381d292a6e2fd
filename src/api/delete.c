/* Deleting a run, with its children and everything that is recorded of them.
 *
 * The family (the run and its descendants) is read first. Then each run is deleted by a unit of its
 * own, children before their parents, under a guard that the run is still as it was read. If the
 * process dies in between, a smaller family is left, and the call can be repeated.
 *
 * A live run may be driven meanwhile by a node that does not know of the deletion. So after a
 * deletion by force, the children of runs that were live are read and deleted again, until there
 * are none. The rows that such a node writes until its next park are deleted by the node loop
 * (orphan_rows.h). The key of a deleted run is never given to another run, so none of these rows
 * can reach another run. */
#include "api/delete.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "handle/handle.h"
#include "rows/delete_units.h"
#include "rows/node.h"
#include "rows/run_units.h"
#include "sched/arrival.h"
#include "sched/hold.h"
#include "sched/sched.h"

enum { LAPS_MAX = 16 };

/* The bound on the depth ends the recursion if foreign code has made a run its own ancestor. */
static const db_sql FAMILY = {
    "WITH RECURSIVE family (run, depth) AS ("
    " SELECT run, 0 FROM {runs} WHERE tenant = $1 AND id = $2"
    " UNION ALL SELECT r.run, f.depth + 1 FROM {runs} r, family f WHERE r.parent = f.run"
    " AND f.depth < 100000)"
    " SELECT f.run, r.phase, coalesce((SELECT p.run FROM {runs} p WHERE p.run = r.parent), 0)"
    " FROM family f JOIN {runs} r ON r.run = f.run ORDER BY f.depth DESC, f.run",
    "tt"};

/* The descendants of a run whose own row is deleted. */
static const db_sql ORPHANS = {
    "WITH RECURSIVE family (run, depth) AS ("
    " SELECT run, 0 FROM {runs} WHERE parent = $1"
    " UNION ALL SELECT r.run, f.depth + 1 FROM {runs} r, family f WHERE r.parent = f.run"
    " AND f.depth < 100000)"
    " SELECT f.run, r.phase, 0 FROM family f JOIN {runs} r ON r.run = f.run"
    " ORDER BY f.depth DESC, f.run",
    "i"};

/* Is there more in the long tables than one unit deletes? */
static const db_sql REMAINS = {"SELECT count(*) FROM (SELECT 1 FROM {journal} WHERE run = $1"
                               " UNION ALL SELECT 1 FROM {inbox} WHERE run = $1 LIMIT 1) s",
                               "i"};

typedef struct member {
    int64_t run;
    int live;
} member;

typedef struct family {
    member *at;
    size_t count;
    size_t room;
    int live;      /* 1: a member has not ended */
    int64_t above; /* the parent of the root; 0: none */
} family;

static pawl_code add_member(void *arg, db_stmt *row, error *err)
{
    family *f = arg;
    int64_t phase = read_pool_int(row, 1);
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 64;
        member *more = realloc(f->at, room * sizeof *more);
        if (!more)
            return error_nomem(err);
        f->at = more;
        f->room = room;
    }
    int live = phase == PHASE_LIVE || phase == PHASE_FAILING;
    f->at[f->count++] = (member){read_pool_int(row, 0), live};
    f->live |= live;
    f->above = read_pool_int(row, 2); /* the root comes last */
    return PAWL_OK;
}

static pawl_code check_family(const family *f, int force, error *err)
{
    if (f->count == 0)
        return read_pool_no_run(err);
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

/* `lock_ms`: how long to wait for a row lock; 0: as long as a client waits. */
static pawl_code commit_unit(sched *s, unit *u, int64_t run, int64_t lock_ms)
{
    u->class = UNIT_OF_CLIENT;
    u->lock_ms = lock_ms;
    pawl_code rc = committer_commit(sched_committer_of(s, run), u);
    return unit_shut_out(u, rc);
}

static pawl_code delete_one(sched *s, int64_t run, int force, int64_t lock_ms, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    delete_units_run(u, run, force);
    pawl_code rc = commit_unit(s, u, run, lock_ms);
    if (rc == PAWL_REFUSED)
        rc = force ? PAWL_OK : error_set(err, PAWL_REFUSED, "the run has begun anew meanwhile");
    else if (rc != PAWL_OK)
        error_set(err, rc, "the run was not deleted: %s",
                  u->message ? u->message : pawl_code_text(rc));
    if (rc == PAWL_OK && force) { /* a thread of this engine that drives the run drops it before the
                                     run's next work function */
        hold_stop_driving(s, run);
        arrival_cancel(s, run);
    }
    arena_free(a);
    return rc;
}

static pawl_code delete_all(sched *s, const family *f, int force, int64_t lock_ms, error *err)
{
    pawl_code rc = PAWL_OK;
    for (size_t i = 0; rc == PAWL_OK && i < f->count; i++)
        rc = delete_one(s, f->at[i].run, force, lock_ms, err);
    return rc;
}

/* ---- What was started meanwhile ---- */

/* Reads the descendants of the members that were live when they were deleted. */
static pawl_code read_orphans(pawl *p, const family *f, family *out, error *err)
{
    db_conn *c = NULL;
    pawl_code rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    for (size_t i = 0; rc == PAWL_OK && i < f->count; i++) {
        const db_value key = db_int(f->at[i].run);
        if (f->at[i].live)
            rc = read_pool_rows(c, &ORPHANS, &key, 1, add_member, out, err);
    }
    read_pool_end(handle_read_pool(p), c);
    return rc;
}

/* Frees the members of the family, after it has deleted the runs that live members have started
 * meanwhile, the runs that those have started, and so on, LAPS_MAX times at most. Children that are
 * started later are deleted by the node loop (orphan_rows.h). */
static pawl_code delete_orphans(pawl *p, family *f, error *err)
{
    pawl_code rc = PAWL_OK;
    for (int lap = 0; rc == PAWL_OK && f->live && lap < LAPS_MAX; lap++) {
        family more = {0};
        rc = read_orphans(p, f, &more, err);
        if (rc == PAWL_OK)
            rc = delete_all(handle_sched(p), &more, 1, 0, err);
        free(f->at);
        *f = more;
    }
    return rc;
}

static pawl_code delete_rows_of(sched *s, int64_t run, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    delete_units_leftovers(u, run);
    /* RULE L4-leftovers-that-are-locked-do-not-keep-the-node-loop */
    pawl_code rc = commit_unit(s, u, run, NODE_LOOP_LOCK_MS);
    if (rc != PAWL_OK && rc != PAWL_REFUSED)
        error_set(err, rc, "leftovers of a run were not deleted: %s",
                  u->message ? u->message : pawl_code_text(rc));
    arena_free(a);
    return rc;
}

pawl_code delete_leftovers(sched *s, db_conn *c, int64_t run, int *more, error *err)
{
    family f = {0};
    int64_t remains = 0;
    int found;
    const db_value key = db_int(run);
    *more = 0;
    pawl_code rc = delete_rows_of(s, run, err);
    if (rc != PAWL_OK)
        return rc == PAWL_REFUSED ? PAWL_OK : rc;
    rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_rows(c, &ORPHANS, &key, 1, add_member, &f, err);
    if (rc == PAWL_OK)
        rc = db_number(c, &REMAINS, &key, 1, &remains, &found, err);
    db_rollback(c);
    if (rc == PAWL_OK)
        rc = delete_all(s, &f, 1, NODE_LOOP_LOCK_MS, err);
    *more = rc == PAWL_OK && remains > 0; /* RULE leftovers-are-deleted-in-bounded-units */
    free(f.at);
    return rc;
}

/* ---- The call ---- */

static pawl_code delete_family(pawl *p, slice id, int force, error *err)
{
    db_conn *c = NULL;
    family f = {0};
    const db_value values[] = {db_text(handle_tenant(p)), db_text(id)};
    pawl_code rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc == PAWL_OK) {
        rc = read_pool_rows(c, &FAMILY, values, DB_COUNT(values), add_member, &f, err);
        read_pool_end(handle_read_pool(p), c);
    }
    if (rc == PAWL_OK)
        rc = check_family(&f, force, err);
    if (rc == PAWL_OK)
        rc = delete_all(handle_sched(p), &f, force, 0, err);
    if (rc == PAWL_OK && force)
        rc = delete_orphans(p, &f, err); /* RULE children-started-during-a-deletion-are-deleted */
    free(f.at);
    return rc;
}

pawl_code pawl_delete(pawl *p, const char *id, int force)
{
    error err = {0};
    slice text;
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK)
        rc = argument_text(&text, id, PAWL_MAX_ID, "id of the run", &err);
    if (rc == PAWL_OK)
        rc = delete_family(p, text, force, &err);
    return handle_leave(p, rc, &err);
}
