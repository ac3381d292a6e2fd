/* Waking runs for which something has arrived. A sender of another process raises `mail` in the row
 * of the run and makes the run due (wake_at). So what was sent is found by one look at the runs of
 * this node that are due, and whose `mail` is more than the run has seen. */
#include "sched/arrival.h"

#include "sched/row_reads.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"

enum { HEAR_MAX = 1000 };

#define ROW "SELECT run, mail, cancel_at, wake_at FROM {runs} WHERE owner = $1"

static const db_sql HEAR = {ROW " AND wake_at <= $2 AND mail > 0 AND (wake_at, run) > ($4, $5)"
                                " ORDER BY wake_at, run LIMIT $3",
                            "iiiii"};
static const db_sql HEAR_ONE = {ROW " AND mail > 0 AND run = $2", "ii"};

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
        atomic_store(&run->cancel_came, 1);
        if (!run->failing) /* clean-ups are not cut short by a cancel, so they keep their place in
                              the queue */
            work_limit_call(s, run);
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

static void take_row(void *arg, db_stmt *row)
{
    tell_run(arg, db_column(row, 0).i, db_column(row, 1).i, db_column(row, 2).type != DB_NULL);
}

/* Reads one page of runs, behind the position. Sets *rows to how many they are. */
static pawl_code hear_page(sched *s, due_keys *at, int *rows, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {db_int(s->node.id), db_int(sched_now_ms(s)), db_int(HEAR_MAX),
                               db_int(at->last_ms), db_int(at->last_run)};
    *rows = 0;
    pawl_code rc = db_prepare(s->looks, &HEAR, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(stmt, err)) == DB_ROW) {
        at->last_run = db_column(stmt, 0).i;
        at->last_ms = db_column(stmt, 3).i;
        take_row(s, stmt);
        ++*rows;
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(stmt);
    return rc;
}

static pawl_code hear_all(sched *s, due_keys *at, error *err)
{
    int rows = 0;
    pawl_code rc = db_begin(s->looks, err);
    if (rc != PAWL_OK)
        return rc;
    do
        rc = hear_page(s, at, &rows, err);
    while (rc == PAWL_OK && rows == HEAR_MAX);
    db_rollback(s->looks);
    return rc;
}

/* Returns 1 if the run is in memory here, so that its row has to be read. If the run is dormant,
 * the next look for dormant runs finds its row. */
static int is_here(sched *s, int64_t key)
{
    sched_lock(s);
    int here = map_get(&s->runs, (uint64_t)key) != NULL;
    if (!here && s->dormant.count > 0 && !run_queue_knows(s, key))
        dormant_anew(s);
    sched_unlock(s);
    return here;
}

/* Reads the rest row by row, since the statement for a whole page has failed. A run whose row
 * cannot be read hears of its arrival when the row can be read again. */
static pawl_code hear_each(sched *s, due_keys *at, error *err)
{
    unread_rows unread = {.count = 0};
    int64_t now_ms = sched_now_ms(s);
    pawl_code rc = PAWL_OK;
    do {
        rc = row_reads_due(s, s->node.id, now_ms, ROW_READS_PAGE, at, err);
        unread.count = 0;
        for (size_t i = 0; rc == PAWL_OK && i < at->count; i++) {
            const db_value values[] = {db_int(s->node.id), db_int(at->at[i])};
            if (!is_here(s, at->at[i]))
                continue;
            rc = row_reads_one(s, &HEAR_ONE, values, DB_COUNT(values), take_row, s, err);
            unread.read += rc == PAWL_OK;
            if (rc != PAWL_OK && row_reads_add(&unread, at->at[i], err))
                rc = PAWL_OK;
        }
        if (rc == PAWL_OK && !row_reads_are_single(&unread, err))
            rc = err->code;
    } while (rc == PAWL_OK && at->count == ROW_READS_PAGE);
    return rc;
}

void arrival_look(sched *s)
{
    error err = {0};
    due_keys at = {.last_ms = INT64_MIN};
    pawl_code rc = hear_all(s, &at, &err);
    /* RULE L4-a-run-that-cannot-be-read-keeps-no-other-from-hearing */
    if (rc != PAWL_OK && row_reads_may_be_of_row(rc))
        rc = hear_each(s, &at, &err);
    if (rc == PAWL_OK)
        look_failure_end(s, LOOK_ARRIVALS);
    else
        look_failure_note(s, LOOK_ARRIVALS, &err);
}
