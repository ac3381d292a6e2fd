/* What a run records: every ask goes to the journal first; what is new becomes a row of the unit
 * that is committed next.
 *
 * A row is in the replay and in the unit, or in neither: a run that is dropped before its commit
 * forgets both, and is told the same again by the journal as it is. Only here do rows get their
 * numbers. */
#include <assert.h>
#include <string.h>

#include "core/drive.h"
#include "core/run.h"

/* ---- Asking ---- */

/* Nothing of a run may go on behind a journal that does not fit it. */
static _Noreturn void hold(pawl_run *run)
{
    const error *why = replay_error(run->replay);
    run_trouble(run, why->code, "%s: %s", why->message, why->detail);
}

/* An attempt that has failed tells when the next one is due. */
static void note_arrival(pawl_run *run, const replay_row *row)
{
    if (row->kind == OP_ATTEMPT)
        run->until_ms = work_next_ms(row->data);
}

static int settled(pawl_run *run, replay_result result, const replay_row *row)
{
    switch (result) {
    case REPLAY_RECORDED:
    case REPLAY_NEW:
    case REPLAY_PASSED:
        return 1;
    case REPLAY_ARRIVED:
        note_arrival(run, row);
        return 0;
    case REPLAY_MORE:
        run_ask(run, WANT_PAGE);
        return 0;
    case REPLAY_NOMEM:
        run_trouble(run, PAWL_NOMEM, "out of memory");
    default:
        hold(run);
    }
}

replay_result turn_start(pawl_run *run, const replay_row **row)
{
    replay_result result;
    do
        result = replay_start(run->replay, row);
    while (!settled(run, result, *row));
    return result;
}

replay_result turn_op(pawl_run *run, op_kind kind, slice name, const replay_row **row)
{
    replay_result result;
    do
        result = replay_op(run->replay, kind, name, row);
    while (!settled(run, result, *row));
    return result;
}

replay_result turn_answer(pawl_run *run, int64_t op, const replay_row **row)
{
    replay_result result;
    do
        result = replay_answer(run->replay, op, row);
    while (!settled(run, result, *row));
    return result;
}

replay_result turn_return(pawl_run *run, op_kind kind)
{
    replay_result result;
    const replay_row *row = NULL;
    do
        result = replay_return(run->replay, kind, &row);
    while (!settled(run, result, row));
    return result;
}

/* ---- Recording ---- */

static slice keep(pawl_run *run, slice s)
{
    if (s.at)
        s.at = arena_copy(run->paper, s);
    return s;
}

/* What was done outside is not forgotten, whatever happens to the run now. */
static int is_deed(op_kind kind)
{
    return kind == OP_STEP || kind == OP_STEP_FAILED || kind == OP_STEP_AGAIN || kind == OP_DONE ||
           kind == OP_FAILED || kind == OP_ATTEMPT;
}

/* Into the unit that is committed next. Its texts are copied: they may go before it does. */
static void write_row(pawl_run *run, const replay_row *row)
{
    if (!run->unit)
        run->unit = unit_new(run->paper);
    if (!run->unit)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    run_entry e = {
        .run = run->hold.run,
        .generation = row->generation,
        .seq = row->seq,
        .kind = row->kind,
        .op = row->op,
        .name = keep(run, row->name),
        .at_ms = row->at_ms,
        .data = keep(run, row->data),
    };
    if (!e.name.at || (row->data.at && !e.data.at))
        run_trouble(run, PAWL_NOMEM, "out of memory");
    run_append(run->unit, &e);
    if (is_deed((op_kind)row->kind))
        run->kept = run->unit->count;
    if (row->seq == RUN_LONG)
        run_log_line(run, LOG_WARNING, "its journal is long: pawl_again() would be wise");
    if (run->unit->broken_build)
        run_trouble(run, PAWL_NOMEM, "out of memory");
}

static replay_row new_row(pawl_run *run, op_kind kind, int64_t op, slice name, slice data)
{
    return (replay_row){.kind = kind,
                        .op = op,
                        .at_ms = drive_now_ms(run->drive),
                        .name = name.at ? name : SLICE_LIT(""),
                        .data = data};
}

int64_t turn_record(pawl_run *run, op_kind kind, slice name, slice data)
{
    replay_row row = new_row(run, kind, 0, name, data);
    if (replay_append(run->replay, &row) != PAWL_OK)
        hold(run);
    write_row(run, &row);
    return row.seq;
}

void turn_arrive(pawl_run *run, op_kind kind, int64_t op, slice data)
{
    replay_row *row = arena_alloc(run->paper, sizeof *row);
    if (!row)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    *row = new_row(run, kind, op, SLICE_LIT(""), keep(run, data));
    if (replay_arrive(run->replay, row, 1) == 1)
        write_row(run, row);
}
