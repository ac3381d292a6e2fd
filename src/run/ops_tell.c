/* pawl_tell(): a message from a run to another run. The idempotency key of the message is the op,
 * so that the message is delivered once, however often the op is tried. The generation in the key
 * is that in which the op was recorded: a redrive may have copied the op into a later generation.
 *
 * The target is read first. If it has a receipt with the key, the message was delivered before. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "rows/send_units.h"
#include "run/cross_run.h"
#include "run/ops.h"
#include "run/wait.h"

static const db_sql FIND = {"SELECT run, phase FROM {runs} WHERE tenant = $1 AND id = $2", "tt"};

static const db_sql TOLD = {"SELECT seq FROM {receipts} WHERE run = $1 AND key = $2", "it"};

typedef struct telling {
    cross_ask ask;
    const char *id;
    const char *mailbox;
    const char *message;
    char key[128];
    int64_t run; /* key of the target; 0: there is no such run */
    int ended;   /* 1: the target has ended */
    int told;    /* 1: the message was delivered */
    int put;     /* 1: the message was put into a unit */
} telling;

static pawl_code find_target(const run_host *h, db_conn *c, telling *t, error *err)
{
    db_stmt *s;
    const db_value values[] = {db_text(slice_of(h->tenant)), db_text(slice_of(t->id))};
    pawl_code rc = db_prepare(c, &FIND, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, values, DB_COUNT(values), err);
    if (rc != PAWL_OK)
        return rc;
    db_step step = db_next(s, err);
    t->run = step == DB_ROW ? db_column(s, 0).i : 0;
    t->ended =
        step == DB_ROW && db_column(s, 1).i != PHASE_LIVE && db_column(s, 1).i != PHASE_FAILING;
    rc = step == DB_FAILED ? err->code : PAWL_OK;
    db_reset(s);
    return rc;
}

static pawl_code read_told(db_conn *c, pawl_future *f, error *err)
{
    telling *t = f->own;
    int64_t seq;
    if (t->put)
        return PAWL_OK;
    pawl_code rc = find_target(f->run->host, c, t, err);
    if (rc != PAWL_OK || t->run == 0)
        return rc;
    const db_value values[] = {db_int(t->run), db_text(slice_of(t->key))};
    return db_number(c, &TOLD, values, DB_COUNT(values), &seq, &t->told, err);
}

static void record_answer(pawl_future *f, pawl_code code)
{
    slice number = run_number(f->run, code);
    journal_arrive(f->run, OP_DONE, f->op, number);
    run_free_value(f->run, number.at);
}

static void send_in_unit(pawl_future *f)
{
    telling *t = f->own;
    pawl_run *run = f->run;
    inbox_message *l = arena_alloc(run->draft.arena, sizeof *l);
    if (!l)
        run_nomem(run);
    l->row = (run_inbox_row){.run = t->run,
                             .kind = INBOX_MESSAGE,
                             .name = journal_keep(run, slice_of(t->mailbox)),
                             .key = journal_keep(run, slice_of(t->key)),
                             .by = journal_keep(run, slice_of(run->id)),
                             .at_ms = host_now_ms(run->host),
                             .data = journal_keep(run, slice_of(t->message))};
    if (inbox_message_seal(l) != PAWL_OK)
        run_nomem(run);
    t->put = 1;
    run_sent *s = cross_run_add(run, 0, t->run);
    s->future = f;
    s->statement = send_try(journal_unit(run), l);
}

static void send_or_answer(pawl_future *f)
{
    const telling *t = f->own;
    if (t->told) /* RULE B7-a-tell-that-left-a-receipt-is-not-told-again */
        record_answer(f, PAWL_OK);
    else if (t->run == 0)
        record_answer(f, PAWL_NOTFOUND);
    else if (t->ended || t->put)
        record_answer(f, PAWL_ENDED);
    else
        send_in_unit(f);
}

static void record_delivery(pawl_future *f, const unit_row *row)
{
    telling *t = f->own;
    t->told = row != NULL;
    cross_run_ask(f);
}

static const cross_ask_kind TELL_ASKS = {
    .read = read_told, .go_on = send_or_answer, .committed = record_delivery};

static const future_kind TELL_FUTURE = {.release = cross_run_forget};

pawl_code pawl_tell(pawl_run *run, const char *id, const char *mailbox, const char *message)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    error err = {0};
    const replay_row *row;
    slice name = ops_own_name(run, mailbox, "name of the mailbox");
    ops_json(run, message, "message to the mailbox", mailbox);
    if (!id || text_check(slice_of(id), PAWL_MAX_ID, "id of the run", &err) != PAWL_OK)
        run_trouble(run, PAWL_INVALID, "the id of the run is not one");
    int64_t op, generation = run->generation;
    const char *data;
    if (journal_op(run, OP_TELL, name, &row) == REPLAY_NEW) {
        data = pawl_json(run, "{'to':%s,'generation':%" PRId64 "}", id, generation);
        op = journal_record(run, OP_TELL, name, slice_of(data ? data : "null"));
    } else {
        data = run_text(run, row->data);
        op = row->seq;
        /* RULE A5-what-was-told-is-told-once-over-generations */
        generation = pawl_get_int(data, "/generation", generation);
    }
    run_free_value(run, data);
    telling *t = run_alloc(run, sizeof *t);
    *t = (telling){.ask = {.kind = &TELL_ASKS}, .id = id, .mailbox = mailbox, .message = message};
    buf b;
    buf_init_fixed(&b, t->key, sizeof t->key);
    buf_printf(&b, "pawl.%s.%" PRId64 ".%" PRId64 ".%" PRId64, run->host->origin, run->lease.run,
               generation, op);
    pawl_future *f = future_new(run, &TELL_FUTURE, OP_TELL, op);
    f->own = t;
    cross_run_ask(f);
    future_wait_for(f);
    pawl_code code = (pawl_code)pawl_get_int(f->value, "", PAWL_OK);
    run_free_value(run, f->value);
    future_release(f);
    run_free_value(run, t);
    return code;
}
