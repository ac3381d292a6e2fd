/* Leading: one batch of the queue, its answers, and what to do when there is none. Everything here
 * is called with the committer's lock held, and comes back with it.
 *
 * After a failure (the database locked, a commit undecided) nothing is tried before `retry_ns`,
 * with a back-off that doubles. */
#include "db/lead.h"

#include <assert.h>

#include "db/batch.h"

enum { RETRY_MS_MIN = 1, RETRY_MS_MAX = 500 };

int64_t lead_now_ns(committer *k)
{
    return k->clock->mono_ns(k->clock);
}

/* ---- Waking ---- */

int lead_has_work(const committer *k)
{
    return k->queue.head || k->undecided || k->unsettled;
}

static void wake_helper(committer *k)
{
    k->helper_wanted = 1;
    if (k->helper_runs)
        pthread_cond_signal(&k->helper_cond);
}

/* Somebody should lead, if there is anything to do: one who waits anyway, or else the helper. */
void lead_hand_on(committer *k)
{
    if (!lead_has_work(k))
        return;
    if (!waiters_ask_one(&k->waiters))
        wake_helper(k);
}

/* ---- Answers ---- */

/* Take the unit off its share's account: it is no longer the committer's. Rule 2: once. */
static void settle_account(committer *k, const unit *u)
{
    k->stats.committed += u->answer == UNIT_COMMITTED;
    k->stats.refused += u->answer == UNIT_REFUSED;
    k->stats.failed += u->answer == UNIT_FAILED;
    queue_settle(&k->queue, u);
}

void lead_call_done(unit *u)
{
    if (u->done)
        u->done(u, u->done_arg);
}

/* Give a list of units their final answer. Called by the leader with the lock held; lets go of it
 * while strangers' functions run. After `done`, and after its waiter was told, a unit may be gone
 * already. */
void lead_deliver(committer *k, unit *list)
{
    if (!list)
        return;
    for (unit *u = list; u; u = u->next) {
        settle_account(k, u);
        if (u->waiter)
            waiters_remove(&k->waiters, u->waiter);
    }
    pthread_mutex_unlock(&k->lock);
    for (unit *u = list, *next; u; u = next) {
        waiter *w = u->waiter;
        next = u->next;
        lead_call_done(u);
        if (w)
            waiter_finish(w);
    }
    pthread_mutex_lock(&k->lock);
    pthread_cond_broadcast(&k->changed);
}

/* A failure that the database has not seen. Rule 3: it breaks the submitter all the same. */
void lead_set_failed(unit *u, pawl_code code, const char *message)
{
    u->answer = UNIT_FAILED;
    u->code = code;
    u->message = message;
    u->refused = NULL;
    u->found = NULL;
    for (unit_stmt *s = u->first; s; s = s->next)
        s->rows = NULL; /* of a pass that did not come to its end */
    unit_break_submitter(u);
}

void lead_set_busy(committer *k, unit *u)
{
    if (k->trouble == PAWL_UNREACHABLE)
        lead_set_failed(u, PAWL_UNREACHABLE,
                        "the server could not be reached; nothing was written");
    else
        lead_set_failed(u, PAWL_BUSY,
                        "no room, or the database stayed locked; nothing was written");
    k->stats.busy++;
}

/* ---- Leading ---- */

static void retry_later(committer *k)
{
    k->retry_ms = k->retry_ms ? k->retry_ms * 2 : RETRY_MS_MIN;
    if (k->retry_ms > RETRY_MS_MAX)
        k->retry_ms = RETRY_MS_MAX;
    k->retry_ns = clock_deadline(lead_now_ns(k), k->retry_ms);
}

void lead_retry_now(committer *k)
{
    k->retry_ms = 0;
    k->retry_ns = 0;
}

/* The commit of these units has no answer: tell them so, and keep them until it has. */
static void keep_undecided(committer *k, unit *list, const error *err)
{
    int64_t count = 0;
    unit **tail = &k->undecided;
    while (*tail)
        tail = &(*tail)->next;
    *tail = list;
    pthread_mutex_unlock(&k->lock);
    for (unit *u = list; u; u = u->next, count++)
        lead_call_done(u);
    LOG(&k->log, LOG_ERROR, "commit-undecided", LOG_TEXT("code", pawl_code_name(err->code)),
        LOG_NUM("units", count));
    pthread_mutex_lock(&k->lock);
    k->stats.undecided += count;
}

static void decide(unit *u, db_fate fate)
{
    if (fate == DB_FATE_COMMITTED) {
        u->answer = u->provisional;
        u->code = u->provisional_code;
        return;
    }
    if (fate == DB_FATE_LOST)
        lead_set_failed(u, u->cause, "the commit failed; nothing was written");
    else
        lead_set_failed(u, PAWL_UNDECIDED,
                        "the database is damaged; nobody knows if this was written");
}

/* Ask what became of the undecided units. Nothing else is written before that is known. */
static void settle(committer *k)
{
    error err = {0};
    pthread_mutex_unlock(&k->lock);
    db_fate fate = k->conn->driver->settle(k->conn, &err);
    if (fate != DB_FATE_UNKNOWN)
        LOG(&k->log, LOG_WARNING, "commit-decided",
            LOG_TEXT("fate", fate == DB_FATE_COMMITTED ? "committed" : "lost"));
    pthread_mutex_lock(&k->lock);
    if (fate == DB_FATE_UNKNOWN && err.code != PAWL_CORRUPT && err.code != PAWL_NOTADB) {
        retry_later(k);
        return;
    }
    lead_retry_now(k);
    unit *list = k->undecided;
    k->undecided = NULL;
    k->unsettled = 0;
    for (unit *u = list; u; u = u->next)
        decide(u, fate);
    lead_deliver(k, list);
}

static void count_batch(committer *k, const batch_result *r, int64_t took)
{
    k->stats.batches += r->taken > 0;
    k->stats.restarts += r->restarts;
    if (took > k->stats.batch_ns_max)
        k->stats.batch_ns_max = took;
    if ((int64_t)r->taken > k->stats.batch_max)
        k->stats.batch_max = (int64_t)r->taken;
}

/* Rule 5: client units that have waited too long leave the queue; the database never sees them. */
static void expire(committer *k)
{
    if (k->queue.look_ns == 0)
        return;
    unit *late = queue_take_late(&k->queue, lead_now_ns(k));
    for (unit *u = late; u; u = u->next)
        lead_set_busy(k, u);
    lead_deliver(k, late);
}

static void tell_noted(const committer *k, size_t count)
{
    int noted = 0;
    for (size_t i = 0; k->options.on_noted && i < count && !noted; i++)
        noted = k->batch[i]->notes && k->batch[i]->answer == UNIT_COMMITTED;
    if (noted)
        k->options.on_noted(k->options.on_noted_arg);
}

static void commit_batch(committer *k)
{
    const committer_options *o = &k->options;
    size_t count = queue_take(&k->queue, k->batch, o->batch_units, o->batch_bytes);
    if (count == 0)
        return;
    error err = {0};
    pthread_mutex_unlock(&k->lock);
    int64_t began = lead_now_ns(k);
    batch_result r = k->conn->driver->apply(k->conn, k->batch, count, &k->passes, &err);
    int64_t took = lead_now_ns(k) - began;
    tell_noted(k, r.taken - r.undecided);
    pthread_mutex_lock(&k->lock);

    count_batch(k, &r, took);
    queue_put_back(&k->queue, k->batch + r.taken, count - r.taken);
    k->trouble = r.code;
    if (r.code != PAWL_OK || r.undecided)
        retry_later(k);
    else
        lead_retry_now(k);
    size_t decided = r.taken - r.undecided;
    unit *undecided = queue_link(k->batch + decided, r.undecided);
    lead_deliver(k, queue_link(k->batch, decided));
    if (undecided)
        keep_undecided(k, undecided, &err);
}

int lead_can(committer *k)
{
    return !k->leading && lead_has_work(k) && (k->retry_ns == 0 || lead_now_ns(k) >= k->retry_ns);
}

/* One batch, or one attempt to settle. Called with the lock held, and comes back with it. */
void lead_one(committer *k)
{
    assert(!k->leading);
    k->leading = 1;
    k->leader = pthread_self();
    expire(k);
    if (k->undecided || k->unsettled) {
        settle(k);
    } else {
        commit_batch(k);
        pthread_mutex_unlock(&k->lock);
        k->conn->driver->between(k->conn);
        pthread_mutex_lock(&k->lock);
    }
    k->leading = 0;
    k->led++;
    if (k->retry_ns) /* somebody must come back, whoever else goes away */
        wake_helper(k);
    if (k->waiters.first || k->helper_wanted)
        lead_hand_on(k);
    pthread_cond_broadcast(&k->changed);
}
