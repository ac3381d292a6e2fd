/* What others do to dialogs: start them, send them messages with and without keys, cancel them, and
 * redrive them when they have failed. What is answered is checked at once, as far as it can be
 * known; the rest when all is over. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet.h"

enum { REDRIVES_MAX = 2, NUDGE_MS = 60000 };

static fleet_run *some_dialog(fleet *f)
{
    fleet_run *run = &f->all[chance_between(&f->chance, 0, f->odds.runs - 1)];
    for (int i = 0; i < f->odds.runs && !run->is_dialog; i++)
        run = &f->all[i];
    return run->is_dialog ? run : NULL;
}

static int is_over(int64_t phase)
{
    return phase != 0 && phase != 4;
}

/* 1: there is such a run; and what its row says. */
static watch_row read_row(fleet *f, const fleet_run *run)
{
    watch_row r = watch_read(f, run);
    sqlite3_reset(f->runs);
    return r;
}

/* ---- Starting ---- */

static void put_input(const fleet_run *run, char out[96])
{
    dialog_input(run->dialog_seed, 0, run->dialog_left, out);
}

void dialogs_start(fleet *f, fleet_node *n, fleet_run *run)
{
    char input[96];
    int64_t hits = affairs_begin(n), created = -1;
    put_input(run, input);
    pawl_start_options o = {.size = sizeof o,
                            .delay_ms = run->delay_ms,
                            .deadline_ms = run->deadline_ms,
                            .created = &created};
    pawl_code rc = pawl_start(n->engine, "dialog", run->id, input, &o);
    fleet_tell(f, "node %d starts the dialog %s: %d", n->index, run->id, (int)rc);
    if (!affairs_end(n, hits, rc) && rc != PAWL_OK)
        fleet_wrong(f, "%s cannot be started: %d", run->id, (int)rc);
    if (rc != PAWL_OK)
        return;
    if (run->started && created)
        fleet_wrong(f, "%s was started twice", run->id);
    run->started = 1;
}

/* ---- Sending ---- */

dialogs_sent *dialogs_new_sent(dialogs *all)
{
    return all->sent_count < DIALOGS_SENT ? &all->sent[all->sent_count++] : NULL;
}

/* One that has a key and was sent to this run before. */
static dialogs_sent *some_sent(fleet *f, const char *id)
{
    dialogs *all = &f->dialog_log;
    if (all->sent_count == 0)
        return NULL;
    int from = (int)chance_between(&f->chance, 0, all->sent_count - 1);
    for (int i = from; i < all->sent_count; i++)
        if (all->sent[i].key[0] && strcmp(all->sent[i].id, id) == 0)
            return &all->sent[i];
    return NULL;
}

typedef struct sending {
    dialogs_sent *what;
    const fleet_run *run; /* NULL: a child */
    int perhaps;          /* it may have been sent before: then its key is known */
    int again;            /* it was sent before, for sure … */
    int other;            /* … and now its key is used for something else */
    int starts;
    int64_t seq;
} sending;

static pawl_code put(fleet_node *n, sending *s)
{
    char message[64], input[96] = "null";
    const dialogs_sent *what = s->what;
    snprintf(message, sizeof message, "{\"m\":\"%s%" PRIu64 "\"}", s->other ? "x" : "s",
             what->number);
    pawl_start_options start = {.size = sizeof start};
    pawl_send_options o = {.size = sizeof o, .seq = &s->seq};
    if (what->key[0])
        o.key = what->key;
    if (s->starts) {
        put_input(s->run, input);
        start.delay_ms = s->run->delay_ms;
        start.deadline_ms = s->run->deadline_ms;
        o.start = "dialog";
        o.start_input = input;
        o.start_options = &start;
    }
    return pawl_send(n->engine, what->id, what->box ? "box-1" : "box-0", message, &o);
}

/* Is the answer one that there may be? The run may have been redriven meanwhile. */
static void check_answer(fleet *f, const sending *s, pawl_code rc, const watch_row *before,
                         const watch_row *after)
{
    const dialogs_sent *what = s->what;
    int was_over = before->found && is_over(before->phase);
    int is_now = after->found && is_over(after->phase);
    if (rc == PAWL_OK && s->other)
        fleet_wrong(f, "a key of %s was taken for two messages", what->id);
    else if (rc == PAWL_OK && s->again && s->seq != what->seq)
        fleet_wrong(f, "message %" PRIu64 " is %" PRId64 " and was %" PRId64, what->number, s->seq,
                    what->seq);
    else if (rc == PAWL_OK && !s->again && !s->perhaps && was_over &&
             after->generation == before->generation)
        fleet_wrong(f, "%s has ended, and takes a message", what->id);
    else if (rc == PAWL_CONFLICT && !s->other)
        fleet_wrong(f, "message %" PRIu64 " is not itself", what->number);
    else if (rc == PAWL_ENDED && (s->again || !(is_now || was_over)))
        fleet_wrong(f, "%s takes no message, and has not ended", what->id);
    else if (rc == PAWL_NOTFOUND && (before->found || s->starts))
        fleet_wrong(f, "%s takes no message, and is there", what->id);
    else if (rc != PAWL_OK && rc != PAWL_ENDED && rc != PAWL_NOTFOUND && rc != PAWL_CONFLICT)
        fleet_wrong(f, "%s cannot be sent anything: %d", what->id, (int)rc);
}

static void note_answer(fleet *f, sending *s, pawl_code rc, int excused)
{
    dialogs_sent *what = s->what;
    if (s->other) {
        f->tally->at[TALLY_CONFLICTS] += rc == PAWL_CONFLICT;
        return;
    }
    if (rc != PAWL_OK) {
        if (!excused && !s->again && what == &f->dialog_log.sent[f->dialog_log.sent_count - 1])
            f->dialog_log.sent_count--; /* it was not sent */
        return;
    }
    fleet_count(f, s->again ? TALLY_REPEATS : TALLY_SENDS);
    if (!what->sure)
        what->seq = s->seq;
    what->sure = 1;
}

/* An id that is no root's: `run` is NULL. */
static void send_it(fleet *f, fleet_node *n, const char *id, fleet_run *run, int64_t phase)
{
    dialogs_sent *what = chance_of(&f->chance, 250) ? some_sent(f, id) : NULL;
    sending s = {.run = run, .perhaps = what && what->key[0], .again = what && what->sure};
    s.other = s.again && chance_of(&f->chance, 300);
    if (!what) {
        what = dialogs_new_sent(&f->dialog_log);
        if (!what)
            return;
        *what = (dialogs_sent){.number = ++f->dialog_log.numbers,
                               .box = (int)chance_between(&f->chance, 0, DIALOG_BOXES - 1)};
        snprintf(what->id, sizeof what->id, "%s", id);
        if (chance_of(&f->chance, 500))
            snprintf(what->key, sizeof what->key, "k%d", (int)f->dialog_log.numbers);
    }
    s.what = what;
    watch_row before = {.found = 1, .phase = phase}, after;
    if (run)
        before = read_row(f, run);
    s.starts = run && !before.found && chance_of(&f->chance, 300);
    int64_t hits = affairs_begin(n);
    pawl_code rc = put(n, &s);
    fleet_tell(f, "node %d sends %s message %" PRIu64 " key \"%s\"%s%s: %d, seq %" PRId64, n->index,
               id, what->number, what->key, s.other ? " wrongly" : "", s.starts ? " and start" : "",
               (int)rc, s.seq);
    int excused = affairs_end(n, hits, rc);
    after = run ? read_row(f, run) : (watch_row){.found = 1, .phase = 1};
    if (!excused || rc == PAWL_OK)
        check_answer(f, &s, rc, &before, &after);
    note_answer(f, &s, rc, excused);
    if (!run)
        return;
    run->mailed = 1;
    if (s.starts && rc == PAWL_OK) {
        fleet_count(f, TALLY_STARTED_BY_SEND);
        run->started = 1;
    }
}

/* ---- Cancelling ---- */

static int64_t last_pos(fleet *f)
{
    sqlite3_stmt *s = f->last_pos;
    int64_t pos = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    return pos;
}

static void cancel(fleet *f, fleet_node *n, fleet_run *run)
{
    watch_row before = read_row(f, run);
    int64_t hits = affairs_begin(n);
    int was = run->cancel;
    run->cancel = was ? was : 1; /* it may be so before it is answered */
    pawl_code rc = pawl_cancel(n->engine, run->id, chance_of(&f->chance, 500) ? "enough" : NULL);
    fleet_tell(f, "node %d cancels %s: %d", n->index, run->id, (int)rc);
    int excused = affairs_end(n, hits, rc);
    if (run->cancel < 2) /* otherwise another node has cancelled it meanwhile */
        run->cancel = was;
    watch_row after = read_row(f, run);
    if (rc == PAWL_OK) {
        fleet_count(f, TALLY_CANCELS);
        if (run->cancel < 2)
            run->cancel_pos = last_pos(f);
        run->cancel = 2;
        if (before.found && is_over(before.phase) && after.generation == before.generation)
            fleet_wrong(f, "%s has ended, and can be cancelled", run->id);
    } else if (excused) {
        run->cancel = run->cancel ? run->cancel : 1;
    } else if (rc != (before.found ? PAWL_ENDED : PAWL_NOTFOUND) ||
               (before.found && !is_over(after.phase))) {
        fleet_wrong(f, "%s cannot be cancelled: %d", run->id, (int)rc);
    }
}

/* ---- Redriving ---- */

/* It is as if it had never ended. */
static void note_redrive(fleet *f, fleet_run *run)
{
    fleet_count(f, TALLY_REDRIVES);
    run->ended = 0;
    run->redrives++;
    run->redriven = 0;
    run->cancel = 0;
    run->hold = HOLD_NO;
    f->dialog_log.redriven = 1;
}

static void redrive(fleet *f, fleet_node *n, fleet_run *run)
{
    char key[16], from[16];
    watch_row before = read_row(f, run);
    if (run->redrives >= REDRIVES_MAX)
        return;
    snprintf(key, sizeof key, "r%d", run->redrives);
    snprintf(from, sizeof from, "do-%d", (int)chance_between(&f->chance, 0, DIALOG_OPS - 1));
    pawl_redrive_options o = {.size = sizeof o};
    o.key = chance_of(&f->chance, 600) ? key : NULL;
    if (chance_of(&f->chance, 250))
        o.whole = 1;
    else if (chance_of(&f->chance, 300))
        o.from = from;
    int may = before.phase == 2 || before.phase == 3 || before.held;
    int64_t hits = affairs_begin(n);
    pawl_code rc = pawl_redrive(n->engine, run->id, &o);
    fleet_tell(f, "node %d redrives %s%s%s: %d", n->index, run->id, o.whole ? ", all of it" : "",
               o.from ? ", from an op" : "", (int)rc);
    int excused = affairs_end(n, hits, rc);
    watch_row after = read_row(f, run);
    if (after.found && after.generation > before.generation && rc != PAWL_OK && excused)
        note_redrive(f, run);
    else if (rc == PAWL_OK && !may && !run->redriven && !f->odds.meet)
        fleet_wrong(f, "%s can be redriven, and is neither failed nor held", run->id);
    else if (rc == PAWL_OK)
        note_redrive(f, run);
    else if (excused)
        run->redriven = 1;
    else if (rc == PAWL_NOTFOUND && before.found && !o.from)
        fleet_wrong(f, "%s cannot be found", run->id);
    else if (rc != PAWL_NOTFOUND && (rc != PAWL_REFUSED || is_over(before.phase)) &&
             before.phase != 1 && after.generation == before.generation)
        fleet_wrong(f, "%s cannot be redriven: %d %s", run->id, (int)rc,
                    n->engine ? pawl_errtext(n->engine) : "");
}

/* ---- All of it ---- */

void dialogs_act(fleet *f, fleet_node *n)
{
    fleet_run *run = some_dialog(f);
    if (!run)
        return;
    if (n->engine && chance_of(&f->chance, f->odds.send))
        send_it(f, n, run->id, run, 0);
    if (n->engine && chance_of(&f->chance, f->odds.cancel))
        cancel(f, n, run);
    if (n->engine && run->started && chance_of(&f->chance, f->odds.redrive))
        redrive(f, n, run);
}

/* ---- When all is calm ---- */

enum { LIST_MAX = 64 };

/* Ids are copied: what is called changes the table. */
static int list_ids(fleet *f, sqlite3_stmt *s, char ids[LIST_MAX][DIALOG_ID])
{
    int count = 0;
    while (count < LIST_MAX && sqlite3_step(s) == SQLITE_ROW)
        snprintf(ids[count++], DIALOG_ID, "%s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_reset(s);
    (void)f;
    return count;
}

static fleet_run *root_of(fleet *f, const char *id)
{
    for (int i = 0; i < f->odds.runs; i++)
        if (strcmp(f->all[i].id, id) == 0)
            return &f->all[i];
    return NULL;
}

void dialogs_nudge(fleet *f, fleet_node *n)
{
    char ids[LIST_MAX][DIALOG_ID];
    sqlite3_reset(f->dormant);
    sqlite3_bind_int64(f->dormant, 1, fleet_time(f) - NUDGE_MS);
    int count = list_ids(f, f->dormant, ids);
    for (int i = 0; i < count && n->engine; i++)
        send_it(f, n, ids[i], root_of(f, ids[i]), 0);
}

void dialogs_release(fleet *f, fleet_node *n)
{
    char ids[LIST_MAX][DIALOG_ID];
    int count = list_ids(f, f->stuck, ids);
    for (int i = 0; i < count && n->engine; i++) {
        int64_t hits = affairs_begin(n);
        pawl_code rc = pawl_release(n->engine, ids[i]);
        fleet_tell(f, "node %d releases %s: %d", n->index, ids[i], (int)rc);
        if (!affairs_end(n, hits, rc) && rc != PAWL_OK && rc != PAWL_ENDED)
            fleet_wrong(f, "%s cannot be released: %d", ids[i], (int)rc);
        f->tally->at[TALLY_STUCK] += rc == PAWL_OK;
    }
}
