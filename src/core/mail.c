/* Reading and taking mail.
 *
 * For each mailbox that somebody waits at, the run remembers up to where it has read: what lies
 * before that is for others, and is not looked at again. A few messages are read at a time, so that
 * a run that receives a hundred thousand does not ask as often; what was read and not taken stays
 * in memory until the fiber goes. */
#include "core/mail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "core/drive.h"
#include "core/ops.h"

enum {
    REST_MAX = 256,
    LETTERS_MAX = 64,
    LETTERS_BYTES = 1 << 20,
    HEAR_MAX = 1000,
    RECORD_MAX = PAWL_MAX_PAYLOAD + 8 * PAWL_MAX_ID + 64 /* a message, and who sent it */
};

static const db_sql COUNT = {"SELECT mail FROM {runs} WHERE run = $1", "i"};

static const db_sql REST = {"SELECT seq, kind, generation, op, name, by, data FROM {inbox}"
                            " WHERE run = $1 AND seq > $2 AND kind <> 1 ORDER BY seq LIMIT $3",
                            "iii"};

static const db_sql LETTERS = {"SELECT seq, kind, generation, op, name, by, data FROM {inbox}"
                               " WHERE run = $1 AND seq > $2 AND kind = 1 AND name = $4"
                               " ORDER BY seq LIMIT $3",
                               "iiit"};

static const db_sql TAKE = {"DELETE FROM {inbox} WHERE run = $1 AND name = $2 AND seq = $3", "iti"};

static const db_sql HEAR = {"SELECT run, mail, cancel_at, wake_at FROM {runs} WHERE owner = $1"
                            " AND wake_at <= $2 AND mail > 0 AND (wake_at, run) > ($4, $5)"
                            " ORDER BY wake_at, run LIMIT $3",
                            "iiiii"};

/* What was read of one row. One allocation, with its texts behind it. */
typedef struct letter {
    struct letter *next;
    int64_t seq;
    int64_t kind;
    int64_t generation;
    int64_t op;
    slice name;
    slice by;
    slice data;
} letter;

typedef struct box {
    struct box *next;
    slice name;
    int64_t read; /* up to this seq */
    letter *first;
    letter *last;
    pawl_future *waiting; /* who receives, in their order */
    pawl_future *waiting_last;
} box;

/* In the run's log. */
typedef struct post {
    box *boxes;
    letter *rest;
    letter *rest_last;
    int64_t cancel; /* seq of the cancel, which was read and not taken; 0: there is none */
} post;

/* ---- Reading, on the thread's own stack ---- */

static char *put(char **at, slice s)
{
    char *text = *at;
    if (s.size)
        memcpy(text, s.at, s.size);
    text[s.size] = '\0';
    *at += s.size + 1;
    return text;
}

static letter *read_letter(db_stmt *s)
{
    slice name = db_column(s, 4).s, by = db_column(s, 5).s;
    db_value data = db_column(s, 6);
    slice bytes = data.type == DB_NULL ? SLICE_LIT("null") : data.s;
    letter *l = malloc(sizeof *l + name.size + by.size + bytes.size + 3);
    if (!l)
        return NULL;
    char *at = (char *)(l + 1);
    *l = (letter){.seq = db_column(s, 0).i,
                  .kind = db_column(s, 1).i,
                  .generation = db_column(s, 2).i,
                  .op = db_column(s, 3).i};
    l->name = (slice){put(&at, name), name.size};
    l->by = (slice){put(&at, by), by.size};
    l->data = (slice){put(&at, bytes), bytes.size};
    return l;
}

static void append(letter **first, letter **last, letter *l)
{
    if (*first)
        (*last)->next = l;
    else
        *first = l;
    *last = l;
}

/* The rows of a query; *full: there may be more. */
static pawl_code read_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                           letter **first, letter **last, int *full, error *err)
{
    db_stmt *s;
    size_t rows = 0, bytes = 0;
    pawl_code rc = db_prepare(c, sql, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, values, count, err);
    if (rc != PAWL_OK)
        return rc;
    db_step step = DB_DONE;
    *full = 0;
    while (rc == PAWL_OK && bytes < LETTERS_BYTES && (step = db_next(s, err)) == DB_ROW) {
        letter *l = read_letter(s);
        if (!l)
            rc = error_set(err, PAWL_NOMEM, "out of memory");
        else
            append(first, last, l);
        rows++;
        bytes += l ? l->data.size : 0;
    }
    if (step == DB_FAILED)
        rc = err->code;
    *full = (int64_t)rows >= values[2].i || bytes >= LETTERS_BYTES;
    db_reset(s);
    return rc;
}

static pawl_code read_box(db_conn *c, const pawl_run *run, box *b, error *err)
{
    int full;
    const db_value values[] = {db_int(run->hold.run), db_int(b->read), db_int(LETTERS_MAX),
                               db_text(b->name)};
    pawl_code rc =
        read_rows(c, &LETTERS, values, DB_COUNT(values), &b->first, &b->last, &full, err);
    if (rc == PAWL_OK)
        b->read = full ? b->last->seq : run->mail;
    return rc;
}

static pawl_code read_rest(db_conn *c, pawl_run *run, error *err)
{
    int full;
    post *p = run->post;
    const db_value values[] = {db_int(run->hold.run), db_int(atomic_load(&run->looked)),
                               db_int(REST_MAX)};
    pawl_code rc =
        read_rows(c, &REST, values, DB_COUNT(values), &p->rest, &p->rest_last, &full, err);
    if (rc == PAWL_OK)
        atomic_store(&run->looked, full ? p->rest_last->seq : run->mail);
    return rc;
}

static pawl_code read_all(db_conn *c, pawl_run *run, error *err)
{
    int found = 0;
    const db_value key = db_int(run->hold.run);
    pawl_code rc = db_number(c, &COUNT, &key, 1, &run->mail, &found, err);
    if (rc == PAWL_OK && atomic_load(&run->looked) < run->mail)
        rc = read_rest(c, run, err);
    for (box *b = run->post->boxes; b && rc == PAWL_OK; b = b->next)
        if (b->waiting && !b->first && b->read < run->mail)
            rc = read_box(c, run, b, err);
    return rc;
}

pawl_code mail_read(struct runner *r, pawl_run *run, error *err)
{
    pawl_code rc = runner_begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_all(r->reader, run, err);
    db_rollback(r->reader);
    return rc;
}

static void drop_letters(letter *l)
{
    while (l) {
        letter *next = l->next;
        free(l);
        l = next;
    }
}

void mail_forget(pawl_run *run)
{
    post *p = run->post;
    if (!p)
        return;
    drop_letters(p->rest);
    for (box *b = p->boxes; b; b = b->next)
        drop_letters(b->first);
    run->post = NULL;
    atomic_store(&run->looked, 0);
}

/* ---- Taking, on the fiber ---- */

static post *post_of(pawl_run *run)
{
    if (!run->post)
        run->post = arena_alloc(run->log, sizeof(post));
    if (!run->post)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    return run->post;
}

static void take(pawl_run *run, slice name, int64_t seq)
{
    name.at = arena_copy(run->paper, name);
    if (!name.at)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    const db_value values[] = {db_int(run->hold.run), db_text(name), db_int(seq)};
    unit_write(turn_unit(run), &TAKE, unit_key("inbox", run->hold.run), values, DB_COUNT(values));
}

/* A child has ended. Which call it answers must still be open: it may be of another generation. Who
 * has left its function waits for none. */
static void take_result(pawl_run *run, const letter *l)
{
    int fits = !run->failing && l->generation == run->generation &&
               replay_fits(run->replay, OP_DONE, l->op);
    if (fits)
        turn_arrive(run, slice_equal(l->name, SLICE_LIT("done")) ? OP_DONE : OP_FAILED, l->op,
                    l->data);
    else
        run_log_line(run, LOG_DEBUG, "a result has arrived that nobody waits for");
}

static void take_rest(pawl_run *run)
{
    post *p = run->post;
    while (p->rest) {
        letter *l = p->rest;
        if (l->kind == MAIL_CANCEL) {
            p->cancel = l->seq;
            run->cancelled = run_json_text(run, l->data);
        } else {
            take(run, l->name, l->seq);
        }
        if (l->kind == MAIL_CHILD)
            take_result(run, l);
        p->rest = l->next;
        free(l);
    }
}

void mail_take_cancel(pawl_run *run)
{
    post *p = run->post;
    if (p && p->cancel != 0)
        take(run, SLICE_LIT(""), p->cancel);
    if (p)
        p->cancel = 0;
}

/* Of all that somebody waits for, what came first. Only one: what the function does when it has it
 * may be that it does not want the others, and then they stay. A message may be as large and as
 * deep as a value can be: what is recorded of it is larger, and so no value. */
static void deliver(pawl_run *run, const post *p)
{
    box *b = NULL;
    for (box *one = p->boxes; one; one = one->next)
        if (one->waiting && one->first && (!b || one->first->seq < b->first->seq))
            b = one;
    if (!b)
        return;
    letter *l = b->first;
    buf json;
    buf_init(&json, RECORD_MAX);
    buf_printf(&json, "{\"seq\":%" PRId64 ",\"from\":", l->seq);
    value_quote(&json, l->by);
    buf_text(&json, ",\"message\":");
    buf_add(&json, l->data);
    buf_char(&json, '}');
    slice record = {json.failed ? NULL : arena_copy(run->paper, (slice){json.at, json.size}),
                    json.size};
    buf_free(&json);
    if (!record.at)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    take(run, l->name, l->seq);
    turn_arrive(run, OP_MESSAGE, b->waiting->op, record);
    b->first = l->next;
    free(l);
}

/* Before a time-out counts it is looked once more: others may have sent something, and not told. */
static int is_wanted(pawl_run *run, const post *p)
{
    int due = timers_due_ms(&run->futures.due) <= drive_now_ms(run->drive);
    if (run->has_mail || atomic_load(&run->looked) < run->mail)
        return 1;
    for (const box *b = p->boxes; b; b = b->next)
        if (b->waiting && !b->first && (due || b->read < run->mail))
            return 1;
    return 0;
}

/* What was read before is enough, if it is for somebody. */
static int has_letters(const post *p)
{
    for (const box *b = p->boxes; b; b = b->next)
        if (b->waiting && b->first)
            return 1;
    return 0;
}

int mail_look(pawl_run *run)
{
    post *p = post_of(run);
    if (!has_letters(p) && is_wanted(run, p)) {
        run->has_mail = 0;
        run_ask(run, WANT_MAIL);
    }
    take_rest(run);
    if (turn_arrive_all(run))
        return 1;
    deliver(run, p);
    return turn_arrive_all(run);
}

const char *mail_look_for_cancel(pawl_run *run)
{
    post *p = post_of(run);
    run->has_mail = 0;
    do {
        run_ask(run, WANT_MAIL);
        for (const letter *l = p->rest; l && !run->cancelled; l = l->next) {
            if (l->kind != MAIL_CANCEL)
                continue;
            p->cancel = l->seq;
            run->cancelled = run_json_text(run, l->data);
        }
    } while (!run->cancelled && atomic_load(&run->looked) < run->mail); /* behind many results */
    return run->cancelled;
}

void mail_take_all(pawl_run *run)
{
    take_rest(run);
    mail_take_cancel(run);
    turn_arrive_all(run);
}

/* ---- Receiving ---- */

static box *box_of(pawl_run *run, slice name)
{
    post *p = post_of(run);
    for (box *b = p->boxes; b; b = b->next)
        if (slice_equal(b->name, name))
            return b;
    box *b = arena_alloc(run->log, sizeof *b);
    char *copy = b ? arena_copy(run->log, name) : NULL;
    if (!copy)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    *b = (box){.next = p->boxes, .name = {copy, name.size}};
    p->boxes = b;
    return b;
}

static void stop_waiting(pawl_future *f)
{
    box *b = f->own;
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

static void give_up(pawl_future *f, int live)
{
    (void)live;
    stop_waiting(f);
}

static void timed_out(pawl_future *f)
{
    turn_arrive(f->run, OP_FIRED, f->op, SLICE_LIT("null"));
}

static void received(pawl_future *f, const replay_row *row)
{
    pawl_run *run = f->run;
    stop_waiting(f);
    if (row->kind != OP_MESSAGE) {
        future_answer(f, PAWL_TIMEOUT, "null");
        return;
    }
    slice from, message;
    run_free_value(run, run->sender);
    run->sender = value_find(row->data, SLICE_LIT("/from"), &from) == PAWL_STRING
                      ? run_json_text(run, from)
                      : NULL;
    int found = value_find(row->data, SLICE_LIT("/message"), &message) != PAWL_NOTHING;
    future_answer(f, PAWL_OK, found ? run_text(run, message) : "null");
}

static const future_kind RECEIVE = {timed_out, received, give_up, NULL};

static pawl_future *receive(pawl_run *run, const char *mailbox, int64_t timeout_ms)
{
    slice name = ops_mailbox(run, mailbox);
    if (timeout_ms < 0)
        run_trouble(run, PAWL_INVALID, "pawl_receive() with a negative time-out");
    const replay_row *row;
    int64_t op, at_ms;
    if (turn_op(run, OP_RECEIVE, name, &row) == REPLAY_NEW) {
        int64_t now = drive_now_ms(run->drive);
        at_ms = timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
        slice text = run_number(run, at_ms);
        op = turn_record(run, OP_RECEIVE, name, text);
        run_free_value(run, text.at);
    } else {
        op = row->seq;
        const char *text = run_text(run, row->data);
        at_ms = pawl_get_int(text, "", INT64_MAX);
        run_free_value(run, text);
    }
    pawl_future *f = future_new(run, &RECEIVE, OP_RECEIVE, op);
    box *b = box_of(run, name);
    f->own = b;
    f->before = b->waiting ? b->waiting_last : NULL;
    if (b->waiting)
        b->waiting_last->behind = f;
    else
        b->waiting = f;
    b->waiting_last = f;
    future_due_at(f, at_ms);
    return f;
}

pawl_future *pawl_receive_later(pawl_run *run, const char *mailbox, int64_t timeout_ms)
{
    return run_is_inside(run) ? receive(run, mailbox, timeout_ms) : NULL;
}

pawl_code pawl_receive(pawl_run *run, const char *mailbox, int64_t timeout_ms, const char **message)
{
    if (message)
        *message = NULL;
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    pawl_future *f = receive(run, mailbox, timeout_ms);
    future_wait_for(f);
    pawl_code code = f->code;
    if (message)
        *message = f->value;
    future_release(f);
    return code;
}

/* A copy, as every value that is given out: it stays when the next message comes. */
const char *pawl_sender(pawl_run *run)
{
    return run_is_inside(run) && run->sender ? run_text(run, slice_of(run->sender)) : "";
}

/* ---- Hearing of others ---- */

static void tell_run(struct drive *d, int64_t key, int64_t mail, int cancel)
{
    pthread_mutex_lock(&d->lock);
    const pawl_run *run = map_get(&d->runs, (uint64_t)key);
    int news = run && atomic_load(&run->looked) < mail;
    pthread_mutex_unlock(&d->lock);
    if (news && cancel)
        drive_cancel(d, key);
    else if (news)
        drive_mail(d, key);
}

/* One page, behind (*wake_ms, *key). 0: there is no other. */
static int hear_page(struct drive *d, int64_t *wake_ms, int64_t *key, error *err)
{
    db_stmt *s;
    int rows = 0;
    const db_value values[] = {db_int(d->node.id), db_int(drive_now_ms(d)), db_int(HEAR_MAX),
                               db_int(*wake_ms), db_int(*key)};
    if (db_prepare(d->looks, &HEAR, &s, err) != PAWL_OK)
        return 0;
    int bound = db_bind_all(s, values, DB_COUNT(values), err) == PAWL_OK;
    while (bound && db_next(s, err) == DB_ROW) {
        *key = db_column(s, 0).i;
        *wake_ms = db_column(s, 3).i;
        tell_run(d, *key, db_column(s, 1).i, db_column(s, 2).type != DB_NULL);
        rows++;
    }
    db_reset(s);
    return rows == HEAR_MAX;
}

void mail_hear(struct drive *d)
{
    error err = {0};
    int64_t wake_ms = INT64_MIN, key = 0;
    if (db_begin(d->looks, &err) != PAWL_OK)
        return;
    while (hear_page(d, &wake_ms, &key, &err))
        continue;
    db_rollback(d->looks);
}
