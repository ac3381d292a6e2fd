/* Reads why a run does not go on.
 *
 * The journal is read backwards from its end, WHY_ROWS rows at most, since a run nearly always
 * waits for one of its last ops. The answer of an op has a row behind the row of the op, and so has
 * the cancel of its future. So an op has no answer yet if its row is read before any such row. */
#include "query/why.h"

#include "base/json.h"
#include "base/map.h"
#include "journal/outcome.h"
#include "query/info.h"
#include "rows/run_units.h"

enum { DATA_MAX = 64 * 1024 };

static const db_sql RUN = {
    "SELECT run, generation, phase, held, held_at, owner, wake_at, claims, claimed_seq,"
    " deadline_at, finished_at, held_reason, workflow, version, error, held_for, cancel_at,"
    " trouble, trouble_at, marked, fence FROM {runs} WHERE tenant = $1 AND id = $2",
    "tt"};

static const db_sql ROWS = {"SELECT seq, kind, op, name,"
                            " CASE WHEN kind = {OP_FUTURE_CANCEL} THEN data END"
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

/* The nodes that have registered the workflow. A takeover deletes the rows of dead nodes. */
static const db_sql ABLE = {"SELECT node FROM {offers} WHERE tenant = $1 AND workflow = $2"
                            " AND ($3 = '' OR version = $3) ORDER BY node LIMIT $4",
                            "ttti"};

/* The condition on messages is redundant: it lets the database use the partial index that leaves
 * out messages. */
static const db_sql CANCEL = {"SELECT CASE WHEN length(data) < $2 THEN data END FROM {inbox}"
                              " WHERE run = $1 AND kind <> {INBOX_MESSAGE}"
                              " AND kind = {INBOX_CANCEL}",
                              "ii"};

static const db_sql CHILD = {"SELECT id, phase, held, held_reason FROM {runs} WHERE run = $1", "i"};

static const db_sql ARRIVALS = {
    "SELECT count(*) FROM (SELECT 1 FROM {inbox} WHERE run = $1 LIMIT $2) s", "ii"};

/* Transactions of other programs that keep the row of the run locked. */
static const db_sql LOCKER = {
    "SELECT process, since FROM {RUN_LOCKERS} AS l WHERE run = $1 LIMIT 1", "i"};

typedef struct reading {
    pawl *p;
    slice id;
    db_conn *conn;
    arena *memory;
    why *why;
    map answered;   /* set of the seqs of ops that have an answer */
    map attempts;   /* seq of an op -> its failed attempts */
    map node_ready; /* set of the nodes that have the workflow */
    int left; /* 1: a row OP_ENDING was read: the function has ended, and the run does not wait for
                 earlier ops */
    int64_t end_seq; /* seq of the last row, if that row ends the run */
    why_op *op;      /* the op whose task or child is being read */
    const char *data;
    int found;
} reading;

/* The failed attempts of an op: their number, and the seq of the last one. Their rows are read
 * before the row of the op. */
typedef struct attempts {
    int64_t count;
    int64_t seq;
} attempts;

static const char *copy_text(reading *r, db_stmt *row, int column)
{
    return arena_copy(r->memory, read_pool_text(row, column));
}

/* ---- The run ---- */

static pawl_code note_run(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    why *w = r->why;
    r->found = 1;
    w->run = read_pool_int(row, 0);
    w->generation = read_pool_int(row, 1);
    w->held = read_pool_int(row, 3);
    w->phase = info_phase(read_pool_int(row, 2), w->held);
    w->failing = read_pool_int(row, 2) == PHASE_FAILING;
    w->held_ms = read_pool_int(row, 4);
    w->owner = read_pool_int(row, 5);
    w->wake_ms = read_pool_is_null(row, 6) ? INT64_MIN : read_pool_int(row, 6);
    w->claims = read_pool_int(row, 7);
    w->claimed_seq = read_pool_int(row, 8);
    w->deadline_ms = read_pool_int(row, 9);
    w->finished_ms = read_pool_int(row, 10);
    w->held_reason = copy_text(r, row, 11);
    w->workflow = copy_text(r, row, 12);
    w->version = copy_text(r, row, 13);
    r->data = copy_text(r, row, 14);
    w->held_for = copy_text(r, row, 15);
    w->cancel_ms = read_pool_is_null(row, 16) ? 0 : read_pool_int(row, 16);
    w->trouble = copy_text(r, row, 17);
    w->trouble_ms = read_pool_int(row, 18);
    w->is_marked = read_pool_int(row, 19) != 0 && read_pool_int(row, 19) == read_pool_int(row, 20);
    return w->held_reason && w->workflow && w->version && r->data && w->held_for && w->trouble
               ? PAWL_OK
               : error_nomem(err);
}

static pawl_code read_run(reading *r, error *err)
{
    const db_value name[] = {db_text(handle_tenant(r->p)), db_text(r->id)};
    pawl_code rc = read_pool_rows(r->conn, &RUN, name, DB_COUNT(name), note_run, r, err);
    return rc == PAWL_OK && !r->found ? read_pool_no_run(err) : rc;
}

/* ---- The journal ---- */

static pawl_code note_attempt(reading *r, int64_t op, int64_t seq, error *err)
{
    attempts *a = map_get(&r->attempts, (uint64_t)op);
    if (!a) {
        a = arena_alloc(r->memory, sizeof *a);
        if (!a || map_put(&r->attempts, (uint64_t)op, a) != 0)
            return error_nomem(err);
        a->seq = seq;
    }
    a->count++;
    return PAWL_OK;
}

static pawl_code note_open(reading *r, const op_info *op, db_stmt *row, error *err)
{
    int64_t seq = read_pool_int(row, 0);
    /* RULE a-failing-run-waits-for-its-clean-ups-only */
    if (r->why->failing && op->kind != OP_CLEAN_UP)
        return PAWL_OK;
    if (r->left || map_get(&r->answered, (uint64_t)seq))
        return PAWL_OK;
    if (r->why->op_count++ >= WHY_OPS)
        return PAWL_OK;
    why_op *o = &r->why->ops[r->why->op_count - 1];
    const attempts *a = map_get(&r->attempts, (uint64_t)seq);
    *o = (why_op){.op = op, .seq = seq, .until_ms = INT64_MIN, .next_ms = INT64_MIN, .error = ""};
    o->attempts = (a ? a->count : 0) + (op->kind == OP_STEP_AGAIN);
    o->attempt_seq = a ? a->seq : op->kind == OP_STEP_AGAIN ? seq : 0;
    o->name = copy_text(r, row, 3);
    return o->name ? PAWL_OK : error_nomem(err);
}

/* Reads an array of numbers, the seqs of the ops whose futures were cancelled, and counts these ops
 * as answered. */
static pawl_code note_cancelled(reading *r, slice ops, error *err)
{
    int64_t op = 0;
    for (size_t i = 0; i < ops.size; i++) {
        int digit = ops.at[i] >= '0' && ops.at[i] <= '9';
        if (digit && op < INT64_MAX / 100)
            op = 10 * op + (ops.at[i] - '0');
        if (!digit && op > 0 && map_put(&r->answered, (uint64_t)op, r) != 0)
            return error_nomem(err);
        op = digit ? op : 0;
    }
    return PAWL_OK;
}

static pawl_code note_row(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    const op_info *op = op_find(read_pool_int(row, 1));
    int64_t of = read_pool_int(row, 2);
    if (r->why->rows++ == 0)
        r->why->last_seq = read_pool_int(row, 0);
    if (!op)
        return PAWL_OK;
    if (op->shape == OP_SHAPE_END && r->why->rows == 1)
        r->end_seq = read_pool_int(row, 0);
    if (op->shape == OP_SHAPE_ANSWER && map_put(&r->answered, (uint64_t)of, r) != 0)
        return error_nomem(err);
    if (op->kind == OP_ATTEMPT)
        return note_attempt(r, of, read_pool_int(row, 0), err);
    if (op->kind == OP_FUTURE_CANCEL)
        return note_cancelled(r, read_pool_text(row, 4), err);
    r->left |= op->kind == OP_ENDING;
    return op->shape == OP_SHAPE_OPEN ? note_open(r, op, row, err) : PAWL_OK;
}

static pawl_code read_journal(reading *r, error *err)
{
    const db_value values[] = {db_int(r->why->run), db_int(r->why->generation), db_int(WHY_ROWS)};
    return read_pool_rows(r->conn, &ROWS, values, DB_COUNT(values), note_row, r, err);
}

static pawl_code note_data(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    r->data = copy_text(r, row, 0);
    return r->data ? PAWL_OK : error_nomem(err);
}

/* Reads the data of one row; "" if it is too large. */
static pawl_code read_data(reading *r, int64_t seq, error *err)
{
    const db_value values[] = {db_int(r->why->run), db_int(r->why->generation), db_int(seq),
                               db_int(DATA_MAX)};
    r->data = "";
    return read_pool_rows(r->conn, &DATA, values, DB_COUNT(values), note_data, r, err);
}

/* ---- What an op waits for ---- */

/* Writes "name: message", or the one of them that is not empty. */
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
    if (o->attempt_seq == o->seq && pawl_get_int(r->data, "/attempts", 1) == 0) {
        o->attempts = 0; /* the step was recorded, and not begun */
        return PAWL_OK;
    }
    o->next_ms = pawl_get_int(r->data, "/next", INT64_MIN);
    if (outcome_read_error(&e, r->memory, slice_of(r->data)) != 0)
        return error_nomem(err);
    o->error = words_of(r, &e);
    return o->error ? PAWL_OK : error_nomem(err);
}

static pawl_code note_task(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    r->op->task_owner = read_pool_int(row, 0);
    r->op->task_attempt = read_pool_int(row, 1);
    r->op->visible_ms = read_pool_int(row, 2);
    r->op->paused = read_pool_int(row, 3) != 0;
    r->op->queue = copy_text(r, row, 4);
    r->op->tag = copy_text(r, row, 5);
    return r->op->queue && r->op->tag ? PAWL_OK : error_nomem(err);
}

static pawl_code note_child(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    int64_t held = read_pool_int(row, 2);
    r->op->child = copy_text(r, row, 0);
    r->op->child_phase = info_phase(read_pool_int(row, 1), held);
    r->op->child_held =
        held && read_pool_is_null(row, 3) ? info_held_word(held) : copy_text(r, row, 3);
    return r->op->child && r->op->child_held ? PAWL_OK : error_nomem(err);
}

/* Reads the child of an op. read_data() has read the data of the op last, which has the key of the
 * child. */
static pawl_code read_child(reading *r, why_op *o, error *err)
{
    const db_value key = db_int(pawl_get_int(r->data, "/run", 0));
    r->op = o;
    return read_pool_rows(r->conn, &CHILD, &key, 1, note_child, r, err);
}

static pawl_code read_op(reading *r, why_op *o, error *err)
{
    const db_value key[] = {db_int(r->why->run), db_int(r->why->generation), db_int(o->seq)};
    pawl_code rc = PAWL_OK;
    if (o->op->kind != OP_CALL) { /* the data of a call is its input */
        rc = read_data(r, o->seq, err);
        o->until_ms = pawl_get_int(r->data, "", pawl_get_int(r->data, "/until", INT64_MIN));
        if (o->until_ms == INT64_MAX) /* it waits for ever */
            o->until_ms = INT64_MIN;
    }
    if (rc == PAWL_OK && o->op->kind == OP_CHILD)
        rc = read_child(r, o, err);
    if (rc == PAWL_OK)
        rc = read_attempt(r, o, err);
    r->op = o;
    return rc == PAWL_OK ? read_pool_rows(r->conn, &TASK, key, DB_COUNT(key), note_task, r, err)
                         : rc;
}

/* ---- All of it ---- */

/* Reads the failure of the run, which is in the run's row or, if it is long, in the last row of the
 * journal. */
static pawl_code read_failure(reading *r, error *err)
{
    outcome_parts e = {0};
    pawl_code rc = PAWL_OK;
    if (!r->data[0] && r->end_seq)
        rc = read_data(r, r->end_seq, err);
    if (rc != PAWL_OK)
        return rc;
    if (outcome_read_error(&e, r->memory, slice_of(r->data)) != 0)
        return error_nomem(err);
    r->why->error_name = e.name.at;
    r->why->error = e.message.at;
    r->why->error_where = e.where.at;
    return PAWL_OK;
}

static pawl_code note_cancel(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    r->why->cancel_waits = 1;
    return note_data(arg, row, err);
}

static pawl_code read_cancel(reading *r, error *err)
{
    slice part;
    const db_value values[] = {db_int(r->why->run), db_int(DATA_MAX)};
    r->data = "";
    if (!r->why->cancel_ms)
        return PAWL_OK;
    pawl_code rc = read_pool_rows(r->conn, &CANCEL, values, DB_COUNT(values), note_cancel, r, err);
    if (rc != PAWL_OK || value_get(r->data, "", &part) != PAWL_STRING)
        return rc;
    r->why->cancel_reason = value_text(r->memory, part);
    return r->why->cancel_reason ? PAWL_OK : error_nomem(err);
}

static pawl_code note_able(void *arg, db_stmt *row, error *err)
{
    reading *r = arg;
    return map_put(&r->node_ready, (uint64_t)read_pool_int(row, 0), r) == 0 ? PAWL_OK
                                                                            : error_nomem(err);
}

static pawl_code read_able(reading *r, error *err)
{
    const why *w = r->why;
    const db_value values[] = {db_text(handle_tenant(r->p)), db_text(slice_of(w->workflow)),
                               db_text(slice_of(w->version)), db_int(2 * LOOK_NODES)};
    return read_pool_rows(r->conn, &ABLE, values, DB_COUNT(values), note_able, r, err);
}

/* Counts a live node that has the run's workflow. */
static void count_node(why *w, const inspect_node *n)
{
    int is_unable = n->unable[0] != 0; /* RULE L6-why-tells-of-a-node-that-cannot-execute */
    w->nodes_able += !is_unable;
    if (is_unable && w->nodes_unable++ == 0)
        w->unable = *n;
}

/* Reads the node that owns the run, and counts the nodes that could drive it. */
static pawl_code read_nodes(reading *r, error *err)
{
    why *w = r->why;
    inspect_nodes nodes = {0};
    pawl_code rc = read_able(r, err);
    if (rc == PAWL_OK)
        rc = inspect_read_nodes(r->conn, r->memory, INT64_MIN, &nodes, err);
    for (size_t i = 0; rc == PAWL_OK && i < nodes.count; i++) {
        /* RULE L6-a-node-that-stands-still-is-no-live-node */
        int alive = inspect_is_alive(r->p, &nodes.at[i], w->now_ms) &&
                    inspect_still_ms(r->p, &nodes.at[i], w->now_ms) <= 0;
        w->nodes_alive += alive;
        if (alive && map_get(&r->node_ready, (uint64_t)nodes.at[i].node))
            count_node(w, &nodes.at[i]);
    }
    if (rc != PAWL_OK || w->owner == 0 || w->owner == INT64_MIN)
        return rc;
    rc = inspect_read_nodes(r->conn, r->memory, w->owner - 1, &nodes, err);
    if (rc == PAWL_OK && nodes.count > 0 && nodes.at[0].node == w->owner) {
        w->node = nodes.at[0];
        w->node_alive = inspect_is_alive(r->p, &w->node, w->now_ms);
        w->node_still_ms = inspect_still_ms(r->p, &w->node, w->now_ms);
    }
    return rc;
}

/* Reads which transaction keeps the run's row locked. An error (the role may not see locks) is
 * ignored. To be called last, since an error ends the transaction. */
static void read_locker(reading *r)
{
    error ignored = {0};
    int64_t locker[2] = {0};
    int found = 0;
    const db_value run[] = {db_int(r->why->run)};
    pawl_code rc =
        read_pool_numbers(r->conn, &LOCKER, run, DB_COUNT(run), locker, 2, &found, &ignored);
    /* RULE L6-why-tells-of-a-transaction-that-keeps-the-row-locked */
    r->why->is_locked = rc == PAWL_OK && found;
    r->why->locker = locker[0];
    r->why->locker_ms = locker[1];
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
        rc = read_pool_numbers(r->conn, &ARRIVALS, values, DB_COUNT(values), &w->arrivals, 1,
                               &found, err);
    if (rc == PAWL_OK)
        rc = read_nodes(r, err);
    if (rc == PAWL_OK)
        read_locker(r);
    return rc;
}

pawl_code why_read(pawl *p, slice id, arena *memory, why *out, error *err)
{
    *out = (why){.error_name = "", .error = "", .error_where = "", .cancel_reason = ""};
    reading r = {.p = p, .id = id, .memory = memory, .why = out, .data = ""};
    pawl_code rc = read_pool_begin_now(handle_read_pool(p), &r.conn, &out->now_ms, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_all(&r, err);
    read_pool_end(handle_read_pool(p), r.conn);
    int64_t owner = out->phase == PAWL_RUN_LIVE ? out->owner : -1;
    if (rc == PAWL_OK)
        handle_unrecorded(p, out->run, owner, out->kept, sizeof out->kept);
    map_free(&r.answered);
    map_free(&r.attempts);
    map_free(&r.node_ready);
    return rc;
}
