/* Reads what a run waits for.
 *
 * The journal is looked at from its end, and not further than WHY_ROWS: what a run waits for was
 * nearly always asked for last. Answers stand behind their ops, so that on the way back an op whose
 * answer was not met has none. So do the rows that say that nobody waits for some, or for any. */
#include "core/why.h"

#include "base/json.h"
#include "base/map.h"
#include "core/info.h"
#include "core/outcome.h"

enum { DATA_MAX = 64 * 1024 };

static const db_sql RUN = {
    "SELECT run, generation, status, held, held_at, owner, wake_at, claims, claimed_seq,"
    " deadline_at, finished_at, held_reason, workflow, version, error, held_for"
    " FROM {runs} WHERE tenant = $1 AND id = $2",
    "tt"};

static const db_sql ROWS = {"SELECT seq, kind, op, name, CASE WHEN kind = 25 THEN data END"
                            " FROM {journal}"
                            " WHERE run = $1 AND generation = $2 ORDER BY seq DESC LIMIT $3",
                            "iii"};

static const db_sql DATA = {
    "SELECT data FROM {journal}"
    " WHERE run = $1 AND generation = $2 AND seq = $3 AND length(data) < $4",
    "iiii"};

static const db_sql TASK = {
    "SELECT t.owner, t.attempt, t.visible_at, coalesce(q.paused, 0), t.queue, t.tag"
    " FROM {tasks} t LEFT JOIN {queues} q ON q.tenant = t.tenant AND q.queue = t.queue"
    " WHERE t.run = $1 AND t.generation = $2 AND t.op = $3",
    "iii"};

/* Nodes that have the workflow; those that are gone are taken out by whoever sweeps up. */
static const db_sql ABLE = {"SELECT node FROM {offers} WHERE tenant = $1 AND workflow = $2"
                            " AND ($3 = '' OR version = $3) ORDER BY node LIMIT $4",
                            "ttti"};

static const db_sql ARRIVALS = {
    "SELECT count(*) FROM (SELECT 1 FROM {inbox} WHERE run = $1 LIMIT $2) s", "ii"};

typedef struct reading {
    pawl *p;
    slice id;
    db_conn *conn;
    arena *memory;
    why *why;
    map answered; /* seqs of ops; the values mean nothing */
    map attempts; /* seq of an op -> the newest of its failed attempts */
    map able;     /* nodes; likewise */
    int left;     /* the function was left: it waits for nothing before that */
    int64_t cancel_seq;
    int64_t end_seq; /* of the last row, if it is the end */
    why_op *op;      /* whose task is read */
    const char *data;
    int found;
} reading;

/* What is known of the failed attempts of an op before the op itself is met. */
typedef struct attempts {
    int64_t count;
    int64_t seq;
} attempts;

static pawl_code no_memory(error *err)
{
    return error_set(err, PAWL_NOMEM, "out of memory");
}

static const char *copy(reading *r, db_stmt *row, int column)
{
    return arena_copy(r->memory, reader_text(row, column));
}

/* ---- The run ---- */

static pawl_code note_run(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    why *w = r->why;
    r->found = 1;
    w->run = reader_int(row, 0);
    w->generation = reader_int(row, 1);
    w->held = reader_int(row, 3);
    w->phase = info_phase(reader_int(row, 2), w->held);
    w->held_ms = reader_int(row, 4);
    w->owner = reader_int(row, 5);
    w->wake_ms = reader_is_null(row, 6) ? INT64_MIN : reader_int(row, 6);
    w->claims = reader_int(row, 7);
    w->claimed_seq = reader_int(row, 8);
    w->deadline_ms = reader_int(row, 9);
    w->finished_ms = reader_int(row, 10);
    w->held_reason = copy(r, row, 11);
    w->workflow = copy(r, row, 12);
    w->version = copy(r, row, 13);
    r->data = copy(r, row, 14);
    w->held_for = copy(r, row, 15);
    return w->held_reason && w->workflow && w->version && r->data && w->held_for ? PAWL_OK
                                                                                 : no_memory(err);
}

static pawl_code read_run(reading *r, error *err)
{
    const db_value name[] = {db_text(engine_tenant(r->p)), db_text(r->id)};
    pawl_code rc = reader_rows(r->conn, &RUN, name, DB_COUNT(name), note_run, r, err);
    return rc == PAWL_OK && !r->found ? reader_no_run(err) : rc;
}

/* ---- The journal ---- */

static pawl_code note_attempt(reading *r, int64_t op, int64_t seq, error *err)
{
    attempts *a = map_get(&r->attempts, (uint64_t)op);
    if (!a) {
        a = arena_alloc(r->memory, sizeof *a);
        if (!a || map_put(&r->attempts, (uint64_t)op, a) != 0)
            return no_memory(err);
        a->seq = seq;
    }
    a->count++;
    return PAWL_OK;
}

static pawl_code note_open(reading *r, const op_info *op, db_stmt *row, error *err)
{
    int64_t seq = reader_int(row, 0);
    if (r->left || map_get(&r->answered, (uint64_t)seq))
        return PAWL_OK;
    if (r->why->op_count++ >= WHY_OPS)
        return PAWL_OK;
    why_op *o = &r->why->ops[r->why->op_count - 1];
    const attempts *a = map_get(&r->attempts, (uint64_t)seq);
    *o = (why_op){.op = op, .seq = seq, .until_ms = INT64_MIN, .next_ms = INT64_MIN, .error = ""};
    o->attempts = (a ? a->count : 0) + (op->kind == OP_STEP_AGAIN);
    o->attempt_seq = a ? a->seq : op->kind == OP_STEP_AGAIN ? seq : 0;
    o->name = copy(r, row, 3);
    return o->name ? PAWL_OK : no_memory(err);
}

/* The numbers of an array: ops that nobody waits for any more. */
static pawl_code note_abandoned(reading *r, slice ops, error *err)
{
    int64_t op = 0;
    for (size_t i = 0; i < ops.size; i++) {
        int digit = ops.at[i] >= '0' && ops.at[i] <= '9';
        if (digit && op < INT64_MAX / 100)
            op = 10 * op + (ops.at[i] - '0');
        if (!digit && op > 0 && map_put(&r->answered, (uint64_t)op, r) != 0)
            return no_memory(err);
        op = digit ? op : 0;
    }
    return PAWL_OK;
}

static pawl_code note_row(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    const op_info *op = op_find(reader_int(row, 1));
    int64_t of = reader_int(row, 2);
    r->why->rows++;
    if (!op)
        return PAWL_OK;
    if (op->shape == OP_SHAPE_END && r->why->rows == 1)
        r->end_seq = reader_int(row, 0);
    if (op->shape == OP_SHAPE_ANSWER && map_put(&r->answered, (uint64_t)of, r) != 0)
        return no_memory(err);
    if (op->kind == OP_ATTEMPT)
        return note_attempt(r, of, reader_int(row, 0), err);
    if (op->kind == OP_ABANDON)
        return note_abandoned(r, reader_text(row, 4), err);
    r->left |= op->kind == OP_ENDING;
    if (op->kind == OP_CANCEL && r->cancel_seq == 0)
        r->cancel_seq = reader_int(row, 0);
    return op->shape == OP_SHAPE_OPEN ? note_open(r, op, row, err) : PAWL_OK;
}

static pawl_code read_journal(reading *r, error *err)
{
    const db_value values[] = {db_int(r->why->run), db_int(r->why->generation), db_int(WHY_ROWS)};
    return reader_rows(r->conn, &ROWS, values, DB_COUNT(values), note_row, r, err);
}

static pawl_code note_data(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    r->data = copy(r, row, 0);
    return r->data ? PAWL_OK : no_memory(err);
}

/* The data of one row; "" if it is too large to be looked at. */
static pawl_code read_data(reading *r, int64_t seq, error *err)
{
    const db_value values[] = {db_int(r->why->run), db_int(r->why->generation), db_int(seq),
                               db_int(DATA_MAX)};
    r->data = "";
    return reader_rows(r->conn, &DATA, values, DB_COUNT(values), note_data, r, err);
}

/* ---- What an op waits for ---- */

/* "name: message", or whichever of them there is. */
static const char *words_of(reading *r, const outcome_parts *e)
{
    buf b;
    buf_init(&b, DATA_MAX);
    buf_add(&b, e->name);
    if (e->name.size && e->message.size)
        buf_text(&b, ": ");
    buf_add(&b, e->message);
    const char *text = arena_copy(r->memory, slice_of(buf_str(&b)));
    buf_free(&b);
    return text;
}

static pawl_code read_attempt(reading *r, why_op *o, error *err)
{
    outcome_parts e = {0};
    pawl_code rc = o->attempt_seq ? read_data(r, o->attempt_seq, err) : PAWL_OK;
    if (rc != PAWL_OK || !o->attempt_seq)
        return rc;
    o->next_ms = pawl_get_int(r->data, "/next", INT64_MIN);
    if (outcome_read_error(&e, r->memory, slice_of(r->data)) != 0)
        return no_memory(err);
    o->error = words_of(r, &e);
    return o->error ? PAWL_OK : no_memory(err);
}

static pawl_code note_task(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    r->op->task_owner = reader_int(row, 0);
    r->op->task_attempt = reader_int(row, 1);
    r->op->visible_ms = reader_int(row, 2);
    r->op->paused = reader_int(row, 3) != 0;
    r->op->queue = copy(r, row, 4);
    r->op->tag = copy(r, row, 5);
    return r->op->queue && r->op->tag ? PAWL_OK : no_memory(err);
}

static pawl_code read_op(reading *r, why_op *o, error *err)
{
    const db_value key[] = {db_int(r->why->run), db_int(r->why->generation), db_int(o->seq)};
    pawl_code rc = PAWL_OK;
    if (o->op->kind != OP_CALL) { /* whose data is its input */
        rc = read_data(r, o->seq, err);
        o->until_ms = pawl_get_int(r->data, "", pawl_get_int(r->data, "/until", INT64_MIN));
        if (o->until_ms == INT64_MAX) /* for ever */
            o->until_ms = INT64_MIN;
    }
    if (rc == PAWL_OK)
        rc = read_attempt(r, o, err);
    r->op = o;
    return rc == PAWL_OK ? reader_rows(r->conn, &TASK, key, DB_COUNT(key), note_task, r, err) : rc;
}

/* ---- All of it ---- */

/* Why it failed is in its row, or, if it is long, in the last row of the journal. */
static pawl_code read_failure(reading *r, error *err)
{
    outcome_parts e = {0};
    pawl_code rc = PAWL_OK;
    if (!r->data[0] && r->end_seq)
        rc = read_data(r, r->end_seq, err);
    if (rc != PAWL_OK)
        return rc;
    if (outcome_read_error(&e, r->memory, slice_of(r->data)) != 0)
        return no_memory(err);
    r->why->error_name = e.name.at;
    r->why->error = e.message.at;
    r->why->error_where = e.where.at;
    return PAWL_OK;
}

static pawl_code read_cancel(reading *r, error *err)
{
    slice part;
    pawl_code rc = r->cancel_seq ? read_data(r, r->cancel_seq, err) : PAWL_OK;
    if (rc != PAWL_OK || !r->cancel_seq)
        return rc;
    r->why->cancelled = 1;
    if (value_get(r->data, "", &part) == PAWL_STRING)
        r->why->cancel_reason = value_text(r->memory, part);
    return PAWL_OK;
}

static pawl_code note_able(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    return map_put(&r->able, (uint64_t)reader_int(row, 0), r) == 0 ? PAWL_OK : no_memory(err);
}

static pawl_code read_able(reading *r, error *err)
{
    const why *w = r->why;
    const db_value values[] = {db_text(engine_tenant(r->p)), db_text(slice_of(w->workflow)),
                               db_text(slice_of(w->version)), db_int(2 * LOOK_NODES)};
    return reader_rows(r->conn, &ABLE, values, DB_COUNT(values), note_able, r, err);
}

/* Who drives it, or could. */
static pawl_code read_nodes(reading *r, error *err)
{
    why *w = r->why;
    look_nodes nodes = {0};
    pawl_code rc = read_able(r, err);
    if (rc == PAWL_OK)
        rc = look_read_nodes(r->conn, r->memory, INT64_MIN, &nodes, err);
    for (size_t i = 0; rc == PAWL_OK && i < nodes.count; i++) {
        int alive = look_is_alive(r->p, &nodes.at[i], w->now_ms);
        w->nodes_alive += alive;
        w->nodes_able += alive && map_get(&r->able, (uint64_t)nodes.at[i].node);
    }
    if (rc != PAWL_OK || w->owner == 0 || w->owner == INT64_MIN)
        return rc;
    rc = look_read_nodes(r->conn, r->memory, w->owner - 1, &nodes, err);
    if (rc == PAWL_OK && nodes.count > 0 && nodes.at[0].node == w->owner) {
        w->node = nodes.at[0];
        w->node_alive = look_is_alive(r->p, &w->node, w->now_ms);
    }
    return rc;
}

static pawl_code read_all(reading *r, error *err)
{
    why *w = r->why;
    int found;
    pawl_code rc = read_run(r, err);
    if (rc == PAWL_OK)
        rc = read_journal(r, err);
    if (rc == PAWL_OK)
        rc = read_failure(r, err);
    if (rc == PAWL_OK)
        rc = read_cancel(r, err);
    for (size_t i = 0; rc == PAWL_OK && i < w->op_count && i < WHY_OPS; i++)
        rc = read_op(r, &w->ops[i], err);
    const db_value values[] = {db_int(w->run), db_int(WHY_ROWS)};
    if (rc == PAWL_OK)
        rc = reader_numbers(r->conn, &ARRIVALS, values, DB_COUNT(values), &w->arrivals, 1, &found,
                            err);
    return rc == PAWL_OK ? read_nodes(r, err) : rc;
}

pawl_code why_read(pawl *p, slice id, arena *memory, why *out, error *err)
{
    *out = (why){.error_name = "", .error = "", .error_where = "", .cancel_reason = ""};
    reading r = {.p = p, .id = id, .memory = memory, .why = out, .data = ""};
    pawl_code rc = readers_begin_now(engine_readers(p), &r.conn, &out->now_ms, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_all(&r, err);
    readers_end(engine_readers(p), r.conn);
    map_free(&r.answered);
    map_free(&r.attempts);
    map_free(&r.able);
    return rc;
}
