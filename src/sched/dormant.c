/* Dormant runs leave memory and come back; dormant.h has the protocol. Leaving is a matter of the
 * run queue only. Runs that are due are brought back by the thread that runs the node loop, on its
 * connection; runs that are called, by a runner that has nothing else to do, or else by that
 * thread. */
#include "sched/dormant.h"

#include <assert.h>
#include <stdlib.h>

#include "sched/dormant_read.h"
#include "sched/row_reads.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"

enum {
    AT_ONCE = 16,       /* called runs that are brought back together … */
    FEW_READY = 16,     /* … by a runner with fewer ready runs than this */
    CALLED_MAX = 65536, /* keys of called runs that are remembered; if there are more, the next look
                           begins at the first row */
    LOOK_MS = 1,        /* the time between two looks … */
    FAILED_MS = 200,    /* … and after a look that has failed */
    ANEW_MS = 10000,
};

static const db_sql NEXT_OF_NODE = {
    "SELECT min(wake_at) FROM {runs} WHERE owner = $1 AND wake_at > $2", "ii"};

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

/* Counts one more dormant run. */
static void count_one(sched *s, int64_t run)
{
    dormant *all = &s->dormant;
    if (all->count < DORMANT_FEW)
        all->few[all->count] = run;
    all->many |= all->count >= DORMANT_FEW;
    all->count++;
    if (!all->anew_ns)
        all->anew_ns = clock_deadline(s->host->mono_ns(s->host), ANEW_MS);
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
    count_one(s, run->lease.run);
    if (until_ms < all->next_ms) {
        all->next_ms = until_ms; /* RULE L2-the-first-dormant-run-is-waited-for */
        if (s->driven == DRIVEN_BY_THREADS)
            call_node_loop(s); /* it may be waiting for a later time */
    }
    run_queue_forget(s, run);
    return 1;
}

void dormant_read_anew(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    count_one(s, run->lease.run);
    run_queue_forget(s, run);
    dormant_call(s, run->lease.run);
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

/* A run whose row could not be read is tried again by a look that begins at the first row. Sets
 * when that look is due. Returns 1 if the run is not to be tried yet. With the lock held. */
static int look_again_for(sched *s, int64_t run)
{
    if (!run_failure_waits(s, run))
        return 0;
    int64_t until_ns = run_failure_until_ns(s, run);
    /* RULE L2-a-dormant-run-that-was-passed-over-is-looked-for */
    s->dormant.anew_ns = until_ns < s->dormant.anew_ns ? until_ns : s->dormant.anew_ns;
    return 1;
}

/* Keeps in the list only the keys of runs that are not in memory, nor about to be, and are not to
 * be passed over, and reserves them for the caller, so that no other thread brings the same runs
 * back. Gives the number of the keys left. */
static size_t reserve_keys(sched *s, int64_t *list, size_t count)
{
    size_t kept = 0;
    sched_lock(s);
    for (size_t i = 0; i < count; i++) {
        /* RULE L7-a-dormant-run-that-cannot-be-read-has-a-back-off */
        if (look_again_for(s, list[i]))
            continue;
        /* RULE A1-a-dormant-run-is-brought-back-once */
        if (!run_queue_knows(s, list[i]) && map_put(&s->coming, (uint64_t)list[i], s) == 0)
            list[kept++] = list[i];
    }
    sched_unlock(s);
    return kept;
}

/* Was the run called while its row was being read? The key is not reserved any more. */
static int end_reservation(sched *s, int64_t key)
{
    return map_take(&s->coming, (uint64_t)key) == &s->dormant;
}

/* Brings the runs of the list into memory, to this runner, or to any one (NULL). If the node stops,
 * all of them are freed. 0: memory is out. With the lock held. */
static int enter_runs(sched *s, runner *r, pawl_run *list)
{
    int is_out = 0;
    while (list) {
        pawl_run *run = list;
        list = run->slot->next;
        run->slot->next = NULL;
        int again = end_reservation(s, run->lease.run);
        int may_enter = !again && !atomic_load(&s->stopping);
        int has_room = may_enter && run_queue_has_room(s);
        is_out |= may_enter && !has_room;
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
    return !is_out;
}

/* Brings the runs with these keys back, to this runner; NULL: the calling thread is that of the
 * node loop. Runs whose rows cannot be read are passed over. */
static pawl_code bring_back(sched *s, runner *r, int64_t *list, size_t count, error *err)
{
    pawl_run *runs = NULL;
    count = reserve_keys(s, list, count);
    if (count == 0)
        return PAWL_OK;
    pawl_code rc = dormant_read(s, r, list, count, &runs, err);
    sched_lock(s);
    int has_room = enter_runs(s, r, runs);
    for (size_t i = 0; i < count; i++) { /* those that were not found, or could not be read */
        (void)end_reservation(s, list[i]);
        look_again_for(s, list[i]);
    }
    sched_unlock(s);
    return rc == PAWL_OK && !has_room ? error_nomem(err) : rc;
}

/* ---- Called ones ---- */

/* Brings some of the called runs back. Gives the number of their keys; 0: there are none, or they
 * could not be read. */
static size_t bring_some_called(sched *s, runner *r)
{
    int64_t list[AT_ONCE];
    error err = {0};
    dormant *all = &s->dormant;
    sched_lock(s);
    size_t count = all->called_count < AT_ONCE ? all->called_count : AT_ONCE;
    for (size_t i = 0; i < count; i++)
        list[i] = all->called[--all->called_count];
    sched_unlock(s);
    if (bring_back(s, r, list, count, &err) == PAWL_OK)
        return count;
    look_failure_note(s, LOOK_DORMANT, &err);
    sched_lock(s);
    all->anew = 1; /* the rows of these runs are due, so the next look finds them */
    all->look_ns = clock_deadline(s->host->mono_ns(s->host), FAILED_MS);
    call_node_loop(s);
    sched_unlock(s);
    return 0;
}

static void bring_called(sched *s)
{
    while (bring_some_called(s, NULL) > 0)
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
    (void)bring_some_called(r->sched, r);
}

/* ---- Due ones ---- */

/* Gives the time when the first run behind the last row that was read is due. */
static pawl_code read_next_of_node(sched *s, int64_t now_ms, int64_t *out, error *err)
{
    int64_t next = 0;
    int found = 0;
    const db_value values[] = {db_int(s->node.id), db_int(now_ms)};
    pawl_code rc = db_begin(s->looks, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(s->looks, &NEXT_OF_NODE, values, DB_COUNT(values), &next, &found, err);
    db_rollback(s->looks);
    /* min() of no rows is one row with NULL, which reads as 0. */
    int is_there = found && next > now_ms; /* RULE L6-an-idle-node-does-not-look-for-ever */
    *out = is_there ? next : INT64_MAX;
    return rc;
}

/* Notes how far the look reads, and where it begins. 0: nothing is due. */
static int begin_look(sched *s, due_keys *p, int64_t now_ms)
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
        p->last_ms = all->seen_ms <= now_ms ? all->seen_ms : INT64_MIN; /* seen_ms is later: the
                                                                           clock was set back */
        p->last_run = all->seen_run;
    }
    sched_unlock(s);
    return due;
}

static void end_look(sched *s, const due_keys *p, int64_t next_ms, int64_t pause_ms)
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

/* Reads the pages that are due, and when the first run behind them is. */
static pawl_code read_pages(sched *s, due_keys *page, int64_t now_ms, int64_t *next_ms, error *err)
{
    pawl_code rc = PAWL_OK;
    while (rc == PAWL_OK && page->count == ROW_READS_PAGE && has_few_ready(s)) {
        rc = row_reads_due(s, s->node.id, now_ms, ROW_READS_PAGE, page, err);
        if (rc == PAWL_OK)
            rc = bring_back(s, NULL, page->at, page->count, err);
    }
    if (rc == PAWL_OK && page->count < ROW_READS_PAGE)
        rc = read_next_of_node(s, now_ms, next_ms, err);
    return rc;
}

static void look_for_due(sched *s, due_keys *page, int64_t now_ms)
{
    const due_keys begun = *page;
    error err = {0};
    int64_t next_ms = now_ms;
    if (read_pages(s, page, now_ms, &next_ms, &err) != PAWL_OK) {
        look_failure_note(s, LOOK_DORMANT, &err);
        end_look(s, &begun, now_ms, FAILED_MS);
        return;
    }
    if (page->count == ROW_READS_PAGE) { /* a full page: there may be more rows */
        end_look(s, page, now_ms, 0);
        return;
    }
    look_failure_end(s, LOOK_DORMANT);
    page->last_ms = now_ms;
    page->last_run = INT64_MAX;
    end_look(s, page, next_ms, LOOK_MS);
}

static void bring_back_due(sched *s)
{
    sched_lock(s);
    if (unit_retry_waits(s)) /* while commits fail no run that is due is brought back */
        s->dormant.look_ns = clock_deadline(s->host->mono_ns(s->host), FAILED_MS);
    sched_unlock(s);
    bring_called(s);
    int64_t now_ms = sched_now_ms(s);
    due_keys page = {.count = ROW_READS_PAGE};
    if (!unit_retry_waits(s) && begin_look(s, &page, now_ms))
        look_for_due(s, &page, now_ms);
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
