/* The statements of the unit that ends a function: the run has ended, its clean-ups follow, its
 * next generation begins (continue-as-new), or it is held; what others are told when that is
 * durable; and the words of a hold after deaths. */
#include <string.h>

#include "base/json_write.h"
#include "base/text.h"
#include "run/cleanup.h"
#include "run/cross_run.h"
#include "sched/sched_internal.h"

static void put_json(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    value_write(b, format, args);
    va_end(args);
}

/* {"name":…,"message":…,"where":…}, short enough for the run's row. */
static slice error_text(pawl_run *run)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    char message[512];
    text_clip(message, sizeof message, slice_of(run->code.end.message));
    put_json(&b, "{'name':%s,'message':%s,'where':%s}", run->code.end.name, message,
             run->code.end.where);
    slice s = {arena_copy(run->draft.arena, (slice){b.at, b.size}), b.size};
    buf_free(&b);
    return s;
}

static int add_end(pawl_run *run)
{
    run_end end = {.phase = run->code.end.phase};
    if (end.phase == PHASE_DONE) {
        slice value = slice_of(run->code.end.value);
        if (value.size <= RUN_SMALL) {
            end.output = (slice){arena_copy(run->draft.arena, value), value.size};
            if (!end.output.at)
                return 0;
        }
    } else {
        end.error = error_text(run);
        if (!end.error.at)
            return 0;
    }
    run->draft.turn_end_stmt = run_finish(run->draft.unit, &run->lease, &end, &run->draft.status,
                                          sched_now_ms(run->host->sched));
    run->draft.status_rides = 1;
    return cross_run_report(run);
}

/* Adds how the run has ended, or goes on. */
int runner_add_outcome(pawl_run *run)
{
    if (run->code.end.phase == PHASE_FAILING)
        return cleanup_add_failing(run);
    return run->code.end.again ? generation_add(run) : add_end(run);
}

/* Was the function left because of trouble for which the run is held? */
int runner_is_to_be_held(const pawl_run *run)
{
    return run->code.end.phase == PHASE_LIVE && run->code.end.trouble != PAWL_OK &&
           run->code.end.trouble != PAWL_NOMEM;
}

/* Was the run claimed out of a hold after deaths, or for code that does not follow the journal, and
 * has it got no further since? */
static int is_held_as_before(const pawl_run *run)
{
    int64_t held = run->slot->held;
    return (held == HELD_POISON || held == HELD_MISMATCH) &&
           run->journal.durable == run->slot->claimed_seq;
}

/* Adds why the run is held: in words, and as what nodes compare to find out whether they can let it
 * go on. */
int runner_add_hold(pawl_run *run)
{
    sched *s = run->host->sched;
    run_held why = {.reason = run->code.end.held ? run->code.end.held : HELD_MISMATCH};
    slice note = slice_of(run->code.end.note);
    why.words = (slice){arena_copy(run->draft.arena, note), note.size};
    int has_words = why.words.at != NULL;
    if (why.reason == HELD_VERSION && is_held_as_before(run)) {
        /* RULE C7-a-node-that-lacks-a-function-has-not-tried */
        why = (run_held){.reason = run->slot->held};
        why.what = hold_lacking(run->draft.arena, run->slot->held_for, run->code.end.lacks);
    } else if (why.reason == HELD_VERSION) {
        slice lacks = slice_of(run->code.end.lacks);
        why.what = (slice){arena_copy(run->draft.arena, lacks), lacks.size};
    } else {
        why.what = hold_tried(run->draft.arena, run->slot->held_for, s->options.build);
    }
    if (!has_words || !why.what.at)
        return 0;
    run->draft.turn_end_stmt = run_set_held(run->draft.unit, &run->lease, &why, sched_now_ms(s));
    return 1;
}

void runner_tell_end(const pawl_run *run)
{
    sched *s = run->host->sched;
    const unit_row *row = run->code.want == WANT_END && run->draft.turn_end_stmt >= 0
                              ? unit_rows(run->draft.unit, run->draft.turn_end_stmt)
                              : NULL;
    if (row && run->code.end.phase != PHASE_LIVE && row->values[FINISH_WATCHED].i)
        sched_notify_others(s); /* RULE H1-a-watcher-hears-of-each-end */
    /* RULE L6-a-hold-is-told-when-it-is-durable */
    if (row && run->code.end.phase == PHASE_LIVE && row->values[HOLD_HELD].i)
        LOG(&s->log, LOG_WARNING, "run-held", LOG_TEXT("run", run->id),
            LOG_TEXT("why", run->code.end.note));
}

/* Appends in which function the processes have died. That of a failing run is a clean-up, and its
 * workflow may not be registered here. */
static void put_deadly(runner *r, pawl_run *run, buf *b)
{
    if (run->failing) { /* RULE B8-a-deadly-clean-up-needs-no-workflow */
        buf_text(b, ", in its clean-up ");
        runner_put_clean_up(r, run, b);
    } else {
        buf_printf(b, ", in the workflow function %.64s or in work that it calls",
                   run->workflow->name);
    }
}

void runner_note_poison(runner *r, pawl_run *run)
{
    run->code.end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD, .held = HELD_POISON};
    buf b;
    buf_init_fixed(&b, run->code.end.note, sizeof run->code.end.note);
    buf_printf(&b, "%d times in a row the process died while it executed this run", POISON_DEATHS);
    put_deadly(r, run, &b);
    /* RULE a-hold-after-deaths-says-where-to-look */
    buf_text(&b, ": a crash, perhaps an overflow of the stack (256 KiB of a workflow function)");
    run->code.want = WANT_END;
}
