/* Death at every commit of an engine: the run goes on in the next process, and its result does not
 * show that there were two.
 *
 * Each workflow is driven once without a death; then again and again, each time with a process that
 * dies before or after its first commit, its second, and so on. The next process brings the run to
 * its end. Result, journal, status and attributes are then those of the first time, but for the
 * time and for randomness. What was executed is the same, but for what was being executed at the
 * death, which may be there once more. No work function ever ran before all that was recorded
 * earlier was in the database.
 *
 * Two workflows are killed at every commit, the others at every fifth; PAWL_TEST_EVERY=1: all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal/op.h"
#include "support/restart_fixture.h"
#include "support/scratch.h"

/* ---- Workflows. What comes by chance is under "values", in the order of the journal ---- */

#define WORK(name, input) pawl_step(run, name, restart_work, input, &QUICK)

static const pawl_call_options QUICK = {.size = sizeof QUICK, .backoff_ms = 300};

static const char *order(pawl_run *run, const char *input)
{
    const char *id = pawl_uuid(run);
    const char *reserved = WORK("reserve", pawl_json(run, "{'id':%s,'of':%j}", id, input));
    int64_t now = pawl_now(run);
    pawl_sleep(run, 1200);
    const char *charged = WORK("charge", pawl_json(run, "{'id':%s,'at':%" PRId64 "}", id, now));
    int64_t chance = (int64_t)pawl_random(run);
    const char *called = pawl_call(run, "called", "{\"what\":\"ship\"}", NULL);
    return pawl_json(run, "{'same':[%j,%j,%j],'values':[%s,%" PRId64 ",%" PRId64 "]}", reserved,
                     charged, called, id, now, chance);
}

static const char *retries(pawl_run *run, const char *input)
{
    (void)input;
    const char *a = WORK("fails-2-a", "1");
    const char *b = pawl_call(run, "fails-1-called", "2", &QUICK);
    int64_t now = pawl_now(run);
    const char *c = WORK("fails-1-c", pawl_json(run, "%" PRId64, now));
    return pawl_json(run, "{'same':[%j,%j,%j],'values':[%" PRId64 "]}", a, b, c, now);
}

static const char *large(pawl_run *run, const char *input)
{
    const char *a = WORK("big-a", input);
    const char *b = WORK("big-b", a);
    pawl_sleep(run, 10);
    return pawl_json(run, "{'same':[%j,%j],'values':[]}", a, b);
}

static const char *waits(pawl_run *run, const char *input)
{
    const char *a = pawl_until(run, "poll-2-a", restart_work, input, 1200, PAWL_HOURS(1));
    int new_way = pawl_patch(run, "new-way");
    pawl_sleep_until(run, pawl_now(run) + 1500);
    const char *b = pawl_until(run, "poll-99-b", restart_work, input, 900, 2000);
    return pawl_json(run, "{'same':[%j,%j,%b]}", a, b, new_way);
}

/* Attempts whose time is over before they return. */
static const char *times_out(pawl_run *run, const char *input)
{
    const pawl_call_options *short_time =
        PAWL_CALL(.attempt_ms = RESTART_SLOW_MS - 50, .backoff_ms = 400, .attempts = 2);
    const char *a = pawl_step(run, "slow-1-a", restart_work, input, short_time);
    const char *b = pawl_call(run, "slow-1-called", input, short_time);
    const char *c = pawl_until(run, "poll-1-c", restart_work, input, 600, PAWL_HOURS(1));
    int64_t now = pawl_now(run);
    pawl_set_status(run, pawl_json(run, "[%j,%j,%j]", a, b, c));
    pawl_step(run, "slow-2-d", restart_work, pawl_json(run, "%" PRId64, now), short_time);
    return input; /* it does not get here */
}

static const char *fails(pawl_run *run, const char *input)
{
    WORK("first", input);
    pawl_now(run);
    WORK("fails-3-a", input); /* which is as often as it is tried */
    return input;
}

static const char *goes_wrong(pawl_run *run, const char *input)
{
    pawl_uuid(run);
    WORK("wrong-a", input);
    return input;
}

static const char *only_values(pawl_run *run, const char *input)
{
    const char *id = pawl_uuid(run);
    int64_t now = pawl_now(run), chance = (int64_t)pawl_random(run);
    (void)input;
    return pawl_json(run, "{'same':%b,'values':[%s,%" PRId64 ",%" PRId64 "]}", pawl_patch(run, "p"),
                     id, now, chance);
}

static const char *says(pawl_run *run, const char *input)
{
    pawl_set_status(run, "\"begun\"");
    pawl_attr(run, "colour", "\"red\"");
    WORK("first", input);
    pawl_set_status(run, "\"in the middle\"");
    pawl_set_status(run, "\"and on\"");
    pawl_sleep(run, 20);
    pawl_attr(run, "colour", "\"blue\"");
    pawl_set_status(run, "\"nearly there\"");
    WORK("second", input);
    return "{\"same\":1}";
}

/* Held by hand and released while it sleeps. */
static const char *is_looked_at(pawl_run *run, const char *input)
{
    int64_t now = pawl_now(run);
    pawl_attr(run, "size", "7");
    WORK("first", input);
    pawl_sleep(run, 2300);
    pawl_set_status(run, "\"awake\"");
    const char *last = WORK("fails-1-last", input);
    pawl_attr(run, "size", "null");
    pawl_attr(run, "end", "true");
    return pawl_json(run, "{'same':%j,'values':[%" PRId64 "]}", last, now);
}

/* The first build does something that is not allowed, and what it has said and recorded since its
 * last step is forgotten; and it lacks a work function that the second build has. */
static const char *is_mended(pawl_run *run, const char *input)
{
    pawl_attr(run, "colour", "\"red\"");
    WORK("first", input);
    if (restart_build() == 0) {
        pawl_set_status(run, "\"wrong\"");
        pawl_attr(run, "colour", "\"green\"");
        pawl_uuid(run);
        pawl_sleep(run, -1);
    }
    int64_t now = pawl_now(run);
    pawl_set_status(run, "\"right\"");
    const char *second = WORK("second", pawl_json(run, "%" PRId64, now));
    return pawl_json(run, "{'same':%j,'values':[%" PRId64 "]}", second, now);
}

static const char *lacks_work(pawl_run *run, const char *input)
{
    int64_t now = pawl_now(run);
    pawl_set_status(run, "1");
    const char *late = pawl_call(run, "called-late", input, NULL);
    return pawl_json(run, "{'same':%j,'values':[%" PRId64 "]}", late, now);
}

static const char *loops(pawl_run *run, const char *input)
{
    int64_t sum = 0;
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "step-%d", i);
        const char *result = WORK(name, input);
        sum += (int64_t)strlen(result);
        pawl_drop(run, result);
    }
    return pawl_json(run, "{'same':%" PRId64 "}", sum);
}

/* ---- Comparing ---- */

static _Noreturn void wrong(const restart_fixture *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static _Noreturn void wrong(const restart_fixture *l, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("%s, %s: %s", l->conf->backend, l->id, text);
    abort();
}

static void compare_rows(const restart_fixture *first, const restart_fixture *l)
{
    for (size_t i = 0; i < l->row_count && i < first->row_count; i++) {
        const restart_row *a = &first->rows[i], *b = &l->rows[i];
        if (a->seq != b->seq || a->kind != b->kind || a->op != b->op ||
            strcmp(a->name, b->name) != 0 || strcmp(a->data, b->data) != 0)
            wrong(l,
                  "row %zu is %" PRId64 " %" PRId64 " %s %.60s, not %" PRId64 " %" PRId64
                  " %s %.60s",
                  i, b->seq, b->kind, b->name, b->data, a->seq, a->kind, a->name, a->data);
    }
    if (l->row_count != first->row_count)
        wrong(l, "%zu rows, not %zu", l->row_count, first->row_count);
}

/* What the function was told by chance is what is recorded. */
static void compare_values(const restart_fixture *l)
{
    char told[RESTART_TEXT], recorded[RESTART_TEXT] = "[";
    size_t used = 1;
    for (size_t i = 0; i < l->row_count; i++) {
        const restart_row *r = &l->rows[i];
        if (r->kind == OP_NOW || r->kind == OP_UUID || r->kind == OP_RANDOM)
            used += (size_t)snprintf(recorded + used, sizeof recorded - used, "%s%s",
                                     used > 1 ? "," : "", r->raw);
    }
    snprintf(recorded + used, sizeof recorded - used, "]");
    if (l->code == PAWL_OK && pawl_get_json(l->result, "/values", told, sizeof told) > 0 &&
        strcmp(told, recorded) != 0)
        wrong(l, "it was told %s, and recorded is %s", told, recorded);
}

static void compare_results(const restart_fixture *first, const restart_fixture *l)
{
    char a[RESTART_TEXT], b[RESTART_TEXT];
    if (first->code != l->code)
        wrong(l, "it ended as %s, not %s", pawl_code_name(l->code), pawl_code_name(first->code));
    if (strcmp(first->status, l->status) != 0)
        wrong(l, "its status is %s, not %s", l->status, first->status);
    if (strcmp(first->row, l->row) != 0)
        wrong(l, "there is:%s, and not:%s", l->row, first->row);
    if (l->code != PAWL_OK) {
        assert_string_equal(first->result, l->result);
        return;
    }
    pawl_get_json(first->result, "/same", a, sizeof a);
    pawl_get_json(l->result, "/same", b, sizeof b);
    if (strcmp(a, b) != 0)
        wrong(l, "its result is %.80s, not %.80s", b, a);
}

static const restart_row *row_at(const restart_fixture *l, int64_t seq)
{
    for (size_t i = 0; i < l->row_count; i++)
        if (l->rows[i].seq == seq)
            return &l->rows[i];
    wrong(l, "there is no row %" PRId64, seq);
}

/* The last row that was there when this attempt began, and had to be. */
static int64_t rows_before(const restart_fixture *l, const restart_note *n)
{
    switch (row_at(l, n->op)->kind) {
    case OP_CALL:
        return n->op + n->attempt - 1;
    case OP_UNTIL:
        return n->op;
    default:
        return n->attempt == 1 ? n->op - 1 : n->op + n->attempt - 2;
    }
}

static void check_notes(const restart_fixture *l)
{
    int64_t hidden = l->row_count > 0 ? l->rows[0].seq - 1 : 1; /* a small input is not a row */
    for (int i = 0; i < l->note_count; i++) {
        const restart_note *n = &l->notes[i];
        int64_t last = rows_before(l, n);
        if (n->rows + hidden != last || (n->rows > 0 && n->seen != last))
            wrong(l,
                  "%s attempt %" PRId64 " began with %" PRId64 " rows up to %" PRId64
                  ", not %" PRId64,
                  n->name, n->attempt, n->rows, n->seen, last);
        for (int j = 0; j < i; j++)
            if (l->notes[j].op == n->op && l->notes[j].input != n->input)
                wrong(l, "%s got another input the next time", n->name);
    }
}

static int is_poll(const restart_note *n)
{
    return strncmp(n->name, "poll-", 5) == 0;
}

/* Executed again: only what was being executed at a death, and not recorded. */
static int count_again(const restart_fixture *first, const restart_fixture *l)
{
    int again = 0;
    for (int i = 0; i < l->note_count; i++) {
        const restart_note *n = &l->notes[i];
        int usual = restart_count(first, n->op, n->attempt);
        if (usual == 0)
            wrong(l, "%s attempt %" PRId64 " should never be", n->name, n->attempt);
    }
    for (int i = 0; i < first->note_count; i++) {
        const restart_note *n = &first->notes[i];
        int usual = restart_count(first, n->op, n->attempt);
        int now = restart_count(l, n->op, n->attempt);
        if (!is_poll(n) && (now < usual || now > usual + l->process - 1))
            wrong(l, "%s attempt %" PRId64 " was executed %d times", n->name, n->attempt, now);
        again += is_poll(n) ? 0 : now - usual;
    }
    return again;
}

static void compare(const restart_fixture *first, restart_fixture *l)
{
    assert_int_equal(l->build, first->build);
    assert_int_equal(l->holds, 0);
    compare_results(first, l);
    compare_rows(first, l);
    compare_values(l);
    check_notes(l);
}

/* ---- Dying ---- */

typedef struct restart_case {
    const char *name;
    pawl_workflow_fn *fn;
    const char *input;
    int64_t every; /* so many commits at most between two that are tried; 0: as told */
    int holds;     /* made by hand */
    int builds;    /* that follow the first one */
} restart_case;

/* Without a death everything is executed once, whatever else happens. */
static void check_once(const restart_fixture *l)
{
    for (int i = 0; i < l->note_count; i++) {
        const restart_note *n = &l->notes[i];
        if (!is_poll(n) && restart_count(l, n->op, n->attempt) != 1)
            wrong(l, "%s attempt %" PRId64 " was executed again", n->name, n->attempt);
    }
}

static restart_fixture *run_undisturbed(const conf *c, const restart_case *p)
{
    restart_fixture *first = restart_new(c, p->name, p->fn, p->input);
    restart_begin(first, "first", p->holds);
    assert_int_equal(restart_process(first, 0, 0), 0);
    assert_int_equal(first->build, p->builds);
    compare_values(first);
    check_notes(first);
    check_once(first);
    assert_true(first->code == PAWL_OK || first->code == PAWL_FAILED);
    return first;
}

/* Kill one process, and let the next one finish. 0: the run ended before. */
static int kill_once(const restart_fixture *first, restart_fixture *l, int holds, int64_t before,
                     int64_t after)
{
    char id[64];
    snprintf(id, sizeof id, "%s-%" PRId64, before ? "before" : "after", before + after);
    tmp_watchdog(id);
    restart_begin(l, id, holds);
    int died = restart_process(l, before, after);
    if (died)
        assert_int_equal(restart_process(l, 0, 0), 0);
    compare(first, l);
    /* Behind a commit of the run nothing is under way. Where heartbeats are rows, the commit may be
     * one of these, between an execution and its record. */
    int may_be_heartbeat = !(l->conf->promises & DB_FILE);
    int again = count_again(first, l);
    if (again > (before > 0 || may_be_heartbeat))
        wrong(l, "%d executions too many", again);
    return died;
}

static void kill_at_each_commit(const conf *c, const restart_case *p)
{
    int64_t every = p->every ? p->every : scratch_number("PAWL_TEST_EVERY", 5);
    restart_fixture *first = run_undisturbed(c, p);
    restart_fixture *l = restart_new(c, p->name, p->fn, p->input);
    l->now_ms = first->now_ms;
    l->mono_ns = first->mono_ns;
    int64_t deaths = 0;
    for (int64_t n = 1; n < 200; n += every, deaths++) {
        int before = kill_once(first, l, p->holds, n, 0);
        if (!kill_once(first, l, p->holds, 0, n) || !before)
            break;
    }
    assert_true(deaths * every >= 4); /* otherwise nothing was killed */
    restart_free(l);
    restart_free(first);
}

/* Every process dies before its n-th commit: little by little the run still gets to its end. */
static void kill_again_and_again(const conf *c, const restart_case *p)
{
    restart_fixture *first = run_undisturbed(c, p);
    restart_fixture *l = restart_new(c, p->name, p->fn, p->input);
    l->now_ms = first->now_ms;
    l->mono_ns = first->mono_ns;
    /* Where heartbeats are rows, a process begins with waiting until the one before counts as
     * dead. */
    int64_t least = c->promises & DB_FILE ? 9 : 16;
    for (int64_t span = least; span < least + 3; span++) {
        char id[64];
        snprintf(id, sizeof id, "lives-of-%" PRId64, span);
        tmp_watchdog(id);
        restart_begin(l, id, p->holds);
        while (restart_process(l, span, 0))
            assert_true(l->process < 60);
        assert_true(l->process > 1);
        compare(first, l);
        if (count_again(first, l) > l->process - 1)
            wrong(l, "too many executions");
    }
    restart_free(l);
    restart_free(first);
}

static char large_input[RESTART_BIG];

#define RESTART_CASE(case_name, workflow, its_input, how_often, how)                               \
    static void case_name(conf *c)                                                                 \
    {                                                                                              \
        restart_case p = {                                                                         \
            .name = #workflow, .fn = workflow, .input = its_input, .every = how_often};            \
        how(c, &p);                                                                                \
    }

RESTART_CASE(an_order, order, "{\"item\":7}", 1, kill_at_each_commit)
RESTART_CASE(attempts_that_fail, retries, "null", 1, kill_at_each_commit)
RESTART_CASE(large_values, large, large_input, 0, kill_at_each_commit)
RESTART_CASE(waiting_and_asking, waits, "true", 0, kill_at_each_commit)
RESTART_CASE(attempts_that_take_too_long, times_out, "1", 0, kill_at_each_commit)
RESTART_CASE(attempts_used_up, fails, "1", 0, kill_at_each_commit)
RESTART_CASE(a_failure_for_good, goes_wrong, "1", 0, kill_at_each_commit)
RESTART_CASE(values_and_nothing_else, only_values, "1", 0, kill_at_each_commit)
RESTART_CASE(a_run_that_says_what_it_does, says, "1", 0, kill_at_each_commit)
RESTART_CASE(a_loop, loops, "1", 0, kill_at_each_commit)
RESTART_CASE(a_loop_of_short_processes, loops, "1", 0, kill_again_and_again)

static void holds_by_hand(conf *c)
{
    restart_case p = {.name = "is_looked_at", .fn = is_looked_at, .input = "1", .holds = 2};
    kill_at_each_commit(c, &p);
}

static void a_mistake(conf *c)
{
    restart_case p = {.name = "is_mended", .fn = is_mended, .input = "1", .builds = 1};
    kill_at_each_commit(c, &p);
}

static void a_missing_work_function(conf *c)
{
    restart_case p = {.name = "lacks_work", .fn = lacks_work, .input = "1", .builds = 1};
    kill_at_each_commit(c, &p);
}

int main(void)
{
    const conf_case cases[] = {
        {"death at each commit of an order", an_order, DB_DURABLE | DB_SHARED},
        {"death at each commit of attempts that fail", attempts_that_fail, DB_DURABLE | DB_SHARED},
        {"death among large values", large_values, DB_DURABLE | DB_SHARED},
        {"death while it waits and asks", waiting_and_asking, DB_DURABLE | DB_SHARED},
        {"death when attempts take too long", attempts_that_take_too_long, DB_DURABLE | DB_SHARED},
        {"death when attempts are used up", attempts_used_up, DB_DURABLE | DB_SHARED},
        {"death at a failure for good", a_failure_for_good, DB_DURABLE | DB_SHARED},
        {"death among values", values_and_nothing_else, DB_DURABLE | DB_SHARED},
        {"death while it says what it does", a_run_that_says_what_it_does, DB_DURABLE | DB_SHARED},
        {"death while it is held by hand", holds_by_hand, DB_DURABLE | DB_SHARED},
        {"death among the holds of a mistake", a_mistake, DB_DURABLE | DB_SHARED},
        {"death while a work function is missing", a_missing_work_function, DB_DURABLE | DB_SHARED},
        {"death in a loop", a_loop, DB_DURABLE | DB_SHARED},
        {"short lives, one after the other", a_loop_of_short_processes, DB_DURABLE | DB_SHARED},
    };
    memset(large_input, 'i', sizeof large_input - 1);
    large_input[0] = large_input[sizeof large_input - 2] = '"';
    return conf_run_reused(cases, CONF_COUNT(cases));
}
