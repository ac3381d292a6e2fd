/* Looking at dialogs while they work: what the database says of all of them at once, children too.
 * A transaction is seen as a whole or not at all, so what comes together must be there together. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet.h"

enum { HELD_MISMATCH = 2 };

/* The columns of f->family. */
typedef struct kin {
    int64_t key, phase, held, wake_ms, owner, parent, parent_generation, rows, messages;
    int64_t parent_status, parent_now, ending;
    int wakes, cancelled, has_parent;
    const char *id, *reason;
} kin;

static int is_null(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL;
}

static kin read_kin(sqlite3_stmt *s)
{
    return (kin){.key = sqlite3_column_int64(s, 0),
                 .id = (const char *)sqlite3_column_text(s, 1),
                 .phase = sqlite3_column_int64(s, 2),
                 .held = sqlite3_column_int64(s, 3),
                 .reason = (const char *)sqlite3_column_text(s, 4),
                 .wakes = !is_null(s, 5),
                 .wake_ms = sqlite3_column_int64(s, 5),
                 .owner = sqlite3_column_int64(s, 6),
                 .has_parent = !is_null(s, 7),
                 .parent = sqlite3_column_int64(s, 7),
                 .parent_generation = sqlite3_column_int64(s, 8),
                 .cancelled = !is_null(s, 9),
                 .rows = sqlite3_column_int64(s, 10),
                 .messages = sqlite3_column_int64(s, 11),
                 .parent_status = is_null(s, 12) ? -1 : sqlite3_column_int64(s, 12),
                 .parent_now = sqlite3_column_int64(s, 13),
                 .ending = sqlite3_column_int64(s, 14)};
}

/* A run that has a message to take is awake, unless it is held or has not begun. */
static void see_sleep(fleet *f, const kin *k)
{
    int asleep = !k->wakes || k->wake_ms > f->latest_ms;
    if (k->held || !asleep || (k->rows == 0 && k->owner == 0))
        return;
    if (k->messages)
        fleet_wrong(f, "%s sleeps although something of kind %" PRId64 " has arrived", k->id,
                    k->messages);
    if (k->phase == 4 && !k->wakes)
        fleet_wrong(f, "%s is to be cleaned up, and sleeps", k->id);
}

/* A future that is not waited for any more has been told so. */
static void see_parent(fleet *f, const kin *k)
{
    if (!k->has_parent || k->cancelled)
        return;
    if (k->parent_status < 0)
        fleet_wrong(f, "%s has a parent that is not there", k->id);
    else if (k->parent_status != 0 && k->parent_status != 4)
        fleet_wrong(f, "the parent of %s has ended, and it goes on", k->id);
    else if (k->parent_generation < k->parent_now && !f->dialog_log.redriven)
        fleet_wrong(f, "the parent of %s has begun anew, and it goes on", k->id);
}

/* What says so in the journal and what says so in the row came together. */
static void see_ending(fleet *f, const kin *k)
{
    if (k->phase == 0 && k->ending)
        fleet_wrong(f, "%s ends, and is live", k->id);
    if (k->phase == 4 && !k->ending && !k->cancelled)
        fleet_wrong(f, "%s is failing, and its journal does not say so", k->id);
}

/* ---- Messages ---- */

/* The op waits for one still. */
static int is_open(fleet *f, int64_t key, int64_t generation, int64_t op)
{
    sqlite3_stmt *s = f->after;
    int open = 1;
    sqlite3_bind_int64(s, 1, key);
    sqlite3_bind_int64(s, 2, generation);
    while (open && sqlite3_step(s) == SQLITE_ROW) {
        int64_t kind = sqlite3_column_int64(s, 0);
        const char *data = (const char *)sqlite3_column_text(s, 2);
        open = kind != DIALOG_ROW_ENDING &&
               !(kind >= DIALOG_ROW_DONE && sqlite3_column_int64(s, 1) == op) &&
               !(kind == DIALOG_ROW_ABANDON && dialog_abandons(data, op));
    }
    sqlite3_reset(s);
    return open;
}

static void see_messages(fleet *f)
{
    sqlite3_stmt *s = f->messages;
    sqlite3_reset(s);
    sqlite3_bind_int64(s, 1, f->latest_ms);
    while (sqlite3_step(s) == SQLITE_ROW)
        if (is_open(f, sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                    sqlite3_column_int64(s, 2)))
            fleet_wrong(f, "%s sleeps beside its messages",
                        (const char *)sqlite3_column_text(s, 3));
    sqlite3_reset(s);
}

/* ---- The whole ---- */

void dialogs_look(fleet *f)
{
    sqlite3_stmt *s = f->family;
    f->dialog_log.live = 0;
    f->dialog_log.due_ms = INT64_MAX;
    sqlite3_reset(s);
    while (sqlite3_step(s) == SQLITE_ROW) {
        kin k = read_kin(s);
        f->dialog_log.live++;
        if (k.wakes && !k.held && k.wake_ms < f->dialog_log.due_ms)
            f->dialog_log.due_ms = k.wake_ms;
        if (k.held == HELD_MISMATCH)
            fleet_wrong(f, "%s is held: %s", k.id, k.reason ? k.reason : "");
        see_sleep(f, &k);
        see_parent(f, &k);
        see_ending(f, &k);
    }
    sqlite3_reset(s);
    see_messages(f);
}
