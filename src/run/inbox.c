/* Consuming arrivals from the inbox, and receiving messages. The unit that records an arrival also
 * deletes its row, which makes its delivery effectively once. The host of the run reads the table
 * (inbox_box.h). */
#include "run/inbox.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "run/inbox_box.h"
#include "run/ops.h"
#include "run/wait.h"

enum {
    RECORD_MAX = PAWL_MAX_PAYLOAD + 8 * PAWL_MAX_ID + 64 /* the JSON text for a message and its
                                                            sender */
};

static const db_sql TAKE = {"DELETE FROM {inbox} WHERE run = $1 AND name = $2 AND seq = $3", "iti"};

static void drop_rows(inbox_row *l)
{
    while (l) {
        inbox_row *next = l->next;
        free(l);
        l = next;
    }
}

void inbox_forget(pawl_run *run)
{
    run_inbox *p = run->inbox.rows;
    if (!p)
        return;
    drop_rows(p->rest);
    for (inbox_box *b = p->boxes; b; b = b->next)
        drop_rows(b->first);
    run->inbox.rows = NULL;
    atomic_store(&run->inbox.seen, 0);
}

/* ---- Consuming, on the fiber ---- */

static run_inbox *inbox_of(pawl_run *run)
{
    if (!run->inbox.rows)
        run->inbox.rows = arena_alloc(run->journal.arena, sizeof(run_inbox));
    if (!run->inbox.rows)
        run_nomem(run);
    return run->inbox.rows;
}

static void consume_row(pawl_run *run, slice name, int64_t seq)
{
    name.at = arena_copy(run->draft.arena, name);
    if (!name.at)
        run_nomem(run);
    const db_value values[] = {db_int(run->lease.run), db_text(name), db_int(seq)};
    unit_write(journal_unit(run), &TAKE, unit_key("inbox", run->lease.run), values,
               DB_COUNT(values));
}

/* Records the result of a child as an arrival, if the op that waits for the child is still open and
 * of this generation. A failing run waits for no child. */
static void record_child_result(pawl_run *run, const inbox_row *l)
{
    int fits = !run->failing && l->generation == run->generation &&
               replay_fits(run->journal.replay, OP_DONE, l->op);
    if (fits)
        journal_arrive(run, slice_equal(l->name, SLICE_LIT("done")) ? OP_DONE : OP_FAILED, l->op,
                       l->data);
    else
        run_log_line(run, LOG_DEBUG, "a result has arrived that the run does not wait for");
}

/* Returns the reason of a cancel, in words. The data of a cancel without a reason is no JSON
 * string, or an empty one. */
static const char *cancel_reason(pawl_run *run, slice data)
{
    slice part;
    /* RULE a-cancel-without-a-reason-makes-none-up */
    if (value_find(data, SLICE_LIT(""), &part) == PAWL_STRING && part.size > 2)
        return run_json_text(run, part);
    return "no reason was given";
}

/* Consumes all rows that were read and are no messages. Of the cancel only the reason is kept: its
 * row stays until inbox_take_cancel(). */
static void consume_rest(pawl_run *run)
{
    run_inbox *p = run->inbox.rows;
    while (p->rest) {
        inbox_row *l = p->rest;
        /* RULE A7-a-cancel-stays-until-it-is-followed */
        /* RULE A7-a-cancel-beside-a-message-stays-until-it-is-followed */
        if (l->kind == INBOX_CANCEL) {
            p->cancel = l->seq;
            run->code.cancelled = cancel_reason(run, l->data);
        } else {
            consume_row(run, l->name, l->seq);
        }
        if (l->kind == INBOX_CHILD)
            record_child_result(run, l);
        p->rest = l->next;
        free(l);
    }
}

void inbox_take_cancel(pawl_run *run)
{
    run_inbox *p = run->inbox.rows;
    if (p && p->cancel != 0)
        consume_row(run, SLICE_LIT(""), p->cancel);
    if (p)
        p->cancel = 0;
}

/* Delivers the oldest message for which a receive waits, and only that one: the function may then
 * cancel the other receives, and their messages have to stay in the inbox. A message may be as
 * large and as deep as a value can be. The text that is recorded for it is larger, so it is not
 * checked as a value. */
static void deliver_oldest(pawl_run *run, const run_inbox *p)
{
    inbox_box *b = NULL;
    for (inbox_box *one = p->boxes; one; one = one->next)
        /* RULE B12-the-message-that-came-first-is-received-first */
        if (one->waiting && one->first && (!b || one->first->seq < b->first->seq))
            b = one;
    if (!b)
        return;
    inbox_row *l = b->first;
    buf json;
    buf_init(&json, RECORD_MAX);
    buf_printf(&json, "{\"seq\":%" PRId64 ",\"from\":", l->seq);
    value_quote(&json, l->by);
    buf_text(&json, ",\"message\":");
    buf_add(&json, l->data);
    buf_char(&json, '}');
    slice record = {json.failed ? NULL : arena_copy(run->draft.arena, (slice){json.at, json.size}),
                    json.size};
    buf_free(&json);
    if (!record.at)
        run_nomem(run);
    consume_row(run, l->name, l->seq);
    journal_arrive(run, OP_MESSAGE, b->waiting->op, record);
    b->first = l->next;
    free(l);
}

/* Returns 1 if the inbox is to be read: it may have rows that were not read; or a receive waits for
 * a message, and its mailbox was not read to the end, or a time-out is due. A notification of the
 * sender may have been lost, so a time-out counts only after one more read. */
static int must_read(pawl_run *run, const run_inbox *p)
{
    int due = heap_due_ms(&run->futures.due) <= host_now_ms(run->host);
    if (run->inbox.has_more || atomic_load(&run->inbox.seen) < run->inbox.known)
        return 1;
    for (const inbox_box *b = p->boxes; b; b = b->next)
        /* RULE B12-before-a-time-out-counts-the-inbox-is-looked-at */
        if (b->waiting && !b->first && (due || b->read < run->inbox.known))
            return 1;
    return 0;
}

/* Returns 1 if a receive waits for a message that was read already. */
static int has_message(const run_inbox *p)
{
    for (const inbox_box *b = p->boxes; b; b = b->next)
        if (b->waiting && b->first)
            return 1;
    return 0;
}

int inbox_look(pawl_run *run)
{
    run_inbox *p = inbox_of(run);
    if (!has_message(p) && must_read(run, p)) {
        run->inbox.has_more = 0;
        run_ask(run, WANT_INBOX);
    }
    consume_rest(run);
    if (journal_arrive_all(run)) /* RULE B12-of-several-messages-only-one-is-taken */
        return 1;
    deliver_oldest(run, p);
    return journal_arrive_all(run);
}

const char *inbox_look_for_cancel(pawl_run *run)
{
    run_inbox *p = inbox_of(run);
    run->inbox.has_more = 0;
    do {
        run_ask(run, WANT_INBOX);
        for (const inbox_row *l = p->rest; l && !run->code.cancelled; l = l->next) {
            if (l->kind != INBOX_CANCEL)
                continue;
            p->cancel = l->seq;
            run->code.cancelled = cancel_reason(run, l->data);
        }
    } while (!run->code.cancelled &&
             atomic_load(&run->inbox.seen) < run->inbox.known); /* the cancel may be behind more
                                                                   results than are read at once */
    return run->code.cancelled;
}

void inbox_take_all(pawl_run *run)
{
    consume_rest(run);
    inbox_take_cancel(run);
    journal_arrive_all(run);
}

/* ---- Receiving ---- */

static inbox_box *box_of(pawl_run *run, slice name)
{
    run_inbox *p = inbox_of(run);
    for (inbox_box *b = p->boxes; b; b = b->next)
        if (slice_equal(b->name, name))
            return b;
    inbox_box *b = arena_alloc(run->journal.arena, sizeof *b);
    char *copy = b ? arena_copy(run->journal.arena, name) : NULL;
    if (!copy)
        run_nomem(run);
    *b = (inbox_box){.next = p->boxes, .name = {copy, name.size}};
    p->boxes = b;
    return b;
}

static void stop_waiting(pawl_future *f)
{
    inbox_box *b = f->own;
    if (f->before)
        f->before->behind = f->behind;
    else
        b->waiting = f->behind;
    if (f->behind)
        f->behind->before = f->before;
    else
        b->waiting_last = f->before;
    f->behind = f->before = NULL;
}

static void cancel_receive(pawl_future *f, int live)
{
    (void)live;
    stop_waiting(f);
}

static void record_timeout(pawl_future *f)
{
    journal_arrive(f->run, OP_FIRED, f->op, SLICE_LIT("null"));
}

static void take_answer(pawl_future *f, const replay_row *row)
{
    pawl_run *run = f->run;
    stop_waiting(f);
    if (row->kind != OP_MESSAGE) {
        future_answer(f, PAWL_TIMEOUT, "null");
        return;
    }
    slice from, message;
    run_free_value(run, run->code.sender);
    run->code.sender = value_find(row->data, SLICE_LIT("/from"), &from) == PAWL_STRING
                           ? run_json_text(run, from)
                           : NULL;
    int found = value_find(row->data, SLICE_LIT("/message"), &message) != PAWL_NOTHING;
    future_answer(f, PAWL_OK, found ? run_text(run, message) : "null");
}

static const future_kind RECEIVE = {record_timeout, take_answer, cancel_receive, NULL};

static pawl_future *start_receive(pawl_run *run, const char *mailbox, int64_t timeout_ms)
{
    slice name = ops_own_name(run, mailbox, "name of the mailbox");
    if (timeout_ms < 0)
        run_trouble(run, PAWL_INVALID, "pawl_receive() with a negative time-out");
    const replay_row *row;
    int64_t op, at_ms, not_before_ns = 0;
    if (journal_op(run, OP_RECEIVE, name, &row) == REPLAY_NEW) {
        int64_t now = host_up_ms(run->host);
        not_before_ns = future_not_before(run, timeout_ms);
        at_ms = timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
        slice text = run_number(run, at_ms);
        op = journal_record(run, OP_RECEIVE, name, text);
        run_free_value(run, text.at);
    } else {
        op = row->seq;
        const char *text = run_text(run, row->data);
        at_ms = pawl_get_int(text, "", INT64_MAX);
        run_free_value(run, text);
    }
    pawl_future *f = future_new(run, &RECEIVE, OP_RECEIVE, op);
    inbox_box *b = box_of(run, name);
    f->own = b;
    f->before = b->waiting ? b->waiting_last : NULL;
    if (b->waiting)
        b->waiting_last->behind = f;
    else
        b->waiting = f;
    b->waiting_last = f;
    f->not_before_ns = not_before_ns;
    future_due_at(f, at_ms);
    return f;
}

pawl_future *pawl_receive_later(pawl_run *run, const char *mailbox, int64_t timeout_ms)
{
    return run_is_inside(run) ? start_receive(run, mailbox, timeout_ms) : NULL;
}

pawl_code pawl_receive(pawl_run *run, const char *mailbox, int64_t timeout_ms, const char **message)
{
    if (message)
        *message = NULL;
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    pawl_future *f = start_receive(run, mailbox, timeout_ms);
    future_wait_for(f);
    pawl_code code = f->code;
    if (message)
        *message = f->value;
    future_release(f);
    return code;
}

/* Returns a copy, since take_answer() frees code.sender when the next message comes. */
const char *pawl_sender(pawl_run *run)
{
    return run_is_inside(run) && run->code.sender ? run_text(run, slice_of(run->code.sender)) : "";
}
