/* Dormant runs leave memory and come back; dormant.h has the protocol. Leaving is a matter of the
 * run queue only. Runs that are due are brought back by the thread that runs the node loop, on its
 * connection; runs that are called, by a runner that has nothing else to do, or else by that
 * thread. */
#include "sched/dormant.h"

#include <assert.h>
#include <stdlib.h>

#include "sched/claim.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"

enum {
    PAGE = 256,
    AT_ONCE = 16,       /* called runs that are brought back together … */
    FEW_READY = 16,     /* … by a runner with fewer ready runs than this */
    CALLED_MAX = 65536, /* keys of called runs that are remembered; if there are more, the next look
                           begins at the first row */
    LOOK_MS = 1,        /* the time between two looks … */
    FAILED_MS = 200,    /* … and after a look that has failed */
    ANEW_MS = 10000,
};

/* Reads only columns that the index has. */
static const db_sql DUE_OF_NODE = {
    "SELECT run, wake_at FROM {runs} WHERE owner = $1 AND wake_at <= $2"
    " AND (wake_at, run) > ($3, $4) ORDER BY wake_at, run LIMIT $5",
    "iiiii"};

static const db_sql NEXT_OF_NODE = {
    "SELECT min(wake_at) FROM {runs} WHERE owner = $1 AND wake_at > $2", "ii"};

#define ROW CLAIM_COLUMNS ", r.fence, r.mail FROM {runs} r WHERE r.owner = $1 AND r.run "
#define LIVE " AND r.phase IN ({LIVE}, {FAILING})"

static const db_sql ONE_ROW = {"SELECT " ROW "= $2" LIVE, "ii"};
static const db_sql ROWS = {"SELECT " ROW "IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,"
                            " $14, $15, $16, $17)" LIVE,
                            "iiiiiiiiiiiiiiiii"};
enum { ROW_FENCE = CLAIM_COLUMN_COUNT, ROW_MAIL };

void dormant_forget(sched *s)
{
    dormant *all = &s->dormant;
    *all = (dormant){.next_ms = INT64_MAX,
                     .seen_ms = INT64_MIN,
                     .reading_ms = INT64_MIN,
                     .called = all->called,
                     .called_room = all->called_room};
}

void dormant_free(sched *s)
{
    free(s->dormant.called);
}

/* The thread that runs the node loop looks as soon as it can. */
static void call_node_loop(sched *s)
{
    if (!s->dormant.asks)
        sched_call(s);
    s->dormant.asks = 1;
}

/* ---- Leaving ---- */

/* Is everything that is known of the run in its rows? */
static int is_all_recorded(const pawl_run *run)
{
    const run_slot *slot = run->slot;
    return !run->code.fiber && !run->has_arrival && !run->quarantine_level && !slot->put_off &&
           !atomic_load(&run->hold_requested) && !slot->keeps && !slot->starved && !slot->marked &&
           !atomic_load(&slot->cleared) && slot->backoff_ms == 0 && !slot->queued_work &&
           !slot->asked_in && !run->draft.unit && !run->attempt.saved && !run->attempt.work &&
           run->code.told.number == 0 && run->jobs.by_op.count == 0 &&
           run->jobs.not_queued_count == 0 && run->untils.count == 0;
}

int dormant_leave(sched *s, pawl_run *run, int64_t until_ms)
{
    dormant *all = &s->dormant;
    int64_t read_ms = all->reading_ms > all->seen_ms ? all->reading_ms : all->seen_ms;
    sched_assert_locked(s);
    if (s->only || atomic_load(&s->stopping) || !is_all_recorded(run))
        return 0;
    if (until_ms <= read_ms)
        return 0;
    if (all->count < DORMANT_FEW)
        all->few[all->count] = run->lease.run;
    all->many |= all->count >= DORMANT_FEW;
    all->count++;
    if (!all->anew_ns)
        all->anew_ns = clock_deadline(s->host->mono_ns(s->host), ANEW_MS);
    if (until_ms < all->next_ms) {
        all->next_ms = until_ms; /* RULE L2-the-first-dormant-run-is-waited-for */
        if (s->driven == DRIVEN_BY_THREADS)
            call_node_loop(s); /* it may be waiting for a later time */
    }
    run_queue_forget(s, run);
    return 1;
}

/* ---- Coming back ---- */

/* The run is dormant no more. */
static void forget_one(dormant *all, int64_t run)
{
    if (all->many) { /* it is not known whether the run was counted, so the count does not go below
                        one */
        all->count -= all->count > 1;
        return;
    }
    for (int64_t i = 0; i < all->count; i++)
        if (all->few[i] == run) {
            all->few[i] = all->few[--all->count];
            return;
        }
}

int dormant_list(const sched *s, int64_t *out, int *count)
{
    for (int64_t i = 0; !s->dormant.many && i < s->dormant.count; i++)
        out[(*count)++] = s->dormant.few[i];
    return !s->dormant.many;
}

void dormant_call(sched *s, int64_t run)
{
    dormant *all = &s->dormant;
    sched_assert_locked(s);
    if (map_get(&s->coming, (uint64_t)run)) { /* its row is being read, or it is about to start */
        (void)map_put(&s->coming, (uint64_t)run, all);
        return;
    }
    if (all->called_count == all->called_room && all->called_count < CALLED_MAX) {
        size_t room = all->called_room ? 2 * all->called_room : 64;
        int64_t *more = realloc(all->called, room * sizeof *more);
        all->called = more ? more : all->called;
        all->called_room = more ? room : all->called_room;
    }
    int has_place = all->called_count < all->called_room;
    if (has_place)
        all->called[all->called_count++] = run;
    else
        all->anew = 1; /* the row of the run is due, so the next look finds it */
    if (!has_place || s->driven != DRIVEN_BY_THREADS || !run_queue_call_one(s))
        call_node_loop(s);
}

void dormant_anew(sched *s)
{
    sched_assert_locked(s);
    s->dormant.anew = 1;
    s->dormant.look_ns = 0; /* the pause before the next look is cut short: a caller that drives by
                               hand may be waiting for the engine's descriptor without a time-out,
                               and would not come for that look */
}

int64_t dormant_due_ns(const sched *s)
{
    int64_t next_ms = s->dormant.next_ms;
    if (s->dormant.count == 0 || next_ms == INT64_MAX)
        return INT64_MAX;
    int64_t now_ms = db_clock_now_ms(s->options.clock);
    return clock_deadline(s->host->mono_ns(s->host), next_ms > now_ms ? next_ms - now_ms : 0);
}

int64_t dormant_next_ns(sched *s)
{
    dormant *all = &s->dormant;
    sched_assert_locked(s);
    if (all->called_count > 0)
        return 0;
    if (all->count == 0 || run_queue_has_enough(s))
        return INT64_MAX;
    int64_t due = all->anew ? 0 : dormant_due_ns(s);
    due = due < all->anew_ns ? due : all->anew_ns;
    return due > all->look_ns ? due : all->look_ns;
}

void dormant_need_more(sched *s)
{
    if (s->dormant.count > 0 && s->dormant.next_ms <= sched_now_ms(s))
        call_node_loop(s);
}

/* Keeps in the list only the keys of runs that are not in memory, nor about to be, and reserves
 * them for the caller, so that no other thread brings the same runs back. Gives the number of the
 * keys left. */
static size_t reserve_keys(sched *s, int64_t *list, size_t count)
{
    size_t kept = 0;
    sched_lock(s);
    for (size_t i = 0; i < count; i++)
        /* RULE A1-a-dormant-run-is-brought-back-once */
        if (!run_queue_knows(s, list[i]) && map_put(&s->coming, (uint64_t)list[i], s) == 0)
            list[kept++] = list[i];
    sched_unlock(s);
    return kept;
}

/* Makes the run from its row. NULL with *failed set: memory is out. NULL otherwise: this node does
 * not own the run any more. */
static pawl_run *make_run(sched *s, db_stmt *row, int *failed)
{
    claim *c = claim_read(s, row);
    pawl_run *run = NULL;
    if (c && claim_is_for_us(c)) {
        c->facts.lease.owner = c->found.owner;
        c->facts.lease.fence = db_column(row, ROW_FENCE).i;
        c->facts.generation = c->found.generation;
        c->facts.mail = db_column(row, ROW_MAIL).i;
        run = claim_make_run(c);
    }
    *failed |= !c || (claim_is_for_us(c) && !run);
    if (run) {
        run->slot->noted = c->noted;
        /* RULE A2-a-dormant-run-is-given-back-when-it-is-held */
        atomic_store(&run->hold_requested, c->found.held != 0);
        run->slot->claims = 1;
        run->slot->claimed_seq = c->found.seq;
    }
    if (c)
        claim_free(c);
    return run;
}

/* Reads the runs with these keys, and puts them where their keys are. */
static void read_some(sched *s, db_conn *c, const int64_t *list, size_t count,
                      pawl_run *runs[AT_ONCE], int *failed)
{
    db_stmt *stmt;
    error err = {0};
    db_value values[1 + AT_ONCE] = {db_int(s->node.id)};
    int room = count == 1 ? 1 : AT_ONCE;
    for (int i = 0; i < room; i++)
        values[1 + i] = db_int((size_t)i < count ? list[i] : 0); /* no run has the key 0 */
    if (db_prepare(c, count == 1 ? &ONE_ROW : &ROWS, &stmt, &err) != PAWL_OK) {
        *failed = 1;
        return;
    }
    db_step step = DB_FAILED;
    if (db_bind_all(stmt, values, 1 + room, &err) == PAWL_OK)
        while (!*failed && (step = db_next(stmt, &err)) == DB_ROW) {
            int64_t key = db_column(stmt, 0).i;
            for (size_t i = 0; i < count; i++)
                if (list[i] == key && !runs[i])
                    runs[i] = make_run(s, stmt, failed);
        }
    *failed |= step == DB_FAILED;
    db_reset(stmt);
}

/* Reads the runs with these keys that this node still owns, and gives them as a list, in the order
 * of the keys. */
static pawl_run *read_runs(sched *s, db_conn *c, const int64_t *list, size_t count, int *failed)
{
    pawl_run *first = NULL, **last = &first;
    for (size_t at = 0; !*failed && at < count; at += AT_ONCE) {
        pawl_run *runs[AT_ONCE] = {NULL};
        size_t some = count - at < AT_ONCE ? count - at : AT_ONCE;
        read_some(s, c, list + at, some, runs, failed);
        for (size_t i = 0; i < some; i++) {
            if (!runs[i])
                continue;
            *last = runs[i];
            last = &runs[i]->slot->next;
        }
    }
    return first;
}

/* Was the run called while its row was being read? The key is not reserved any more. */
static int end_reservation(sched *s, int64_t key)
{
    return map_take(&s->coming, (uint64_t)key) == &s->dormant;
}

/* Brings the runs of the list into memory, to this runner, or to any one (NULL). If the node stops,
 * all of them are freed. *failed: memory is out. With the lock held. */
static void enter_runs(sched *s, runner *r, pawl_run *list, int *failed)
{
    while (list) {
        pawl_run *run = list;
        list = run->slot->next;
        run->slot->next = NULL;
        int again = end_reservation(s, run->lease.run);
        int may_enter = !again && !atomic_load(&s->stopping);
        int has_room = may_enter && run_queue_has_room(s);
        *failed |= may_enter && !has_room;
        if (again) /* the row may be older than the call */
            dormant_call(s, run->lease.run);
        if (!has_room) {
            run_free(run);
            continue;
        }
        assert(!map_get(&s->runs, (uint64_t)run->lease.run));
        forget_one(&s->dormant, run->lease.run);
        run_queue_enter_on(s, r, run);
    }
}

/* A runner reads with a connection of the read pool, the node loop with its own. */
static pawl_code begin_reading(sched *s, const runner *r, db_conn **out, error *err)
{
    if (r)
        return read_pool_begin(s->options.read_pool, out, err);
    *out = s->looks;
    return db_begin(*out, err);
}

static void end_reading(sched *s, const runner *r, db_conn *c)
{
    if (r)
        read_pool_end(s->options.read_pool, c);
    else
        db_rollback(c);
}

/* Brings the runs with these keys back, to this runner; NULL: the calling thread is that of the
 * node loop. */
static void bring_back(sched *s, runner *r, int64_t *list, size_t count, int *failed)
{
    error err = {0};
    db_conn *c;
    pawl_run *runs = NULL;
    count = reserve_keys(s, list, count);
    if (count == 0)
        return;
    if (begin_reading(s, r, &c, &err) == PAWL_OK) {
        runs = read_runs(s, c, list, count, failed);
        end_reading(s, r, c);
    } else {
        *failed = 1;
    }
    sched_lock(s);
    enter_runs(s, r, runs, failed);
    for (size_t i = 0; i < count; i++) /* those that were not found, or could not be read */
        (void)end_reservation(s, list[i]);
    sched_unlock(s);
}

/* ---- Called ones ---- */

/* Brings some of the called runs back. Gives the number of their keys. */
static size_t bring_some_called(sched *s, runner *r, int *failed)
{
    int64_t list[AT_ONCE];
    dormant *all = &s->dormant;
    sched_lock(s);
    size_t count = all->called_count < AT_ONCE ? all->called_count : AT_ONCE;
    for (size_t i = 0; i < count; i++)
        list[i] = all->called[--all->called_count];
    sched_unlock(s);
    bring_back(s, r, list, count, failed);
    if (!*failed)
        return count;
    sched_lock(s);
    all->anew = 1; /* the rows of these runs are due, so the next look finds them */
    all->look_ns = clock_deadline(s->host->mono_ns(s->host), FAILED_MS);
    call_node_loop(s);
    sched_unlock(s);
    return count;
}

static void bring_called(sched *s)
{
    int failed = 0;
    while (!failed && bring_some_called(s, NULL, &failed) > 0)
        continue;
}

int dormant_has_for(const runner *r)
{
    const sched *s = r->sched;
    return s->dormant.called_count > 0 && s->driven == DRIVEN_BY_THREADS && r->count < FEW_READY;
}

void dormant_pass_on(sched *s)
{
    if (s->dormant.called_count > 0 && s->driven == DRIVEN_BY_THREADS)
        call_node_loop(s);
}

void dormant_bring_to(runner *r)
{
    int failed = 0;
    (void)bring_some_called(r->sched, r, &failed);
}

/* ---- Due ones ---- */

typedef struct due_page {
    int64_t list[PAGE]; /* keys of runs */
    size_t count;
    int64_t last_ms;
    int64_t last_run;
} due_page;

static pawl_code read_page(sched *s, due_page *p, int64_t now_ms, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {db_int(s->node.id), db_int(now_ms), db_int(p->last_ms),
                               db_int(p->last_run), db_int(PAGE)};
    pawl_code rc = db_begin(s->looks, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_prepare(s->looks, &DUE_OF_NODE, &stmt, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && p->count < PAGE && (step = db_next(stmt, err)) == DB_ROW) {
        p->list[p->count++] = p->last_run = db_column(stmt, 0).i;
        p->last_ms = db_column(stmt, 1).i;
    }
    if (step == DB_FAILED)
        rc = err->code;
    if (rc == PAWL_OK || step != DB_DONE)
        db_reset(stmt);
    db_rollback(s->looks);
    return rc;
}

/* Gives the time when the first run behind the last row that was read is due. */
static int64_t read_next_of_node(sched *s, int64_t now_ms)
{
    error err = {0};
    int64_t next = 0;
    int found = 0;
    const db_value values[] = {db_int(s->node.id), db_int(now_ms)};
    if (db_begin(s->looks, &err) != PAWL_OK)
        return now_ms;
    pawl_code rc =
        db_number(s->looks, &NEXT_OF_NODE, values, DB_COUNT(values), &next, &found, &err);
    db_rollback(s->looks);
    if (rc != PAWL_OK)
        return now_ms;
    /* min() of no rows is one row with NULL, which reads as 0. */
    int is_there = found && next > now_ms; /* RULE L6-an-idle-node-does-not-look-for-ever */
    return is_there ? next : INT64_MAX;
}

/* Notes how far the look reads, and where it begins. 0: nothing is due. */
static int begin_look(sched *s, due_page *p, int64_t now_ms)
{
    dormant *all = &s->dormant;
    int64_t now_ns = s->host->mono_ns(s->host);
    sched_lock(s);
    /* RULE L2-dormant-runs-are-looked-for-from-the-first-row */
    int anew = all->anew || now_ns >= all->anew_ns;
    int due = all->count > 0 && (anew || all->next_ms <= now_ms);
    if (due) {
        if (anew) {
            all->seen_ms = INT64_MIN;
            all->anew_ns = clock_deadline(now_ns, ANEW_MS);
            all->anew = 0;
        }
        all->reading_ms = now_ms;
        all->next_ms = INT64_MAX; /* lowered by every run that leaves from here on */
        p->last_ms = all->seen_ms <= now_ms ? all->seen_ms : INT64_MIN; /* the clock was set back */
        p->last_run = all->seen_run;
    }
    sched_unlock(s);
    return due;
}

static void end_look(sched *s, const due_page *p, int64_t next_ms, int64_t pause_ms)
{
    dormant *all = &s->dormant;
    sched_lock(s);
    all->look_ns = pause_ms ? clock_deadline(s->host->mono_ns(s->host), pause_ms) : 0;
    all->seen_ms = p->last_ms;
    all->seen_run = p->last_run;
    all->reading_ms = INT64_MIN;
    if (next_ms < all->next_ms)
        all->next_ms = next_ms;
    sched_unlock(s);
}

/* Are there so few ready runs that more are to be brought into memory? */
static int has_few_ready(sched *s)
{
    sched_lock(s);
    int few = !run_queue_has_enough(s);
    sched_unlock(s);
    return few;
}

static void bring_back_due(sched *s)
{
    sched_lock(s);
    if (unit_retry_waits(s)) /* while commits fail no run that is due is brought back */
        s->dormant.look_ns = clock_deadline(s->host->mono_ns(s->host), FAILED_MS);
    sched_unlock(s);
    bring_called(s);
    int64_t now_ms = sched_now_ms(s);
    due_page page = {.count = PAGE};
    error err = {0};
    int failed = 0;
    if (unit_retry_waits(s) || !begin_look(s, &page, now_ms))
        return;
    const due_page begun = page;
    while (page.count == PAGE && !failed && has_few_ready(s)) {
        page.count = 0;
        failed = read_page(s, &page, now_ms, &err) != PAWL_OK;
        if (!failed)
            bring_back(s, NULL, page.list, page.count, &failed);
    }
    if (failed) {
        end_look(s, &begun, now_ms, FAILED_MS);
        return;
    }
    if (page.count == PAGE) { /* a full page: there may be more rows */
        end_look(s, &page, now_ms, 0);
        return;
    }
    page.last_ms = now_ms;
    page.last_run = INT64_MAX;
    end_look(s, &page, read_next_of_node(s, now_ms), LOOK_MS);
}

int64_t dormant_turn(sched *s)
{
    sched_lock(s);
    s->dormant.asks = 0; /* a change after this line calls the node loop again */
    int64_t next = dormant_next_ns(s);
    sched_unlock(s);
    if (s->host->mono_ns(s->host) < next)
        return next;
    bring_back_due(s);
    return 0;
}
