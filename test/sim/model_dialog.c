/* The model of dialogs: what must hold of the journal of one generation, however others have
 * meddled. It knows pawl.h and docs/format.md, and nothing of src.
 *
 * Its ops are those of the dialog, in this order, and none besides; only where it was left there
 * may be fewer. Each has one answer at most, and none once it was cancelled. What was to be undone
 * was, last first, and nothing else; finallys at every end. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialog.h"

/* The other kinds of docs/format.md. */
enum {
    ROW_STEP = 2,
    ROW_STEP_FAILED = 3,
    ROW_STEP_AGAIN = 4,
    ROW_CALL = 5,
    ROW_SLEEP = 6,
    ROW_NOW = 8,
    ROW_RANDOM = 10,
    ROW_UNDO = 14,
    ROW_FINALLY = 15,
    ROW_STEP_LATER = 16,
    ROW_STATE_GET = 21,
    ROW_STATE_OF = 22,
    ROW_TELL = 24,
    ROW_UNDO_OF = 26,
    ROW_OPS_END = 40, /* arrivals from here on */
    ROW_ATTEMPT = 50
};

/* ---- What the function asks for, in order ---- */

typedef struct line {
    int64_t kind;
    char name[32];
    int is_deed; /* the next one must be there as soon as this one has succeeded */
} line;

typedef struct script {
    line at[DIALOG_SCRIPT];
    size_t count;
    int knows[DIALOG_BOXES]; /* keys of its state that it need not ask for */
    int leaves;              /* some of what arrives is not looked at */
} script;

static line *put(script *s, int64_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static line *put(script *s, int64_t kind, const char *format, ...)
{
    line *l = &s->at[s->count++];
    va_list args;
    l->kind = kind;
    va_start(args, format);
    vsnprintf(l->name, sizeof l->name, format, args);
    va_end(args);
    return l;
}

static line *put_work(script *s, const dialog_op *op, int at)
{
    return op->way % 2 ? put(s, ROW_CALL, "dialog") : put(s, ROW_STEP, "do-%d", at);
}

static void put_parts(script *s, const dialog_op *op)
{
    for (int i = 0; i < op->count; i++) {
        switch (op->parts[i]) {
        case PART_CALL:
            put(s, ROW_CALL, "dialog");
            break;
        case PART_STEP:
            put(s, ROW_STEP_LATER, "part-%d", i);
            break;
        case PART_SLEEP:
            put(s, ROW_SLEEP, "%s", "");
            break;
        case PART_RECEIVE:
            put(s, DIALOG_ROW_RECEIVE, "box-%d", i % 2);
            s->leaves |= op->kind == DIALOG_KEEP && op->way % 3 == 2;
            break;
        default:
            put(s, DIALOG_ROW_CHILD, "dialog");
        }
    }
}

/* Its own state is what it knows. */
static void put_get(script *s, int key)
{
    if (!s->knows[key])
        put(s, ROW_STATE_GET, "key-%d", key);
    s->knows[key] = 1;
}

static void put_op(script *s, const dialog_op *op, int at, const dialog_context *story)
{
    char whom[32];
    switch (op->kind) {
    case DIALOG_STEP:
        put_work(s, op, at);
        break;
    case DIALOG_DO:
        put_work(s, op, at)->is_deed = 1;
        put(s, ROW_UNDO, "undo");
        break;
    case DIALOG_SAGA:
        put(s, ROW_UNDO_OF, "undo");
        put_work(s, op, at);
        break;
    case DIALOG_FINALLY:
        put(s, ROW_FINALLY, "final");
        break;
    case DIALOG_SLEEP:
        put(s, ROW_SLEEP, "%s", "");
        break;
    case DIALOG_RECEIVE:
        put(s, DIALOG_ROW_RECEIVE, "box-%d", op->box);
        break;
    case DIALOG_ALL:
    case DIALOG_ANY:
    case DIALOG_KEEP:
    case DIALOG_NEST:
        put_parts(s, op);
        break;
    case DIALOG_CHILD:
    case DIALOG_TRY_CHILD:
    case DIALOG_DETACHED:
        put(s, DIALOG_ROW_CHILD, "dialog");
        break;
    case DIALOG_TELL:
        put(s, ROW_RANDOM, "%s", "");
        put(s, ROW_TELL, "box-%d", op->box);
        break;
    case DIALOG_SET:
        put(s, DIALOG_ROW_SET, "key-%d", op->box);
        s->knows[op->box] = 1;
        break;
    case DIALOG_GET:
        put_get(s, op->box);
        break;
    case DIALOG_OF:
        snprintf(whom, sizeof whom, "run-%d", op->whom % story->roots);
        if (strcmp(whom, story->id) == 0)
            put_get(s, op->box);
        else
            put(s, ROW_STATE_OF, "%.16s/key-%d", whom, op->box);
        break;
    case DIALOG_NOW:
        put(s, ROW_NOW, "%s", "");
        break;
    case DIALOG_KINDS:
        break;
    }
}

/* ---- The rows ---- */

typedef struct reader {
    dialog_context *s;
    script script;
    size_t ops;           /* so many lines of it are there */
    int64_t ending;       /* seq of the row that says how it ends; 0: none */
    const program_row *h; /* … and that row */
    char wrong[512];
} reader;

static void wrong(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void wrong(reader *r, const char *format, ...)
{
    va_list args;
    if (r->wrong[0])
        return;
    va_start(args, format);
    vsnprintf(r->wrong, sizeof r->wrong, format, args);
    va_end(args);
}

static const program_row *row_at(const reader *r, int64_t seq)
{
    for (size_t i = 0; i < r->s->count; i++)
        if (r->s->rows[i].seq == seq)
            return &r->s->rows[i];
    return NULL;
}

static int is_op(const program_row *row)
{
    return row->kind > DIALOG_ROW_STARTED && row->kind < ROW_OPS_END &&
           row->kind != DIALOG_ROW_ABANDON && row->kind != DIALOG_ROW_ENDING &&
           row->kind != DIALOG_ROW_CLEAN_UP;
}

static int is_answer(const program_row *row)
{
    return row->kind >= DIALOG_ROW_DONE && row->kind <= DIALOG_ROW_MESSAGE;
}

static const program_row *answer_of(const reader *r, int64_t op)
{
    for (size_t i = 0; i < r->s->count; i++)
        if (is_answer(&r->s->rows[i]) && r->s->rows[i].op == op)
            return &r->s->rows[i];
    return NULL;
}

static int is_asked_for(const program_row *row, const line *l)
{
    int64_t kind =
        row->kind == ROW_STEP_FAILED || row->kind == ROW_STEP_AGAIN ? ROW_STEP : row->kind;
    return kind == l->kind && strcmp(row->name, l->name) == 0;
}

static int has_succeeded(const reader *r, const program_row *row)
{
    const program_row *answer = answer_of(r, row->seq);
    return row->kind == ROW_STEP || (answer && answer->kind == DIALOG_ROW_DONE);
}

/* The ops are those of the dialog, and what must not be torn apart is together. */
static void see_ops(reader *r)
{
    const program_row *last = NULL;
    for (size_t i = 0; i < r->s->count; i++) {
        const program_row *row = &r->s->rows[i];
        if (!is_op(row))
            continue;
        if (r->ending && row->seq > r->ending)
            wrong(r, "op %" PRId64 " is behind the end", row->seq);
        if (r->ops == r->script.count || !is_asked_for(row, &r->script.at[r->ops])) {
            wrong(r, "row %" PRId64 " is kind %" PRId64 " \"%s\", not %" PRId64 " \"%s\"", row->seq,
                  row->kind, row->name, r->ops < r->script.count ? r->script.at[r->ops].kind : 0,
                  r->ops < r->script.count ? r->script.at[r->ops].name : "the end");
            return;
        }
        r->ops++;
        last = row;
    }
    int is_whole = r->s->end == DIALOG_DONE || r->s->end == DIALOG_AGAIN;
    if (is_whole && r->ops < r->script.count)
        wrong(r, "it has ended before \"%s\"", r->script.at[r->ops].name);
    if (r->s->end != DIALOG_LEFT && last && r->script.at[r->ops - 1].is_deed &&
        has_succeeded(r, last))
        wrong(r, "row %" PRId64 " was done, and what undoes it is not registered", last->seq);
}

static void see_fired(reader *r, const program_row *row, const program_row *about)
{
    int64_t until = pawl_get_int(about->data ? about->data : "null", "", 0);
    if (row->kind == DIALOG_ROW_FIRED && row->at_ms < until)
        wrong(r, "row %" PRId64 ": it woke before its time", row->seq);
    if (row->kind == DIALOG_ROW_MESSAGE && about->kind != DIALOG_ROW_RECEIVE)
        wrong(r, "row %" PRId64 ": a message for what does not receive", row->seq);
}

/* A future that has an answer is not cancelled any more. */
static void see_cancel(reader *r, size_t at)
{
    const program_row *row = &r->s->rows[at];
    for (size_t i = 0; i < at; i++)
        if (is_answer(&r->s->rows[i]) && dialog_abandons(row->data, r->s->rows[i].op))
            wrong(r, "op %" PRId64 " is cancelled, and had its answer", r->s->rows[i].op);
}

/* One answer each, and none for what was cancelled before. */
static void see_answers(reader *r)
{
    for (size_t i = 0; i < r->s->count; i++) {
        const program_row *row = &r->s->rows[i];
        if (row->kind == DIALOG_ROW_ENDING && row != r->h)
            wrong(r, "it ends twice");
        r->s->heard += row->kind == DIALOG_ROW_MESSAGE;
        if (row->kind == DIALOG_ROW_ABANDON)
            see_cancel(r, i);
        if (!is_answer(row))
            continue;
        const program_row *about = row_at(r, row->op);
        if (!about) {
            wrong(r, "row %" PRId64 " answers %" PRId64 ", which is not there", row->seq, row->op);
            return;
        }
        see_fired(r, row, about);
        for (size_t j = 0; j < i; j++) {
            const program_row *old = &r->s->rows[j];
            if (is_answer(old) && old->op == row->op)
                wrong(r, "op %" PRId64 " has two answers", row->op);
            if (old->kind == DIALOG_ROW_ABANDON && dialog_abandons(old->data, row->op))
                wrong(r, "op %" PRId64 " was cancelled, and has an answer", row->op);
        }
    }
}

/* Rows stand without a gap. A small input is not among them: they begin at 2 then. */
static void see_numbers(reader *r)
{
    for (size_t i = 0; i < r->s->count; i++) {
        int64_t first = r->s->rows[0].seq;
        if (first > 2 || r->s->rows[i].seq != first + (int64_t)i)
            wrong(r, "row %" PRId64 " is in place %zu", r->s->rows[i].seq, i);
    }
}

/* ---- Clean-ups ---- */

static int is_clean(const program_row *row, int finallys)
{
    return finallys ? row->kind == ROW_FINALLY : row->kind == ROW_UNDO || row->kind == ROW_UNDO_OF;
}

/* The clean-up at *next or behind it must be the one of `of`, and done. */
static void see_clean_up(reader *r, size_t *next, const program_row *of)
{
    const dialog_context *s = r->s;
    while (*next < s->count && s->rows[*next].kind != DIALOG_ROW_CLEAN_UP)
        ++*next;
    if (*next == s->count) {
        wrong(r, "what row %" PRId64 " has registered was not called", of->seq);
        return;
    }
    const program_row *row = &s->rows[(*next)++];
    const program_row *answer = answer_of(r, row->seq);
    if (pawl_get_int(row->data ? row->data : "null", "/of", 0) != of->seq)
        wrong(r, "clean-up %" PRId64 " is for %s, not for row %" PRId64, row->seq,
              row->data ? row->data : "nothing", of->seq);
    if (!answer || answer->kind != DIALOG_ROW_DONE)
        wrong(r, "clean-up %" PRId64 " was not done", row->seq);
}

static void see_clean_ups(reader *r)
{
    const dialog_context *s = r->s;
    int bad = s->end == DIALOG_FAILED || s->end == DIALOG_CANCELLED;
    size_t next = 0;
    if (s->end == DIALOG_LEFT)
        return;
    for (int finallys = !bad; finallys <= 1; finallys++)
        for (size_t i = s->count; i-- > 0;)
            if (is_clean(&s->rows[i], finallys))
                see_clean_up(r, &next, &s->rows[i]);
    for (; next < s->count; next++)
        if (s->rows[next].kind == DIALOG_ROW_CLEAN_UP)
            wrong(r, "clean-up %" PRId64 " is one too many", s->rows[next].seq);
}

/* ---- The whole ---- */

static void see_end(reader *r)
{
    static const char *const HOW[] = {[DIALOG_DONE] = "done",
                                      [DIALOG_FAILED] = "failed",
                                      [DIALOG_CANCELLED] = "cancelled",
                                      [DIALOG_AGAIN] = "again",
                                      [DIALOG_LEFT] = ""};
    const dialog_context *s = r->s;
    if (r->h && s->end != DIALOG_LEFT && strcmp(r->h->name, HOW[s->end]) != 0)
        wrong(r, "it was to end %s, and has ended %s", r->h->name, HOW[s->end]);
    if (s->end == DIALOG_AGAIN &&
        (s->count == 0 || s->rows[s->count - 1].kind != DIALOG_ROW_CONTINUED))
        wrong(r, "it goes on, and does not say so");
    if (s->end != DIALOG_DONE)
        return;
    int64_t heard = pawl_get_int(s->output ? s->output : "null", "/heard", -1);
    if (r->script.leaves ? heard > s->heard : heard != s->heard)
        wrong(r, "it has heard %" PRId64 " messages, and was given %" PRId64, heard, s->heard);
}

const char *dialog_check(dialog_context *s, char out[512])
{
    reader r = {.s = s};
    s->heard = 0;
    for (int i = 0; i < s->dialog.count; i++)
        put_op(&r.script, &s->dialog.ops[i], i, s);
    for (size_t i = 0; i < s->count && !r.h; i++)
        if (s->rows[i].kind == DIALOG_ROW_ENDING)
            r.h = &s->rows[i];
    r.ending = r.h ? r.h->seq : 0;
    see_numbers(&r);
    see_ops(&r);
    see_answers(&r);
    see_clean_ups(&r);
    see_end(&r);
    snprintf(out, 512, "%s", r.wrong);
    return out[0] ? out : NULL;
}

int dialog_abandons(const char *data, int64_t op)
{
    int64_t count = pawl_get_count(data ? data : "null", "");
    for (int64_t i = 0; i < count; i++) {
        char pointer[24];
        snprintf(pointer, sizeof pointer, "/%" PRId64, i);
        if (pawl_get_int(data, pointer, 0) == op)
            return 1;
    }
    return 0;
}
