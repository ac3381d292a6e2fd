/* What others do to runs: start them, send them something, hold them and let them go on, take them
 * from their owner. */
#include <stdio.h>
#include <string.h>

#include "fleet.h"
#include "handle/handle.h"

static fleet_run *some_run(fleet *f)
{
    return &f->all[chance_between(&f->chance, 0, f->odds.runs - 1)];
}

/* 1: it was done. */
static int change(fleet *f, const char *sql)
{
    return sqlite3_exec(f->look, sql, NULL, NULL, NULL) == SQLITE_OK &&
           sqlite3_changes(f->look) > 0;
}

/* ---- Calls of programs ---- */

int64_t affairs_begin(fleet_node *n)
{
    n->polled = 1;
    n->calls_id = handle_node(n->engine);
    return n->hits;
}

int affairs_end(fleet_node *n, int64_t hits, pawl_code rc)
{
    n->polled = 0;
    int was_closed = rc == PAWL_FENCED && !fleet_is_open(n->fleet, n->calls_id);
    int excused =
        rc == PAWL_BUSY || n->hits != hits || n->plan.dead || was_closed || fleet_is_shut_out(n);
    if (n->plan.dead)
        fleet_remove_dead(n);
    return excused;
}

/* Started, or not; and that is what the database says too. */
void affairs_start(fleet *f, fleet_node *n, int number)
{
    char input[PROGRAM_TEXT];
    fleet_run *run = &f->all[number];
    if (run->is_dialog) {
        dialogs_start(f, n, run);
        return;
    }
    program_input(&run->program, number, input);
    int64_t hits = affairs_begin(n), created = -1;
    pawl_start_options o = {.size = sizeof o, .delay_ms = run->delay_ms, .created = &created};
    pawl_code rc = pawl_start(n->engine, "program", run->id, input, &o);
    fleet_tell(f, "node %d starts %s: %d", n->index, run->id, (int)rc);
    if (!affairs_end(n, hits, rc) && rc != PAWL_OK)
        fleet_wrong(f, "%s cannot be started: %d", run->id, (int)rc);
    if (rc != PAWL_OK)
        return;
    if (run->started && created)
        fleet_wrong(f, "%s was started twice", run->id);
    run->started = 1;
}

/* A node that holds a run of its own has let go of it when the call returns; other nodes hear of
 * it. */
static void note_hold(fleet *f, const fleet_node *n, fleet_run *run, const watch_row *r)
{
    fleet_count(f, TALLY_HOLDS);
    run->hold = r->phase == 0 || r->phase == 4 ? HOLD_YES : HOLD_NO;
    run->hold_fence = n->engine && r->owner == handle_node(n->engine) ? 0 : r->fence;
    run->hold_ns = f->mono_ns;
    run->hold_hits = f->hits;
}

/* What has been done while it had no answer is seen at the next look. */
void affairs_hold(fleet *f, fleet_node *n, fleet_run *run)
{
    if (!run)
        run = some_run(f);
    if (run->hold != HOLD_NO) {
        affairs_release(f, n, run);
        return;
    }
    int64_t hits = affairs_begin(n);
    f->dialog_log.holds++;
    pawl_code rc = pawl_hold(n->engine, run->id, "for a while");
    fleet_tell(f, "node %d holds %s: %d", n->index, run->id, (int)rc);
    int excused = affairs_end(n, hits, rc);
    watch_row r = watch_read(f, run);
    if (rc == PAWL_OK) {
        note_hold(f, n, run, &r);
    } else if (excused) {
        run->hold = r.found ? HOLD_PERHAPS : HOLD_NO;
    } else if (rc != (!r.found ? PAWL_NOTFOUND : PAWL_ENDED) ||
               (r.found && (r.phase == 0 || r.phase == 4))) {
        fleet_wrong(f, "%s cannot be held: %d", run->id, (int)rc);
    }
    sqlite3_reset(f->runs);
}

/* A released run begins anew. But the death of its owner is counted by the next one, which comes
 * after the release. */
static void forget_deaths(const fleet *f, fleet_run *run, const watch_row *r)
{
    run->sure = (fleet_deaths){0};
    run->deaths.count = r->owner != 0 && !fleet_has_node(f, r->owner) && run->deaths.count > 0;
}

void affairs_release(fleet *f, fleet_node *n, fleet_run *run)
{
    fleet_hold before = run->hold;
    int64_t hits = affairs_begin(n);
    run->hold = before == HOLD_YES ? HOLD_PERHAPS : before; /* it may be so before it is answered */
    pawl_code rc = pawl_release(n->engine, run->id);
    run->hold = before;
    fleet_tell(f, "node %d releases %s: %d", n->index, run->id, (int)rc);
    int excused = affairs_end(n, hits, rc);
    if (rc == PAWL_OK) {
        fleet_count(f, TALLY_RELEASES);
        run->hold = HOLD_NO;
        run->poisoned = 0;
        watch_row r = watch_read(f, run);
        sqlite3_reset(f->runs);
        run->tried = r.tried;
        run->mailed |= r.owner != 0; /* its owner may not have heard that it was held at all */
        forget_deaths(f, run, &r);
    } else if (excused) {
        run->hold = run->hold == HOLD_NO ? HOLD_NO : HOLD_PERHAPS;
    } else if (rc != PAWL_ENDED) {
        fleet_wrong(f, "%s cannot be released: %d", run->id, (int)rc);
    }
}

/* ---- Changes in the database ---- */

/* Another process has something for a run: a result that it does not wait for. */
void affairs_mail(fleet *f)
{
    fleet_run *run = some_run(f);
    char sql[640];
    if (!run->started || run->ended || f->odds.memory)
        return;
    long long now = fleet_time(f);
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE;"
             "UPDATE pawl_runs SET mail = mail + 1, wake_at = min(coalesce(wake_at, %lld), %lld)"
             " WHERE id = '%s' AND phase = 0 AND held = 0;"
             "INSERT INTO pawl_inbox (run, seq, generation, op, attempt, kind, name, by, at, enc)"
             " SELECT run, mail, 0, 0, 0, 2, 'done', '', %lld, 0 FROM pawl_runs"
             " WHERE id = '%s' AND phase = 0 AND held = 0;"
             "COMMIT",
             now, now, run->id, now, run->id);
    if (!change(f, sql)) { /* another node has the database, or it has ended */
        if (!sqlite3_get_autocommit(f->look))
            change(f, "ROLLBACK");
        return;
    }
    fleet_tell(f, "something arrives for %s", run->id);
    fleet_count(f, TALLY_MAIL);
    run->mailed = 1;
}

/* How often it has gone to sleep, if that is what it does now; 0: it does not. */
static int64_t asleep(fleet *f, int64_t key)
{
    sqlite3_bind_int64(f->last, 1, key);
    int64_t kind = sqlite3_step(f->last) == SQLITE_ROW ? sqlite3_column_int64(f->last, 0) : 0;
    sqlite3_reset(f->last);
    if (kind != PROGRAM_ROW_SLEEP)
        return 0;
    sqlite3_bind_int64(f->sleeps, 1, key);
    int64_t count = sqlite3_step(f->sleeps) == SQLITE_ROW ? sqlite3_column_int64(f->sleeps, 0) : 0;
    sqlite3_reset(f->sleeps);
    return count;
}

/* Rows of the journal have no fence, by design; so only those are stolen that sleep, and of which
 * nothing is executed before they sleep again or end. */
static int can_be_stolen(fleet *f, const fleet_run *run, const watch_row *r)
{
    if (run->is_dialog || !r->found || r->phase != 0 || r->owner == 0 || r->held || run->stolen)
        return 0;
    int64_t sleeps = asleep(f, r->key);
    return sleeps > 0 && program_is_idle_after(&run->program, sleeps);
}

/* A run changes hands, and its owner does not know: it has the fence to find out. */
static void steal(fleet *f, fleet_run *run)
{
    char sql[256];
    watch_row r = watch_read(f, run);
    sqlite3_reset(f->runs);
    if (!can_be_stolen(f, run, &r))
        return;
    snprintf(sql, sizeof sql,
             "UPDATE pawl_runs SET fence = fence + 1%s WHERE id = '%s' AND fence = %lld",
             chance_of(&f->chance, 500) ? ", owner = 0" : "", run->id, (long long)r.fence);
    if (!change(f, sql))
        return;
    fleet_tell(f, "%s is stolen", run->id);
    fleet_count(f, TALLY_THEFTS);
    run->stolen = r.fence + 1;
    run->stolen_owner = watch_read(f, run).owner;
    sqlite3_reset(f->runs);
    run->stolen_rows = watch_rows(f, r.key);
}

void affairs_steal(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++)
        steal(f, &f->all[i]);
}

void affairs_give_back(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++) {
        fleet_run *run = &f->all[i];
        char sql[256];
        if (!run->stolen || run->ended)
            continue;
        snprintf(sql, sizeof sql,
                 "UPDATE pawl_runs SET owner = 0 WHERE id = '%s' AND fence = %lld AND owner <> 0",
                 run->id, (long long)run->stolen);
        if (!change(f, sql))
            continue;
        fleet_tell(f, "%s has no owner now", run->id);
        run->stolen_owner = 0;
    }
}
