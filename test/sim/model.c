/* The model: walks through a journal and says what it must have been.
 *
 * It follows the program as a person would with a finger on the rows. What is not determined (the
 * time, chance) is taken from the row and carried on; everything else must be there, in its place,
 * and nothing besides. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* The kinds of docs/format.md. */
enum {
    ROW_STARTED = 1,
    ROW_STEP = 2,
    ROW_STEP_FAILED = 3,
    ROW_STEP_AGAIN = 4,
    ROW_CALL = 5,
    ROW_SLEEP = PROGRAM_ROW_SLEEP,
    ROW_UNTIL = 7,
    ROW_NOW = 8,
    ROW_UUID = 9,
    ROW_RANDOM = 10,
    ROW_STATUS = 11,
    ROW_ATTRIBUTE = 12,
    ROW_PATCH = 13,
    ROW_DONE = 40,
    ROW_FAILED = 41,
    ROW_FIRED = PROGRAM_ROW_FIRED,
    ROW_ATTEMPT = 50,
    ROW_ENDED = 60
};

enum { SMALL = 1024 }; /* what fits into the row of a run */

typedef struct finger {
    const program *g;
    const program_end *end;
    program_told *told;
    size_t at;
    uint64_t sum;
    int64_t now_ms; /* what the function knows of the time */
    int over;       /* the run has failed here */
    int64_t statuses;
    char status[96];
    char attribute[32];
    const char *error_name;
    char error_where[32];
    char wrong[512]; /* "": nothing so far */
} finger;

static void wrong(finger *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void wrong(finger *f, const char *format, ...)
{
    if (f->wrong[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(f->wrong, sizeof f->wrong, format, args);
    va_end(args);
}

/* The next row, which must be of this kind, with this name and about this op. */
static const program_row *take(finger *f, int64_t kind, const char *name, int64_t op)
{
    static const program_row none = {.name = "", .data = "null"};
    if (f->wrong[0])
        return &none;
    if (f->at == f->end->count) {
        wrong(f, "the journal ends where kind %" PRId64 " \"%s\" should be", kind, name);
        return &none;
    }
    const program_row *row = &f->end->rows[f->at++];
    if (row->kind != kind || strcmp(row->name, name) != 0 || row->op != op) {
        wrong(f,
              "row %" PRId64 " is kind %" PRId64 " \"%s\" of op %" PRId64 ", not kind %" PRId64
              " \"%s\" of op %" PRId64,
              row->seq, row->kind, row->name, row->op, kind, name, op);
        return &none;
    }
    return row->data ? row : &none;
}

static void expect_data(finger *f, const program_row *row, const char *data)
{
    if (!f->wrong[0] && strcmp(row->data, data) != 0)
        wrong(f, "row %" PRId64 " has %.80s, not %.80s", row->seq, row->data, data);
}

static void add(finger *f, uint64_t value)
{
    f->sum = chance_mix(f->sum + value);
}

static void add_result(finger *f, const char *result)
{
    char text[32] = "";
    pawl_get_text(result, "/v", text, sizeof text);
    add(f, strtoull(text, NULL, 10));
}

/* ---- Work ---- */

/* How many attempts there are, and how the last one ends. */
static int64_t last_attempt(const program_op *op, int *succeeds)
{
    int64_t most = op->attempts ? op->attempts : 3;
    int64_t last = op->fails + 1;
    *succeeds = last <= most && !op->permanent;
    return last <= most ? last : most;
}

static void tell(finger *f, int64_t op, int64_t attempts)
{
    for (int64_t i = 1; i <= attempts; i++) {
        if (f->told->count == sizeof f->told->at / sizeof *f->told->at)
            return;
        f->told->at[f->told->count++] = (program_attempt){op, i};
    }
}

/* An attempt that failed says when the next one may be. Whether it was is seen when it is made. */
static void see_attempt(finger *f, const program_row *row)
{
    if (!f->wrong[0] && pawl_get_int(row->data, "/next", -1) < row->at_ms)
        wrong(f, "row %" PRId64 ": the next attempt is not later: %.80s", row->seq, row->data);
}

static void see_end(finger *f, const program_row *row, int at, int succeeds)
{
    char value[PROGRAM_TEXT];
    if (succeeds) {
        expect_data(f, row, program_value(f->g, at, f->sum, value));
        add_result(f, row->data);
        return;
    }
    f->over = 1;
    f->error_name = f->g->ops[at].permanent &&
                            last_attempt(&f->g->ops[at], &succeeds) == f->g->ops[at].fails + 1
                        ? "for-good"
                        : "passing";
    snprintf(f->error_where, sizeof f->error_where, "%s", row->name);
}

static void see_step(finger *f, int at)
{
    char name[32];
    int succeeds;
    snprintf(name, sizeof name, "step-%d", at);
    int64_t last = last_attempt(&f->g->ops[at], &succeeds);
    if (last == 1) {
        const program_row *row = take(f, succeeds ? ROW_STEP : ROW_STEP_FAILED, name, 0);
        tell(f, row->seq, 1);
        see_end(f, row, at, succeeds);
        return;
    }
    const program_row *first = take(f, ROW_STEP_AGAIN, name, 0);
    tell(f, first->seq, last);
    see_attempt(f, first);
    for (int64_t i = 2; i < last; i++)
        see_attempt(f, take(f, ROW_ATTEMPT, "", first->seq));
    see_end(f, take(f, succeeds ? ROW_DONE : ROW_FAILED, "", first->seq), at, succeeds);
    snprintf(f->error_where, sizeof f->error_where, "%s", name);
}

static void put_input(const finger *f, int at, char out[96])
{
    snprintf(out, 96, "{\"at\":%d,\"sum\":\"%" PRIu64 "\"}", at, f->sum);
}

static void see_call(finger *f, int at)
{
    int succeeds;
    char input[96];
    int64_t last = last_attempt(&f->g->ops[at], &succeeds);
    const program_row *first = take(f, ROW_CALL, "work", 0);
    put_input(f, at, input);
    expect_data(f, first, input);
    tell(f, first->seq, last);
    for (int64_t i = 1; i < last; i++)
        see_attempt(f, take(f, ROW_ATTEMPT, "", first->seq));
    see_end(f, take(f, succeeds ? ROW_DONE : ROW_FAILED, "", first->seq), at, succeeds);
    snprintf(f->error_where, sizeof f->error_where, "work");
}

static void see_until(finger *f, int at)
{
    const program_row *first = take(f, ROW_UNTIL, "until", 0);
    int64_t end_ms = pawl_get_int(first->data, "", 0);
    tell(f, first->seq, 1);
    const program_row *row = take(f, ROW_DONE, "", first->seq);
    if (f->g->ops[at].limit_ms && row->at_ms < end_ms)
        wrong(f, "row %" PRId64 ": it ran out before its time", row->seq);
    see_end(f, row, at, 1);
}

/* ---- Values and time ---- */

static void see_now(finger *f)
{
    const program_row *row = take(f, ROW_NOW, "", 0);
    int64_t now = pawl_get_int(row->data, "", -1);
    if (now < f->now_ms)
        wrong(f, "row %" PRId64 ": the time goes back", row->seq);
    f->now_ms = now;
}

static void see_sleep(finger *f, const program_op *op)
{
    int64_t until = 0;
    if (op->ms % 2 == 0) {
        see_now(f);
        until = f->now_ms + op->ms;
    }
    const program_row *row = take(f, ROW_SLEEP, "", 0);
    if (op->ms % 2)
        until = row->at_ms + op->ms;
    if (!f->wrong[0] && pawl_get_int(row->data, "", -1) != until)
        wrong(f, "row %" PRId64 ": it sleeps until %s, not %" PRId64, row->seq, row->data, until);
    const program_row *fired = take(f, ROW_FIRED, "", row->seq);
    if (fired->at_ms < until)
        wrong(f, "row %" PRId64 ": it woke before its time", fired->seq);
    if (until > f->now_ms)
        f->now_ms = until;
}

static uint64_t see_random(finger *f)
{
    return (uint64_t)pawl_get_int(take(f, ROW_RANDOM, "", 0)->data, "", 0);
}

static void see_uuid(finger *f)
{
    const program_row *row = take(f, ROW_UUID, "", 0);
    char text[64] = "";
    if (pawl_get_text(row->data, "", text, sizeof text) != PAWL_ID_SIZE - 1)
        wrong(f, "row %" PRId64 ": no uuid", row->seq);
    add(f, strlen(text));
}

static void see_status(finger *f, int at)
{
    put_input(f, at, f->status);
    expect_data(f, take(f, ROW_STATUS, "", 0), f->status);
    f->statuses++;
}

static void see_attribute(finger *f, int at)
{
    char text[32] = "null";
    f->attribute[0] = 0;
    if (f->g->ops[at].ms % 7 != 0) {
        snprintf(f->attribute, sizeof f->attribute, "op %d", at);
        snprintf(text, sizeof text, "\"op %d\"", at);
    }
    expect_data(f, take(f, ROW_ATTRIBUTE, "at", 0), text);
}

/* What it has said of itself is what others see. */
static void see_said(finger *f)
{
    const program_end *e = f->end;
    if (e->statuses != f->statuses)
        wrong(f, "its status has changed %" PRId64 " times, not %" PRId64, e->statuses,
              f->statuses);
    if (f->statuses > 0 && (!e->status || strcmp(e->status, f->status) != 0))
        wrong(f, "its status is %.80s, not %.80s", e->status ? e->status : "(none)", f->status);
    if (strcmp(e->attribute ? e->attribute : "", f->attribute) != 0)
        wrong(f, "its attribute is %.40s, not %.40s", e->attribute ? e->attribute : "(none)",
              f->attribute);
}

static void see_op(finger *f, int at)
{
    const program_op *op = &f->g->ops[at];
    char name[32];
    uint64_t number;
    switch (op->kind) {
    case DO_STEP:
        see_step(f, at);
        break;
    case DO_CALL:
        see_call(f, at);
        break;
    case DO_UNTIL:
        see_until(f, at);
        break;
    case DO_NOW:
        see_now(f);
        add(f, (uint64_t)f->now_ms);
        break;
    case DO_UUID:
        see_uuid(f);
        break;
    case DO_RANDOM:
        number = see_random(f);
        add(f, number);
        break;
    case DO_PATCH:
        snprintf(name, sizeof name, "patch-%d", at);
        expect_data(f, take(f, ROW_PATCH, name, 0), "true");
        add(f, 1);
        break;
    case DO_SLEEP:
        see_sleep(f, op);
        break;
    case DO_BRANCH:
        if (see_random(f) & 1)
            see_step(f, at);
        break;
    case DO_STATUS:
        see_status(f, at);
        break;
    case DO_ATTRIBUTE:
        see_attribute(f, at);
        break;
    case DO_LOG:
    case DO_DROP:
    case DO_KINDS:
        break;
    }
}

/* ---- The whole ---- */

static void see_start(finger *f)
{
    char input[PROGRAM_TEXT];
    if (f->g->input_size == 0 || f->end->count == 0 || f->end->rows[0].seq != 1)
        return;
    const program_row *row = take(f, ROW_STARTED, "", 0);
    program_input(f->g, program_number(row->data), input);
    expect_data(f, row, input);
    if (strlen(input) <= SMALL)
        wrong(f, "a small input is in the journal");
}

static void see_output(finger *f)
{
    char text[PROGRAM_TEXT];
    program_output(f->g, f->sum, text);
    const char *output = f->end->output;
    if (strlen(text) > SMALL) {
        if (output)
            wrong(f, "a large output is in the row of the run");
        output = take(f, ROW_ENDED, "", 0)->data;
    }
    if (f->end->failed)
        wrong(f, "it has failed: %.200s", f->end->error ? f->end->error : "");
    else if (!output || strcmp(output, text) != 0)
        wrong(f, "its output is %.80s, not %.80s", output ? output : "(none)", text);
}

static void see_failure(finger *f)
{
    char text[64] = "";
    if (!f->end->failed) {
        wrong(f, "it has not failed");
        return;
    }
    pawl_get_text(f->end->error, "/name", text, sizeof text);
    if (strcmp(text, f->error_name) != 0)
        wrong(f, "it has failed as \"%s\", not \"%s\"", text, f->error_name);
    pawl_get_text(f->end->error, "/where", text, sizeof text);
    if (strcmp(text, f->error_where) != 0)
        wrong(f, "it has failed at \"%s\", not \"%s\"", text, f->error_where);
}

/* Rows stand without a gap. A small input is not among them: they begin at 2 then. */
static void see_numbers(finger *f)
{
    for (size_t i = 0; i < f->end->count; i++) {
        int64_t first = f->end->rows[0].seq;
        if (first > 2 || f->end->rows[i].seq != first + (int64_t)i)
            wrong(f, "row %" PRId64 " is in place %zu", f->end->rows[i].seq, i);
    }
}

const char *program_check(const program *g, const program_end *end, program_told *told,
                          char out[512])
{
    finger f = {.g = g, .end = end, .told = told, .sum = g->seed};
    told->count = 0;
    see_numbers(&f);
    see_start(&f);
    for (int i = 0; i < g->count && !f.over; i++)
        see_op(&f, i);
    if (!f.over && g->fails) {
        f.over = 1;
        f.error_name = "made-up";
        f.error_where[0] = 0;
    }
    if (!f.wrong[0] && f.over)
        see_failure(&f);
    else if (!f.wrong[0])
        see_output(&f);
    see_said(&f);
    if (f.at < end->count)
        wrong(&f, "row %" PRId64 " is more than there should be", end->rows[f.at].seq);
    snprintf(out, 512, "%s", f.wrong);
    return out[0] ? out : NULL;
}

/* ---- Journals that are not complete ---- */

int64_t program_waits_until(int64_t kind, const char *data)
{
    switch (kind) {
    case ROW_SLEEP:
    case ROW_UNTIL:
        return pawl_get_int(data, "", 0);
    case ROW_STEP_AGAIN:
    case ROW_ATTEMPT:
        return pawl_get_int(data, "/next", 0);
    default:
        return 0;
    }
}

/* An until is asked on its way. */
int64_t program_rests_until(int64_t kind, const char *data)
{
    return kind == ROW_UNTIL ? 0 : program_waits_until(kind, data);
}

int program_is_idle_after(const program *g, int64_t sleeps)
{
    int64_t seen = 0;
    for (int i = 0; i < g->count; i++) {
        const program_op *op = &g->ops[i];
        if (seen >= sleeps) {
            if (op->kind == DO_SLEEP && op->ms > 0)
                return 1;
            if (program_executes(g, i) || op->kind == DO_BRANCH)
                return 0;
        }
        seen += op->kind == DO_SLEEP;
    }
    return 1;
}

int64_t program_rows_before(const program *g, int at, int64_t op, int64_t attempt)
{
    switch (g->ops[at].kind) {
    case DO_CALL:
        return op + attempt - 1;
    case DO_UNTIL:
        return op;
    default:
        return attempt == 1 ? op - 1 : op + attempt - 2;
    }
}
