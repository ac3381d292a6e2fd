/* Reading the inbox of a run, on the stack of the runner's thread: messages for the mailboxes that
 * futures wait at, and everything else that has arrived. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "run/inbox_box.h"
#include "sched/sched_internal.h"

enum { REST_MAX = 256, MESSAGES_MAX = 64, MESSAGES_BYTES = 1 << 20 };

/* The first column of what is read. */
enum { PART_MAIL, PART_REST, PART_MESSAGE, PART_COUNT };

#define COLUMNS "seq, kind, generation, op, name, by, data FROM {inbox}"
#define IS_REST " WHERE run = $1 AND seq > $2 AND kind <> {INBOX_MESSAGE} ORDER BY seq LIMIT $3"

/* One statement, and so one trip to a server: `mail`, everything that is no message, and the
 * messages for one mailbox. They are of one state of the database. */
static const db_sql LOOK = {"SELECT 0, mail, 0, 0, 0, '', '', NULL FROM {runs} WHERE run = $1"
                            " UNION ALL SELECT * FROM (SELECT 1, " COLUMNS IS_REST ") AS rest"
                            " UNION ALL SELECT * FROM (SELECT 2, " COLUMNS
                            " WHERE run = $1 AND name = $4 AND seq > $5 AND kind = {INBOX_MESSAGE}"
                            " ORDER BY seq LIMIT $6) AS messages",
                            "iiitii"};

/* The messages for any further mailbox. */
static const db_sql MESSAGES = {
    "SELECT 2, " COLUMNS " WHERE run = $1 AND seq > $2 AND kind = {INBOX_MESSAGE} AND name = $4"
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
    slice name = db_column(s, 5).s, by = db_column(s, 6).s;
    db_value data = db_column(s, 7);
    slice bytes = data.type == DB_NULL ? SLICE_LIT("null") : data.s;
    inbox_row *l = malloc(sizeof *l + name.size + by.size + bytes.size + 3);
    if (!l)
        return NULL;
    char *at = (char *)(l + 1);
    *l = (inbox_row){.seq = db_column(s, 1).i,
                     .kind = db_column(s, 2).i,
                     .generation = db_column(s, 3).i,
                     .op = db_column(s, 4).i};
    l->name = (slice){put_text(&at, name), name.size};
    l->by = (slice){put_text(&at, by), by.size};
    l->data = (slice){put_text(&at, bytes), bytes.size};
    return l;
}

static void append_to_list(inbox_row **first, inbox_row **last, inbox_row *l)
{
    if (*first)
        (*last)->next = l;
    else
        *first = l;
    *last = l;
}

/* What a statement has read of one kind, a list of rows. */
typedef struct part {
    inbox_row **first;
    inbox_row **last;
    size_t rows;
    size_t bytes;
    size_t most; /* the most rows that are read at once: with so many there may be more */
} part;

static int is_full(const part *p)
{
    return p->rows >= p->most || p->bytes >= MESSAGES_BYTES;
}

static pawl_code note_row(db_stmt *s, part *to, error *err)
{
    inbox_row *l = read_row(s);
    if (!l)
        return error_nomem(err);
    append_to_list(to->first, to->last, l);
    to->rows++;
    to->bytes += l->data.size;
    return PAWL_OK;
}

/* Reads the rows of a statement into the lists of its parts, until one part has as many bytes as
 * are read at once. Sets *mail if there is a row with it. */
static pawl_code read_parts(db_conn *c, const db_sql *sql, const db_value *values, int count,
                            part parts[PART_COUNT], int64_t *mail, error *err)
{
    db_stmt *s;
    pawl_code rc = db_prepare(c, sql, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, values, count, err);
    if (rc != PAWL_OK)
        return rc;
    db_step step = DB_DONE;
    int enough = 0;
    while (rc == PAWL_OK && !enough && (step = db_next(s, err)) == DB_ROW) {
        int64_t which = db_column(s, 0).i;
        if (which == PART_MAIL) {
            *mail = db_column(s, 1).i;
            continue;
        }
        assert(which >= 0 && which < PART_COUNT && parts[which].first);
        rc = note_row(s, &parts[which], err);
        enough = parts[which].bytes >= MESSAGES_BYTES;
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(s);
    return rc;
}

static int is_to_be_read(const inbox_box *b)
{
    return b->waiting && !b->first;
}

/* Notes up to which seq the messages of a mailbox were read. `all`: they were read to the end, or
 * until the part was full. */
static void note_read(const pawl_run *run, inbox_box *b, const part *p, int all)
{
    if (all && !is_full(p))
        b->read = run->inbox.known;
    else if (p->rows > 0)
        b->read = b->last->seq;
}

/* Reads a further mailbox, whose messages were not read with the rest. */
static pawl_code read_box(db_conn *c, const pawl_run *run, inbox_box *b, error *err)
{
    int64_t ignored = 0;
    part parts[PART_COUNT] = {
        [PART_MESSAGE] = {.first = &b->first, .last = &b->last, .most = MESSAGES_MAX}};
    const db_value values[] = {db_int(run->lease.run), db_int(b->read), db_int(MESSAGES_MAX),
                               db_text(b->name)};
    pawl_code rc = read_parts(c, &MESSAGES, values, DB_COUNT(values), parts, &ignored, err);
    if (rc == PAWL_OK)
        note_read(run, b, &parts[PART_MESSAGE], 1);
    return rc;
}

/* The first mailbox at which a future waits; NULL: there is none, or its messages are there. */
static inbox_box *first_box(const run_inbox *p)
{
    inbox_box *b = p->boxes;
    while (b && !is_to_be_read(b))
        b = b->next;
    return b;
}

/* Reads `mail`, the rest, and the messages of one mailbox, if b is not NULL. */
static pawl_code read_arrivals(db_conn *c, pawl_run *run, inbox_box *b, error *err)
{
    run_inbox *p = run->inbox.rows;
    inbox_row *none = NULL, *none_last = NULL;
    part parts[PART_COUNT] = {
        [PART_REST] = {.first = &p->rest, .last = &p->rest_last, .most = REST_MAX},
        [PART_MESSAGE] = {.first = b ? &b->first : &none,
                          .last = b ? &b->last : &none_last,
                          .most = MESSAGES_MAX}};
    const db_value values[] = {db_int(run->lease.run),  db_int(atomic_load(&run->inbox.seen)),
                               db_int(REST_MAX),        b ? db_text(b->name) : db_null(),
                               db_int(b ? b->read : 0), db_int(MESSAGES_MAX)};
    pawl_code rc = read_parts(c, &LOOK, values, DB_COUNT(values), parts, &run->inbox.known, err);
    if (rc != PAWL_OK)
        return rc;
    int full = is_full(&parts[PART_REST]);
    /* RULE A2-a-park-names-the-mail-that-was-applied */
    atomic_store(&run->inbox.seen, full ? p->rest_last->seq : run->inbox.known);
    if (b)
        note_read(run, b, &parts[PART_MESSAGE], parts[PART_REST].bytes < MESSAGES_BYTES);
    return PAWL_OK;
}

pawl_code runner_read_inbox(db_conn *c, pawl_run *run, error *err)
{
    inbox_box *first = first_box(run->inbox.rows);
    pawl_code rc = read_arrivals(c, run, first, err);
    for (inbox_box *b = run->inbox.rows->boxes; b && rc == PAWL_OK; b = b->next)
        if (b != first && is_to_be_read(b) && b->read < run->inbox.known)
            rc = read_box(c, run, b, err);
    return rc;
}
