/* Reading the inbox of a run, on the stack of the runner's thread: messages for the mailboxes that
 * futures wait at, and everything else that has arrived. */
#include <stdlib.h>
#include <string.h>

#include "run/inbox_box.h"
#include "sched/sched_internal.h"

enum { REST_MAX = 256, MESSAGES_MAX = 64, MESSAGES_BYTES = 1 << 20 };

static const db_sql COUNT = {"SELECT mail FROM {runs} WHERE run = $1", "i"};

static const db_sql REST = {
    "SELECT seq, kind, generation, op, name, by, data FROM {inbox}"
    " WHERE run = $1 AND seq > $2 AND kind <> {INBOX_MESSAGE} ORDER BY seq LIMIT $3",
    "iii"};

static const db_sql MESSAGES = {
    "SELECT seq, kind, generation, op, name, by, data FROM {inbox}"
    " WHERE run = $1 AND seq > $2 AND kind = {INBOX_MESSAGE} AND name = $4"
    " ORDER BY seq LIMIT $3",
    "iiit"};

static char *put_text(char **at, slice s)
{
    char *text = *at;
    if (s.size)
        memcpy(text, s.at, s.size);
    text[s.size] = '\0';
    *at += s.size + 1;
    return text;
}

static inbox_row *read_row(db_stmt *s)
{
    slice name = db_column(s, 4).s, by = db_column(s, 5).s;
    db_value data = db_column(s, 6);
    slice bytes = data.type == DB_NULL ? SLICE_LIT("null") : data.s;
    inbox_row *l = malloc(sizeof *l + name.size + by.size + bytes.size + 3);
    if (!l)
        return NULL;
    char *at = (char *)(l + 1);
    *l = (inbox_row){.seq = db_column(s, 0).i,
                     .kind = db_column(s, 1).i,
                     .generation = db_column(s, 2).i,
                     .op = db_column(s, 3).i};
    l->name = (slice){put_text(&at, name), name.size};
    l->by = (slice){put_text(&at, by), by.size};
    l->data = (slice){put_text(&at, bytes), bytes.size};
    return l;
}

static void append(inbox_row **first, inbox_row **last, inbox_row *l)
{
    if (*first)
        (*last)->next = l;
    else
        *first = l;
    *last = l;
}

/* Appends the rows of a query to a list; *full: there may be more. */
static pawl_code read_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                           inbox_row **first, inbox_row **last, int *full, error *err)
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
    while (rc == PAWL_OK && bytes < MESSAGES_BYTES && (step = db_next(s, err)) == DB_ROW) {
        inbox_row *l = read_row(s);
        if (!l)
            rc = error_nomem(err);
        else
            append(first, last, l);
        rows++;
        bytes += l ? l->data.size : 0;
    }
    if (step == DB_FAILED)
        rc = err->code;
    *full = (int64_t)rows >= values[2].i || bytes >= MESSAGES_BYTES;
    db_reset(s);
    return rc;
}

static pawl_code read_box(db_conn *c, const pawl_run *run, inbox_box *b, error *err)
{
    int full;
    const db_value values[] = {db_int(run->lease.run), db_int(b->read), db_int(MESSAGES_MAX),
                               db_text(b->name)};
    pawl_code rc =
        read_rows(c, &MESSAGES, values, DB_COUNT(values), &b->first, &b->last, &full, err);
    if (rc == PAWL_OK)
        b->read = full ? b->last->seq : run->inbox.known;
    return rc;
}

static pawl_code read_rest(db_conn *c, pawl_run *run, error *err)
{
    int full;
    run_inbox *p = run->inbox.rows;
    const db_value values[] = {db_int(run->lease.run), db_int(atomic_load(&run->inbox.seen)),
                               db_int(REST_MAX)};
    pawl_code rc =
        read_rows(c, &REST, values, DB_COUNT(values), &p->rest, &p->rest_last, &full, err);
    if (rc == PAWL_OK)
        /* RULE A2-a-park-names-the-mail-that-was-applied */
        atomic_store(&run->inbox.seen, full ? p->rest_last->seq : run->inbox.known);
    return rc;
}

pawl_code runner_read_inbox(db_conn *c, pawl_run *run, error *err)
{
    int found = 0;
    const db_value key = db_int(run->lease.run);
    pawl_code rc = db_number(c, &COUNT, &key, 1, &run->inbox.known, &found, err);
    if (rc == PAWL_OK && atomic_load(&run->inbox.seen) < run->inbox.known)
        rc = read_rest(c, run, err);
    for (inbox_box *b = run->inbox.rows->boxes; b && rc == PAWL_OK; b = b->next)
        if (b->waiting && !b->first && b->read < run->inbox.known)
            rc = read_box(c, run, b, err);
    return rc;
}
