/* The history: the journal of a generation, for people and programs, by keyset pagination over seq.
 *
 * Rows may have large data, and a database server sends all rows of an answer at once. So a page is
 * limited in bytes too: the lengths of its rows are read first. */
#include "base/argument.h"
#include "handle/handle.h"
#include "journal/op.h"
#include "query/info.h"

enum {
    PAGE = 256,
    PAGE_BYTES = 1024 * 1024, /* a single row may be larger */
};

struct pawl_event {
    int64_t seq;
    int64_t generation;
    int64_t op;
    int64_t at_ms;
    const char *kind;
    const char *name;
    const char *data;
};

/* The key of the run, its generation, when it was made, and its input if the run's row has it. */
static const db_sql RUN = {
    "SELECT run, generation, created_at, enc, input FROM {runs} WHERE tenant = $1 AND id = $2",
    "tt"};

/* When a generation before the current one began. */
static const db_sql OLDER = {
    "SELECT started_at FROM {generations} WHERE run = $1 AND generation = $2", "ii"};

static const db_sql LENGTHS = {
    "SELECT seq, coalesce(length(data), 0) FROM {journal}"
    " WHERE run = $1 AND generation = $2 AND seq > $3 ORDER BY seq LIMIT $4",
    "iiii"};

static const db_sql EVENTS = {
    "SELECT seq, kind, name, at, enc, data, op FROM {journal}"
    " WHERE run = $1 AND generation = $2 AND seq > $3 AND seq <= $4 ORDER BY seq",
    "iiii"};

typedef struct history {
    pawl *p;
    slice id;
    int64_t run;
    int64_t generation;
    int64_t after_seq;
    arena *memory; /* of the current page */
    pawl_event *events;
    size_t count;
    int found;
    int started; /* 1: the page has the row with which the generation began */
    int ended;

    int64_t last_seq; /* seq of the last row that fits into the bounds of the page */
    int64_t bytes;
    int64_t rows;

    int64_t current; /* the run's current generation */
    int64_t created_ms;
    const char *input; /* input of the current generation; NULL: it is in the journal */
} history;

/* Returns the data of a row as JSON text: "null" for data that is not JSON (enc), or is empty, as
 * of ops that record nothing. */
static const char *json_of(arena *memory, db_stmt *row, int enc)
{
    slice data = read_pool_is_null(row, enc + 1) ? SLICE_LIT("") : read_pool_text(row, enc + 1);
    if (data.size == 0 || read_pool_int(row, enc) != 0) /* RULE history-gives-json */
        return "null";
    return arena_copy(memory, data);
}

/* ---- One page ---- */

static pawl_code note_run(void *arg, db_stmt *row, error *err)
{
    history *h = arg;
    h->found = 1;
    h->run = read_pool_int(row, 0);
    h->current = read_pool_int(row, 1);
    h->created_ms = read_pool_int(row, 2);
    h->input = NULL;
    if (read_pool_is_null(row, 4))
        return PAWL_OK;
    h->input = json_of(h->memory, row, 3);
    return h->input ? PAWL_OK : error_nomem(err);
}

static pawl_code find_run(history *h, db_conn *c, error *err)
{
    const db_value name[] = {db_text(handle_tenant(h->p)), db_text(h->id)};
    int64_t started;
    h->found = 0;
    pawl_code rc = read_pool_rows(c, &RUN, name, DB_COUNT(name), note_run, h, err);
    if (rc == PAWL_OK && !h->found)
        return read_pool_no_run(err);
    if (h->generation == 0)
        h->generation = h->current;
    if (rc != PAWL_OK || h->generation == h->current)
        return rc;
    const db_value key[] = {db_int(h->run), db_int(h->generation)};
    rc = read_pool_numbers(c, &OLDER, key, DB_COUNT(key), &started, 1, &h->found, err);
    if (rc != PAWL_OK || h->found)
        return rc;
    error_set(err, PAWL_NOTFOUND, "the run has no such generation");
    error_detail(err, "generation %lld; the current one is %lld", (long long)h->generation,
                 (long long)h->current);
    error_hint(err, "give 0 for the current one; older ones may have been pruned");
    return PAWL_NOTFOUND;
}

static pawl_code note_length(void *arg, db_stmt *row, error *err)
{
    history *h = arg;
    (void)err;
    int64_t bytes = read_pool_int(row, 1);
    if (h->rows > 0 && (h->bytes < 0 || bytes > PAGE_BYTES - h->bytes)) {
        h->bytes = -1; /* the page is full */
        return PAWL_OK;
    }
    h->bytes = h->bytes + bytes > PAGE_BYTES ? -1 : h->bytes + bytes;
    h->last_seq = read_pool_int(row, 0);
    h->rows++;
    return PAWL_OK;
}

static pawl_code add_event(void *arg, db_stmt *row, error *err)
{
    history *h = arg;
    pawl_event *e = &h->events[h->count];
    const op_info *op = op_find(read_pool_int(row, 1));
    e->seq = read_pool_int(row, 0);
    e->generation = h->generation;
    e->op = read_pool_int(row, 6); /* RULE an-answer-names-its-op */
    e->kind = op ? op->word : "?";
    e->name = arena_copy(h->memory, read_pool_text(row, 2));
    e->at_ms = read_pool_int(row, 3);
    e->data = json_of(h->memory, row, 4);
    if (!e->name || !e->data)
        return error_nomem(err);
    h->count++;
    h->started |= op && op->shape == OP_SHAPE_START;
    return PAWL_OK;
}

static pawl_code read_events(history *h, db_conn *c, error *err)
{
    db_value values[] = {db_int(h->run), db_int(h->generation), db_int(h->after_seq), db_int(PAGE)};
    h->rows = h->bytes = 0;
    pawl_code rc = read_pool_rows(c, &LENGTHS, values, DB_COUNT(values), note_length, h, err);
    if (rc != PAWL_OK)
        return rc;
    h->ended = h->rows < PAGE && h->bytes >= 0;
    h->count = 0;
    h->events = arena_alloc(h->memory, (size_t)(h->rows + 1) * sizeof *h->events);
    if (!h->events)
        return error_nomem(err);
    values[3] = db_int(h->last_seq);
    return h->rows ? read_pool_rows(c, &EVENTS, values, DB_COUNT(values), add_event, h, err)
                   : PAWL_OK;
}

/* Between two pages the generation may have ended, or the run may have been deleted: each page
 * reads the run again. */
static pawl_code read_page(history *h, error *err)
{
    db_conn *c;
    arena_reset(h->memory);
    pawl_code rc = read_pool_begin(handle_read_pool(h->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = find_run(h, c, err);
    if (rc == PAWL_OK)
        rc = read_events(h, c, err);
    read_pool_end(handle_read_pool(h->p), c);
    return rc;
}

/* ---- The history ---- */

/* Makes the event "started" of a generation whose input is small, and therefore in the run's row
 * instead of the journal. No journal row has its seq. */
static int report_start(const history *h, pawl_event_fn *fn, void *arg)
{
    if (h->after_seq != 0 || h->started || h->generation != h->current || !h->input)
        return 0;
    const pawl_event e = {
        .seq = 1,
        .generation = h->generation,
        .at_ms = h->created_ms,
        .kind = op_find(OP_STARTED)->word,
        .name = "",
        .data = h->input,
    };
    return fn(&e, arg);
}

static pawl_code report_page(history *h, pawl_event_fn *fn, void *arg, error *err)
{
    while (!h->ended) {
        pawl_code rc = read_page(h, err);
        if (rc != PAWL_OK)
            return rc;
        if (report_start(h, fn, arg) != 0)
            return PAWL_OK;
        for (size_t i = 0; i < h->count; i++)
            if (fn(&h->events[i], arg) != 0)
                return PAWL_OK;
        h->after_seq = h->last_seq;
    }
    return PAWL_OK;
}

static pawl_code check_arguments(pawl_event_fn *fn, int64_t generation, int64_t after_seq,
                                 error *err)
{
    if (!fn)
        return argument_no_function(err);
    if (generation < 0 || after_seq < 0)
        return error_set(err, PAWL_INVALID, "the %s is negative",
                         generation < 0 ? "generation" : "after_seq");
    return PAWL_OK;
}

pawl_code pawl_history(pawl *p, const char *id, int64_t generation, int64_t after_seq,
                       pawl_event_fn *fn, void *arg)
{
    error err = {0};
    history h = {.p = p, .generation = generation, .after_seq = after_seq};
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = check_arguments(fn, generation, after_seq, &err);
    if (rc == PAWL_OK)
        rc = argument_run_id(id, &h.id, &err);
    if (rc == PAWL_OK && !(h.memory = arena_new(0)))
        rc = error_nomem(&err);
    if (rc == PAWL_OK)
        rc = report_page(&h, fn, arg, &err);
    arena_free(h.memory);
    return handle_leave(p, rc, &err);
}

/* ---- What an event says ---- */

int64_t pawl_event_seq(const pawl_event *e)
{
    return e ? e->seq : 0;
}

int64_t pawl_event_generation(const pawl_event *e)
{
    return e ? e->generation : 0;
}

int64_t pawl_event_op(const pawl_event *e)
{
    return e ? e->op : 0;
}

const char *pawl_event_kind(const pawl_event *e)
{
    return e ? e->kind : "";
}

const char *pawl_event_name(const pawl_event *e)
{
    return e ? e->name : "";
}

int64_t pawl_event_at_ms(const pawl_event *e)
{
    return e ? e->at_ms : 0;
}

const char *pawl_event_data(const pawl_event *e)
{
    return e ? e->data : "null";
}
