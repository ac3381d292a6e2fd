/* The state that the connections of one engine share about rewinds: flags and counters, all atomic.
 * Which row proves what is decided by the driver (sqlite_ring.c, src/pg/pg_proof.c). */
#include "db/world.h"

static const db_sql SET_HISTORY = {"INSERT INTO {meta} (name, number) VALUES ('history', $1)"
                                   /* RULE L8-a-new-history-is-written */
                                   " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                                   "i"};

static const db_sql GET_HISTORY = {"SELECT number FROM {meta} WHERE name = 'history'", ""};

int64_t world_random(void)
{
    uint64_t bits = 0;
    random_source *system = random_system();
    if (system->fill(system, &bits, sizeof bits) != 0)
        return 0;
    bits &= INT64_MAX;
    return bits ? (int64_t)bits : 1;
}

pawl_code world_gone_back(db *d, error *err)
{
    db_world *w = d->world;
    if (!atomic_exchange(&w->back, 1)) {
        atomic_fetch_add(&w->lives, 1);
        atomic_fetch_add(&w->key_blocks, 1);
        LOG(&d->options.log, LOG_ERROR, "database-went-back",
            LOG_TEXT("what", "the database is in an earlier state than this process left it in; "
                             "it begins anew"));
    }
    error_set(err, PAWL_REWOUND, "%s; nothing was written", pawl_code_text(PAWL_REWOUND));
    error_detail(err, "the last transaction that was acknowledged here is not there any more");
    error_hint(err, "look for what was lost between backup and restore; this engine begins anew by "
                    "itself, and the same call may succeed then");
    return PAWL_REWOUND;
}

pawl_code world_enter(db *d, int *anew, error *err)
{
    db_world *w = d->world;
    *anew = 0;
    if (!atomic_load(&w->back))
        return PAWL_OK;
    if (atomic_load(&w->bound)) /* RULE L8-nothing-is-written-while-runs-are-held */
        return world_gone_back(d, err);
    *anew = 1;
    return PAWL_OK;
}

pawl_code world_write_history(db_conn *c, int64_t *history, error *err)
{
    *history = world_random();
    if (*history == 0)
        return error_set(err, PAWL_STORAGE, "the system gives no randomness");
    const db_value value = db_int(*history);
    return db_run(c, &SET_HISTORY, &value, 1, err);
}

void world_begun_anew(db *d, int64_t history)
{
    atomic_store(&d->world->history, history);
    atomic_store(&d->world->back, 0);
}

int world_saw_history(db *d, int64_t history)
{
    int64_t before = atomic_exchange(&d->world->history, history);
    if (before == history || before == 0)
        return 0;
    atomic_fetch_add(&d->world->key_blocks, 1);
    return 1;
}

void world_bind(db *d)
{
    atomic_store(&d->world->bound, 1);
}

void world_unbind(db *d)
{
    atomic_store(&d->world->bound, 0);
}

pawl_code world_look(db_conn *c, error *err)
{
    int64_t history = 0;
    int found = 0;
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, &GET_HISTORY, NULL, 0, &history, &found, err);
    db_rollback(c);
    if (rc == PAWL_OK && found)
        world_saw_history(c->db, history);
    return rc;
}
