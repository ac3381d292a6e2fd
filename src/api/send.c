/* Messages and cancellations that clients send to a run.
 *
 * The key of the run is read first, without a lock, so that the unit can name the row that it
 * changes. The run may be started, or deleted and started again, before the unit is committed. Then
 * a guard refuses the unit, and the key is read again. */
#include "api/send.h"

#include <string.h>

#include "api/outbox.h"
#include "api/start.h"
#include "base/argument.h"
#include "base/json_write.h"
#include "base/options.h"
#include "base/text.h"
#include "rows/node.h"
#include "sched/arrival.h"

enum { LAPS_MAX = 32 };

/* ---- Units ---- */

pawl_code sight_begin(const sight *v, db_conn **out, error *err)
{
    *out = v->own;
    return v->own ? db_begin(v->own, err) : read_pool_begin(v->shared, out, err);
}

void sight_end(const sight *v, db_conn *c)
{
    if (v->own)
        db_rollback(c);
    else
        read_pool_end(v->shared, c);
}

static pawl_code find_run(sched *s, const sight *v, slice id, int64_t *run, error *err)
{
    db_conn *c;
    pawl_code rc = sight_begin(v, &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_run(c, slice_of(sched_options_of(s)->tenant), id, run, err);
    sight_end(v, c);
    return rc;
}

static pawl_code commit_unit(sched *s, unit *u, int64_t run)
{
    u->class = UNIT_OF_CLIENT;
    return committer_commit(sched_committer_of(s, run), u);
}

static int is_refused(const unit *u, pawl_code rc, const char *guard)
{
    return rc == PAWL_REFUSED && strcmp(u->refused, guard) == 0;
}

static pawl_code answer_failed(const unit *u, pawl_code rc, const char *what, error *err)
{
    rc = unit_shut_out(u, rc);
    if (rc == PAWL_FENCED || rc == PAWL_REWOUND)
        return error_set(err, rc, "%s; %s", pawl_code_text(rc), what);
    error_set(err, rc, "%s: %s", what, pawl_code_text(rc));
    error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    return rc;
}

/* The run has changed since its key was read: try again. Never returned to a client. */
static const pawl_code AGAIN = PAWL_SUSPENDED;

/* ---- Messages ---- */

static pawl_code answer_refused(send_ask *ask, const unit *u, pawl_code rc, error *err)
{
    int has_key = ask->message.row.key.at != NULL;
    if (is_refused(u, rc, "moved")) {
        ask->moved = 1;
        return PAWL_OK;
    }
    if (is_refused(u, rc, "key")) {
        if (!u->found)
            return AGAIN;
        if (inbox_message_is_same(&ask->message, u->found)) {
            ask->seq = u->found->values[RECEIPT_SEQ].i;
            return PAWL_OK;
        }
        error_set(err, PAWL_CONFLICT, "the key was used for something else");
        error_hint(err, "give each message a key of its own, and the same one when it is repeated");
        return PAWL_CONFLICT;
    }
    if (is_refused(u, rc, "live"))
        return u->found ? error_set(err, PAWL_ENDED, "the run has ended already") : AGAIN;
    if (is_refused(u, rc, "id") || (rc == PAWL_DATA && has_key))
        return AGAIN; /* another client has started the run, or used the key, meanwhile */
    ask->waits = u->row_locked;
    return answer_failed(u, rc, "the message was not sent", err);
}

static pawl_code send_to(sched *s, send_ask *ask, unit *u, error *err)
{
    int64_t run = ask->message.row.run;
    int live = inbox_message_write(u, &ask->message);
    u->lock_ms = ask->outbox ? NODE_LOOP_LOCK_MS : 0;
    pawl_code rc = commit_unit(s, u, run);
    if (rc != PAWL_OK)
        return answer_refused(ask, u, rc, err);
    const unit_row *row = unit_rows(u, live);
    ask->seq = row->values[SEND_SEQ].i;
    ask->moved = 1;
    arrival_sent(s, run, row->values[SEND_OWNER].i);
    return PAWL_OK;
}

/* Starts the run with the message in its inbox, in one unit. */
static pawl_code send_with_start(sched *s, send_ask *ask, unit *u, error *err)
{
    run_inbox_row *m = &ask->message.row;
    run_insert b;
    pawl_code rc = start_birth(s, &ask->start, m->at_ms, m->by, &b, err);
    if (rc != PAWL_OK)
        return rc;
    m->run = b.run;
    b.mail = 1;
    run_insert_write(u, &b, 1);
    inbox_message_write_first(u, &ask->message);
    u->lock_ms = ask->outbox ? NODE_LOOP_LOCK_MS : 0;
    rc = commit_unit(s, u, b.run);
    if (rc != PAWL_OK)
        return answer_refused(ask, u, rc, err);
    handover_started(s, &b, 1);
    ask->seq = ask->created = ask->moved = 1;
    return PAWL_OK;
}

/* The key of a run that is in memory here is known. It may be wrong, if the run was deleted behind
 * the back of a node that is closed: then the unit finds no such run, and the next lap reads. */
static pawl_code send_once(sched *s, const sight *v, send_ask *ask, int lap, error *err)
{
    error absent = {0};
    /* RULE L2-a-key-from-memory-is-tried-once */
    int64_t known = lap == 0 ? sched_key_of(s, ask->id) : 0;
    ask->message.row.run = known;
    pawl_code rc = known ? PAWL_OK : find_run(s, v, ask->id, &ask->message.row.run, &absent);
    if (rc != PAWL_OK && !(rc == PAWL_NOTFOUND && ask->starts)) {
        *err = absent;
        return rc;
    }
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    if (ask->outbox)
        outbox_relay_take(u, ask->outbox);
    rc = rc == PAWL_OK ? send_to(s, ask, u, err) : send_with_start(s, ask, u, err);
    arena_free(a);
    return rc;
}

pawl_code send_carry(sched *s, const sight *v, send_ask *ask, error *err)
{
    if (inbox_message_seal(&ask->message) != PAWL_OK)
        return error_nomem(err);
    pawl_code rc = AGAIN;
    for (int i = 0; rc == AGAIN && i < LAPS_MAX; i++)
        rc = send_once(s, v, ask, i, err);
    if (rc != AGAIN)
        return rc;
    ask->waits = 1;
    return error_set(err, PAWL_BUSY, "the run comes and goes; the message was not sent");
}

static pawl_code send_to_run(pawl *p, send_ask *ask, error *err)
{
    sight v = {.shared = handle_read_pool(p)};
    ask->message.row.by = slice_of(handle_name(p));
    pawl_code rc = handle_time(p, &ask->message.row.at_ms, err);
    return rc == PAWL_OK ? send_carry(handle_sched(p), &v, ask, err) : rc;
}

pawl_code send_read_start(send_ask *ask, const pawl_send_options *o, const char *id, arena *memory,
                          error *err)
{
    if (!o->start && (o->start_input || o->start_options))
        return error_set(err, PAWL_INVALID, "there is an input for a start, but no workflow");
    if (!o->start)
        return PAWL_OK;
    ask->starts = 1;
    return start_read(&ask->start, memory, o->start, id, o->start_input, o->start_options, err);
}

pawl_code send_read(inbox_message *out, slice *id, const char *to, const char *mailbox,
                    const char *message, const pawl_send_options *o, error *err)
{
    run_inbox_row *m = &out->row;
    m->kind = INBOX_MESSAGE;
    pawl_code rc = argument_run_id(to, id, err);
    if (rc == PAWL_OK)
        rc = argument_name(&m->name, mailbox, PAWL_MAX_NAME, "name of the mailbox", err);
    if (rc == PAWL_OK)
        rc = argument_json(&m->data, message, "message", err);
    if (rc == PAWL_OK && o->key)
        /* RULE keys-are-not-pawls-own */
        rc = argument_name(&m->key, o->key, PAWL_MAX_ID, "key", err);
    return rc;
}

pawl_code pawl_send(pawl *p, const char *id, const char *mailbox, const char *message,
                    const pawl_send_options *options)
{
    error err = {0};
    pawl_send_options o = {0};
    send_ask ask = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK)
        rc = options_read(&o, sizeof o, options, &err);
    if (rc == PAWL_OK)
        rc = send_read(&ask.message, &ask.id, id, mailbox, message, &o, &err);
    arena *memory = rc == PAWL_OK && o.start ? arena_new(0) : NULL;
    if (rc == PAWL_OK && o.start && !memory)
        rc = error_nomem(&err);
    if (rc == PAWL_OK)
        rc = send_read_start(&ask, &o, id, memory, &err);
    if (rc == PAWL_OK)
        rc = send_to_run(p, &ask, &err);
    arena_free(memory);
    if (o.seq)
        *o.seq = rc == PAWL_OK ? ask.seq : 0;
    if (ask.start.options.created)
        *ask.start.options.created = rc == PAWL_OK ? ask.created : 0;
    return handle_leave(p, rc, &err);
}

/* ---- Cancelling ---- */

static pawl_code commit_cancel(sched *s, const run_inbox_row *m, int again, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    int asked = again ? run_cancel_held(u, m->run, m->at_ms) : run_cancel(u, m);
    pawl_code rc = commit_unit(s, u, m->run);
    if (rc == PAWL_OK) {
        arrival_sent(s, m->run, again ? 0 : unit_rows(u, asked)->values[SEND_OWNER].i);
        arrival_cancel(s, m->run); /* work functions of the run in this process see
                                      pawl_work_cancelled() */
    } else if (is_refused(u, rc, "cancelled")) {
        rc = PAWL_OK; /* the run is cancelled already */
    } else if (is_refused(u, rc, "uncancelled")) {
        int64_t phase = u->found ? u->found->values[2].i : PHASE_DONE;
        if (!u->found)
            rc = read_pool_no_run(err);
        else if (phase != PHASE_LIVE && phase != PHASE_FAILING)
            rc = error_set(err, PAWL_ENDED, "the run has ended already");
        else
            rc = AGAIN;
    } else {
        rc = answer_failed(u, rc, "the run was not cancelled", err);
    }
    arena_free(a);
    return rc;
}

static pawl_code request_cancel(pawl *p, slice id, slice reason, error *err)
{
    buf words;
    sight v = {.shared = handle_read_pool(p)};
    run_inbox_row m = {.kind = INBOX_CANCEL, .name = SLICE_LIT(""), .by = slice_of(handle_name(p))};
    buf_init(&words, (size_t)PAWL_MAX_ID * 6 + 16);
    pawl_code rc = handle_time(p, &m.at_ms, err);
    if (rc == PAWL_OK)
        rc = find_run(handle_sched(p), &v, id, &m.run, err);
    if (rc == PAWL_OK && reason.size > 0) {
        value_quote(&words, reason);
        m.data = (slice){words.at, words.size};
        rc = words.failed ? error_nomem(err) : PAWL_OK;
    }
    if (rc == PAWL_OK)
        rc = commit_cancel(handle_sched(p), &m, 0, err);
    if (rc == AGAIN) /* the cancel was requested before; the run may have been held since */
        rc = commit_cancel(handle_sched(p), &m, 1, err);
    buf_free(&words);
    return rc;
}

pawl_code pawl_cancel(pawl *p, const char *id, const char *reason)
{
    error err = {0};
    slice name, why = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK)
        rc = argument_run_id(id, &name, &err);
    if (rc == PAWL_OK && reason) {
        why = (slice){reason, strnlen(reason, PAWL_MAX_ID + 1)};
        rc = text_check(why, PAWL_MAX_ID, "reason", &err);
    }
    if (rc == PAWL_OK)
        rc = request_cancel(p, name, why, &err);
    return handle_leave(p, rc, &err);
}
