/* Blocks of keys. The counter only ever rises, under the guard of one UPDATE, so that no two
 * engines, and no engine after a crash, are given the same block. */
#include "db/key_block.h"

#include <string.h>

#include "db/world.h"

static const db_sql TAKE_BLOCK = {
    /* RULE A6-blocks-are-given-once */
    "UPDATE {meta} SET number = number + $2 WHERE name = $1 RETURNING number - $2,"
    " (SELECT h.number FROM {meta} h WHERE h.name = 'history')",
    "ti"};

void key_block_init(keys *k, committer *c, const char *name)
{
    *k = (keys){.committer = c, .name = name};
    pthread_mutex_init(&k->lock, NULL);
}

void key_block_free(keys *k)
{
    pthread_mutex_destroy(&k->lock);
}

static pawl_code take_block(keys *k, arena *a, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return error_nomem(err);
    u->class = UNIT_OF_CLIENT;
    db *d = committer_connection(k->committer)->db;
    long long block = atomic_load(&d->world->key_blocks);
    slice name = slice_of(k->name);
    db_value values[] = {db_text(name), db_int(KEYS_BLOCK)};
    unit_guard(u, &TAKE_BLOCK, "counter", unit_key_text("meta", name), values, DB_COUNT(values));
    pawl_code rc = committer_commit(k->committer, u);
    if (rc == PAWL_REFUSED && strcmp(u->refused, "counter") == 0)
        return error_set(err, PAWL_CORRUPT, "the counter %s is missing in the meta table", k->name);
    rc = unit_shut_out(u, rc);
    if (rc != PAWL_OK) {
        error_set(err, rc, "no new keys: %s", pawl_code_text(rc));
        error_detail(err, "%s", u->message ? u->message : "");
        return rc;
    }
    db_value first = unit_rows(u, 0)->values[0];
    if (first.type != DB_INT || first.i < 1 || first.i > INT64_MAX - KEYS_BLOCK)
        return error_set(err, PAWL_CORRUPT, "the counter %s in the meta table is no number",
                         k->name);
    db_value history = unit_rows(u, 0)->values[1];
    if (history.type == DB_INT)
        world_saw_history(d, history.i);
    k->block = block;
    k->next = first.i;
    k->end = k->next + KEYS_BLOCK;
    return PAWL_OK;
}

pawl_code key_block_next(keys *k, int64_t *out, error *err)
{
    pawl_code rc = PAWL_OK;
    pthread_mutex_lock(&k->lock);
    db_world *w = committer_connection(k->committer)->db->world;
    /* RULE L8-keys-of-a-lost-course-are-thrown-away, L8-a-restore-sees-keys-given-twice */
    if (k->next == k->end || k->block != atomic_load(&w->key_blocks)) {
        arena *a = arena_new(0);
        rc = a ? take_block(k, a, err) : error_nomem(err);
        arena_free(a);
    }
    if (rc == PAWL_OK)
        *out = k->next++;
    pthread_mutex_unlock(&k->lock);
    return rc;
}
