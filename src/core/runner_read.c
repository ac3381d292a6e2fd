/* What a run wants to know, read on the thread's own stack: the next page of its journal, the names
 * of its attributes, its state, its mail, what has become of other runs.
 *
 * Each is a transaction of its own, on the runner's connection, which lasts as long as the page. */
#include <string.h>

#include "core/attributes.h"
#include "core/drive.h"
#include "core/mail.h"
#include "core/others.h"
#include "core/state.h"

enum { PAGE_ROWS = 256 };

static const db_sql PAGE = {"SELECT seq, kind, op, name, at, data FROM {journal}"
                            " WHERE run = $1 AND generation = $2 AND seq > $3"
                            " ORDER BY seq LIMIT $4",
                            "iiii"};

/* ---- The journal ---- */

static pawl_code read_page(runner *r, pawl_run *run, replay_row *rows, size_t *count, error *err)
{
    db_stmt *s;
    db_value values[] = {db_int(run->hold.run), db_int(run->generation), db_int(run->fed),
                         db_int(PAGE_ROWS)};
    pawl_code rc = db_prepare(r->reader, &PAGE, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && *count < PAGE_ROWS && (step = db_next(s, err)) == DB_ROW) {
        db_value name = db_column(s, 3), data = db_column(s, 5);
        replay_row *row = &rows[(*count)++];
        *row = (replay_row){.seq = db_column(s, 0).i,
                            .generation = run->generation,
                            .kind = db_column(s, 1).i,
                            .op = db_column(s, 2).i,
                            .at_ms = db_column(s, 4).i};
        row->name = (slice){arena_copy(run->page, name.s), name.s.size};
        if (data.type != DB_NULL)
            row->data = (slice){arena_copy(run->page, data.s), data.s.size};
        if (!row->name.at || (data.type != DB_NULL && !row->data.at))
            rc = error_set(err, PAWL_NOMEM, "out of memory");
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(s);
    return rc;
}

pawl_code runner_begin_reading(runner *r, error *err)
{
    pawl_code rc = PAWL_OK;
    if (!r->reader)
        rc = db_connect(r->drive->options.db, DB_READER, &r->reader, err);
    return rc == PAWL_OK ? db_begin(r->reader, err) : rc;
}

static pawl_code read_rows(runner *r, pawl_run *run, replay_row *rows, size_t *count, error *err)
{
    pawl_code rc = runner_begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_page(r, run, rows, count, err);
    db_rollback(r->reader);
    return rc;
}

/* As many as there are, and not as many as there might be: most runs are short. */
static pawl_code give_rows(pawl_run *run, const replay_row *rows, size_t count, error *err)
{
    replay_row *copy = arena_alloc(run->page, count * sizeof *copy);
    if (!copy)
        return error_set(err, PAWL_NOMEM, "out of memory");
    memcpy(copy, rows, count * sizeof *copy);
    replay_feed(run->replay, copy, count);
    return PAWL_OK;
}

/* Feed the next rows. A small input is in the run's row: then the journal has no first row, and one
 * is made up for it. */
static pawl_code feed(runner *r, pawl_run *run, error *err)
{
    replay_row rows[PAGE_ROWS + 1];
    size_t first = 0, count = 0;
    if (!run->page)
        run->page = arena_new(0);
    else
        arena_reset(run->page);
    if (!run->page)
        return error_set(err, PAWL_NOMEM, "out of memory");
    if (run->fed == 0 && run->input) {
        rows[first++] = (replay_row){.seq = 1,
                                     .generation = run->generation,
                                     .kind = OP_STARTED,
                                     .name = SLICE_LIT(""),
                                     .data = slice_of(run->input)};
        run->fed = 1;
    }
    pawl_code rc = run->fresh ? PAWL_OK : read_rows(r, run, rows + first, &count, err);
    if (rc != PAWL_OK)
        return rc;
    if (count > 0)
        run->fed = rows[first + count - 1].seq;
    if (first + count > 0)
        rc = give_rows(run, rows, first + count, err);
    if (rc != PAWL_OK)
        return rc;
    if (count < PAGE_ROWS) {
        run->fed_all = 1;
        replay_fed_all(run->replay, 0);
    }
    run->fresh = 0;
    return PAWL_OK;
}

/* ---- Its attributes ---- */

/* What it has set before is committed, or is being set by this very function. */
static pawl_code read_names(runner *r, pawl_run *run, error *err)
{
    db_stmt *s;
    const db_value key = db_int(run->hold.run);
    pawl_code rc = runner_begin_reading(r, err);
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
    db_rollback(r->reader);
    run->names_known = rc == PAWL_OK;
    if (rc != PAWL_OK)
        run->names = NULL;
    return rc;
}

/* ---- State ---- */

static pawl_code read_state(runner *r, pawl_run *run, error *err)
{
    pawl_code rc = runner_begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = state_read(run, r->reader, err);
    db_rollback(r->reader);
    return rc;
}

/* ---- Whatever it is ---- */

pawl_code runner_read(runner *r, pawl_run *run, error *err)
{
    switch (run->want) {
    case WANT_PAGE:
        return feed(r, run, err);
    case WANT_NAMES:
        return read_names(r, run, err);
    case WANT_STATE:
        return read_state(r, run, err);
    case WANT_MAIL:
        return mail_read(r, run, err);
    case WANT_KEY:
        return keys_next(&r->drive->run_keys, &run->key, err);
    default:
        return others_read(r, run, err);
    }
}
