/* Waking runs for which something has arrived. A sender of another process raises `mail` in the row
 * of the run and makes the run due (wake_at). So what was sent is found by one look at the runs of
 * this node that are due, and whose `mail` is more than the run has seen. */
#include "sched/arrival.h"

#include "sched/sched_internal.h"
#include "sched/unit_retry.h"

enum { HEAR_MAX = 1000 };

static const db_sql HEAR = {"SELECT run, mail, cancel_at, wake_at FROM {runs} WHERE owner = $1"
                            " AND wake_at <= $2 AND mail > 0 AND (wake_at, run) > ($4, $5)"
                            " ORDER BY wake_at, run LIMIT $3",
                            "iiiii"};

/* ---- From this process ---- */

static pawl_run *note_arrival(sched *s, int64_t key)
{
    pawl_run *run = map_get(&s->runs, (uint64_t)key);
    if (run) {
        run->inbox.has_more = 1;
        run_queue_arrived(s, run);
    } else if (s->dormant.count > 0) {
        dormant_call(s, key); /* RULE A2-a-message-wakes-a-dormant-run */
    }
    return run;
}

static void wake_for_arrival(sched *s, int64_t run)
{
    sched_lock(s);
    note_arrival(s, run);
    sched_unlock(s);
}

void arrival_cancel(sched *s, int64_t key)
{
    sched_lock(s);
    pawl_run *run = note_arrival(s, key);
    if (run) {
        workers_ask_to_stop(s, run);
        unit_retry_release(s, run); /* RULE L5-a-cancel-tries-to-record */
    }
    sched_unlock(s);
}

void arrival_sent(sched *s, int64_t run, int64_t owner)
{
    if (owner && owner == atomic_load(&s->open_node)) {
        wake_for_arrival(s, run);
        return;
    }
    sched_lock(s);
    run_queue_call_node_loop(s);
    sched_unlock(s);
    sched_listen(s);
    sched_notify_others(s);
}

/* ---- From other processes ---- */

static void tell_run(sched *s, int64_t key, int64_t mail, int cancel)
{
    sched_lock(s);
    const pawl_run *run = map_get(&s->runs, (uint64_t)key);
    int news = run && atomic_load(&run->inbox.seen) < mail;
    /* RULE A2-a-message-of-another-process-wakes-a-dormant-run */
    if (!run && s->dormant.count > 0 && !run_queue_knows(s, key))
        dormant_anew(s); /* the row of the run is due, so the next look at the dormant runs finds
                            it */
    else if (!run && map_get(&s->coming, (uint64_t)key))
        dormant_call(s, key); /* its row may have been read before this arrival */
    sched_unlock(s);
    if (news && cancel)
        arrival_cancel(s, key);
    else if (news)
        wake_for_arrival(s, key);
}

/* Reads one page of runs, behind (*wake_ms, *key). 0: it was the last page. */
static int hear_page(sched *s, int64_t *wake_ms, int64_t *key, error *err)
{
    db_stmt *stmt;
    int rows = 0;
    const db_value values[] = {db_int(s->node.id), db_int(sched_now_ms(s)), db_int(HEAR_MAX),
                               db_int(*wake_ms), db_int(*key)};
    if (db_prepare(s->looks, &HEAR, &stmt, err) != PAWL_OK)
        return 0;
    int bound = db_bind_all(stmt, values, DB_COUNT(values), err) == PAWL_OK;
    while (bound && db_next(stmt, err) == DB_ROW) {
        *key = db_column(stmt, 0).i;
        *wake_ms = db_column(stmt, 3).i;
        tell_run(s, *key, db_column(stmt, 1).i, db_column(stmt, 2).type != DB_NULL);
        rows++;
    }
    db_reset(stmt);
    return rows == HEAR_MAX;
}

void arrival_look(sched *s)
{
    error err = {0};
    int64_t wake_ms = INT64_MIN, key = 0;
    if (db_begin(s->looks, &err) != PAWL_OK)
        return;
    while (hear_page(s, &wake_ms, &key, &err))
        continue;
    db_rollback(s->looks);
}
