/* Looking while they work: what the database says at any time must make sense.
 *
 * It is read by SQLite alone, so that an engine that sees things as it likes cannot hide it. */
#include <inttypes.h>

#include "fleet.h"
#include "handle/handle.h"

/* As pawl.h and docs/format.md say. */
enum {
    HELD_VERSION = 1,
    HELD_POISON = 3,
    HELD_BY_HAND = 4,
    POISON_DEATHS = 5,
    ALONE_DEATHS = 3,
    ROUNDS_MAX = 400
};

static const int64_t HEARD_NS = INT64_C(2000000000);

static const char *text_of(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

watch_row watch_read(fleet *f, const fleet_run *run)
{
    sqlite3_stmt *s = f->runs;
    watch_row r = {0};
    sqlite3_reset(s);
    sqlite3_bind_text(s, 1, run->id, -1, SQLITE_STATIC);
    if (sqlite3_step(s) != SQLITE_ROW)
        return r;
    return (watch_row){.found = 1,
                       .key = sqlite3_column_int64(s, 0),
                       .phase = sqlite3_column_int64(s, 1),
                       .held = sqlite3_column_int64(s, 2),
                       .owner = sqlite3_column_int64(s, 3),
                       .fence = sqlite3_column_int64(s, 4),
                       .wakes = sqlite3_column_type(s, 5) != SQLITE_NULL,
                       .wake_ms = sqlite3_column_int64(s, 5),
                       .output = text_of(s, 6),
                       .error = text_of(s, 7),
                       .reason = text_of(s, 8),
                       .status = text_of(s, 9),
                       .status_seq = sqlite3_column_int64(s, 10),
                       .created_ms = sqlite3_column_int64(s, 11),
                       .tried = sqlite3_column_int64(s, 12),
                       .generation = sqlite3_column_int64(s, 13),
                       .claims = sqlite3_column_int64(s, 14)};
}

int64_t watch_rows(fleet *f, int64_t key)
{
    sqlite3_bind_int64(f->rows, 1, key);
    sqlite3_step(f->rows);
    int64_t last = sqlite3_column_int64(f->rows, 1);
    sqlite3_reset(f->rows);
    return last;
}

/* ---- Holds ---- */

/* A cancel ends every hold, and so does a deadline. */
static void see_hold(fleet *f, fleet_run *run, const watch_row *r)
{
    int held = r->held == HELD_BY_HAND;
    if ((run->cancel || run->deadline_ms) && run->hold == HOLD_YES)
        run->hold = HOLD_PERHAPS;
    if (held && run->hold == HOLD_NO)
        fleet_wrong(f, "%s is held, and no hold was asked for", run->id);
    if (!held && run->hold == HOLD_YES)
        fleet_wrong(f, "%s was held, and goes on without a release", run->id);
    if (run->hold == HOLD_PERHAPS) {
        run->hold = held ? HOLD_YES : HOLD_NO;
        run->hold_fence = r->fence;
        run->hold_ns = f->mono_ns;
        run->hold_hits = f->hits;
    }
    if (f->rest && held && !run->stolen && !run->inside && r->owner != 0 &&
        fleet_is_open(f, r->owner))
        fleet_wrong(f, "%s is held, and node %" PRId64 " does not let go of it", run->id, r->owner);
}

/* Processes that were shut out count too, for an unknown run. */
static int64_t most_deaths(const fleet *f, const fleet_run *run)
{
    return run->deaths.count + f->silences + (f->odds.server ? FLEET_NODES : 0);
}

/* So many processes have died of it. Another build lets it go on, or a release by hand. */
static void see_poison(fleet *f, fleet_run *run, const watch_row *r)
{
    if (r->tried != run->tried && r->held == 0)
        run->deaths = run->sure = (fleet_deaths){0};
    run->tried = r->tried;
    if (r->held == HELD_POISON && !run->poisoned) {
        fleet_tell(f, "%s is poison", run->id);
        fleet_count(f, TALLY_POISON);
        run->poisoned = 1;
        if (most_deaths(f, run) < POISON_DEATHS)
            fleet_wrong(f, "%s is held after %" PRId64 " deaths: %s", run->id, run->deaths.count,
                        r->reason ? r->reason : "");
    } else if (r->held != HELD_POISON && run->poisoned) {
        run->poisoned = 0;
        run->deaths = run->sure = (fleet_deaths){0};
        if (f->builds < 2 && r->held != HELD_BY_HAND)
            fleet_wrong(f, "%s was poison, and goes on without a release", run->id);
    }
    if (r->held == HELD_VERSION && f->odds.lack)
        fleet_tell(f, "%s finds no node that can do its work", run->id);
    else if (r->held != 0 && r->held != HELD_POISON && r->held != HELD_BY_HAND)
        fleet_wrong(f, "%s is held: %s", run->id, r->reason ? r->reason : "");
}

/* ---- Sleep ---- */

/* Until when a run may sleep, as far as its journal says. */
static int64_t deadline_of(fleet *f, const fleet_run *run, const watch_row *r)
{
    int64_t until = r->created_ms + run->delay_ms;
    sqlite3_bind_int64(f->last, 1, r->key);
    if (sqlite3_step(f->last) == SQLITE_ROW) {
        const char *data = text_of(f->last, 1);
        int64_t said = program_waits_until(sqlite3_column_int64(f->last, 0), data ? data : "null");
        until = said > until ? said : until;
    }
    sqlite3_reset(f->last);
    return until;
}

static int has_arrived(fleet *f, int64_t key)
{
    sqlite3_bind_int64(f->arrived, 1, key);
    int any = sqlite3_step(f->arrived) == SQLITE_ROW && sqlite3_column_int64(f->arrived, 0) > 0;
    sqlite3_reset(f->arrived);
    return any;
}

static void see_sleep(fleet *f, fleet_run *run, const watch_row *r)
{
    if (r->held)
        return;
    if ((!r->wakes || r->wake_ms > f->latest_ms) && has_arrived(f, r->key))
        fleet_wrong(f, "%s sleeps although something has arrived", run->id);
    if (!r->wakes)
        fleet_wrong(f, "%s will never wake", run->id);
    /* A duration that began in a process takes its time there when the clock is set forward. */
    int64_t least_ms = r->wake_ms - f->ahead_ms;
    if (r->wake_ms > f->latest_ms && least_ms > deadline_of(f, run, r))
        fleet_wrong(f, "%s sleeps for longer than it should", run->id);
}

/* ---- Owners ---- */

/* Its owner has lost it: nothing of it may change before it was claimed. */
static void see_theft(fleet *f, fleet_run *run, const watch_row *r)
{
    if (!run->stolen)
        return;
    if (r->fence != run->stolen)
        run->stolen = 0;
    else if (r->phase != 0 || watch_rows(f, r->key) != run->stolen_rows ||
             (r->owner != run->stolen_owner && fleet_is_open(f, run->stolen_owner)))
        fleet_wrong(f, "%s is driven by a node that has lost it", run->id);
}

static void see_owner(fleet *f, fleet_run *run, const watch_row *r)
{
    if (r->fence < run->fence)
        fleet_wrong(f, "the fence of %s goes back", run->id);
    if (r->fence > run->fence && run->owner != 0 && r->owner != run->owner && r->owner != 0)
        fleet_count(f, TALLY_TAKEOVERS);
    run->owner = r->owner;
    run->fence = r->fence;
}

/* Messages wake every run that a node has owned, whatever time it sleeps until: by `claims` they
 * know it. The fence is 1 until the first claim, also of a run that is born with an owner. */
static void see_claims(fleet *f, fleet_run *run, const watch_row *r)
{
    run->was_driven |= r->owner != 0 || r->claims > 0 || r->fence > 1;
    if (run->was_driven && r->claims == 0)
        fleet_wrong(f, "%s was driven, and looks as if it never was", run->id);
}

static void look_at(fleet *f, fleet_run *run)
{
    watch_row r = watch_read(f, run);
    if (!r.found) {
        if (run->started)
            fleet_wrong(f, "%s was started and is not there", run->id);
        sqlite3_reset(f->runs);
        return;
    }
    run->key = r.key;
    see_owner(f, run, &r);
    see_claims(f, run, &r);
    see_theft(f, run, &r);
    run->ended = r.phase != 0 && r.phase != 4;
    if (!run->ended)
        see_hold(f, run, &r);
    if (!run->ended && !run->is_dialog) {
        see_poison(f, run, &r);
        see_sleep(f, run, &r);
    }
    sqlite3_reset(f->runs);
}

void watch_look(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++)
        if (!f->all[i].ended)
            look_at(f, &f->all[i]);
    if (f->odds.dialog)
        dialogs_look(f);
}

/* ---- What is due ---- */

/* Not counting those that may be due without anything to do: they have mail. */
static int is_waiting(fleet *f, const fleet_run *run, int64_t *wake_ms)
{
    watch_row r = watch_read(f, run);
    sqlite3_reset(f->runs);
    *wake_ms = r.wake_ms;
    return r.found && r.phase == 0 && !r.held && r.wakes && !run->mailed && !run->is_dialog;
}

int64_t watch_due(fleet *f)
{
    int64_t due = f->odds.dialog ? f->dialog_log.due_ms : INT64_MAX, wake_ms;
    for (int i = 0; i < f->odds.runs; i++)
        if (is_waiting(f, &f->all[i], &wake_ms) && wake_ms < due)
            due = wake_ms;
    return due;
}

/* Processes that were shut out count too, for an unknown run. */
int watch_is_quarantined(const fleet *f, const fleet_run *run)
{
    return run->deaths.count + f->silences >= ALONE_DEATHS;
}

/* Quarantined runs wait for seconds, in which there may be many rounds; and where there are threads
 * rounds are short, and liveness.c has the time in view. */
void watch_quiet(fleet *f)
{
    if (f->odds.threads)
        return;
    for (int i = 0; i < f->odds.runs; i++) {
        fleet_run *run = &f->all[i];
        int64_t wake_ms;
        int due = is_waiting(f, run, &wake_ms) && wake_ms <= fleet_time(f) && !run->inside &&
                  !watch_is_quarantined(f, run);
        run->due_rounds = due ? run->due_rounds + 1 : 0;
        if (run->due_rounds > ROUNDS_MAX)
            fleet_wrong(f, "%s is due, and no node drives it", run->id);
    }
}

/* ---- Death ---- */

static void count_death(fleet_deaths *d, int64_t rows)
{
    d->count = d->rows == rows ? d->count + 1 : 1;
    d->rows = rows;
}

/* Where the clock is set back a run may not be due any more, and then it is not asked whether it
 * was being executed. Where that has to be written down before, storage that fails may take so long
 * that the run counts as innocent. And a hold for something else lets it begin anew. */
static int is_counted(const fleet_odds *o)
{
    int is_written = !o->server || (!o->fail && !o->fail_commit && !o->lose);
    return is_written && (o->server || !o->jump) && !o->lack;
}

/* The runs that a death may be counted for: the one in whose work function the process was; if it
 * was in none, any of its own; if no thread was at work, none. Where nothing tells what a node was
 * executing, all of its runs. */
void watch_death(fleet *f, const fleet_node *n, int64_t id)
{
    for (int i = 0; i < f->odds.runs; i++) {
        fleet_run *run = &f->all[i];
        watch_row r = watch_read(f, run);
        sqlite3_reset(f->runs);
        if (!r.found || r.phase != 0 || r.owner != id || run->is_dialog)
            continue;
        int64_t rows = watch_rows(f, r.key);
        if (f->odds.server || n->died_in == 0 || n->died_in == i + 1)
            count_death(&run->deaths, rows);
        if (!n->silent && n->died_in == i + 1 && is_counted(&f->odds))
            count_death(&run->sure, rows);
    }
}

/* ---- Executions ---- */

/* Where heartbeats are rows, a node that has sent none for too long calls no work function. */
static void see_claim(fleet_node *n)
{
    fleet *f = n->fleet;
    int64_t at = 0;
    if (!f->odds.server)
        return;
    sqlite3_bind_int64(f->beat, 1, handle_node(n->engine));
    if (sqlite3_step(f->beat) == SQLITE_ROW)
        at = sqlite3_column_int64(f->beat, 0);
    sqlite3_reset(f->beat);
    if (at == 0 || f->server_ms - at >= FLEET_CLAIM_MS)
        fleet_wrong(f, "node %d executes something although its claims are over", n->index);
}

/* What was recorded last says when something may happen next. Since its time had come, the clock
 * may have been set back. */
static void see_time(fleet *f, const fleet_run *run, int64_t key)
{
    int64_t from = 0;
    sqlite3_bind_int64(f->last, 1, key);
    if (sqlite3_step(f->last) == SQLITE_ROW && text_of(f->last, 1))
        from = program_rests_until(sqlite3_column_int64(f->last, 0), text_of(f->last, 1));
    sqlite3_reset(f->last);
    if (f->latest_ms < from)
        fleet_wrong(f, "%s is executed %" PRId64 " ms too early", run->id, from - f->latest_ms);
}

/* Since it was looked at last it was perhaps held, and another build has let it go on. */
static int was_released(fleet *f, int number)
{
    fleet_run *run = &f->all[number];
    watch_row r = watch_read(f, run);
    sqlite3_reset(f->runs);
    return r.tried != run->tried || (run->poisoned && r.held == 0);
}

/* It looks once a second, at the beginning of a poll. But a claim without an answer is no run yet
 * that could be told. */
static int has_heard(const fleet_node *n, const fleet_run *run)
{
    const fleet_odds *o = &n->fleet->odds;
    return !o->lose && !o->fail_commit && n->began_ns >= run->hold_ns + HEARD_NS &&
           n->fleet->hits == run->hold_hits;
}

static int64_t fence_of(fleet *f, const fleet_run *run)
{
    int64_t fence = watch_read(f, run).fence;
    sqlite3_reset(f->runs);
    return fence;
}

/* May it be driven nevertheless? A node that was taken for dead on a file, and lives, learns of
 * what others did since then when its next unit is refused. */
static int may_execute(const fleet_node *n, const fleet_run *run, int64_t fence)
{
    if (n->silent && fence < fence_of(n->fleet, run))
        return 1;
    return !n->fleet->rest && fence == run->hold_fence && !has_heard(n, run);
}

void watch_execution(fleet_node *n, int number, int64_t key, int64_t fence)
{
    fleet *f = n->fleet;
    const fleet_run *run = &f->all[number];
    see_claim(n);
    see_time(f, run, key);
    if (run->hold == HOLD_YES && !may_execute(n, run, fence))
        fleet_wrong(f, "%s is executed although it is held", run->id);
    if (run->sure.count > POISON_DEATHS + 1 && !was_released(f, number))
        fleet_wrong(f, "%s is executed after %" PRId64 " deaths", run->id, run->sure.count);
}

void watch_dialog_execution(fleet_node *n, int number, int64_t fence)
{
    fleet *f = n->fleet;
    const fleet_run *run = number >= 0 ? &f->all[number] : NULL;
    see_claim(n);
    if (run && !run->cancel && !run->deadline_ms && run->hold == HOLD_YES &&
        !may_execute(n, run, fence))
        fleet_wrong(f, "%s is executed although it is held", run->id);
}
