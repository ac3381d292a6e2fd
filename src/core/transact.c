/* pawl_transact(): what is recorded of it, and applying it. See the header for how it is one
 * transaction. */
#include "core/transact.h"

#include <string.h>

#include "core/calls.h"
#include "core/drive.h"
#include "core/ending.h"
#include "core/ops.h"

/* ---- Inside ---- */

/* That a thread is in such a function is known to nobody but the thread: the function may call pawl
 * on any handle, also on one that knows nothing of this run. So it is the thread's own variable. On
 * SQLite the call would wait for the very transaction that it is made in. */
static _Thread_local pawl_work *inside; /* tidy: shared, by nobody: each thread has its own */

int transact_is_inside(void)
{
    if (inside)
        inside->misuses = 1;
    return inside != NULL;
}

/* The guest of the unit. Its time begins here, and not when it began to wait for its turn. A result
 * that comes too late, or with a call of pawl, is none. */
static slice visit(void *native, void *arg)
{
    pawl_run *run = arg;
    pawl_work *w = run->work;
    clock_source *clock = run->drive->host;
    w->over_ns = w->limit_ms > 0 ? clock_deadline(clock->mono_ns(clock), w->limit_ms) : INT64_MAX;
    run->misused = 0;
    w->native = native;
    inside = w;
    work_call(w);
    inside = NULL;
    w->native = NULL;
    drive_end_child(run->drive);
    if (work_is_over(w))
        work_expire(w);
    if (run->misused || w->misuses)
        work_failed(w, 1, "misuse", "the function called pawl inside its transaction");
    return w->failed ? (slice){NULL, 0} : slice_of(w->value);
}

/* ---- The unit ---- */

static const char REFUSED[] = "transact";

int transact_rides(const pawl_run *run)
{
    if (!run->unit)
        return 1;
    if (run->kept > 0 || run->said.count > 0 || run->jobs_new_count > 0)
        return 0;
    for (const unit_stmt *s = run->unit->first; s; s = s->next)
        if (s->kind != UNIT_WRITE)
            return 0;
    return 1;
}

int transact_build(pawl_run *run)
{
    run_transact *t = &run->transact;
    if (!run->unit)
        run->unit = unit_new(run->paper);
    unit *u = run->unit;
    if (!u)
        return 0;
    t->before = u->count;
    t->guest = (unit_guest){.call = visit, .arg = run};
    run_entry e = {
        .run = run->hold.run,
        .generation = run->generation,
        .seq = run->work->op,
        .kind = OP_TRANSACT,
        .name = slice_of(run->work->name),
        .at_ms = drive_now_ms(run->drive),
    };
    run_check_fence(u, &run->hold);
    run_append_from(u, &e, db_from(unit_call(u, REFUSED, &t->guest), 0));
    if (u->broken_build)
        return 0;
    t->state = TRANSACT_GOES;
    return 1;
}

/* Others help with what waits behind it, but nobody takes it away: its transaction has locks that
 * only its end sets free. */
static void enter(runner *r)
{
    drive *d = r->drive;
    atomic_store(&r->since_ns, d->host->mono_ns(d->host));
    atomic_store(&r->over_ns, INT64_MAX);
    atomic_store(&r->busy, 1);
    if (!atomic_load(&d->ticking))
        drive_call_crew(d);
}

/* Has it failed by the function's fault? Some rules of the application's tables are looked at only
 * by the commit: PAWL_DATA. */
static int is_its_fault(const unit *u)
{
    return (u->answer == UNIT_REFUSED && strcmp(u->refused, REFUSED) == 0) ||
           (u->answer == UNIT_FAILED && u->code == PAWL_DATA);
}

static void blame(pawl_run *run, const unit *u)
{
    pawl_work *w = run->work;
    if (u->answer == UNIT_FAILED) {
        const char *why = arena_copy(w->memory, slice_of(u->message));
        work_failed(w, 0, "commit", why ? why : "the commit was refused");
    } else if (run->transact.guest.misused) {
        work_failed(w, 1, "misuse",
                    "the function ended the transaction, or left a statement in it open or failed");
    }
}

/* What it had recorded before is to be committed with the failure. */
static void take_back(pawl_run *run)
{
    unit_cut(run->unit, run->transact.before);
    run->submitter = (submitter){0};
    run->handed_in = 0;
    run->where = RUN_IN_HAND;
    if (run->transact.before == 0)
        run->unit = NULL;
}

int transact_apply(runner *r, pawl_run *run)
{
    drive *d = run->drive;
    run_transact *t = &run->transact;
    t->here = 1;
    enter(r);
    pawl_code rc = committers_apply(d->options.committers, run->unit);
    atomic_store(&r->busy, 0);
    if (rc == PAWL_UNDECIDED)
        return 0; /* by now it may be in other hands */
    t->here = 0;
    if (!is_its_fault(run->unit)) {
        drive_answered(d, run);
        return 0;
    }
    blame(run, run->unit);
    take_back(run);
    t->state = TRANSACT_FAILED;
    return 1;
}

int transact_answered(pawl_run *run, const unit *u)
{
    if (u->answer == UNIT_UNDECIDED)
        run->transact.here = 0;
    return run->transact.here;
}

/* ---- The op ---- */

static _Noreturn void fail_with(pawl_run *run, const call *c, slice error_json)
{
    pawl_future f = {.run = run, .what = c->name, .value = run_text(run, error_json)};
    future_fail(&f);
}

/* Attempt number `number`. Its value; NULL: it has failed, and is to be made again at *next_ms. */
static const char *try_now(pawl_run *run, const call *c, int64_t number, int64_t *next_ms)
{
    slice name = slice_of(c->name);
    ending_look(run);
    if (call_in_transaction(run, c, number)) {
        const char *value = run_text(run, slice_of(run->work->value));
        turn_note(run, OP_TRANSACT, name, slice_of(value));
        return value;
    }
    *next_ms = call_again_ms(run, c, run->work, number);
    slice why = call_error(run, run->work, *next_ms);
    turn_record(run, *next_ms < 0 ? OP_TRANSACT_FAILED : OP_TRANSACT_AGAIN, name, why);
    if (*next_ms < 0)
        fail_with(run, c, why);
    return NULL;
}

/* Ask for it as often as it was tried, and sleep in between. It is replayed in the same way. */
static const char *go_on(pawl_run *run, call *c)
{
    for (int64_t number = 1;; number++) {
        const replay_row *row;
        int64_t next_ms = 0;
        if (turn_op(run, OP_TRANSACT, slice_of(c->name), &row) == REPLAY_NEW) {
            const char *value = try_now(run, c, number, &next_ms);
            if (value)
                return value;
        } else if (row->kind == OP_TRANSACT_AGAIN) {
            c->began_ms = work_began_ms(row->data, row->at_ms);
            next_ms = work_next_ms(row->data);
        } else if (row->kind == OP_TRANSACT_FAILED) {
            fail_with(run, c, row->data);
        } else {
            return run_text(run, row->data);
        }
        pawl_sleep_until(run, next_ms);
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
              .began_ms = drive_now_ms(run->drive)};
    ops_name(run, name, "name of the step");
    ops_json(run, input, "input of the step");
    if (!fn)
        run_trouble(run, PAWL_INVALID, "the function of pawl_transact(%s) is NULL", name);
    ops_call_options(run, &c, options);
    return go_on(run, &c);
}
