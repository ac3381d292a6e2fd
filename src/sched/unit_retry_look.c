/* Looking at the units that are kept (unit_retry.h): what other processes release, what a node that
 * leaves tries once more, and what is told of them. */
#include "base/text.h"
#include "sched/kept.h"
#include "sched/sched_internal.h"

/* ---- Released by other processes ---- */

static const db_sql HELD = {
    "SELECT run FROM {runs} WHERE held <> 0 AND held = {HELD_RECORD} AND owner = $1 AND run > $2"
    " ORDER BY run LIMIT 256",
    "ii"};

/* Marks the runs whose rows say that they are held. 0: the rows could not be read. */
static int see_held(sched *s, int64_t look)
{
    db_stmt *stmt;
    error err = {0};
    int64_t after = 0;
    int rows;
    db_step step = DB_DONE;
    do {
        const db_value values[] = {db_int(s->node.id), db_int(after)};
        rows = 0;
        if (db_prepare(s->looks, &HELD, &stmt, &err) != PAWL_OK ||
            db_bind_all(stmt, values, DB_COUNT(values), &err) != PAWL_OK)
            return 0;
        while ((step = db_next(stmt, &err)) == DB_ROW) {
            after = db_column(stmt, 0).i;
            rows++;
            sched_lock(s);
            pawl_run *run = map_get(&s->runs, (uint64_t)after);
            if (run && run->slot->failure)
                run->slot->failure->seen = look;
            sched_unlock(s);
        }
        db_reset(stmt);
    } while (rows == 256 && step == DB_DONE);
    return step == DB_DONE;
}

/* Marks the runs that were held before this look, for see_held(). With the lock held. */
static int mark_held(sched *s, int64_t look)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    int count = 0;
    while (map_next(&s->runs, &cursor, &key, &at)) {
        const pawl_run *run = at;
        if (run->slot->keeps != KEPT_HELD)
            continue;
        run->slot->failure->seen = -look;
        count++;
    }
    return count;
}

static void release_unseen(sched *s, int64_t look)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    while (map_next(&s->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        if (run->slot->keeps == KEPT_HELD && run->slot->failure->seen == -look)
            unit_retry_release(s, run);
    }
}

void unit_retry_look(sched *s)
{
    error err = {0};
    int64_t look = ++s->unit_retry_looks;
    sched_lock(s);
    int some = s->unit_retry_held > 0 && mark_held(s, look);
    sched_unlock(s);
    if (!some || db_begin(s->looks, &err) != PAWL_OK)
        return;
    int seen = see_held(s, look);
    db_rollback(s->looks);
    sched_lock(s);
    if (seen)
        release_unseen(s, look);
    sched_unlock(s);
}

/* ---- Leaving ---- */

int unit_retry_wants_try(const pawl_run *run)
{
    const struct kept *k = run->slot->failure;
    /* RULE L7-a-step-that-was-rolled-back-waits-over-a-finish */
    if (k && k->undone && (run->slot->keeps == KEPT_WAITS || run->slot->keeps == KEPT_HELD))
        return 0; /* there is nothing to record: the function would have to be executed again */
    if (run->slot->keeps == KEPT_HELD)
        return k->released;
    return run->slot->keeps != KEPT_NOT;
}

void unit_retry_release_all(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    sched_lock(s);
    while (s->unit_retry_held > 0 && map_next(&s->runs, &cursor, &key, &at))
        unit_retry_release(s, at);
    sched_unlock(s);
}

int unit_retry_words(sched *s, int64_t key, char *out, size_t size)
{
    buf b;
    buf_init_fixed(&b, out, size);
    sched_lock(s);
    const pawl_run *run = map_get(&s->runs, (uint64_t)key);
    const struct kept *k = run ? run->slot->failure : NULL;
    if (k)
        buf_printf(&b, "%s %s %s: %s: %s", k->undone ? "the transaction of" : "the result of",
                   k->what, k->undone ? "was rolled back" : "is not recorded",
                   pawl_code_name(k->code), k->words);
    sched_unlock(s);
    text_drop_empty_parts(out);
    return k != NULL;
}
