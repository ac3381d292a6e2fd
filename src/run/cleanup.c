/* What a run records when its function ends, and its clean-ups: compensations (undos) and finallys.
 * The end itself is a part of the unit that sched/runner_end.c builds. The journal can be read
 * without the code that has written it, because its rows name the work functions to be called, and
 * their inputs. */
#include "run/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "run/call.h"
#include "run/cross_run.h"
#include "run/inbox.h"
#include "run/ops.h"
#include "run/wait.h"

/* ---- The name of the row OP_ENDING: a word for how the run ends ---- */

static const char DONE[] = "done", FAILED[] = "failed", CANCELLED[] = "cancelled",
                  AGAIN[] = "again";

/* Returns the word for how the run ends. The version of a next generation is part of the word,
 * since the data of the row is the input of that generation, which may be as large as a value can
 * be. */
static const char *word_of(pawl_run *run, const run_result *end)
{
    char word[sizeof AGAIN + PAWL_MAX_NAME + 1];
    if (end->phase == PHASE_FAILED)
        return FAILED;
    if (end->phase == PHASE_CANCELLED)
        return CANCELLED;
    if (!end->again || !end->version)
        return end->again ? AGAIN : DONE;
    int size = snprintf(word, sizeof word, "%s %s", AGAIN, end->version);
    return run_text(run, (slice){word, (size_t)size});
}

static int is_again(const char *word)
{
    size_t size = sizeof AGAIN - 1;
    return strncmp(word, AGAIN, size) == 0 && (word[size] == '\0' || word[size] == ' ');
}

static const char *data_of(pawl_run *run)
{
    const run_result *end = &run->code.end;
    const char *json = end->value;
    if (end->phase != PHASE_DONE)
        json = pawl_json(run, "{'name':%s,'message':%s,'where':%s}", end->name, end->message,
                         end->where);
    if (!json)
        run_nomem(run);
    return json;
}

/* ---- Leaving the function ---- */

/* Asks the journal for the end of the generation, and records a row for it if another generation
 * follows or the result is large. A run that has failed, was cancelled, or has a small result ends
 * without such a row: the row of the run has the error or the result. */
static void record_end(pawl_run *run)
{
    const run_result *end = &run->code.end;
    slice value = slice_of(end->value);
    if (end->phase != PHASE_DONE) {
        journal_return(run, OP_ENDED_FAILED);
    } else if (journal_return(run, OP_ENDED) == REPLAY_NEW) {
        if (end->again)
            journal_record(run, OP_CONTINUED, SLICE_LIT(""), value);
        else if (value.size > RUN_SMALL)
            journal_record(run, OP_ENDED, SLICE_LIT(""), value);
    }
}

_Noreturn void cleanup_leave(pawl_run *run)
{
    int cleans = run->code.end.phase == PHASE_DONE ? run->finallys > 0 : run->cleanups > 0;
    future_cancel_flush(run);
    if (cleans && !run->failing) {
        const replay_row *row;
        slice word = slice_of(word_of(run, &run->code.end));
        if (journal_op(run, OP_ENDING, word, &row) == REPLAY_NEW) {
            cross_run_leave(run);
            journal_record(run, OP_ENDING, word, slice_of(data_of(run)));
        }
        run->code.end.phase = PHASE_FAILING;
    } else {
        record_end(run);
        cross_run_leave(run);
    }
    run_leave(run);
}

_Noreturn void cleanup_fail(pawl_run *run, const char *name, const char *message, const char *where)
{
    run->code.end =
        (run_result){.phase = PHASE_FAILED, .name = name, .message = message, .where = where};
    cleanup_leave(run);
}

static _Noreturn void end_cancelled(pawl_run *run, const char *reason)
{
    inbox_take_cancel(run);
    run->code.end =
        (run_result){.phase = PHASE_CANCELLED, .name = "cancelled", .message = reason, .where = ""};
    cleanup_leave(run);
}

void cleanup_check(pawl_run *run)
{
    if (run->failing)
        return;
    if (run->code.cancelled)
        end_cancelled(run, run->code.cancelled);
    if (run->deadline_ms != RUN_NEVER && run->deadline_ms <= host_now_ms(run->host))
        end_cancelled(run, "its deadline has passed");
}

void cleanup_look(pawl_run *run)
{
    /* RULE A7-a-cancel-is-looked-for-before-the-first-step */
    if (run->inbox.has_more || atomic_load(&run->inbox.seen) < run->inbox.known)
        inbox_look_for_cancel(run);
    cleanup_check(run);
}

/* ---- For the function ---- */

static pawl_code register_cleanup(pawl_run *run, op_kind kind, const char *work, const char *input)
{
    const replay_row *row;
    slice name = ops_own_name(run, work, "name of the work function");
    slice data = ops_json(run, input, "input of the clean-up", work);
    if (journal_op(run, kind, name, &row) == REPLAY_NEW)
        journal_record(run, kind, name, data);
    run->cleanups++;
    run->finallys += kind == OP_FINALLY;
    return PAWL_OK;
}

pawl_code pawl_undo(pawl_run *run, const char *work, const char *input)
{
    return run_is_inside(run) ? register_cleanup(run, OP_UNDO, work, input) : PAWL_MISUSE;
}

pawl_code pawl_finally(pawl_run *run, const char *work, const char *input)
{
    return run_is_inside(run) ? register_cleanup(run, OP_FINALLY, work, input) : PAWL_MISUSE;
}

const char *pawl_continue_as_new(pawl_run *run, const char *input, const char *version)
{
    if (!run_is_inside(run))
        return NULL;
    slice data = ops_json(run, input, "input of the next generation", "");
    if (version)
        version = run_text(run, ops_name(run, version, "version"));
    run->code.end = (run_result){
        .phase = PHASE_DONE, .again = 1, .value = run_text(run, data), .version = version};
    cleanup_leave(run);
}

/* ---- From the journal ---- */

/* A clean-up that is to be called. The clean-ups are in a list, in the reverse order of
 * registration. */
typedef struct clean {
    struct clean *next;
    op_kind kind;
    int64_t seq;
    int64_t op; /* of OP_UNDO_OF: the op that is undone, which is the next op in the journal */
    const char *work;
    const char *input;
    const char *result;  /* the result of the op that is undone; NULL: none is known */
    pawl_future *undone; /* the future of the call that is undone, while that has no answer */
} clean;

/* What the journal of a failing run says: the clean-ups, and how the run ends. */
typedef struct ending {
    clean *cleans;
    clean *tried;          /* the undo of the transactional step whose attempts are being read;
                              NULL: none is */
    pawl_future *children; /* children that have not ended, as far as is known, linked by
                              `behind` */
    const char *how;       /* name of the row OP_ENDING; NULL: it was not read yet */
    const char *data;      /* data of that row: the error or the value */
} ending;

/* Returns the clean-up that was registered last if it undoes this op; otherwise NULL. */
static clean *undo_of(const ending *s, int64_t op)
{
    clean *last = s->cleans;
    return last && last->kind == OP_UNDO_OF && last->op == op ? last : NULL;
}

static void note_result(pawl_run *run, clean *c, slice data)
{
    if (c)
        c->result = run_text(run, data.at ? data : SLICE_LIT("null"));
}

/* Makes a future for a call that has an undo and may still be under way, to wait for its end. The
 * call gets no further attempt. */
static void note_call(pawl_run *run, const ending *s, const replay_row *row)
{
    clean *c = undo_of(s, row->seq);
    if (c)
        c->undone = call_new(run,
                             &(call){.kind = (op_kind)row->kind,
                                     .name = c->work,
                                     .input = "null",
                                     .arg = c,
                                     .beside = 1,
                                     .is_undone = 1},
                             row->seq, RUN_NEVER);
}

/* The kind of the futures of children that have not ended, as far as is known. `own` is the data of
 * the child's row. */
static const future_kind UNENDED_CHILD = {0};

static void note_child(pawl_run *run, ending *s, const replay_row *row)
{
    pawl_future *f = future_new(run, &UNENDED_CHILD, OP_CHILD, row->seq);
    f->own = (void *)(uintptr_t)run_text(run, row->data);
    f->behind = s->children;
    if (f->behind)
        f->behind->before = f;
    s->children = f;
}

static void forget_child(pawl_run *run, ending *s, pawl_future *f)
{
    if (f->before)
        f->before->behind = f->behind;
    else
        s->children = f->behind;
    if (f->behind)
        f->behind->before = f->before;
    run_free_value(run, f->own);
    replay_own(run->journal.replay, f->op, NULL); /* an answer that is read later must not find the
                                                     freed future */
    future_release(f);
}

/* Frees a future whose answer is not needed any more. */
static void forget_future(pawl_run *run, ending *s, pawl_future *f)
{
    if (f->kind == &UNENDED_CHILD) {
        forget_child(run, s, f);
        return;
    }
    clean *c = ((call *)f->own)->arg;
    c->undone = NULL;
    future_release(f);
}

static void note_answer(pawl_run *run, ending *s, const replay_row *row)
{
    pawl_future *f = replay_owner(run->journal.replay);
    if (!f)
        return;
    if (row->kind == OP_DONE && f->kind != &UNENDED_CHILD)
        note_result(run, ((call *)f->own)->arg, row->data);
    forget_future(run, s, f);
}

/* Closes the ops that a row OP_FUTURE_CANCEL names, and frees their futures. No late answer to them
 * is recorded, since after a redrive the code, which has cancelled them, would not expect it. */
static void note_cancelled(pawl_run *run, ending *s, const replay_row *row)
{
    const char *text = run_text(run, row->data), *at = text;
    while ((at = strpbrk(at, "0123456789")) != NULL) {
        char *end;
        int64_t op = strtoll(at, &end, 10);
        pawl_future *f = replay_owner_of(run->journal.replay, op);
        replay_close(run->journal.replay, op); /* RULE A6-what-was-cancelled-has-no-late-answer */
        if (f)
            forget_future(run, s, f);
        at = end;
    }
    run_free_value(run, text);
}

/* Notes a row of a transactional step. A step that was tried again has several rows; the last one
 * has the result. */
static void note_transact(pawl_run *run, ending *s, const replay_row *row)
{
    if (!s->tried)
        s->tried = undo_of(s, row->seq);
    if (row->kind == OP_TRANSACT_AGAIN)
        return;
    if (row->kind == OP_TRANSACT)
        note_result(run, s->tried, row->data);
    s->tried = NULL;
}

/* Returns 1 if a row of this kind may stand between the row that registers an undo and the op that
 * is undone: a cancel of futures, or a result that was recorded when the run was given back. */
static int may_come_between(op_kind kind)
{
    /* RULE 2-results-may-come-between-a-deed-and-its-undo */
    return kind == OP_FUTURE_CANCEL || op_arrives(op_find(kind)->shape);
}

static void collect_row(pawl_run *run, ending *s, const replay_row *row)
{
    if (may_come_between((op_kind)row->kind) && undo_of(s, row->seq))
        s->cleans->op++; /* RULE A7-a-row-between-an-undo-and-its-op */
    switch ((op_kind)row->kind) {
    case OP_UNDO:
    case OP_UNDO_OF:
    case OP_FINALLY: {
        clean *c = run_alloc(run, sizeof *c);
        *c = (clean){s->cleans, /* RULE A7-undos-are-called-last-first */
                     (op_kind)row->kind,
                     row->seq,
                     row->seq + 1,
                     run_text(run, row->name),
                     run_text(run, row->data.at ? row->data : SLICE_LIT("null")),
                     "null",
                     NULL};
        s->cleans = c;
        break;
    }
    case OP_STEP:
        note_result(run, undo_of(s, row->seq), row->data);
        break;
    case OP_STEP_AGAIN:
    case OP_STEP_LATER:
    case OP_CALL:
        note_call(run, s, row);
        break;
    case OP_TRANSACT:
    case OP_TRANSACT_AGAIN:
    case OP_TRANSACT_FAILED:
        note_transact(run, s, row);
        break;
    case OP_CHILD:
        note_child(run, s, row);
        break;
    case OP_FUTURE_CANCEL:
        note_cancelled(run, s, row);
        break;
    case OP_DONE:
    case OP_FAILED:
        note_answer(run, s, row);
        break;
    default:
        break;
    }
}

/* Records how a run ends that was cancelled while it was held and had no owner: its function could
 * not record that. Cancels the children of the run, and deletes all rows of its inbox that are no
 * messages. */
static void record_cancelled_end(pawl_run *run, ending *s)
{
    const char *reason = inbox_look_for_cancel(run);
    s->how = CANCELLED;
    s->data = pawl_json(run, "{'name':'cancelled','message':%s,'where':''}",
                        reason ? reason : "it was cancelled");
    for (const pawl_future *f = s->children; f; f = f->behind)
        cross_run_cancel_child(run, pawl_get_int(f->own, "/run", 0));
    inbox_take_all(run);
    journal_record(run, OP_ENDING, slice_of(s->how), slice_of(s->data));
}

/* Reads the journal up to the row OP_ENDING, which says how the run ends. */
static ending read_ending(pawl_run *run)
{
    ending s = {0};
    const replay_row *row;
    while (!s.how && journal_next(run, &row) != REPLAY_NEW) {
        if (row->kind != OP_ENDING) {
            collect_row(run, &s, row);
            continue;
        }
        s.how = run_text(run, row->name);
        s.data = run_text(run, row->data);
    }
    if (!s.how)
        record_cancelled_end(run, &s);
    while (s.children) /* from here on the results of children are not needed */
        forget_child(run, &s, s.children);
    return s;
}

/* Returns the input of an undo of a call: the input and the result of that call, as JSON. A part
 * that would make the text larger than a value may be is null. */
static const char *input_of(pawl_run *run, const clean *what)
{
    const pawl_future *f = what->undone; /* the call may have ended while the run waited for it */
    /* RULE A7-what-has-returned-is-told-its-undo */
    const char *result = f && f->over && f->code == PAWL_OK ? f->value : what->result;
    const char *json = pawl_json(run, "{'input':%j,'result':%j}", what->input, result);
    if (!json)
        json = pawl_json(run, "{'input':%j,'result':null}", what->input);
    return json ? json : "{\"input\":null,\"result\":null}";
}

static void call_cleanup(pawl_run *run, const clean *what)
{
    error err = {0};
    const replay_row *row;
    work_entry *entry = registry_work(run->host->registry, what->work);
    if (!entry)
        run_lacks(run, what->work);
    call c = {.kind = OP_CLEAN_UP,
              .name = what->work,
              .entry = entry,
              .fn = entry->fn,
              .arg = entry->arg,
              .began_ms = host_now_ms(run->host),
              .never_fails = 1};
    retry_read(&c.policy, &(pawl_call_options){.size = sizeof(pawl_call_options)}, &err);
    slice name = slice_of(what->work);
    int64_t op;
    if (journal_op(run, OP_CLEAN_UP, name, &row) == REPLAY_NEW) {
        const char *of = pawl_json(run, "{'of':%" PRId64 "}", what->seq);
        op = journal_record(run, OP_CLEAN_UP, name, slice_of(of ? of : "null"));
    } else {
        op = row->seq;
        c.began_ms = row->at_ms;
    }
    c.input = what->kind == OP_UNDO_OF ? input_of(run, what) : what->input;
    pawl_future *f = call_new(run, &c, op, 0);
    future_wait_for(f);
    future_release(f);
}

/* Calls all finallys (`finallys` 1) or all undos (0), the last one registered first. */
static void call_cleanups(pawl_run *run, const ending *s, int finallys)
{
    for (const clean *c = s->cleans; c; c = c->next)
        if ((c->kind == OP_FINALLY) == finallys)
            call_cleanup(run, c);
}

/* Fills in code.end from the row OP_ENDING. */
static void read_end(pawl_run *run, const ending *s)
{
    run_result *end = &run->code.end;
    *end = (run_result){.phase = PHASE_DONE, .value = s->data};
    if (is_again(s->how)) {
        end->again = 1;
        end->version = s->how[sizeof AGAIN - 1] ? s->how + sizeof AGAIN : NULL;
    } else if (strcmp(s->how, DONE) != 0) {
        end->phase = strcmp(s->how, CANCELLED) == 0 ? PHASE_CANCELLED : PHASE_FAILED;
        end->name = pawl_text(run, s->data, "/name", "failed");
        end->message = pawl_text(run, s->data, "/message", "");
        end->where = pawl_text(run, s->data, "/where", "");
    }
}

void cleanup_run(pawl_run *run)
{
    ending s = read_ending(run);
    futures_let_return(run);
    if (strcmp(s.how, FAILED) == 0 || strcmp(s.how, CANCELLED) == 0)
        call_cleanups(run, &s, 0);
    call_cleanups(run, &s, 1);
    read_end(run, &s);
    cleanup_leave(run);
}
