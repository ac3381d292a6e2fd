/* Writing the journal of a run (event sourcing): every ask goes to the replay first; what is new
 * becomes a row of the unit that is committed next.
 *
 * A row is in the replay and in the unit, or in neither. A run whose fiber is dropped before the
 * commit forgets its rows in both, and goes on from the journal as the database has it. The one
 * exception is the row of a transactional step: transact_build() adds it to the unit, and
 * journal_note() to the replay after the commit. */
#include <assert.h>
#include <string.h>

#include "run/futures.h"

/* ---- Asking ---- */

/* Leaves the function with the error of the replay as the reason: the function does not match the
 * journal (non-determinism), or the journal is damaged. */
static _Noreturn void leave_for_replay_error(pawl_run *run)
{
    const error *why = replay_error(run->journal.replay);
    run_trouble(run, why->code, "%s: %s", why->message, why->detail);
}

/* Deals with a result of the replay. Returns 1 if the ask is answered; 0: it is to be repeated. */
static int is_settled(pawl_run *run, replay_result result, const replay_row *row)
{
    switch (result) {
    case REPLAY_RECORDED:
    case REPLAY_NEW:
    case REPLAY_PASSED:
        return 1;
    case REPLAY_ARRIVED:
        futures_arrived(run, row);
        return 0;
    case REPLAY_MORE:
        run_ask(run, WANT_PAGE);
        return 0;
    case REPLAY_NOMEM:
        run_nomem(run);
    default:
        leave_for_replay_error(run);
    }
}

replay_result journal_start(pawl_run *run, const replay_row **row)
{
    replay_result result;
    do
        result = replay_start(run->journal.replay, row);
    while (!is_settled(run, result, *row));
    return result;
}

replay_result journal_ask(pawl_run *run, op_kind kind, slice name, const replay_row **row)
{
    replay_result result;
    do
        result = replay_op(run->journal.replay, kind, name, row);
    while (!is_settled(run, result, *row));
    return result;
}

replay_result journal_op(pawl_run *run, op_kind kind, slice name, const replay_row **row)
{
    future_cancel_flush(run);
    return journal_ask(run, kind, name, row);
}

int journal_settle_one(pawl_run *run)
{
    const replay_row *row;
    replay_result result;
    do {
        result = replay_settle(run->journal.replay, &row);
        if (is_settled(run, result, row))
            return 0;
    } while (result != REPLAY_ARRIVED);
    return 1;
}

int journal_wait(pawl_run *run, int64_t op, const char *asked)
{
    for (;;) {
        const replay_row *row;
        replay_result result = op ? replay_answer(run->journal.replay, op, &row)
                                  : replay_wait(run->journal.replay, asked, &row);
        if (result == REPLAY_NEW)
            return 0;
        if (result == REPLAY_RECORDED)
            futures_arrived(run, row);
        if (is_settled(run, result, row) || result == REPLAY_ARRIVED)
            return 1;
    }
}

replay_result journal_next(pawl_run *run, const replay_row **row)
{
    for (;;) {
        replay_result result = replay_next(run->journal.replay, row);
        if (result == REPLAY_ARRIVED || is_settled(run, result, *row))
            return result;
    }
}

replay_result journal_return(pawl_run *run, op_kind kind)
{
    replay_result result;
    const replay_row *row = NULL;
    do
        result = replay_return(run->journal.replay, kind, &row);
    while (!is_settled(run, result, row));
    return result;
}

/* ---- Recording ---- */

slice journal_keep(pawl_run *run, slice s)
{
    slice copy = {s.at ? arena_copy(run->draft.arena, s) : NULL, s.size};
    if (s.at && !copy.at)
        run_nomem(run);
    return copy;
}

unit *journal_unit(pawl_run *run)
{
    if (!run->draft.unit)
        run->draft.unit = unit_new(run->draft.arena);
    if (!run->draft.unit)
        run_nomem(run);
    return run->draft.unit;
}

/* Adds the row to the unit that is committed next. Texts are copied, since they may be freed before
 * the unit is. */
static void write_row(pawl_run *run, const replay_row *row)
{
    unit *u = journal_unit(run);
    assert(row->seq > run->draft.seq);
    run_entry e = {
        .run = run->lease.run,
        .generation = row->generation,
        .seq = row->seq,
        .kind = row->kind,
        .op = row->op,
        .name = journal_keep(run, row->name),
        .at_ms = row->at_ms,
        .data = journal_keep(run, row->data),
    };
    run_append(u, &e);
    if (op_is_deed((op_kind)row->kind))
        run->draft.kept = u->count;
    if (row->seq == RUN_LONG)
        run_log_line(run, LOG_WARNING, "its journal is long: pawl_continue_as_new() would be wise");
    if (u->broken_build)
        run_nomem(run);
    run->draft.seq = row->seq;
}

static replay_row new_row(pawl_run *run, op_kind kind, int64_t op, slice name, slice data)
{
    return (replay_row){.kind = kind,
                        .op = op,
                        .at_ms = host_now_ms(run->host),
                        .name = name.at ? name : SLICE_LIT(""),
                        .data = data};
}

int64_t journal_record(pawl_run *run, op_kind kind, slice name, slice data)
{
    replay_row row = new_row(run, kind, 0, name, data);
    if (replay_append(run->journal.replay, &row) != PAWL_OK)
        leave_for_replay_error(run);
    write_row(run, &row);
    return row.seq;
}

void journal_note(pawl_run *run, op_kind kind, slice name, slice data)
{
    replay_row row = new_row(run, kind, 0, name, data);
    if (replay_append(run->journal.replay, &row) != PAWL_OK)
        leave_for_replay_error(run);
    run->draft.seq = row.seq;
}

/* Returns room for one more arrival, in the memory of the draft. That memory stays until all
 * arrivals were given out, since nothing is committed before. */
static replay_row *new_arrival(pawl_run *run)
{
    if (run->journal.arrivals == run->journal.arrivals_room) {
        size_t room = run->journal.arrivals_room ? 2 * run->journal.arrivals_room : 4;
        replay_row *more = arena_alloc(run->draft.arena, room * sizeof *more);
        if (!more)
            run_nomem(run);
        if (run->journal.arrivals)
            memcpy(more, run->journal.arriving, run->journal.arrivals * sizeof *more);
        run->journal.arriving = more;
        run->journal.arrivals_room = room;
    }
    return &run->journal.arriving[run->journal.arrivals++];
}

void journal_arrive(pawl_run *run, op_kind kind, int64_t op, slice data)
{
    slice kept = journal_keep(run, data);
    *new_arrival(run) = new_row(run, kind, op, SLICE_LIT(""), kept);
}

int journal_arrive_all(pawl_run *run)
{
    replay_row *rows = run->journal.arriving;
    size_t count = run->journal.arrivals;
    run->journal.arriving = NULL;
    run->journal.arrivals = run->journal.arrivals_room = 0;
    if (count == 0)
        return 0;
    size_t kept = replay_arrive(run->journal.replay, rows, count);
    for (size_t i = 0; i < kept; i++)
        write_row(run, &rows[i]);
    return kept > 0;
}
