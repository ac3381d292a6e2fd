/* Making dialogs up, and carrying them out inside pawl. Everything that pawl tells the function
 * goes into a sum, and the sum into the input of what it calls: so a difference shows outside. */
#include "dialog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t PAUSES[] = {1, 40, 900, 2000, 60000, 3600000};

enum { PAUSE_COUNT = sizeof PAUSES / sizeof *PAUSES };

/* ---- Making up ---- */

static int64_t some_pause(chance *c)
{
    return PAUSES[chance_between(c, 0, PAUSE_COUNT - 1)];
}

static void make_parts(dialog_op *op, int depth, chance *c)
{
    op->count = (int)chance_between(c, 2, DIALOG_PARTS);
    for (int i = 0; i < op->count; i++) {
        op->parts[i] = (dialog_part)chance_between(c, 0, PART_KINDS - 1);
        if (op->parts[i] == PART_CHILD && depth >= DIALOG_DEPTH)
            op->parts[i] = PART_CALL;
    }
}

static void make_op(dialog_op *op, int depth, chance *c)
{
    *op = (dialog_op){.kind = (dialog_kind)chance_between(c, 0, DIALOG_KINDS - 1)};
    if (chance_of(c, 200))
        op->kind = DIALOG_RECEIVE;
    else if (chance_of(c, 150))
        op->kind = chance_of(c, 500) ? DIALOG_DO : DIALOG_SAGA;
    int is_child =
        op->kind == DIALOG_CHILD || op->kind == DIALOG_TRY_CHILD || op->kind == DIALOG_DETACHED;
    if (is_child && depth >= DIALOG_DEPTH)
        op->kind = DIALOG_STEP;
    op->ms = some_pause(c);
    op->limit_ms = chance_of(c, 300) ? PAWL_FOREVER : chance_of(c, 300) ? 0 : some_pause(c);
    op->fails = chance_of(c, 200) ? chance_between(c, 1, 2) : 0;
    op->permanent = chance_of(c, 50);
    op->way = (int)chance_between(c, 0, 5);
    op->box = (int)chance_between(c, 0, DIALOG_BOXES - 1);
    op->whom = (int)chance_between(c, 0, 5);
    make_parts(op, depth, c);
}

/* Work beside the function, and mostly that. */
static void make_broad_op(dialog_op *op, chance *c)
{
    static const dialog_kind KINDS[] = {DIALOG_ALL, DIALOG_ALL, DIALOG_KEEP, DIALOG_ANY,
                                        DIALOG_STEP};
    *op = (dialog_op){.kind = KINDS[chance_between(c, 0, 4)], .ms = some_pause(c)};
    op->fails = chance_of(c, 100);
    op->way = (int)chance_between(c, 0, 5);
    op->count = (int)chance_between(c, 3, DIALOG_PARTS);
    for (int i = 0; i < op->count; i++)
        op->parts[i] = chance_of(c, 500) ? PART_STEP : PART_CALL;
}

void dialog_make(dialog *t, uint64_t seed, int depth, int left)
{
    chance c = {chance_mix(seed)};
    *t = (dialog){.seed = seed, .depth = depth, .left = left};
    if (seed >= DIALOG_BROAD) {
        t->count = (int)chance_between(&c, 2, 5);
        for (int i = 0; i < t->count; i++)
            make_broad_op(&t->ops[i], &c);
        return;
    }
    t->count = (int)chance_between(&c, depth ? 0 : 1, depth ? 3 : DIALOG_OPS);
    t->again = left > 0 && chance_of(&c, 500);
    t->fails = chance_of(&c, 100);
    for (int i = 0; i < t->count; i++)
        make_op(&t->ops[i], depth, &c);
}

void dialog_input(uint64_t seed, int depth, int left, char out[96])
{
    snprintf(out, 96, "{\"seed\":\"%" PRIu64 "\",\"depth\":%d,\"left\":%d}", seed, depth, left);
}

static uint64_t number_in(const char *json, const char *pointer)
{
    char text[32] = "";
    pawl_get_text(json, pointer, text, sizeof text);
    return strtoull(text, NULL, 10);
}

int dialog_read(dialog *t, const char *input)
{
    if (!input || pawl_get_kind(input, "/seed") != PAWL_STRING)
        return 0;
    dialog_make(t, number_in(input, "/seed"), (int)pawl_get_int(input, "/depth", 0),
                (int)pawl_get_int(input, "/left", 0));
    return 1;
}

uint64_t dialog_next_seed(const dialog *t)
{
    return chance_mix(t->seed ^ UINT64_C(0xA5A5));
}

uint64_t dialog_child_seed(const dialog *t, int at, int part)
{
    return chance_mix(t->seed + (uint64_t)(at * 16 + part) + 77);
}

int dialog_child_id(const dialog *t, int at, char out[DIALOG_ID])
{
    const dialog_op *op = &t->ops[at];
    if (op->way > 1)
        return 0;
    snprintf(out, DIALOG_ID, "kid-%d", (int)(t->seed % 3));
    return 1;
}

/* ---- Inside work functions ---- */

int dialog_task_read(dialog_task *task, const char *input)
{
    if (pawl_get_kind(input, "/dialog") != PAWL_STRING)
        return 0;
    *task = (dialog_task){.seed = number_in(input, "/dialog"),
                          .depth = (int)pawl_get_int(input, "/depth", 0),
                          .at = (int)pawl_get_int(input, "/at", 0),
                          .generation = pawl_get_int(input, "/generation", 0),
                          .seen = pawl_get_int(input, "/seen", 0)};
    return 1;
}

const char *dialog_work(pawl_work *work, const dialog_task *task, const char *input)
{
    dialog t;
    dialog_make(&t, task->seed, task->depth, 0);
    const dialog_op *op = &t.ops[task->at];
    if (pawl_work_attempt(work) <= op->fails)
        return pawl_work_fail(work, PAWL_TRANSIENT, "passing", "attempt %d",
                              (int)pawl_work_attempt(work));
    if (op->permanent && task->generation % 2)
        return pawl_work_fail(work, PAWL_PERMANENT, "for-good", "op %d", task->at);
    uint64_t v = 1;
    for (const char *c = input; *c; c++)
        v = chance_mix(v ^ (unsigned char)*c);
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return pawl_work_json(work, "{'v':%s}", text);
}

/* ---- Inside the workflow ---- */

typedef struct doing {
    pawl_run *run;
    const dialog *t;
    pawl_work_fn *work;
    const dialog_world *world;
    uint64_t sum;
    int64_t seen;
    int64_t heard;
} doing;

/* The function was told this. */
static void see(doing *d, const char *what)
{
    uint64_t h = 1;
    for (const char *c = what ? what : "(null)"; *c; c++)
        h = chance_mix(h ^ (unsigned char)*c);
    d->sum = chance_mix(d->sum + h);
    d->world->seen(d->world->arg, pawl_run_id(d->run), pawl_run_generation(d->run), d->seen++, h);
}

static void see_number(doing *d, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    see(d, text);
}

static const char *input_of(doing *d, int at, int part)
{
    char seed[32], sum[32];
    snprintf(seed, sizeof seed, "%" PRIu64, d->t->seed);
    snprintf(sum, sizeof sum, "%" PRIu64, d->sum);
    return pawl_json(d->run,
                     "{'dialog':%s,'depth':%d,'at':%d,'part':%d,'generation':%" PRId64
                     ",'seen':%" PRId64 ",'sum':%s}",
                     seed, d->t->depth, at, part, pawl_run_generation(d->run), d->seen, sum);
}

static pawl_call_options policy_of(const dialog_op *op)
{
    return (pawl_call_options){.size = sizeof(pawl_call_options), .backoff_ms = op->ms};
}

static const char *do_work(doing *d, int at, const char *undo)
{
    const dialog_op *op = &d->t->ops[at];
    pawl_call_options o = policy_of(op);
    char name[32];
    snprintf(name, sizeof name, "do-%d", at);
    o.undo = undo;
    const char *input = input_of(d, at, 0);
    return op->way % 2 ? pawl_call(d->run, "dialog", input, &o)
                       : pawl_step(d->run, name, d->work, input, &o);
}

static const char *clean_up_of(doing *d, int at)
{
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRIu64, d->t->seed);
    return pawl_json(d->run, "{'dialog':%s,'at':%d}", seed, at);
}

static const char *child_input(doing *d, int at, int part)
{
    char text[96];
    dialog_input(dialog_child_seed(d->t, at, part), d->t->depth + 1, part % 2, text);
    return pawl_json(d->run, "%j", text);
}

static pawl_child_options child_options(doing *d, int at, char id[DIALOG_ID])
{
    pawl_child_options o = {.size = sizeof o};
    if (dialog_child_id(d->t, at, id))
        o.id = id;
    return o;
}

/* How a future has ended, whatever it was. */
static void see_end(doing *d, pawl_future *f, int is_receive)
{
    const pawl_outcome *o = pawl_try(d->run, f);
    see_number(d, pawl_outcome_code(o));
    see(d, pawl_outcome_value(o));
    see(d, pawl_outcome_name(o));
    d->heard += is_receive && pawl_outcome_code(o) == PAWL_OK;
}

static pawl_future *start_part(doing *d, int at, int part)
{
    const dialog_op *op = &d->t->ops[at];
    pawl_call_options o = policy_of(op);
    char name[32];
    snprintf(name, sizeof name, "part-%d", part);
    switch (op->parts[part]) {
    case PART_CALL:
        return pawl_call_later(d->run, "dialog", input_of(d, at, part), &o);
    case PART_STEP:
        return pawl_step_later(d->run, name, d->work, input_of(d, at, part), &o);
    case PART_SLEEP:
        return pawl_sleep_later(d->run, op->ms + part);
    case PART_RECEIVE:
        return pawl_receive_later(d->run, part % 2 ? "box-1" : "box-0", op->limit_ms);
    default:
        return pawl_child_later(d->run, "dialog", child_input(d, at, part), NULL);
    }
}

static void do_several(doing *d, int at)
{
    const dialog_op *op = &d->t->ops[at];
    pawl_future *all[DIALOG_PARTS], *two[2];
    for (int i = 0; i < op->count; i++)
        all[i] = start_part(d, at, i);
    size_t count = (size_t)op->count;
    switch (op->kind) {
    case DIALOG_ALL:
        if (op->way % 2)
            see(d, pawl_await(d->run, pawl_all_later(d->run, all, count)));
        else
            pawl_all(d->run, all, count);
        break;
    case DIALOG_ANY:
        see_number(d, pawl_any(d->run, all, count, op->way % 2 ? PAWL_FAILURES : 0));
        break;
    case DIALOG_KEEP:
        see_number(d, pawl_any(d->run, all, count, PAWL_KEEP | PAWL_FAILURES));
        if (op->way % 3 == 1)
            pawl_future_cancel(d->run, all[op->way % op->count]);
        if (op->way % 3 == 2)
            return; /* the rest is left to the end of the run */
        break;
    default:
        two[0] = pawl_all_later(d->run, all + 1, count - 1);
        two[1] = all[0];
        see(d, pawl_await(d->run, pawl_any_later(d->run, two, 2)));
    }
    for (int i = 0; i < op->count; i++)
        see_end(d, all[i], op->parts[i] == PART_RECEIVE);
}

static void do_child(doing *d, int at)
{
    char id[DIALOG_ID];
    const dialog_op *op = &d->t->ops[at];
    pawl_child_options o = child_options(d, at, id);
    o.detached = op->kind == DIALOG_DETACHED;
    const char *input = child_input(d, at, 0);
    if (op->kind == DIALOG_CHILD)
        see(d, pawl_child(d->run, "dialog", input, &o));
    else
        see_end(d, pawl_child_later(d->run, "dialog", input, &o), 0);
}

static void do_receive(doing *d, const dialog_op *op)
{
    const char *message;
    pawl_code rc = pawl_receive(d->run, op->box ? "box-1" : "box-0", op->limit_ms, &message);
    see_number(d, rc);
    see(d, message);
    if (rc == PAWL_OK)
        see(d, pawl_sender(d->run));
    d->heard += rc == PAWL_OK;
}

static void do_tell(doing *d, const dialog_op *op)
{
    char id[32], text[32];
    uint64_t number = pawl_random(d->run);
    snprintf(id, sizeof id, "run-%d", op->whom % d->world->roots);
    snprintf(text, sizeof text, "t%" PRIu64, number);
    see(d, text);
    pawl_code rc =
        pawl_tell(d->run, id, op->box ? "box-1" : "box-0", pawl_json(d->run, "{'m':%s}", text));
    d->world->told(d->world->arg, id, number, rc);
    see_number(d, rc);
}

static void do_state(doing *d, const dialog_op *op, int at)
{
    char key[16], id[32];
    snprintf(key, sizeof key, "key-%d", op->box);
    snprintf(id, sizeof id, "run-%d", op->whom % d->world->roots);
    if (op->kind == DIALOG_SET)
        pawl_state_set(d->run, key, op->way == 0 ? "null" : input_of(d, at, 0));
    else if (op->kind == DIALOG_GET)
        see(d, pawl_state_get(d->run, key));
    else
        see(d, pawl_state_of(d->run, id, key));
}

static void do_op(doing *d, int at)
{
    const dialog_op *op = &d->t->ops[at];
    switch (op->kind) {
    case DIALOG_STEP:
        see(d, do_work(d, at, NULL));
        break;
    case DIALOG_DO:
        see(d, do_work(d, at, NULL));
        pawl_undo(d->run, "undo", clean_up_of(d, at));
        break;
    case DIALOG_SAGA:
        see(d, do_work(d, at, "undo"));
        break;
    case DIALOG_FINALLY:
        pawl_finally(d->run, "final", clean_up_of(d, at));
        break;
    case DIALOG_SLEEP:
        pawl_sleep(d->run, op->ms);
        break;
    case DIALOG_RECEIVE:
        do_receive(d, op);
        break;
    case DIALOG_ALL:
    case DIALOG_ANY:
    case DIALOG_KEEP:
    case DIALOG_NEST:
        do_several(d, at);
        break;
    case DIALOG_CHILD:
    case DIALOG_TRY_CHILD:
    case DIALOG_DETACHED:
        do_child(d, at);
        break;
    case DIALOG_TELL:
        do_tell(d, op);
        break;
    case DIALOG_SET:
    case DIALOG_GET:
    case DIALOG_OF:
        do_state(d, op, at);
        break;
    case DIALOG_NOW:
        see_number(d, pawl_now(d->run));
        break;
    case DIALOG_KINDS:
        break;
    }
}

const char *dialog_run(pawl_run *run, const dialog *t, pawl_work_fn *work,
                       const dialog_world *world)
{
    doing d = {.run = run, .t = t, .work = work, .world = world, .sum = t->seed};
    for (int i = 0; i < t->count; i++)
        do_op(&d, i);
    if (t->fails && pawl_run_generation(run) % 2)
        return pawl_fail(run, "made-up", "sum %" PRIu64, d.sum);
    if (t->again) {
        char text[96];
        dialog_input(dialog_next_seed(t), t->depth, t->left - 1, text);
        return pawl_continue_as_new(run, text, NULL);
    }
    char sum[32];
    snprintf(sum, sizeof sum, "%" PRIu64, d.sum);
    return pawl_json(run, "{'sum':%s,'seen':%" PRId64 ",'heard':%" PRId64 "}", sum, d.seen,
                     d.heard);
}
