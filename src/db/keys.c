/* Blocks of keys. The counter only ever rises, under the guard of one UPDATE, so that no two
 * engines, and no engine after a crash, are given the same block. */
#include "db/keys.h"

static const db_sql TAKE_BLOCK = {
    "UPDATE {meta} SET number = number + $2 WHERE name = $1 RETURNING number - $2", "ti"};

void keys_init(keys *k, committer *c, const char *name)
{
    *k = (keys){.committer = c, .name = name};
    pthread_mutex_init(&k->lock, NULL);
}

void keys_free(keys *k)
{
    pthread_mutex_destroy(&k->lock);
}

static pawl_code take_block(keys *k, arena *a, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return error_set(err, PAWL_NOMEM, "out of memory");
    u->class = UNIT_OF_CLIENT;
    slice name = slice_of(k->name);
    db_value values[] = {db_text(name), db_int(KEYS_BLOCK)};
    unit_guard(u, &TAKE_BLOCK, "counter", unit_key_text("meta", name), values, DB_COUNT(values));
    pawl_code rc = committer_commit(k->committer, u);
    if (rc == PAWL_REFUSED)
        return error_set(err, PAWL_CORRUPT, "the counter %s is missing in the meta table", k->name);
    if (rc != PAWL_OK) {
        error_set(err, rc, "no new keys: %s", pawl_code_text(rc));
        error_detail(err, "%s", u->message ? u->message : "");
        return rc;
    }
    db_value first = unit_rows(u, 0)->values[0];
    if (first.type != DB_INT || first.i < 1 || first.i > INT64_MAX - KEYS_BLOCK)
        return error_set(err, PAWL_CORRUPT, "the counter %s in the meta table is no number",
                         k->name);
    k->next = first.i;
    k->end = k->next + KEYS_BLOCK;
    return PAWL_OK;
}

pawl_code keys_next(keys *k, int64_t *out, error *err)
{
    pawl_code rc = PAWL_OK;
    pthread_mutex_lock(&k->lock);
    if (k->next == k->end) {
        arena *a = arena_new(0);
        rc = a ? take_block(k, a, err) : error_set(err, PAWL_NOMEM, "out of memory");
        arena_free(a);
    }
    if (rc == PAWL_OK)
        *out = k->next++;
    pthread_mutex_unlock(&k->lock);
    return rc;
}
