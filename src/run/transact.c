/* pawl_transact(): the op, and the statements of its transaction (transact.h).
 * sched/runner_transact.c applies them. */
#include "run/transact.h"

#include <string.h>

#include "handle/handle.h"
#include "run/call.h"
#include "run/cleanup.h"
#include "run/ops.h"
#include "run/wait.h"

/* ---- Inside ---- */

/* Calls the function, as the guest of the unit. Its time limit begins here, and not when the unit
 * begins to wait for a committer. The result does not count if it comes too late, or if the
 * function has called pawl. */
static slice call_function(void *native, void *arg)
{
    pawl_run *run = arg;
    pawl_work *w = run->attempt.work;
    clock_source *clock = run->host->clock;
    w->over_ns = w->limit_ms > 0 ? clock_deadline(clock->mono_ns(clock), w->limit_ms) : INT64_MAX;
    run->code.misused = 0;
    w->native = native;
    handle_begin_guest(&w->misuses);
    work_call(w);
    handle_end_guest();
    w->native = NULL;
    host_end_forked(run->host);
    if (work_is_over(w)) /* RULE A8-too-late-is-not-at-all */
        work_expire(w);
    if (run->code.misused || w->misuses)
        work_failed(w, 1, "misuse", "the function called pawl inside its transaction");
    return w->failed ? (slice){NULL, 0} : slice_of(w->value);
}

/* ---- The unit ---- */

static const char REFUSED[] = "transact";

int transact_rides(const pawl_run *run)
{
    if (!run->draft.unit)
        return 1;
    /* RULE A8-what-was-done-before-is-durable-before */
    if (run->draft.kept > 0 || run->draft.status.count > 0 || run->jobs.not_queued_count > 0)
        return 0;
    for (const unit_stmt *s = run->draft.unit->first; s; s = s->next)
        if (s->kind != UNIT_WRITE)
            return 0;
    return 1;
}

int transact_build(pawl_run *run)
{
    run_transact *t = &run->attempt.transact;
    if (!run->draft.unit)
        run->draft.unit = unit_new(run->draft.arena);
    unit *u = run->draft.unit;
    if (!u)
        return 0;
    t->before = u->count;
    t->guest = (unit_guest){.call = call_function, .arg = run};
    run_entry e = {
        .run = run->lease.run,
        .generation = run->generation,
        .seq = run->attempt.work->op,
        .kind = OP_TRANSACT,
        .name = slice_of(run->attempt.work->name),
        .at_ms = host_now_ms(run->host),
    };
    run_check_fence(u, &run->lease); /* RULE A8-the-transaction-begins-with-the-fence */
    run_append_from(u, &e, db_from(unit_call(u, REFUSED, &t->guest), 0));
    if (u->broken_build)
        return 0;
    t->state = TRANSACT_GOES;
    return 1;
}

int transact_goes(const pawl_run *run)
{
    return run->code.want == WANT_TRANSACT && run->attempt.transact.state == TRANSACT_GOES;
}

/* Returns 1 if the unit has failed because of the function: its own statements tell the function of
 * their errors, so that it fails itself (REFUSED); and a constraint of the application's tables may
 * be one that only the COMMIT checks. */
static int is_fault_of_function(const unit *u)
{
    return (u->answer == UNIT_REFUSED && strcmp(u->refused, REFUSED) == 0) ||
           /* RULE L7-a-record-that-is-refused-is-no-fault-of-the-function */
           (u->answer == UNIT_FAILED && u->code == PAWL_DATA && u->at_commit);
}

static void set_failure(pawl_run *run, const unit *u)
{
    pawl_work *w = run->attempt.work;
    if (u->answer == UNIT_FAILED) {
        const char *why = arena_copy(w->memory, slice_of(u->message));
        work_failed(w, 0, "commit", why ? why : "the commit was refused");
    } else if (run->attempt.transact.guest.misused) {
        work_failed(w, 1, "misuse",
                    "the function ended the transaction, or left a statement in it open or failed");
    }
}

/* Takes the step out of the unit, so that what was recorded before can be committed with the
 * failure. */
static void cut_step(pawl_run *run)
{
    unit_cut(run->draft.unit, run->attempt.transact.before);
    run->draft.submitter = (submitter){0};
    run->draft.handed_in = 0;
    if (run->attempt.transact.before == 0)
        run->draft.unit = NULL;
}

int transact_has_failed(pawl_run *run)
{
    if (!is_fault_of_function(run->draft.unit))
        return 0;
    set_failure(run, run->draft.unit);
    cut_step(run);
    run->attempt.transact.state = TRANSACT_FAILED;
    return 1;
}

/* ---- The op ---- */

static _Noreturn void fail_run(pawl_run *run, const call *c, slice error_json)
{
    pawl_future f = {.run = run, .what = c->name, .value = run_text(run, error_json)};
    future_fail(&f);
}

/* Makes attempt number `number` and records it. Returns the value; NULL: the attempt has failed,
 * and the next one is due at *next_ms. Does not return if there is no next one. */
static const char *make_attempt(pawl_run *run, call *c, int64_t number, int64_t *next_ms)
{
    slice name = slice_of(c->name);
    cleanup_look(run);
    if (call_in_transaction(run, c, number)) {
        const char *value = run_text(run, slice_of(run->attempt.work->value));
        journal_note(run, OP_TRANSACT, name, slice_of(value));
        return value;
    }
    *next_ms = call_again_ms(run, c, run->attempt.work, number);
    slice why = call_error(run, run->attempt.work, *next_ms);
    journal_record(run, *next_ms < 0 ? OP_TRANSACT_FAILED : OP_TRANSACT_AGAIN, name, why);
    if (*next_ms < 0)
        fail_run(run, c, why);
    return NULL;
}

/* Makes the attempts, and sleeps between two of them. A replay goes through the same ops and
 * sleeps. */
static const char *attempt_until_done(pawl_run *run, call *c)
{
    for (int64_t number = 1;; number++) {
        const replay_row *row;
        int64_t next_ms = 0;
        if (journal_op(run, OP_TRANSACT, slice_of(c->name), &row) == REPLAY_NEW) {
            const char *value = make_attempt(run, c, number, &next_ms);
            if (value)
                return value;
        } else if (row->kind == OP_TRANSACT_AGAIN) {
            c->began_ms = work_began_ms(row->data, row->at_ms);
            next_ms = work_next_ms(row->data);
        } else if (row->kind == OP_TRANSACT_FAILED) {
            fail_run(run, c, row->data);
        } else {
            return run_text(run, row->data);
        }
        ops_rest(run, next_ms, c->rests_ns);
    }
}

const char *pawl_transact(pawl_run *run, const char *name, pawl_transact_fn *fn, const char *input,
                          const pawl_call_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    call c = {.kind = OP_TRANSACT,
              .transacts = fn,
              .name = name,
              .input = input,
              .began_ms = host_up_ms(run->host)};
    ops_own_name(run, name, "name of the step");
    ops_json(run, input, "input of the step", name);
    if (!fn)
        run_trouble(run, PAWL_INVALID, "the function of pawl_transact(%s) is NULL", name);
    ops_call_options(run, &c, options);
    return attempt_until_done(run, &c);
}
