/* Waking runs for which something has arrived. Other processes write into {inbox} without this one;
 * what they have sent is found by one look at the runs of this node whose mail has grown. */
#include "sched/arrival.h"

#include "sched/unit_retry.h"

enum { HEAR_MAX = 1000 };

static const db_sql HEAR = {"SELECT run, mail, cancel_at, wake_at FROM {runs} WHERE owner = $1"
                            " AND wake_at <= $2 AND mail > 0 AND (wake_at, run) > ($4, $5)"
                            " ORDER BY wake_at, run LIMIT $3",
                            "iiiii"};

/* ---- From this process ---- */

static pawl_run *has_arrived(sched *d, int64_t key)
{
    pawl_run *run = map_get(&d->runs, (uint64_t)key);
    if (run) {
        run->mail.has_more = 1;
        run_queue_nudge(d, run);
    }
    return run;
}

static void wake_for_mail(sched *d, int64_t run)
{
    pthread_mutex_lock(&d->lock);
    has_arrived(d, run);
    pthread_mutex_unlock(&d->lock);
}

void arrival_cancel(sched *d, int64_t key)
{
    pthread_mutex_lock(&d->lock);
    pawl_run *run = has_arrived(d, key);
    if (run) {
        workers_ask_to_stop(d, run);
        unit_retry_release(d, run); /* RULE L5-a-cancel-tries-to-record */
    }
    pthread_mutex_unlock(&d->lock);
}

void arrival_sent(sched *d, int64_t run, int64_t owner)
{
    if (owner && owner == atomic_load(&d->open_node)) {
        wake_for_mail(d, run);
        return;
    }
    pthread_mutex_lock(&d->lock);
    run_queue_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
    sched_hear_others(d);
    sched_tell_others(d);
}

/* ---- From other processes ---- */

static void tell_run(sched *d, int64_t key, int64_t mail, int cancel)
{
    pthread_mutex_lock(&d->lock);
    const pawl_run *run = map_get(&d->runs, (uint64_t)key);
    int news = run && atomic_load(&run->mail.seen) < mail;
    pthread_mutex_unlock(&d->lock);
    if (news && cancel)
        arrival_cancel(d, key);
    else if (news)
        wake_for_mail(d, key);
}

/* One page, behind (*wake_ms, *key). 0: there is no other. */
static int hear_page(sched *d, int64_t *wake_ms, int64_t *key, error *err)
{
    db_stmt *s;
    int rows = 0;
    const db_value values[] = {db_int(d->node.id), db_int(sched_now_ms(d)), db_int(HEAR_MAX),
                               db_int(*wake_ms), db_int(*key)};
    if (db_prepare(d->looks, &HEAR, &s, err) != PAWL_OK)
        return 0;
    int bound = db_bind_all(s, values, DB_COUNT(values), err) == PAWL_OK;
    while (bound && db_next(s, err) == DB_ROW) {
        *key = db_column(s, 0).i;
        *wake_ms = db_column(s, 3).i;
        tell_run(d, *key, db_column(s, 1).i, db_column(s, 2).type != DB_NULL);
        rows++;
    }
    db_reset(s);
    return rows == HEAR_MAX;
}

void arrival_look(sched *d)
{
    error err = {0};
    int64_t wake_ms = INT64_MIN, key = 0;
    if (db_begin(d->looks, &err) != PAWL_OK)
        return;
    while (hear_page(d, &wake_ms, &key, &err))
        continue;
    db_rollback(d->looks);
}
