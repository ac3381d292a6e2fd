/* What the leader of a group commit does: apply one batch of the queue, deliver its answers, settle
 * an undecided commit. The functions are called with the committer's lock held, and return with it,
 * unless their comments say otherwise.
 *
 * After a failure (the database locked, a commit undecided) nothing is tried before `retry_ns`,
 * with a back-off that doubles. A unit that meets a single locked row is no such failure: it is set
 * aside, and the other units are applied (aside.h). */
#include "db/commit_leader.h"

#include <assert.h>

#include "db/batch.h"

enum { RETRY_MS_MIN = 1, RETRY_MS_MAX = 500 };

/* A unit that waits longer than this for a row lock is logged. */
static const int64_t LOG_LOCK_WAIT_NS = 1000000000;

int64_t commit_leader_now_ns(committer *k)
{
    return k->clock->mono_ns(k->clock);
}

/* ---- Waking ---- */

int commit_leader_has_work(const committer *k)
{
    return k->queue.head || k->undecided || k->unsettled || k->aside.list.head;
}

int64_t commit_leader_next_ns(const committer *k)
{
    if (k->queue.head || k->undecided || k->unsettled)
        return k->retry_ns;
    int64_t next = aside_next_ns(&k->aside);
    return next < k->retry_ns ? k->retry_ns : next;
}

static void wake_helper(committer *k)
{
    k->helper_wanted = 1;
    if (k->helper_runs)
        pthread_cond_signal(&k->helper_cond);
}

/* A waiter is asked first, since its thread is blocked anyway. Without one the helper leads. */
void commit_leader_hand_on(committer *k)
{
    if (!commit_leader_has_work(k))
        return;
    if (!waiters_ask_one(&k->waiters))
        wake_helper(k);
}

/* ---- Answers ---- */

/* The unit leaves its class's share of the queue and is no longer the committer's. Called once for
 * each unit, as it has one final answer (rule 2 of committer.h). */
void commit_leader_settle(committer *k, unit *u)
{
    queue_settle(&k->queue, u);
    if (u->commit.set_aside)
        aside_leave(&k->aside, u, commit_leader_now_ns(k));
}

static void count_answer(committer *k, unit *u)
{
    k->stats.committed += u->answer == UNIT_COMMITTED;
    k->stats.refused += u->answer == UNIT_REFUSED;
    k->stats.failed += u->answer == UNIT_FAILED;
    commit_leader_settle(k, u);
}

static int64_t waited_ms(committer *k, const unit *u)
{
    return (commit_leader_now_ns(k) - u->commit.aside_since_ns) / 1000000;
}

void commit_leader_call_done(committer *k, unit *u)
{
    if (u->commit.aside_told) {
        LOG(&k->log, LOG_INFO, "lock-wait-ended", LOG_TEXT("run", u->name ? u->name : ""),
            LOG_NUM("waited_ms", waited_ms(k, u)), LOG_TEXT("code", pawl_code_name(u->code)));
        u->commit.aside_told = 0;
    }
    if (u->done)
        u->done(u, u->done_arg);
}

/* Calls `done` of the units that no thread waits for, and returns the list of the others. */
static unit *answer_unawaited(committer *k, unit *list)
{
    unit *awaited = NULL, **end = &awaited;
    for (unit *u = list, *next; u; u = next) {
        next = u->next;
        if (u->waiter) { /* RULE units-without-a-waiter-are-answered-first */
            *end = u;
            end = &u->next;
        } else {
            commit_leader_call_done(k, u);
        }
    }
    *end = NULL;
    return awaited;
}

/* Deliver the final answers of a list of units. Releases the lock while `done` callbacks run. After
 * `done`, or once its waiter is finished, a unit may be freed already.
 *
 * Waking a thread takes as long as ten calls of `done`. So the units without a waiter, which are
 * those of runs, are answered first: all their runs go on at once, beside the leader that wakes the
 * waiting threads, and their next units are there when it commits again. */
void commit_leader_deliver(committer *k, unit *list)
{
    if (!list)
        return;
    for (unit *u = list; u; u = u->next) {
        count_answer(k, u);
        if (u->waiter)
            waiters_remove(&k->waiters, u->waiter);
    }
    pthread_mutex_unlock(&k->lock);
    for (unit *u = answer_unawaited(k, list), *next; u; u = next) {
        waiter *w = u->waiter;
        next = u->next;
        commit_leader_call_done(k, u);
        waiter_finish(w);
    }
    pthread_mutex_lock(&k->lock);
    pthread_cond_broadcast(&k->changed);
}

/* A failure that the committer has decided on without the database breaks the unit's submitter like
 * any other (rule 3 of committer.h). */
void commit_leader_set_failed(unit *u, pawl_code code, const char *message)
{
    u->answer = UNIT_FAILED;
    u->code = code;
    u->message = message;
    u->refused = NULL;
    u->found = NULL;
    for (unit_stmt *s = u->first; s; s = s->next)
        s->rows = NULL; /* left over from a pass that was rolled back */
    unit_break_submitter(u);
}

void commit_leader_set_busy(committer *k, unit *u)
{
    u->row_locked = u->commit.set_aside;
    if (u->commit.set_aside)
        commit_leader_set_failed(
            u, PAWL_BUSY,
            "another transaction kept a row locked that it needs; nothing was written");
    else if (k->trouble == PAWL_UNREACHABLE) /* RULE a-waiter-hears-that-the-server-is-gone */
        commit_leader_set_failed(u, PAWL_UNREACHABLE,
                                 "the server could not be reached; nothing was written");
    else
        commit_leader_set_failed(u, PAWL_BUSY,
                                 "no room, or the database stayed locked; nothing was written");
    k->stats.busy++;
}

/* ---- Leading ---- */

static void retry_later(committer *k)
{
    k->retry_ms = k->retry_ms ? k->retry_ms * 2 : RETRY_MS_MIN;
    if (k->retry_ms > RETRY_MS_MAX)
        k->retry_ms = RETRY_MS_MAX;
    k->retry_ns = clock_deadline(commit_leader_now_ns(k), k->retry_ms);
}

void commit_leader_retry_now(committer *k)
{
    k->retry_ms = 0;
    k->retry_ns = 0;
}

/* The commit of these units has no answer: call their `done` with UNDECIDED, and keep the units
 * until the commit is settled. */
static void keep_undecided(committer *k, unit *list, const error *err)
{
    int64_t count = 0;
    unit **tail = &k->undecided;
    while (*tail)
        tail = &(*tail)->next;
    *tail = list;
    pthread_mutex_unlock(&k->lock);
    for (unit *u = list; u; u = u->next, count++)
        commit_leader_call_done(k, u);
    LOG(&k->log, LOG_ERROR, "commit-undecided", LOG_TEXT("code", pawl_code_name(err->code)),
        LOG_NUM("units", count));
    pthread_mutex_lock(&k->lock);
    k->stats.undecided += count;
}

void commit_leader_tell_unknown(committer *k, const unit *list, const char *why)
{
    int64_t count = 0;
    for (const unit *u = list; u; u = u->next)
        count++;
    if (count == 0)
        return;
    pthread_mutex_unlock(&k->lock);
    /* RULE L6-a-commit-that-is-never-decided-has-an-end */
    LOG(&k->log, LOG_ERROR, "commit-unknown", LOG_NUM("units", count), LOG_TEXT("why", why));
    pthread_mutex_lock(&k->lock);
}

/* Gives an undecided unit its final answer, now that the fate of its commit is known, or never will
 * be (DB_FATE_UNKNOWN). */
static void answer_by_fate(unit *u, db_fate fate)
{
    if (fate == DB_FATE_COMMITTED) { /* RULE A5-a-happened-commit-is-not-answered-failed */
        u->answer = u->commit.provisional;
        u->code = u->commit.provisional_code;
        return;
    }
    if (fate == DB_FATE_LOST)
        commit_leader_set_failed(u, u->commit.cause, "the commit failed; nothing was written");
    else
        commit_leader_set_failed(u, PAWL_UNDECIDED,
                                 "the database is damaged; it is not known if this was written");
}

/* Asks the driver what became of the undecided commit, and answers its units. If that is not known
 * yet it is asked again later: nothing else is written before. */
static void settle_undecided(committer *k)
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
    commit_leader_retry_now(k);
    unit *list = k->undecided;
    k->undecided = NULL;
    k->unsettled = 0;
    if (fate == DB_FATE_UNKNOWN)
        commit_leader_tell_unknown(k, list, "the database is damaged");
    for (unit *u = list; u; u = u->next)
        answer_by_fate(u, fate);
    commit_leader_deliver(k, list);
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

/* Client units that have waited too long leave the queue and are answered PAWL_BUSY (rule 5 of
 * committer.h); the database never sees them. */
static void expire_clients(committer *k)
{
    if (k->queue.look_ns == 0 && k->aside.list.look_ns == 0)
        return;
    /* RULE L4-a-client-that-waits-for-a-lock-is-answered-busy */
    unit *late[] = {queue_take_late(&k->queue, commit_leader_now_ns(k)),
                    aside_take_late(&k->aside, commit_leader_now_ns(k))};
    for (int i = 0; i < 2; i++) {
        for (unit *u = late[i]; u; u = u->next)
            commit_leader_set_busy(k, u);
        commit_leader_deliver(k, late[i]);
    }
}

static void notify_feed(const committer *k, size_t count)
{
    int noted = 0;
    for (size_t i = 0; k->options.on_noted && i < count && !noted; i++)
        noted = k->batch[i]->notes && k->batch[i]->answer == UNIT_COMMITTED;
    if (noted)
        k->options.on_noted(k->options.on_noted_arg);
}

/* Fills k->batch and returns its number of units: a single unit that was set aside and is due; or
 * the next units of the queue, except those that follow a unit that was set aside. */
static size_t take_batch(committer *k)
{
    if (k->aside.list.head) {
        k->batch[0] = aside_take(&k->aside, commit_leader_now_ns(k));
        if (k->batch[0])
            return 1;
    }
    const committer_options *o = &k->options;
    size_t count = queue_take(&k->queue, k->batch, o->batch_units, o->batch_bytes), kept = 0;
    if (!k->aside.list.head)
        return count;
    for (size_t i = 0; i < count; i++) {
        if (aside_has_before(k->batch[i])) /* RULE L4-later-units-of-its-submitter-wait-behind-it */
            aside_follow(&k->aside, k->batch[i]);
        else
            k->batch[kept++] = k->batch[i];
    }
    return kept;
}

/* Reports that the unit has met a row lock of a foreign transaction: to its submitter at first, and
 * to the log once that has lasted LOG_LOCK_WAIT_NS. Called without the committer's lock, before the
 * unit is in the list of units set aside: from then on another thread may answer it. */
static void report_lock_wait(committer *k, unit *u)
{
    if (!u->commit.set_aside) {
        u->commit.aside_since_ns = commit_leader_now_ns(k);
        if (u->waits)
            u->waits(u, u->done_arg);
    } else if (!u->commit.aside_told &&
               commit_leader_now_ns(k) - u->commit.aside_since_ns >= LOG_LOCK_WAIT_NS) {
        u->commit.aside_told = 1;
        /* RULE L6-the-log-tells-of-a-unit-that-waits-for-a-lock */
        LOG(&k->log, LOG_WARNING, "lock-wait", LOG_TEXT("run", u->name ? u->name : ""),
            LOG_NUM("waited_ms", waited_ms(k, u)),
            LOG_TEXT("why", "another transaction keeps a row locked that the commit needs"),
            LOG_TEXT("hint", "look for it in pg_stat_activity and pg_locks, and end it"));
    }
}

/* Called when a unit begins to wait for a row lock; a client's unit may wait for its lock_ms. */
static void limit_wait(committer *k, unit *u)
{
    int64_t end = clock_deadline(commit_leader_now_ns(k), u->lock_ms);
    k->stats.locked++;
    if (u->class == UNIT_OF_CLIENT && u->lock_ms > 0 && end < u->deadline_ns)
        u->deadline_ns = end;
}

/* Units that the batch has not answered go back to the list that they were taken from; a unit that
 * has met a row lock is set aside. `took`: how long the attempt has taken. */
static void requeue_unanswered(committer *k, const batch_result *r, size_t count, int64_t took)
{
    size_t from = r->taken;
    unit *next = from < count ? k->batch[from] : NULL;
    if (r->locked && next) {
        if (!next->commit.set_aside)
            limit_wait(k, next);
        aside_put(&k->aside, next, commit_leader_now_ns(k), next->commit.set_aside ? took : 0);
        from++;
    } else if (next && next->commit.set_aside) {
        aside_put_back(&k->aside, next, commit_leader_now_ns(k));
        from++;
    }
    queue_put_back(&k->queue, k->batch + from, count - from);
}

static void commit_batch(committer *k)
{
    size_t count = take_batch(k);
    if (count == 0)
        return;
    error err = {0};
    pthread_mutex_unlock(&k->lock);
    int64_t began = commit_leader_now_ns(k);
    batch_result r = k->conn->driver->apply(k->conn, k->batch, count, &k->passes, &err);
    int64_t took = commit_leader_now_ns(k) - began;
    notify_feed(k, r.taken - r.undecided);
    if (r.locked)
        report_lock_wait(k, k->batch[r.taken]);
    pthread_mutex_lock(&k->lock);

    count_batch(k, &r, took);
    requeue_unanswered(k, &r, count, took);
    k->trouble = r.code;
    if (r.code != PAWL_OK || r.undecided)
        retry_later(k);
    else
        commit_leader_retry_now(k);
    size_t decided = r.taken - r.undecided;
    unit *undecided = queue_link(k->batch + decided, r.undecided);
    commit_leader_deliver(k, queue_link(k->batch, decided));
    if (undecided)
        keep_undecided(k, undecided, &err);
}

int commit_leader_can(committer *k)
{
    int64_t next = k->leading ? INT64_MAX : commit_leader_next_ns(k);
    return next == 0 || (next != INT64_MAX && commit_leader_now_ns(k) >= next);
}

/* Applies one batch, or makes one attempt to settle. Called with the lock held and returns with it,
 * but releases it while the database is called. */
void commit_leader_one(committer *k)
{
    assert(!k->leading);
    k->leading = 1;
    k->leader = pthread_self();
    expire_clients(k);
    if (k->undecided || k->unsettled) {
        settle_undecided(k);
    } else {
        commit_batch(k);
        pthread_mutex_unlock(&k->lock);
        k->conn->driver->between(k->conn);
        pthread_mutex_lock(&k->lock);
    }
    k->leading = 0;
    k->led++;
    if (k->queue.head)
        k->stood_ns = commit_leader_now_ns(k);
    if (k->retry_ns || k->aside.list.head) /* the helper retries, since waiters may give up */
        wake_helper(k);
    if (k->waiters.first || k->helper_wanted)
        commit_leader_hand_on(k);
    pthread_cond_broadcast(&k->changed);
}
