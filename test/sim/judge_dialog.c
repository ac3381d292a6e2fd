/* Judging dialogs: what the database says of all of them when all is over.
 *
 * Everything is read once, by SQLite alone. Then each generation is shown to the model, and what
 * goes from one run to another is followed: messages, children, what was done outside. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet.h"

enum { RUNS_MAX = 128, GENERATIONS_MAX = 8, ROWS_MAX = 256, MESSAGES_MAX = 512 };

typedef struct generation {
    program_row *rows;
    size_t count;
    dialog_end end;
    int redriven; /* the next one begins with a copy of it */
    int64_t finished_ms;
    dialog dialog;
} generation;

typedef struct judged_run {
    int64_t key, phase, count, parent, parent_generation, parent_op, deadline_ms, pos;
    int has_parent, cancelled;
    char *id, *output, *error, *input;
    generation at[GENERATIONS_MAX];
} judged_run;

typedef struct judge {
    fleet *f;
    judged_run all[RUNS_MAX];
    int count;
} judge;

/* A message that a run was given, or that waits for it. */
typedef struct judged_message {
    int64_t seq;
    char text[40];
    char box[16];
} judged_message;

typedef struct judged_messages {
    judged_message at[MESSAGES_MAX];
    int count;
    int received;
} judged_messages;

/* ---- Reading ---- */

static char *copy(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? strdup(text) : NULL;
}

static void read_rows(fleet *f, const judged_run *t, int64_t number, generation *g)
{
    sqlite3_stmt *s = f->dialog_rows;
    g->rows = calloc(ROWS_MAX, sizeof *g->rows);
    sqlite3_bind_int64(s, 1, t->key);
    sqlite3_bind_int64(s, 2, number);
    while (g->rows && g->count < ROWS_MAX && sqlite3_step(s) == SQLITE_ROW)
        g->rows[g->count++] = (program_row){.seq = sqlite3_column_int64(s, 0),
                                            .kind = sqlite3_column_int64(s, 1),
                                            .op = sqlite3_column_int64(s, 2),
                                            .at_ms = sqlite3_column_int64(s, 3),
                                            .name = copy(s, 4),
                                            .data = copy(s, 5)};
    sqlite3_reset(s);
}

/* How it has ended: the last one as the run, an earlier one as the table of them says. */
static void read_end(fleet *f, const judged_run *t, int64_t number, generation *g)
{
    sqlite3_stmt *s = f->generations;
    if (number == t->count) {
        g->end = (dialog_end)t->phase;
        return;
    }
    sqlite3_bind_int64(s, 1, t->key);
    sqlite3_bind_int64(s, 2, number);
    int64_t phase = 0;
    if (sqlite3_step(s) == SQLITE_ROW) {
        phase = sqlite3_column_int64(s, 0);
        g->finished_ms = sqlite3_column_int64(s, 1);
    } else {
        fleet_wrong(f, "%s has no generation %" PRId64, t->id, number);
    }
    sqlite3_reset(s);
    g->redriven = g->count == 0 || g->rows[g->count - 1].kind != DIALOG_ROW_CONTINUED;
    g->end = phase == 5 ? g->redriven ? DIALOG_LEFT : DIALOG_AGAIN : (dialog_end)phase;
}

static void read_generation(fleet *f, judged_run *t, int64_t number)
{
    generation *g = &t->at[number - 1];
    read_rows(f, t, number, g);
    read_end(f, t, number, g);
    const char *input = t->input;
    if (g->count > 0 && g->rows[0].kind == DIALOG_ROW_STARTED)
        input = g->rows[0].data;
    if (!dialog_read(&g->dialog, input))
        fleet_wrong(f, "%s generation %" PRId64 " has no input", t->id, number);
}

static void read_run(fleet *f, sqlite3_stmt *s, judged_run *t)
{
    *t = (judged_run){.key = sqlite3_column_int64(s, 0),
                      .id = copy(s, 1),
                      .phase = sqlite3_column_int64(s, 2),
                      .count = sqlite3_column_int64(s, 3),
                      .has_parent = sqlite3_column_type(s, 4) != SQLITE_NULL,
                      .parent = sqlite3_column_int64(s, 4),
                      .parent_generation = sqlite3_column_int64(s, 5),
                      .parent_op = sqlite3_column_int64(s, 6),
                      .cancelled = sqlite3_column_type(s, 7) != SQLITE_NULL,
                      .deadline_ms = sqlite3_column_type(s, 8) == SQLITE_NULL
                                         ? INT64_MAX
                                         : sqlite3_column_int64(s, 8),
                      .output = copy(s, 9),
                      .error = copy(s, 10),
                      .input = copy(s, 11)};
    if (sqlite3_column_int64(s, 12) != 0 || sqlite3_column_type(s, 13) != SQLITE_NULL)
        fleet_wrong(f, "%s has ended and still has an owner, or is to wake", t->id);
}

static void read_all(judge *b)
{
    fleet *f = b->f;
    sqlite3_reset(f->dialog_runs);
    while (b->count < RUNS_MAX && sqlite3_step(f->dialog_runs) == SQLITE_ROW)
        read_run(f, f->dialog_runs, &b->all[b->count++]);
    sqlite3_reset(f->dialog_runs);
    for (int i = 0; i < b->count; i++) {
        judged_run *t = &b->all[i];
        if (t->count > GENERATIONS_MAX) {
            fleet_wrong(f, "%s has %" PRId64 " generations", t->id, t->count);
            t->count = GENERATIONS_MAX;
        }
        for (int64_t g = 1; g <= t->count; g++)
            read_generation(f, t, g);
    }
}

static void free_all(judge *b)
{
    for (int i = 0; i < b->count; i++) {
        judged_run *t = &b->all[i];
        for (int64_t g = 0; g < t->count; g++) {
            for (size_t j = 0; j < t->at[g].count; j++) {
                free((void *)(uintptr_t)t->at[g].rows[j].name);
                free((void *)(uintptr_t)t->at[g].rows[j].data);
            }
            free(t->at[g].rows);
        }
        free(t->id);
        free(t->output);
        free(t->error);
        free(t->input);
    }
}

static const judged_run *run_of(const judge *b, int64_t key)
{
    for (int i = 0; i < b->count; i++)
        if (b->all[i].key == key)
            return &b->all[i];
    return NULL;
}

static const program_row *row_at(const generation *g, int64_t seq)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->rows[i].seq == seq)
            return &g->rows[i];
    return NULL;
}

static const program_row *answer_of(const generation *g, int64_t op)
{
    for (size_t i = 0; i < g->count; i++) {
        const program_row *r = &g->rows[i];
        if (r->op == op && r->kind >= DIALOG_ROW_DONE && r->kind <= DIALOG_ROW_MESSAGE)
            return r;
    }
    return NULL;
}

static const char *data_of(const program_row *r)
{
    return r && r->data ? r->data : "null";
}

/* ---- One generation ---- */

static void count_row(fleet *f, const generation *g, const program_row *r)
{
    const program_row *about = r->op ? row_at(g, r->op) : NULL;
    int64_t *at = f->tally->at;
    at[TALLY_RECEIVED] += r->kind == DIALOG_ROW_MESSAGE;
    at[TALLY_TIMED_OUT] +=
        r->kind == DIALOG_ROW_FIRED && about && about->kind == DIALOG_ROW_RECEIVE;
    at[TALLY_ABANDONED] += r->kind == DIALOG_ROW_ABANDON;
    at[TALLY_GENERATIONS] += r->kind == DIALOG_ROW_CONTINUED;
    at[TALLY_STATE] += r->kind == DIALOG_ROW_SET;
}

static void tell_rows(fleet *f, const judged_run *t, int64_t number)
{
    const generation *g = &t->at[number - 1];
    for (size_t i = 0; i < g->count; i++) {
        const program_row *r = &g->rows[i];
        fleet_tell(f,
                   "%s.%" PRId64 " has %" PRId64 ": %" PRId64 " %s of %" PRId64 " at %" PRId64
                   " %.120s",
                   t->id, number, r->seq, r->kind, r->name, r->op, r->at_ms, data_of(r));
        count_row(f, g, r);
    }
}

static void judge_generation(fleet *f, const judged_run *t, int64_t number)
{
    const generation *g = &t->at[number - 1];
    char why[512];
    tell_rows(f, t, number);
    dialog_context s = {.dialog = g->dialog,
                        .id = t->id,
                        .generation = number,
                        .end = g->end,
                        .output = t->output,
                        .roots = f->odds.runs,
                        .count = g->count,
                        .rows = g->rows};
    if (dialog_check(&s, why))
        fleet_wrong(f, "%s generation %" PRId64 ": %s", t->id, number, why);
}

/* What it says at the end is what it was told. */
static void judge_output(fleet *f, const judged_run *t)
{
    char text[32] = "";
    const dialogs_log *log = dialogs_log_of(&f->dialog_log, t->id, t->count);
    uint64_t sum = t->at[t->count - 1].dialog.seed;
    if (t->phase != DIALOG_DONE || !log || !t->output)
        return;
    for (int64_t i = 0; i < log->count; i++)
        sum = chance_mix(sum + log->at[i].hash);
    pawl_get_text(t->output, "/sum", text, sizeof text);
    if (pawl_get_int(t->output, "/seen", -1) != log->count || strtoull(text, NULL, 10) != sum)
        fleet_wrong(f, "%s gives %s, and was told something else", t->id, t->output);
}

/* ---- Redrives: what is kept ---- */

static int is_same(const program_row *a, const program_row *b)
{
    return a && b && a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
           strcmp(data_of(a), data_of(b)) == 0;
}

/* What is older than the redrive is a copy; and what was answered before it is answered still. */
static void judge_kept(fleet *f, const judged_run *t, int64_t number)
{
    const generation *old = &t->at[number - 2], *g = &t->at[number - 1];
    for (size_t i = 0; i < g->count; i++) {
        const program_row *r = &g->rows[i];
        if (r->at_ms >= old->finished_ms || r->seq == 1)
            continue;
        if (r->op == 0) {
            const program_row *was = row_at(old, r->seq);
            const program_row *then = answer_of(old, r->seq), *now = answer_of(g, r->seq);
            if (!is_same(was, r))
                fleet_wrong(f, "%s: row %" PRId64 " is no copy", t->id, r->seq);
            else if (then && !is_same(then, now))
                fleet_wrong(f, "%s: the answer to op %" PRId64 " was not kept", t->id, r->seq);
        }
    }
}

/* ---- Messages ---- */

static void add_message(fleet *f, judged_messages *all, int64_t seq, const char *json,
                        const char *pointer, const char *box)
{
    if (all->count == MESSAGES_MAX) {
        fleet_wrong(f, "more messages than there can be");
        return;
    }
    judged_message *l = &all->at[all->count++];
    *l = (judged_message){.seq = seq};
    pawl_get_text(json, pointer, l->text, sizeof l->text);
    snprintf(l->box, sizeof l->box, "%s", box);
}

/* What was received: of a generation that was redriven, only what the next one has kept. */
static void add_received(fleet *f, const judged_run *t, judged_messages *all)
{
    for (int64_t n = 0; n < t->count; n++) {
        const generation *g = &t->at[n];
        for (size_t i = 0; i < g->count && !g->redriven; i++) {
            const program_row *r = &g->rows[i];
            const program_row *about = row_at(g, r->op);
            if (r->kind == DIALOG_ROW_MESSAGE)
                add_message(f, all, pawl_get_int(data_of(r), "/seq", 0), data_of(r), "/message/m",
                            about ? about->name : "");
        }
    }
    all->received = all->count;
}

static void add_waiting(fleet *f, int64_t key, judged_messages *all)
{
    sqlite3_stmt *s = f->inbox;
    sqlite3_bind_int64(s, 1, key);
    while (sqlite3_step(s) == SQLITE_ROW)
        add_message(f, all, sqlite3_column_int64(s, 0), (const char *)sqlite3_column_text(s, 2),
                    "/m", (const char *)sqlite3_column_text(s, 1));
    sqlite3_reset(s);
}

/* In the order of arrival, box by box, and none twice. */
static void judge_order(fleet *f, const char *id, const judged_messages *all)
{
    for (int i = 0; i < all->count; i++) {
        for (int j = 0; j < i; j++) {
            const judged_message *a = &all->at[j], *b = &all->at[i];
            if (a->seq == b->seq || strcmp(a->text, b->text) == 0)
                fleet_wrong(f, "%s: message %s is there twice", id, b->text);
            else if (strcmp(a->box, b->box) == 0 && a->seq > b->seq)
                fleet_wrong(f, "%s: message %s comes before %s, which came first", id, a->text,
                            b->text);
        }
    }
}

static void judge_sent(fleet *f, const char *id, const judged_messages *all)
{
    for (int i = 0; i < f->dialog_log.sent_count; i++) {
        const dialogs_sent *s = &f->dialog_log.sent[i];
        char text[40], box[16];
        int found = 0;
        if (!s->sure || strcmp(s->id, id) != 0)
            continue;
        snprintf(text, sizeof text, "%s%" PRIu64, s->is_told ? "t" : "s", s->number);
        snprintf(box, sizeof box, "box-%d", s->box);
        for (int j = 0; j < all->count; j++) {
            const judged_message *l = &all->at[j];
            if (strcmp(l->text, text) != 0)
                continue;
            found = 1;
            if (!s->is_told && (strcmp(l->box, box) != 0 || l->seq != s->seq))
                fleet_wrong(f, "%s: message %s is %" PRId64 " in %s, not %" PRId64 " in %s", id,
                            text, l->seq, l->box, s->seq, box);
        }
        f->tally->at[TALLY_TOLD] += s->is_told;
        if (!found)
            fleet_wrong(f, "%s: message %s is lost", id, text);
    }
}

static void judge_messages(fleet *f, const judged_run *t)
{
    static judged_messages all; /* too large for a stack; one at a time */
    all.count = 0;
    add_received(f, t, &all);
    add_waiting(f, t->key, &all);
    judge_order(f, t->id, &all);
    judge_sent(f, t->id, &all);
}

/* ---- Children ---- */

static int has_name(const char *json, const char *name)
{
    char text[64] = "";
    pawl_get_text(json ? json : "null", "/name", text, sizeof text);
    return strcmp(text, name) == 0;
}

static void judge_result(fleet *f, const judged_run *t, const program_row *r,
                         const judged_run *child, const program_row *answer)
{
    char name[64] = "", id[DIALOG_ID] = "";
    pawl_get_text(data_of(answer), "/name", name, sizeof name);
    if (answer->kind == DIALOG_ROW_FAILED && strcmp(name, "conflict") == 0 && !child) {
        fleet_count(f, TALLY_TAKEN);
    } else if (!child) {
        fleet_wrong(f, "%s: child %" PRId64 " has a result, and is not there", t->id, r->seq);
    } else if (!child->has_parent) {
        fleet_count(f, TALLY_DETACHED);
        pawl_get_text(data_of(answer), "", id, sizeof id);
        if (answer->kind != DIALOG_ROW_DONE || strcmp(id, child->id) != 0)
            fleet_wrong(f, "%s: child %" PRId64 " is not %s", t->id, r->seq, data_of(answer));
    } else if (answer->kind == DIALOG_ROW_DONE) {
        fleet_count(f, TALLY_CHILDREN);
        if (child->phase != DIALOG_DONE || strcmp(data_of(answer), child->output) != 0)
            fleet_wrong(f, "%s: child %" PRId64 " gives %s", t->id, r->seq, data_of(answer));
    } else {
        fleet_count(f, TALLY_CHILDREN_FAILED);
        if (child->phase == DIALOG_DONE || !has_name(child->error, name))
            fleet_wrong(f, "%s: child %" PRId64 " fails by %s, and has %s", t->id, r->seq, name,
                        child->error ? child->error : "nothing");
    }
}

static void judge_children(const judge *b, const judged_run *t)
{
    for (int64_t n = 0; n < t->count; n++) {
        const generation *g = &t->at[n];
        for (size_t i = 0; i < g->count; i++) {
            const program_row *r = &g->rows[i];
            if (r->kind != DIALOG_ROW_CHILD)
                continue;
            const program_row *answer = answer_of(g, r->seq);
            const judged_run *child = run_of(b, pawl_get_int(data_of(r), "/run", 0));
            if (child && child->has_parent &&
                (child->parent != t->key || child->parent_op != r->seq))
                fleet_wrong(b->f, "%s is not the child that %s has recorded", child->id, t->id);
            if (answer)
                judge_result(b->f, t, r, child, answer);
        }
    }
}

/* No child without its parent's record. */
static void judge_parent(const judge *b, const judged_run *t)
{
    const judged_run *parent = t->has_parent ? run_of(b, t->parent) : NULL;
    if (!t->has_parent)
        return;
    const program_row *r = NULL;
    if (parent && t->parent_generation <= parent->count)
        r = row_at(&parent->at[t->parent_generation - 1], t->parent_op);
    if (!r || r->kind != DIALOG_ROW_CHILD || pawl_get_int(data_of(r), "/run", 0) != t->key)
        fleet_wrong(b->f, "%s has a parent that does not know it", t->id);
}

/* ---- What was done outside ---- */

/* The calls that clean up were made, one after the other as they are recorded. */
static void judge_clean_ups(fleet *f, const judged_run *t, const generation *g, int is_last)
{
    int64_t last = 0;
    for (size_t i = 0; i < g->count; i++) {
        const program_row *r = &g->rows[i];
        char inner[256] = "";
        dialog_task task;
        if (r->kind != DIALOG_ROW_CLEAN_UP || !answer_of(g, r->seq))
            continue;
        const program_row *of = row_at(g, pawl_get_int(data_of(r), "/of", 0));
        snprintf(inner, sizeof inner, "%s", data_of(of));
        if (!dialog_task_read(&task, inner))
            continue;
        const dialogs_step *d = dialogs_step_of(&f->dialog_log, t->id, task.seed, task.at);
        if (!d || d->undone == 0)
            fleet_wrong(f, "%s: clean-up %" PRId64 " was never called", t->id, r->seq);
        else if (is_last && d->undone < last)
            fleet_wrong(f, "%s: clean-up %" PRId64 " was called too early", t->id, r->seq);
        else
            last = d->undone;
    }
}

/* Everything is done, or everything undone. But a redrive of a run that is held, and not from where
 * it stands, has it forget what it has done. */
static void judge_deed(fleet *f, const judged_run *t, const dialogs_step *d)
{
    const generation *g = NULL;
    for (int64_t n = 0; n < t->count; n++) {
        if (t->at[n].dialog.seed != d->seed)
            continue;
        g = &t->at[n];
        if (g->end == DIALOG_LEFT)
            return;
    }
    if (!g) {
        fleet_wrong(f, "%s has done what it was not told", t->id);
        return;
    }
    dialog_kind kind = g->dialog.ops[d->at].kind;
    int good = g->end == DIALOG_DONE || g->end == DIALOG_AGAIN;
    if ((kind == DIALOG_SAGA || kind == DIALOG_DO) && good && d->undone > d->done)
        fleet_wrong(f, "%s has ended well, and op %d is undone", t->id, d->at);
    if (kind == DIALOG_SAGA && !good && d->done > d->undone)
        fleet_wrong(f, "%s has not ended well, and op %d is not undone", t->id, d->at);
}

static void judge_deeds(fleet *f, const judged_run *t)
{
    for (int64_t n = 0; n < t->count; n++)
        judge_clean_ups(f, t, &t->at[n], n + 1 == t->count);
    for (int i = 0; i < f->dialog_log.step_count; i++)
        if (strcmp(f->dialog_log.steps[i].id, t->id) == 0)
            judge_deed(f, t, &f->dialog_log.steps[i]);
}

/* ---- Cancels and deadlines ---- */

static int64_t sleeps_after(fleet *f, const judged_run *t, int64_t pos)
{
    sqlite3_stmt *s = f->slept;
    sqlite3_bind_int64(s, 1, t->key);
    sqlite3_bind_int64(s, 2, pos);
    int64_t count = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    return count;
}

/* It is told where it waits: a run that has begun to sleep after the cancel has not been told. */
static void judge_cancel(fleet *f, const judged_run *t)
{
    const fleet_run *run = NULL;
    for (int i = 0; i < f->odds.runs; i++)
        if (strcmp(f->all[i].id, t->id) == 0)
            run = &f->all[i];
    if (t->phase == DIALOG_CANCELLED) {
        fleet_count(f, t->cancelled ? TALLY_CANCELLED : TALLY_DEADLINES);
        int asked = run ? run->cancel > 0 : t->cancelled;
        if (!asked && t->deadline_ms > f->latest_ms)
            fleet_wrong(f, "%s is cancelled, and no cancel was asked for", t->id);
    } else if (run && run->cancel == 2 && sleeps_after(f, t, run->cancel_pos) > 0) {
        fleet_wrong(f, "%s was cancelled, and goes to sleep", t->id);
    }
}

/* ---- State ---- */

/* What was set last is what others see. A redrive leaves it as it is. */
static void judge_state(fleet *f, const judged_run *t)
{
    for (int key = 0; key < DIALOG_BOXES; key++) {
        char name[16];
        const char *want = "null";
        snprintf(name, sizeof name, "key-%d", key);
        for (int64_t n = 0; n < t->count; n++) {
            const generation *g = &t->at[n];
            if (g->redriven)
                return;
            for (size_t i = 0; i < g->count; i++)
                if (g->rows[i].kind == DIALOG_ROW_SET && strcmp(g->rows[i].name, name) == 0)
                    want = data_of(&g->rows[i]);
        }
        sqlite3_stmt *s = f->state;
        sqlite3_bind_int64(s, 1, t->key);
        sqlite3_bind_text(s, 2, name, -1, SQLITE_TRANSIENT);
        const char *is =
            sqlite3_step(s) == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : "null";
        if (strcmp(is, want) != 0)
            fleet_wrong(f, "%s: its state %s is %.80s, not %.80s", t->id, name, is, want);
        sqlite3_reset(s);
    }
}

/* ---- The whole ---- */

void dialogs_judge(fleet *f)
{
    static judge b; /* too large for a stack */
    b = (judge){.f = f};
    read_all(&b);
    for (int i = 0; i < b.count; i++) {
        judged_run *t = &b.all[i];
        for (int64_t n = 1; n <= t->count; n++) {
            judge_generation(f, t, n);
            if (n > 1 && t->at[n - 2].redriven && !f->odds.jump)
                judge_kept(f, t, n);
        }
        if (t->phase < DIALOG_DONE || t->phase > DIALOG_CANCELLED)
            fleet_wrong(f, "%s has ended with phase %" PRId64, t->id, t->phase);
        judge_output(f, t);
        judge_messages(f, t);
        judge_children(&b, t);
        judge_parent(&b, t);
        judge_deeds(f, t);
        judge_cancel(f, t);
        judge_state(f, t);
    }
    free_all(&b);
}
