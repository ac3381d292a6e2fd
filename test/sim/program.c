/* Making programs up, and carrying them out inside pawl.
 *
 * Which ops there are is drawn once; what they give depends on the program and on what came before,
 * and on nothing else but time and chance as the run was told them. */
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t PAUSES[] = {1, 40, 900, 1000, 7000, 3600000, 86400000};

enum { PAUSE_COUNT = sizeof PAUSES / sizeof *PAUSES };

/* ---- Making up ---- */

static int64_t some_pause(chance *c)
{
    return PAUSES[chance_between(c, 0, PAUSE_COUNT - 1)];
}

/* Mostly small; now and then beyond what fits into the row of a run. */
static int64_t some_size(chance *c)
{
    return chance_of(c, 150) ? chance_between(c, 900, 2500) : chance_between(c, 0, 60);
}

static void make_op(program_op *op, chance *c)
{
    *op = (program_op){.kind = (program_kind)chance_between(c, 0, DO_KINDS - 1)};
    if (chance_of(c, 300))
        op->kind = DO_STEP;
    else if (chance_of(c, 200))
        op->kind = DO_SLEEP;
    op->ms = some_pause(c);
    op->size = some_size(c);
    op->attempts = chance_between(c, 0, 5);
    op->fails = chance_of(c, 300) ? chance_between(c, 1, 3) : 0;
    op->permanent = chance_of(c, 15);
    if (op->fails > 0 && op->attempts > 0 && op->attempts <= op->fails && !chance_of(c, 150))
        op->attempts = op->fails + 1;
    if (op->kind == DO_UNTIL && op->fails > 0 && chance_of(c, 400))
        op->limit_ms = op->ms * chance_between(c, 1, 3);
    if (op->kind == DO_SLEEP && chance_of(c, 100))
        op->ms = 0;
}

int program_executes(const program *g, int at)
{
    program_kind kind = at < g->count ? g->ops[at].kind : DO_LOG;
    return kind == DO_STEP || kind == DO_CALL || kind == DO_UNTIL;
}

void program_make(program *g, chance *c)
{
    *g = (program){.seed = chance_next(c)};
    g->count = (int)chance_between(c, 0, PROGRAM_OPS);
    g->fails = chance_of(c, 50);
    g->input_size = some_size(c);
    g->output_size = some_size(c);
    for (int i = 0; i < g->count; i++)
        make_op(&g->ops[i], c);
}

/* `size` letters that depend on nothing but the place. */
static void put_padding(char *out, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        out[i] = (char)('a' + i % 26);
    out[size] = 0;
}

void program_input(const program *g, int number, char out[PROGRAM_TEXT])
{
    int used = snprintf(out, PROGRAM_TEXT, "{\"run\":%d,\"pad\":\"", number);
    put_padding(out + used, g->input_size);
    used += (int)g->input_size;
    snprintf(out + used, (size_t)(PROGRAM_TEXT - used), "\"}");
}

int program_number(const char *input)
{
    return (int)pawl_get_int(input, "/run", -1);
}

/* ---- Inside work functions ---- */

int program_op_of(const char *input)
{
    return (int)pawl_get_int(input, "/at", -1);
}

static uint64_t number_in(const char *json, const char *pointer)
{
    char text[32] = "";
    pawl_get_text(json, pointer, text, sizeof text);
    return strtoull(text, NULL, 10);
}

/* What a work function makes of its input; and as the model knows it. */
static uint64_t outcome_of(const program *g, int at, uint64_t sum)
{
    return chance_mix(g->seed ^ (uint64_t)at * UINT64_C(0xD1342543DE82EF95) ^ sum);
}

const char *program_value(const program *g, int at, uint64_t sum, char out[PROGRAM_TEXT])
{
    const program_op *op = &g->ops[at];
    if (op->kind == DO_UNTIL && op->limit_ms > 0)
        return "null";
    int used =
        snprintf(out, PROGRAM_TEXT, "{\"v\":\"%" PRIu64 "\",\"pad\":\"", outcome_of(g, at, sum));
    put_padding(out + used, op->size);
    used += (int)op->size;
    snprintf(out + used, (size_t)(PROGRAM_TEXT - used), "\"}");
    return out;
}

const char *program_work(pawl_work *work, const program *g, const char *input, int64_t calls)
{
    int at = program_op_of(input);
    const program_op *op = &g->ops[at];
    if (op->kind == DO_UNTIL) {
        if (op->limit_ms > 0 || calls <= op->fails)
            return calls % 2 ? "null" : "false";
    } else if (pawl_work_attempt(work) <= op->fails) {
        return pawl_work_fail(work, PAWL_TRANSIENT, "passing", "attempt %d of op %d",
                              (int)pawl_work_attempt(work), at);
    } else if (op->permanent) {
        return pawl_work_fail(work, PAWL_PERMANENT, "for-good", "op %d", at);
    }
    char *out = pawl_work_alloc(work, PROGRAM_TEXT);
    return out ? program_value(g, at, number_in(input, "/sum"), out) : NULL;
}

/* ---- Inside the workflow ---- */

static const char *input_of(pawl_run *run, int at, uint64_t sum)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, sum);
    return pawl_json(run, "{'at':%d,'sum':%s}", at, text);
}

typedef struct doing {
    pawl_run *run;
    const program *g;
    pawl_work_fn *work;
    void *arg;
    uint64_t sum;
} doing;

static void add(doing *d, uint64_t value)
{
    d->sum = chance_mix(d->sum + value);
}

static void add_result(doing *d, const char *result)
{
    add(d, number_in(result, "/v"));
    pawl_drop(d->run, result);
}

static pawl_call_options policy_of(const doing *d, const program_op *op)
{
    return (pawl_call_options){.size = sizeof(pawl_call_options),
                               .attempts = op->attempts,
                               .backoff_ms = op->ms,
                               .backoff_kind = (int64_t)(op->ms % 3),
                               .no_jitter = op->size % 2,
                               .arg = d->arg};
}

static void do_step(doing *d, int at)
{
    const program_op *op = &d->g->ops[at];
    char name[32];
    snprintf(name, sizeof name, "step-%d", at);
    pawl_call_options o = policy_of(d, op);
    add_result(d, pawl_step(d->run, name, d->work, input_of(d->run, at, d->sum), &o));
}

static void do_call(doing *d, int at)
{
    pawl_call_options o = policy_of(d, &d->g->ops[at]);
    o.arg = NULL;
    add_result(d, pawl_call(d->run, "work", input_of(d->run, at, d->sum), &o));
}

static void do_until(doing *d, int at)
{
    const program_op *op = &d->g->ops[at];
    add_result(d, pawl_until(d->run, "until", d->work, input_of(d->run, at, d->sum), op->ms,
                             op->limit_ms ? op->limit_ms : PAWL_FOREVER));
}

static void do_op(doing *d, int at)
{
    const program_op *op = &d->g->ops[at];
    char name[32];
    switch (op->kind) {
    case DO_STEP:
        do_step(d, at);
        break;
    case DO_CALL:
        do_call(d, at);
        break;
    case DO_UNTIL:
        do_until(d, at);
        break;
    case DO_NOW:
        add(d, (uint64_t)pawl_now(d->run));
        break;
    case DO_UUID:
        add(d, (uint64_t)strlen(pawl_uuid(d->run)));
        break;
    case DO_RANDOM:
        add(d, pawl_random(d->run));
        break;
    case DO_PATCH:
        snprintf(name, sizeof name, "patch-%d", at);
        add(d, (uint64_t)pawl_patch(d->run, name));
        break;
    case DO_SLEEP:
        if (op->ms % 2)
            pawl_sleep(d->run, op->ms);
        else
            pawl_sleep_until(d->run, pawl_now(d->run) + op->ms);
        break;
    case DO_BRANCH:
        if (pawl_random(d->run) & 1)
            do_step(d, at);
        break;
    case DO_STATUS:
        pawl_set_status(d->run, input_of(d->run, at, d->sum));
        break;
    case DO_ATTRIBUTE:
        pawl_attr(d->run, "at", op->ms % 7 == 0 ? "null" : pawl_json(d->run, "'op %d'", at));
        break;
    case DO_LOG:
        pawl_log(d->run, 1, "at %d", at);
        break;
    case DO_DROP:
        pawl_drop(d->run, pawl_alloc(d->run, (size_t)op->size));
        break;
    case DO_KINDS:
        break;
    }
}

const char *program_run(pawl_run *run, const program *g, pawl_work_fn *work, void *arg)
{
    doing d = {run, g, work, arg, g->seed};
    for (int i = 0; i < g->count; i++)
        do_op(&d, i);
    if (g->fails)
        return pawl_fail(run, "made-up", "sum %" PRIu64, d.sum);
    char *out = pawl_alloc(run, PROGRAM_TEXT);
    return program_output(g, d.sum, out);
}

const char *program_output(const program *g, uint64_t sum, char out[PROGRAM_TEXT])
{
    int used = snprintf(out, PROGRAM_TEXT, "{\"sum\":\"%" PRIu64 "\",\"pad\":\"", sum);
    put_padding(out + used, g->output_size);
    used += (int)g->output_size;
    snprintf(out + used, (size_t)(PROGRAM_TEXT - used), "\"}");
    return out;
}
