/* The key-value state of a run.
 *
 * The journal has what the run has read and set, and the table {state} has the values for other
 * readers; one unit writes both. The run reads the table only for a key that it has neither set nor
 * read in this generation, and records the value. That value was written by an earlier generation,
 * so that a replay never reads what the run set later. From then on the key is in memory, and
 * reading it again costs no query.
 *
 * Of several values of a key in one unit the last is written: no reader could see the others. */
#include "run/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/text.h"
#include "handle/handle.h"
#include "run/ops.h"

static const db_sql SET = {
    "INSERT INTO {state} (run, key, generation, at, enc, data) VALUES ($1, $2, $3, $4, 0, $5)"
    " ON CONFLICT (run, key) DO UPDATE SET generation = excluded.generation, at = excluded.at,"
    " enc = excluded.enc, data = excluded.data",
    "itiib"};

static const db_sql TAKE_AWAY = {"DELETE FROM {state} WHERE run = $1 AND key = $2", "it"};

static const db_sql OWN = {
    "SELECT data FROM {state} WHERE run = $1 AND key = $2 AND generation < $3", "iti"};

static const db_sql OF = {"SELECT s.data FROM {runs} r JOIN {state} s ON s.run = r.run"
                          " WHERE r.tenant = $1 AND r.id = $2 AND s.key = $3",
                          "ttt"};

static const db_sql READ = {"SELECT s.data FROM {runs} r LEFT JOIN {state} s ON s.run = r.run"
                            " AND s.key = $3 WHERE r.tenant = $1 AND r.id = $2",
                            "ttt"};

/* A key, and the value that the function knows. */
typedef struct known {
    struct known *next; /* another key with the same hash */
    char *value;
    size_t size;
    int64_t written; /* number of the last state_write() that has seen the key */
    char key[];
} known;

/* A value to be written, in the memory of the draft. */
typedef struct setting {
    struct setting *before; /* the value that was set before this one */
    known *of;
    slice value;
    int row; /* number of statements in the unit when it was set */
} setting;

struct run_state {
    map known;      /* hash of a key -> known */
    setting *last;  /* values to be written, the newest first; NULL: none */
    int64_t writes; /* number of calls of state_write() that had something to write */
    const char *of; /* the run whose value is wanted; NULL: this run */
    slice key;      /* the key whose value is wanted */
    slice found;    /* the value that state_read() has found, in the memory of the draft */
};

/* ---- What is known ---- */

static struct run_state *need_state(pawl_run *run)
{
    if (!run->state)
        run->state = calloc(1, sizeof *run->state);
    if (!run->state)
        run_nomem(run);
    return run->state;
}

static known *find_known(pawl_run *run, slice key)
{
    known *k = run->state ? map_get(&run->state->known, unit_key_text("state", key)) : NULL;
    while (k && !slice_equal(slice_of(k->key), key))
        k = k->next;
    return k;
}

static known *add_known(pawl_run *run, slice key)
{
    struct run_state *s = need_state(run);
    uint64_t hash = unit_key_text("state", key);
    known *k = calloc(1, sizeof *k + key.size + 1);
    if (!k)
        run_nomem(run);
    memcpy(k->key, key.at, key.size);
    k->next = map_get(&s->known, hash);
    if (map_put(&s->known, hash, k) != 0) {
        free(k);
        run_nomem(run);
    }
    return k;
}

static known *remember_value(pawl_run *run, slice key, slice value)
{
    known *k = find_known(run, key);
    if (!k)
        k = add_known(run, key);
    char *copy = malloc(value.size + 1);
    if (!copy)
        run_nomem(run);
    memcpy(copy, value.at, value.size);
    copy[value.size] = '\0';
    free(k->value);
    k->value = copy;
    k->size = value.size;
    return k;
}

void state_drop(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t hash;
    void *at;
    if (!run->state)
        return;
    while (map_next(&run->state->known, &cursor, &hash, &at)) {
        for (known *k = at, *next; k; k = next) {
            next = k->next;
            free(k->value);
            free(k);
        }
    }
    map_free(&run->state->known);
    free(run->state);
    run->state = NULL;
}

/* ---- The unit ---- */

static void set_later(pawl_run *run, known *k)
{
    setting *s = arena_alloc(run->draft.arena, sizeof *s);
    slice value = {s ? arena_copy(run->draft.arena, (slice){k->value, k->size}) : NULL, k->size};
    if (!value.at)
        run_nomem(run);
    *s = (setting){run->state->last, k, value, run->draft.unit->count};
    run->state->last = s;
}

static void write_one(pawl_run *run, const setting *s)
{
    uint64_t key = unit_key("state", run->lease.run);
    slice name = {arena_copy(run->draft.arena, slice_of(s->of->key)), strlen(s->of->key)};
    const db_value values[] = {db_int(run->lease.run), db_text(name), db_int(run->generation),
                               db_int(host_now_ms(run->host)), db_bytes(s->value)};
    if (!name.at)
        run->draft.unit->broken_build = 1;
    else if (slice_equal(s->value, SLICE_LIT("null")))
        unit_write(run->draft.unit, &TAKE_AWAY, key, values, 2);
    else
        unit_write(run->draft.unit, &SET, key, values, DB_COUNT(values));
}

/* Writes the newest value of each key, and no earlier one. */
void state_write(pawl_run *run)
{
    struct run_state *s = run->state;
    if (!s || !s->last)
        return;
    s->writes++;
    for (const setting *at = s->last; at; at = at->before) {
        /* RULE A6-of-several-values-of-a-key-the-last-is-written */
        if (at->of->written != s->writes)
            write_one(run, at);
        at->of->written = s->writes;
    }
}

void state_cut(pawl_run *run)
{
    struct run_state *s = run->state;
    while (s && s->last && s->last->row > run->draft.kept)
        s->last = s->last->before;
}

void state_forget(pawl_run *run)
{
    if (run->state)
        run->state->last = NULL;
}

/* ---- Reading the table ---- */

static pawl_code take_value(void *arg, db_stmt *row, error *err)
{
    pawl_run *run = arg;
    slice text = read_pool_text(row, 0);
    run->state->found = (slice){arena_copy(run->draft.arena, text), text.size};
    return run->state->found.at ? PAWL_OK : error_nomem(err);
}

pawl_code state_read(pawl_run *run, db_conn *c, error *err)
{
    struct run_state *s = run->state;
    const db_value own[] = {db_int(run->lease.run), db_text(s->key), db_int(run->generation)};
    const db_value of[] = {db_text(slice_of(run->host->tenant)), db_text(slice_of(s->of)),
                           db_text(s->key)};
    s->found = SLICE_LIT("null");
    if (s->of)
        return read_pool_rows(c, &OF, of, DB_COUNT(of), take_value, run, err);
    return read_pool_rows(c, &OWN, own, DB_COUNT(own), take_value, run, err);
}

/* Has the runner read the value from the table. `of` is the id of another run; NULL: this run. */
static slice read_table(pawl_run *run, const char *of, slice key)
{
    struct run_state *s = need_state(run);
    s->of = of;
    s->key = key;
    run_ask(run, WANT_STATE);
    return s->found;
}

/* ---- Ops ---- */

static slice check_key(pawl_run *run, const char *key)
{
    slice name = ops_name(run, key, "key of the state");
    if (name.size == 0)
        run_trouble(run, PAWL_INVALID, "the key of the state is empty");
    return name;
}

pawl_code pawl_state_set(pawl_run *run, const char *key, const char *value)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    const replay_row *row;
    slice name = check_key(run, key);
    slice json = ops_json(run, value, "value of the state", key);
    if (journal_op(run, OP_STATE_SET, name, &row) == REPLAY_RECORDED) {
        remember_value(run, name, row->data);
        return PAWL_OK;
    }
    known *k = remember_value(run, name, json);
    journal_record(run, OP_STATE_SET, name, json);
    set_later(run, k);
    return PAWL_OK;
}

const char *pawl_state_get(pawl_run *run, const char *key)
{
    if (!run_is_inside(run))
        return NULL;
    const replay_row *row;
    slice name = check_key(run, key);
    known *k = find_known(run, name);
    if (!k && journal_op(run, OP_STATE_GET, name, &row) == REPLAY_RECORDED)
        k = remember_value(run, name, row->data);
    if (!k) {
        k = remember_value(run, name, read_table(run, NULL, name));
        journal_record(run, OP_STATE_GET, name, (slice){k->value, k->size});
    }
    return run_text(run, (slice){k->value, k->size});
}

/* Returns "ID/KEY" as the name of the op, so that a replay notices if the code asks for another run
 * or key. */
static slice full_name(pawl_run *run, const char *id, slice key)
{
    size_t size = strlen(id);
    char *name = run_alloc(run, size + key.size + 2);
    memcpy(name, id, size);
    name[size] = '/';
    memcpy(name + size + 1, key.at, key.size);
    return (slice){name, size + 1 + key.size};
}

const char *pawl_state_of(pawl_run *run, const char *id, const char *key)
{
    if (!run_is_inside(run))
        return NULL;
    const replay_row *row;
    error err = {0};
    slice name = check_key(run, key);
    if (!id || !*id || text_check(slice_of(id), PAWL_MAX_ID, "id of the run", &err) != PAWL_OK)
        run_trouble(run, id && *id ? err.code : PAWL_INVALID, "%s",
                    id && *id ? err.message : "the id of the run is empty");
    if (strcmp(id, run->id) == 0)
        return pawl_state_get(run, key);
    slice full = full_name(run, id, name);
    if (journal_op(run, OP_STATE_OF, full, &row) == REPLAY_RECORDED)
        return run_text(run, row->data);
    const char *value = run_text(run, read_table(run, id, name));
    journal_record(run, OP_STATE_OF, full, slice_of(value));
    return value;
}

/* ---- From outside ---- */

typedef struct found_value {
    int run;    /* 1: the run exists */
    char *text; /* the value of the key; NULL: none */
} found_value;

static pawl_code copy_value(void *arg, db_stmt *row, error *err)
{
    found_value *v = arg;
    slice text = read_pool_text(row, 0);
    v->run = 1;
    if (read_pool_is_null(row, 0))
        return PAWL_OK;
    v->text = calloc(1, text.size + 1);
    if (!v->text)
        return error_nomem(err);
    memcpy(v->text, text.at, text.size);
    return PAWL_OK;
}

static pawl_code read_value(pawl *p, slice id, slice key, found_value *v, error *err)
{
    db_conn *c;
    const db_value values[] = {db_text(handle_tenant(p)), db_text(id), db_text(key)};
    pawl_code rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_rows(c, &READ, values, DB_COUNT(values), copy_value, v, err);
    read_pool_end(handle_read_pool(p), c);
    if (rc != PAWL_OK || v->text)
        return rc;
    return v->run ? error_set(err, PAWL_NOTFOUND, "the run has no such key in its state")
                  : read_pool_no_run(err);
}

static pawl_code read_state(pawl *p, const char *id, const char *key, char **out, error *err)
{
    slice name;
    found_value v = {0};
    pawl_code rc = argument_run_id(id, &name, err);
    if (rc == PAWL_OK && (!key || !*key))
        rc = error_set(err, PAWL_INVALID, "the key of the state is empty");
    if (rc == PAWL_OK)
        rc = text_check(slice_of(key), PAWL_MAX_NAME, "key of the state", err);
    if (rc == PAWL_OK)
        rc = read_value(p, name, slice_of(key), &v, err);
    *out = v.text;
    return rc;
}

pawl_code pawl_read_state(pawl *p, const char *id, const char *key, char **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = out ? read_state(p, id, key, out, &err) : argument_no_place(&err);
    return handle_leave(p, rc, &err);
}
