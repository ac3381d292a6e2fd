/* The SQL of a step. The guard only raises the counter and does not compare it, since that would
 * hide a gap. A step whose row collides raises it too; if the counter stayed raised after its
 * rollback, the ledger would find the run torn. */
#include "support/steps.h"

#include <assert.h>
#include <stdio.h>

static const db_sql GUARD = {"UPDATE {runs} SET claimed_seq = claimed_seq + 1"
                             " WHERE run = $1 AND fence = $2 RETURNING claimed_seq",
                             "ii"};

static const db_sql AGAIN = {"UPDATE {runs} SET updated_at = updated_at + 1"
                             " WHERE run = $1 AND claimed_seq = $2 RETURNING run",
                             "ii"};

static const db_sql WRITE = {"INSERT INTO {journal} (run, generation, seq, kind, name, at, data)"
                             " VALUES ($1, 1, $2, 1, 'step', $3, $4)",
                             "iiib"};

static const db_sql MAKE = {"INSERT INTO {runs} (run, tenant, id, workflow, version,"
                            " created_at, updated_at) VALUES ($1, 'test', $2, 'w', '1', 0, 0)"
                            " ON CONFLICT DO NOTHING",
                            "it"};

static const db_sql LAST = {"SELECT coalesce(max(seq), 0) FROM {journal}"
                            " WHERE run = $1 AND generation = 1",
                            "i"};

unit *step_unit(arena *a, submitter *owner, const step *s)
{
    unit *u = unit_new(a);
    assert(u);
    u->submitter = owner;
    u->class = UNIT_OF_RUN;
    uint64_t key = unit_key("runs", s->run);
    int64_t fence = s->kind == STEP_REFUSED ? 99 : 0;
    int64_t row = s->kind == STEP_COLLIDES ? s->seq - 1 : s->seq;
    const db_value guard[] = {db_int(s->run), db_int(fence)};
    const db_value write[] = {db_int(s->run), db_int(row), db_int(s->mark), db_bytes(s->data)};
    const db_value again[] = {db_int(s->run), db_from(0, 0)};
    unit_guard(u, &GUARD, "turn", key, guard, DB_COUNT(guard));
    if (s->kind == STEP_ORDERED)
        unit_guard(u, &AGAIN, "again", key, again, DB_COUNT(again));
    unit_write(u, &WRITE, key, write, DB_COUNT(write));
    assert(!u->broken_build);
    return u;
}

ledger_entry step_entry(const step *s, const unit *u)
{
    return (ledger_entry){s->run, s->seq, s->mark, (int64_t)u->answer, (int64_t)u->code};
}

pawl_code steps_make_runs(committer *k, int64_t first, int64_t count)
{
    arena *a = arena_new(0);
    pawl_code rc = a ? PAWL_OK : PAWL_NOMEM;
    for (int64_t run = first; run < first + count && rc == PAWL_OK; run++) {
        char id[32];
        int n = snprintf(id, sizeof id, "run-%lld", (long long)run);
        const db_value values[] = {db_int(run), db_text((slice){id, (size_t)n})};
        arena_reset(a);
        unit *u = unit_new(a);
        assert(u);
        unit_write(u, &MAKE, unit_key("runs", run), values, DB_COUNT(values));
        rc = committer_commit(k, u);
    }
    arena_free(a);
    return rc;
}

int64_t steps_last_seq(db_conn *reader, int64_t run)
{
    const db_value values[] = {db_int(run)};
    int64_t last = 0;
    int found = 0;
    error err = {0};
    if (db_begin(reader, &err) != PAWL_OK)
        return -1;
    pawl_code rc = db_number(reader, &LAST, values, 1, &last, &found, &err);
    db_rollback(reader);
    return rc == PAWL_OK && found ? last : -1;
}
