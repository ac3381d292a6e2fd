/* Attempts of work functions (activities): preparing an attempt, making it on the run's own thread,
 * and recording its result. The header says which attempts are made on other threads (jobs.c). */
#include "run/call.h"

#include <string.h>

#include "base/json.h"
#include "run/cleanup.h"
#include "run/jobs.h"

/* ---- One attempt ---- */

/* Returns the time limit of an attempt in ms: the smaller one of the limit per attempt and `left`,
 * which is what is left of the time for all attempts. 0: no limit. */
static int64_t limit_of(const call *c, int64_t left)
{
    int64_t limit = c->policy.attempt_ms ? c->policy.attempt_ms : INT64_MAX;
    limit = left < limit ? left : limit; /* RULE all-attempts-together-have-a-limit */
    return limit == INT64_MAX ? 0 : limit;
}

/* Returns the `arg` for the work function: that of the call's options, or else that of the
 * function's registration. NULL: neither has one. */
static void *arg_of(pawl_run *run, const call *c)
{
    const work_entry *entry = c->entry;
    if (c->arg)
        return c->arg;
    if (!entry)
        entry = registry_work(run->host->registry, c->name);
    return entry ? entry->arg : NULL;
}

int64_t call_attempt(const call *c)
{
    /* RULE 2-the-number-of-an-attempt-is-in-the-journal */
    return c->before + replay_attempts(c->future->run->journal.replay, c->future->op) + 1;
}

static int prepare_attempt(pawl_run *run, const call *c, pawl_work *w, int64_t number, int64_t op)
{
    w->entry = c->entry;
    w->fn = c->fn;
    w->transacts = c->transacts;
    w->arg = arg_of(run, c);
    w->attempt = number;
    w->op = op;
    w->began_ms = c->began_ms;
    if (!work_give(run, w, c->name, c->input))
        run_nomem(run);
    int64_t left = retry_left(&c->policy, c->began_ms, host_now_ms(run->host));
    w->limit_ms = limit_of(c, left);
    return left > 0; /* RULE all-attempts-together-have-a-limit */
}

int call_fill(const call *c, pawl_work *w, int64_t number, int64_t op)
{
    return prepare_attempt(c->future->run, c, w, number, op);
}

/* Leaves the function before an attempt, since the run is about to be given back, and records the
 * results of jobs that have returned. A step that was not attempted has no row yet, and gets one
 * here before those results (OP_STEP_AGAIN with 0 attempts). So its position in the journal, which
 * is part of pawl_work_key(), stays the one under which a process that died may have called the
 * function. A transactional step needs no such row: an attempt that is not recorded was rolled
 * back. */
static _Noreturn void leave_before_attempt(pawl_run *run, const call *c, int64_t op)
{
    /* RULE 2-a-step-that-was-not-begun-keeps-its-key */
    if (op > replay_seq(run->journal.replay) && !c->transacts) {
        slice data = work_not_begun(run, host_now_ms(run->host), c->began_ms);
        if (!data.at)
            run_nomem(run);
        journal_record(run, OP_STEP_AGAIN, slice_of(c->name), data);
    }
    jobs_leave(run);
}

/* Makes attempt `number` of the op while the function waits: the runner calls the work function on
 * the run's own thread, or has a work thread call it (sched/work_threads.h). If that attempt was
 * made before the fiber was dropped, its result is taken over instead (work.h). What was recorded
 * before is durable when the work function is called; but the function of a transactional step may
 * be called inside the transaction that commits it (transact_rides()). The result is in
 * run->attempt.work until there is a row of it. */
static void make_attempt(pawl_run *run, const call *c, int64_t number, int64_t op)
{
    if (!c->transacts && work_take_kept(run, op, number))
        return;
    run->attempt.is_called = 0;
    if (!work_open(run))
        run_nomem(run);
    jobs_start(run);
    if (prepare_attempt(run, c, run->attempt.work, number, op))
        run_ask(run, c->transacts ? WANT_TRANSACT : WANT_WORK);
    else
        work_expire(run->attempt.work);
    if (run->code.collects)
        leave_before_attempt(run, c, op);
    run->attempt.is_called = !c->transacts; /* RULE L5-a-result-is-kept-until-it-is-a-row */
}

int call_first(pawl_run *run, const call *c)
{
    make_attempt(run, c, 1, replay_seq(run->journal.replay) + 1);
    return !run->attempt.work->failed;
}

int call_in_transaction(pawl_run *run, const call *c, int64_t number)
{
    run->attempt.transact.state = TRANSACT_ASKED;
    make_attempt(run, c, number, replay_seq(run->journal.replay) + 1);
    return !run->attempt.work->failed;
}

int64_t call_again_ms(pawl_run *run, call *c, const pawl_work *w, int64_t number)
{
    if (w->permanent)
        return -1;
    int64_t now = host_up_ms(run->host);
    int64_t next =
        retry_next(&c->policy, number, c->began_ms, now, w->after_ms, host_chance(run->host));
    c->rests_ns = next > now ? future_not_before(run, next - now) : 0;
    return next;
}

slice call_error(pawl_run *run, const pawl_work *w, int64_t next_ms)
{
    slice s = work_error(run, w, next_ms);
    if (!s.at)
        run_nomem(run);
    return s;
}

/* ---- Recording the result of an attempt ---- */

static int is_nothing(const char *json)
{
    pawl_kind kind = pawl_get_kind(json, "");
    return kind == PAWL_NULL || kind == PAWL_FALSE;
}

void call_put_off(call *c, int64_t at_ms)
{
    pawl_run *run = c->future->run;
    c->is_due = 0;
    future_due_at(c->future, at_ms);
    map_put(&run->untils, (uint64_t)c->future->op, (void *)(intptr_t)at_ms); // NOLINT
}

/* Returns how many ms are left until the end of a pawl_until(); 0: its time is over. The time is
 * measured by the database's clock and by the monotonic clock, and the clock that leaves more of it
 * counts. */
static int64_t until_left(const call *c)
{
    const pawl_run *run = c->future->run;
    int64_t now = host_now_ms(run->host), up = host_up_ms(run->host);
    int64_t left = now >= c->end_ms ? 0 : c->end_ms - up, rest = future_rest_until(run, c->end_ns);
    return left > rest ? left : rest; /* RULE C2-an-until-takes-its-time-whatever-the-date-is */
}

static void pause_until(call *c, int64_t ms)
{
    pawl_run *run = c->future->run;
    /* RULE C2-so-does-the-pause-of-an-until */
    c->future->not_before_ns = future_not_before(run, ms);
    call_put_off(c, host_up_ms(run->host) + ms);
}

/* Records the answer of a pawl_until() after an attempt, or schedules its next attempt, of which
 * nothing is recorded. */
static void record_until_attempt(call *c, const pawl_work *w)
{
    pawl_run *run = c->future->run;
    int64_t left = until_left(c), op = c->future->op;
    if (!w->failed && !is_nothing(w->value))
        journal_arrive(run, OP_DONE, op, slice_of(w->value));
    else if (w->failed && w->permanent)
        journal_arrive(run, OP_FAILED, op, call_error(run, w, -1));
    else if (left <= 0)
        journal_arrive(run, OP_DONE, op, SLICE_LIT("null"));
    else
        pause_until(c, left < c->every_ms ? left : c->every_ms);
}

/* Holds the run for an operator, since a clean-up that has failed for good must not be
 * forgotten. */
static _Noreturn void hold_stuck(call *c, const pawl_work *w)
{
    pawl_run *run = c->future->run;
    run->attempt.is_called = 0;
    run_held_for(run, HELD_STUCK, "the clean-up %s has failed: %s: %s", c->name, w->error_name,
                 w->error_message);
}

void call_ended(call *c, pawl_work *w)
{
    pawl_run *run = c->future->run;
    int64_t op = c->future->op;
    if (c->kind == OP_UNTIL) {
        record_until_attempt(c, w);
        return;
    }
    if (!w->failed) {
        journal_arrive(run, OP_DONE, op, slice_of(w->value));
        return;
    }
    int64_t number = w->attempt;
    int64_t next = call_again_ms(run, c, w, number);
    if (next >= 0) {
        journal_arrive(run, OP_ATTEMPT, op, call_error(run, w, next));
    } else if (c->never_fails) {
        journal_arrive(run, OP_ATTEMPT, op, call_error(run, w, 0));
        journal_arrive_all(run);
        hold_stuck(c, w);
    } else {
        journal_arrive(run, OP_FAILED, op, call_error(run, w, -1));
    }
}

/* ---- As a future ---- */

static void append_call(call **first, call **last, call *c)
{
    c->next = NULL;
    if (*first)
        (*last)->next = c;
    else
        *first = c;
    *last = c;
}

static void list_due_call(pawl_future *f)
{
    call *c = f->own;
    run_futures *all = &f->run->futures;
    c->is_due = 1;
    if (c->listed)
        return;
    c->listed = 1;
    /* A quarantined run makes all its calls in line: a job is not marked as being executed, so that
     * its death would not be counted (sched/quarantine.h). A call is also made in line if the
     * result of an attempt in line is kept since then: only there does the call take over that
     * result. */
    /* RULE L5-a-result-of-the-quarantine-is-taken-over-behind-it */
    if (!c->beside || f->run->quarantine_level || work_is_kept(f->run, f->op))
        append_call(&all->in_line, &all->in_line_last, c);
    else
        append_call(&all->beside, &all->beside_last, c);
}

static void free_call(pawl_run *run, call *c)
{
    if (c->beside) {
        run_free_value(run, c->name);
        run_free_value(run, c->input);
    }
    run_free_value(run, c);
}

static void release_call(pawl_future *f)
{
    call *c = f->own;
    c->future = NULL;
    c->is_due = 0;
    if (!c->listed)
        free_call(f->run, c);
}

/* A call that is not due any more stays in its list until call_pop() meets it here, since searching
 * for it would cost too much. */
call *call_pop(pawl_run *run, call **list)
{
    while (*list) {
        call *c = *list;
        *list = c->next;
        c->listed = 0;
        if (!c->future) {
            free_call(run, c);
        } else if (c->is_due && !c->future->over && !c->future->is_cancelled) {
            c->is_due = 0;
            return c;
        }
    }
    return NULL;
}

/* Returns when the next attempt of the op is due: at `at_ms`, or at the later time to which
 * call_put_off() has put it off. */
static int64_t next_attempt_ms(pawl_run *run, int64_t op, int64_t at_ms)
{
    int64_t until_ms = (int64_t)(intptr_t)map_get(&run->untils, (uint64_t)op);
    return until_ms > at_ms ? until_ms : at_ms;
}

static void take_call_arrival(pawl_future *f, const replay_row *row)
{
    call *c = f->own;
    c->is_due = 0;
    if (row->kind == OP_ATTEMPT) {
        f->not_before_ns = c->rests_ns;
        future_due_at(f, next_attempt_ms(f->run, f->op, work_next_ms(row->data)));
        return;
    }
    map_take(&f->run->untils, (uint64_t)f->op);
    future_answer_row(f, row);
}

static void cancel_call(pawl_future *f, int live)
{
    (void)live;
    call *c = f->own;
    c->is_due = 0;
    jobs_cancel(f->run, f->op);
    map_take(&f->run->untils, (uint64_t)f->op);
}

static const future_kind CALL_FUTURE = {list_due_call, take_call_arrival, cancel_call,
                                        release_call};

pawl_future *call_new(pawl_run *run, const call *c, int64_t op, int64_t at_ms)
{
    pawl_future *f = future_new(run, &CALL_FUTURE, c->kind, op);
    call *own = run_alloc(run, sizeof *own);
    *own = *c;
    own->future = f;
    if (c->beside) { /* the workflow function goes on, and may free its arguments */
        own->name = run_text(run, slice_of(c->name));
        own->input = run_text(run, slice_of(c->input));
    }
    f->own = own;
    f->what = own->name;
    at_ms = next_attempt_ms(run, op, at_ms);
    f->not_before_ns = c->rests_ns;
    /* A call that is due already can begin before the run's next wait, so it is listed at once. */
    if (at_ms <= host_now_ms(run->host) && future_rest_ms(f) == 0)
        list_due_call(f);
    else
        future_due_at(f, at_ms);
    return f;
}

call *call_of(const pawl_future *f)
{
    /* RULE L8-a-result-is-recorded-for-a-call-only */
    return f->kind == &CALL_FUTURE ? f->own : NULL;
}

int call_do(pawl_run *run)
{
    call *c = call_pop(run, &run->futures.in_line);
    if (!c)
        return 0;
    make_attempt(run, c, c->kind == OP_UNTIL ? 1 : call_attempt(c), c->future->op);
    /* The attempt may have run out of time because it ignores a cancel of the run. */
    if (run->attempt.work->expired)
        cleanup_look(run);
    call_ended(c, run->attempt.work);
    journal_arrive_all(run);
    run->attempt.is_called = 0;
    return 1;
}
