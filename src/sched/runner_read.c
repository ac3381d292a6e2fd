/* What a run wants to know, read on the thread's own stack: the next page of its journal, the names
 * of its attributes, its state, its inbox, what has become of other runs; and, for a hold, which
 * clean-up it has begun last. Each is read in a transaction of its own, on a connection of the read
 * pool. What fails there is noted. */
#include <string.h>

#include "base/text.h"
#include "rows/attributes.h"
#include "run/cross_run.h"
#include "run/state.h"
#include "sched/journal_rows.h"
#include "sched/sched_internal.h"

enum { PAGE_ROWS = 256, UNREAD_MAX = 5 };

#define COLUMNS "SELECT seq, kind, op, name, at, data"
#define ROWS " FROM {journal} WHERE run = $1 AND generation = $2 AND seq > $3 ORDER BY seq LIMIT $4"

static const db_sql PAGE = {COLUMNS ROWS, "iiii"};

/* Each row says whether this node owns the run. A join would have a server sort the journal. */
static const db_sql PAGE_OWNED = {
    COLUMNS ", (SELECT count(*) FROM {runs} WHERE run = $1 AND owner = $5 AND fence = $6)" ROWS,
    "iiiiii"};

static const db_sql IS_OWNED = {
    "SELECT count(*) FROM {runs} WHERE run = $1 AND owner = $2 AND fence = $3", "iii"};

/* ---- The journal ---- */

/* Whether this node still owns the run is read along, unless it is known: the row of a run that was
 * just claimed, or is back from its sleep, was read a moment ago. Sets *owned if there are rows
 * that say it. */
static pawl_code read_page(runner *r, pawl_run *run, replay_row *rows, size_t *count,
                           int64_t *owned, error *err)
{
    db_stmt *s;
    const run_lease *h = &run->lease;
    db_value values[] = {
        db_int(h->run),    db_int(run->generation), db_int(run->journal.fed),
        db_int(PAGE_ROWS), db_int(h->owner),        db_int(h->fence),
    };
    int asks = !run->journal.is_owned, value_count = asks ? 6 : 4;
    pawl_code rc = db_prepare(r->reader, asks ? &PAGE_OWNED : &PAGE, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, value_count, err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && *count < PAGE_ROWS && (step = db_next(s, err)) == DB_ROW) {
        if (!journal_row_read(run->journal.page, s, run->generation, &rows[(*count)++]))
            rc = error_nomem(err);
        if (asks)
            *owned = db_column(s, 6).i; /* RULE 4-a-lost-claim-is-noticed-by-the-next-replay */
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(s);
    return rc;
}

/* Takes a connection of the read pool, until end_reading(). */
static pawl_code begin_reading(runner *r, error *err)
{
    sched *s = r->sched;
    pawl_code rc = read_pool_begin(s->options.read_pool, &r->reader, err);
    node_ready_note_read(s, rc);
    return rc;
}

static void end_reading(runner *r)
{
    read_pool_end(r->sched->options.read_pool, r->reader);
    r->reader = NULL;
}

/* No row is left of a journal that had some: was the run deleted, or is the journal damaged? */
static pawl_code read_owned(runner *r, const pawl_run *run, int64_t *owned, error *err)
{
    int found;
    const run_lease *h = &run->lease;
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence)};
    return db_number(r->reader, &IS_OWNED, values, DB_COUNT(values), owned, &found, err);
}

/* PAWL_REFUSED: the run is not this node's any more. */
static pawl_code read_rows(runner *r, pawl_run *run, replay_row *rows, size_t *count, error *err)
{
    int64_t owned = 1;
    pawl_code rc = begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_page(r, run, rows, count, &owned, err);
    /* RULE L8-a-journal-that-is-gone-is-told-from-a-damaged-one */
    if (rc == PAWL_OK && *count == 0 && run->journal.fed < run->journal.durable)
        rc = read_owned(r, run, &owned, err);
    end_reading(r);
    if (rc == PAWL_OK && !owned)
        rc = error_set(err, PAWL_REFUSED, "another node has the run, or it was deleted");
    run->journal.is_owned = rc == PAWL_OK;
    return rc;
}

/* The next rows: those that were read ahead (journal_rows.h), or else a page. */
static pawl_code next_rows(runner *r, pawl_run *run, replay_row *rows, size_t *count, error *err)
{
    if (run->journal.is_fresh)
        return PAWL_OK;
    if (!run->journal.is_ahead)
        return read_rows(r, run, rows, count, err);
    run->journal.is_ahead = 0;
    *count = run->journal.ahead ? (size_t)run->journal.durable - 1 : 0;
    if (*count > 0)
        memcpy(rows, run->journal.ahead, *count * sizeof *rows);
    return PAWL_OK;
}

/* Makes room for the next rows. What was read ahead is in that memory already. 0: memory is out. */
static int begin_page(pawl_run *run)
{
    if (!run->journal.page)
        run->journal.page = arena_new(0);
    else if (!run->journal.is_ahead)
        arena_reset(run->journal.page);
    return run->journal.page != NULL;
}

/* Copies only as many rows as there are, and not a whole page: most runs are short. */
static pawl_code give_rows(pawl_run *run, const replay_row *rows, size_t count, error *err)
{
    replay_row *copy = arena_alloc(run->journal.page, count * sizeof *copy);
    if (!copy)
        return error_nomem(err);
    memcpy(copy, rows, count * sizeof *copy);
    replay_feed(run->journal.replay, copy, count);
    return PAWL_OK;
}

/* Feeds the next rows to the replay. A small input is in the row of the run and not in the journal:
 * then a first row is made up for it. */
static pawl_code feed_replay(runner *r, pawl_run *run, error *err)
{
    replay_row rows[PAGE_ROWS + 1];
    size_t first = 0, count = 0;
    if (!begin_page(run))
        return error_nomem(err);
    if (run->journal.fed == 0 && run->input) {
        rows[first++] = (replay_row){.seq = 1,
                                     .generation = run->generation,
                                     .kind = OP_STARTED,
                                     .name = SLICE_LIT(""),
                                     .data = slice_of(run->input)};
        run->journal.fed = 1;
    }
    pawl_code rc = next_rows(r, run, rows + first, &count, err);
    if (rc != PAWL_OK)
        return rc;
    if (count > 0)
        run->journal.fed = rows[first + count - 1].seq;
    if (first + count > 0)
        rc = give_rows(run, rows, first + count, err);
    if (rc != PAWL_OK)
        return rc;
    if (count < PAGE_ROWS) {
        run->journal.fed_all = 1;
        /* RULE L8-a-journal-with-fewer-rows-is-not-gone-on-with */
        replay_fed_all(run->journal.replay, run->journal.durable);
    }
    run->journal.is_fresh = 0;
    return PAWL_OK;
}

/* ---- The clean-ups of a failing run ---- */

static const db_sql CLEAN_UP = {"SELECT name FROM {journal}"
                                " WHERE run = $1 AND generation = $2 AND kind = $3"
                                " ORDER BY seq DESC LIMIT 1",
                                "iii"};

static pawl_code put_name(void *arg, db_stmt *row, error *err)
{
    char name[64 + 1];
    (void)err;
    text_clip(name, sizeof name, read_pool_text(row, 0));
    buf_text(arg, name);
    return PAWL_OK;
}

/* A clean-up has its row before it is called. */
void runner_put_clean_up(runner *r, const pawl_run *run, buf *b)
{
    error err;
    const db_value values[] = {db_int(run->lease.run), db_int(run->generation),
                               db_int(OP_CLEAN_UP)};
    size_t before = b->size;
    if (begin_reading(r, &err) == PAWL_OK) {
        read_pool_rows(r->reader, &CLEAN_UP, values, DB_COUNT(values), put_name, b, &err);
        end_reading(r);
    }
    if (b->size == before)
        buf_text(b, "functions");
}

/* ---- Attributes ---- */

/* Reads the names of attributes that were committed. Those that the function sets in this turn it
 * knows itself. */
static pawl_code read_names(runner *r, pawl_run *run, error *err)
{
    db_stmt *s;
    const db_value key = db_int(run->lease.run);
    pawl_code rc = begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_prepare(r->reader, &ATTRIBUTE_NAMES, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, &key, 1, err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(s, err)) == DB_ROW)
        run_add_name(run, db_column(s, 0).s);
    if (step == DB_FAILED)
        rc = err->code;
    if (rc == PAWL_OK)
        db_reset(s);
    end_reading(r);
    run->names.known = rc == PAWL_OK;
    if (rc != PAWL_OK)
        run->names.first = NULL;
    return rc;
}

/* ---- State, inbox and other runs: what read_with() reads ---- */

static pawl_code read_state(db_conn *c, pawl_run *run, error *err)
{
    return state_read(run, c, err);
}

/* Reads what has become of other runs that futures of this run ask for. */
static pawl_code read_others(db_conn *c, pawl_run *run, error *err)
{
    pawl_code rc = PAWL_OK;
    for (pawl_future *f = run->futures.asking; f && rc == PAWL_OK;) {
        const cross_ask *o = f->own;
        if (!f->over)
            rc = o->kind->read(c, f, err);
        f = o->behind;
    }
    return rc;
}

static pawl_code read_with(runner *r, pawl_run *run,
                           pawl_code (*read)(db_conn *c, pawl_run *run, error *err), error *err)
{
    pawl_code rc = begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read(r->reader, run, err);
    end_reading(r);
    return rc;
}

/* ---- By what the run wants ---- */

pawl_code runner_read(runner *r, pawl_run *run, error *err)
{
    switch (run->code.want) {
    case WANT_PAGE:
        return feed_replay(r, run, err);
    case WANT_NAMES:
        return read_names(r, run, err);
    case WANT_STATE:
        return read_with(r, run, read_state, err);
    case WANT_INBOX:
        return read_with(r, run, runner_read_inbox, err);
    case WANT_KEY:
        return key_block_next(&r->sched->run_keys, &run->code.key, err);
    default:
        return read_with(r, run, read_others, err);
    }
}

/* ---- Where reading fails ---- */

/* Is the failure due to the rows of the run, so that waiting alone does not end it? */
static int is_final(pawl_code code)
{
    /* RULE L7-a-run-that-cannot-be-read-is-held */
    return !pawl_code_retryable(code) && code != PAWL_UNDECIDED && code != PAWL_CLOSED &&
           code != PAWL_FENCED && code != PAWL_FORKED;
}

/* A code that passes is tried again with the back-off of the storage, for as long as it takes.
 * Another one is tried some times, since a right that is missing for a moment, as in a migration,
 * needs no release by hand; then the run is held, unless something of it is in the memory of this
 * process only. */
int runner_note_unread(pawl_run *run, const error *err)
{
    char words[256];
    buf b;
    buf_init_fixed(&b, words, sizeof words);
    buf_printf(&b, "%s%s%s", err->message, err->detail[0] ? ": " : "", err->detail);
    const char *text = buf_str(&b);
    int count =
        run_failure_note(run->host->sched, run->lease.run, run->id, FAILURE_READ, err->code, text);
    run->slot->unread = 1;
    if (!is_final(err->code) || count < UNREAD_MAX || runner_has_unrecorded(run))
        return 0;
    run->code.end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD};
    buf_init_fixed(&b, run->code.end.note, sizeof run->code.end.note);
    buf_printf(&b, "the rows of the run could not be read, %d times in a row: %s", count, text);
    return 1;
}

/* The run has got further, or is not this node's any more. If it is held, the hold is what the log
 * tells of. */
void runner_was_unread(pawl_run *run)
{
    if (!run->slot->unread)
        return;
    run->slot->unread = 0;
    /* RULE L6-a-run-that-is-held-is-not-called-read */
    run_failure_end(run->host->sched, run->lease.run, !runner_is_to_be_held(run));
}
