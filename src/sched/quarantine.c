/* Quarantine: three lists of quarantined runs that are ready, and one run that is let out alone.
 * The rules are in the header. */
#include "sched/quarantine.h"

#include "db/inflight_file.h"
#include "sched/sched_internal.h"

static const int64_t ALONE_MS = 5000;

static int64_t now_ns(const struct sched *s)
{
    return s->host->mono_ns(s->host);
}

int quarantine_is_poison(int64_t claims)
{
    return claims > POISON_DEATHS; /* RULE 6-poison-is-held */
}

static quarantine_level level_of(const struct sched *s, int64_t claims)
{
    if (quarantine_is_poison(claims))
        return QUARANTINE_NONE;
    if (claims >= QUARANTINE_ALONE_FROM) /* RULE B8-quarantined-runs-are-let-out-alone */
        return QUARANTINE_ALONE;
    return claims >= QUARANTINE_MARK_FROM && !s->quarantine.running ? QUARANTINE_MARKED
                                                                    : QUARANTINE_NONE;
}

void quarantine_begin(struct sched *s, pawl_run *run, int64_t seq)
{
    run->slot->claimed_seq = seq;
    run->quarantine_level = level_of(s, run->slot->claims);
    /* RULE B8-a-quarantined-run-waits-while-others-may-kill */
    run->slot->quiet_ns = run->quarantine_level == QUARANTINE_ALONE && !s->only
                              ? clock_deadline(now_ns(s), ALONE_MS)
                              : 0;
}

static int lacks_mark(const struct sched *s, const pawl_run *run)
{
    /* RULE B8-where-there-is-no-list-it-is-marked */
    return run->quarantine_level >= QUARANTINE_MARKED && !s->quarantine.running &&
           !run->slot->marked;
}

int quarantine_needs_mark(struct sched *s, pawl_run *run)
{
    if (run->quarantine_level < QUARANTINE_MARKED || s->quarantine.running)
        return 0;
    sched_lock(s);
    int needs = lacks_mark(s, run);
    if (needs && !s->quarantine.marking)
        s->quarantine.marking = run;
    sched_unlock(s);
    return needs;
}

/* ---- Waiting ---- */

static void push_run(quarantine_queue *q, pawl_run *run)
{
    if (q->last)
        q->last->slot->next = run;
    else
        q->first = run;
    q->last = run;
}

static pawl_run *pop_run(quarantine_queue *q)
{
    pawl_run *run = q->first;
    q->first = run->slot->next;
    if (!q->first)
        q->last = NULL;
    run->slot->next = NULL;
    run_move(run, PLACE_IN_HAND);
    return run;
}

int quarantine_add(struct sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    quarantine *q = &s->quarantine;
    if (run == q->out || run == q->marking) {
        push_run(&q->next, run);
    } else if (run->quarantine_level == QUARANTINE_ALONE) {
        push_run(&q->alone, run);
    } else if (lacks_mark(s, run)) {
        push_run(&q->beside, run);
    } else {
        return 0;
    }
    run_queue_call_one(s);
    return 1;
}

/* ---- Letting out ---- */

static int is_marking(const quarantine *s)
{
    /* RULE B8-one-mark-is-on-its-way-at-a-time */
    return s->marking || s->unmarking || s->has_unmark;
}

/* When the first run of the list `alone` may be let out. */
static int64_t let_out_ns(const quarantine *s)
{
    int64_t quiet = s->alone.first->slot->quiet_ns;
    /* RULE L4-a-quarantined-run-that-hangs-stops-no-other */
    return s->out && s->until_ns > quiet ? s->until_ns : quiet;
}

static int may_let_out(const quarantine *s, int64_t now)
{
    return s->alone.first && now >= let_out_ns(s);
}

static void owe_unmark(struct sched *s, pawl_run *run)
{
    quarantine *q = &s->quarantine;
    if (!run->slot->marked)
        return;
    run->slot->marked = 0;
    q->has_unmark = 1; /* RULE B8-a-cleared-run-is-unmarked */
    q->unmark = run->lease;
    run_queue_call_node_loop(s);
}

/* Logs that the run is executed alone, once, and that it is as any other, or not in memory any
 * more. */
static void tell_alone(struct sched *s, pawl_run *run)
{
    if (!run->slot->alone_told) /* RULE L6-a-quarantine-is-told-once */
        LOG(&s->log, LOG_WARNING, "quarantined", LOG_TEXT("run", run->id),
            LOG_NUM("claims", run->slot->claims));
    run->slot->alone_told = 1;
}

static void tell_ended(struct sched *s, pawl_run *run)
{
    if (run->slot->alone_told) /* RULE L6-the-end-of-a-quarantine-is-told */
        LOG(&s->log, LOG_INFO, "quarantine-ended", LOG_TEXT("run", run->id));
    run->slot->alone_told = 0;
}

/* The time of the run that was let out alone is over, and another run waits. If the run is being
 * executed, it has done no harm so far, and it is cleared: a death from now on does not count for
 * it. If it is not being executed, it waits for its turn once more when it is ready. */
static void end_turn_of(struct sched *s, pawl_run *run)
{
    quarantine *q = &s->quarantine;
    q->out = NULL;
    owe_unmark(s, run);
    if (run->slot->place != PLACE_IN_HAND)
        return;
    run->quarantine_level = QUARANTINE_NONE;
    run->slot->cleared = 1;
    tell_ended(s, run);
    inflight_clear(q->running, run->lease.run); /* RULE B8-a-cleared-run-is-not-counted */
}

static pawl_run *let_out(struct sched *s, int64_t now)
{
    quarantine *q = &s->quarantine;
    if (q->out)
        end_turn_of(s, q->out);
    if (is_marking(q)) /* the mark of the run before must be taken back first, or a death now would
                          count for that run too */
        return NULL;
    pawl_run *run = q->out = pop_run(&q->alone);
    q->until_ns = clock_deadline(now, ALONE_MS);
    tell_alone(s, run);
    return run;
}

static pawl_run *take_quarantined(struct sched *s)
{
    quarantine *q = &s->quarantine;
    if (q->next.first)
        return pop_run(&q->next);
    if (is_marking(q))
        return NULL;
    int64_t now = now_ns(s);
    pawl_run *run = NULL;
    if (may_let_out(q, now))
        run = let_out(s, now);
    else if (q->beside.first)
        run = pop_run(&q->beside);
    if (run && lacks_mark(s, run))
        q->marking = run;
    return run;
}

static int has_any(const quarantine *s)
{
    return s->next.first || s->alone.first || s->beside.first;
}

pawl_run *quarantine_take(struct sched *s, int others_wait)
{
    sched_assert_locked(s);
    quarantine *q = &s->quarantine;
    if (!has_any(q) || (others_wait && ++q->turns % 2 != 0))
        return NULL;
    return take_quarantined(s);
}

int quarantine_is_ready(struct sched *s)
{
    const quarantine *q = &s->quarantine;
    sched_assert_locked(s);
    if (q->next.first)
        return 1;
    if (!has_any(q) || is_marking(q))
        return 0;
    return q->beside.first || may_let_out(q, now_ns(s));
}

int64_t quarantine_next_ns(const struct sched *s)
{
    const quarantine *q = &s->quarantine;
    sched_assert_locked(s);
    if (!q->alone.first || is_marking(q))
        return INT64_MAX;
    return let_out_ns(q);
}

void quarantine_marked(struct sched *s, pawl_run *run)
{
    quarantine *q = &s->quarantine;
    sched_lock(s);
    run->slot->marked = 1;
    if (q->marking == run)
        q->marking = NULL;
    if (q->out == run)
        q->until_ns = clock_deadline(now_ns(s), ALONE_MS);
    if (quarantine_is_ready(s))
        run_queue_call_one(s);
    sched_unlock(s);
}

/* ---- Survivors ---- */

void quarantine_put_back(struct sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    quarantine *q = &s->quarantine;
    if (q->out == run)
        q->out = NULL;
    if (q->marking == run)
        q->marking = NULL;
    if (quarantine_is_ready(s))
        run_queue_call_one(s);
}

void quarantine_acquit(struct sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    run->slot->cleared = 0;
    if (run->quarantine_level == QUARANTINE_NONE)
        return;
    run->quarantine_level = QUARANTINE_NONE;
    tell_ended(s, run);
    run->slot->marked = 0; /* the claims of a run that gets further are counted from 1 again */
    quarantine_put_back(s, run);
}

/* ---- The end of the node ---- */

static pawl_run *take_from(quarantine_queue *q, int (*wanted)(const pawl_run *run))
{
    pawl_run *before = NULL, *run = q->first;
    while (run && !wanted(run)) {
        before = run;
        run = run->slot->next;
    }
    if (!run || !before)
        return run ? pop_run(q) : NULL;
    before->slot->next = run->slot->next;
    if (q->last == run)
        q->last = before;
    run->slot->next = NULL;
    run_move(run, PLACE_IN_HAND);
    return run;
}

pawl_run *quarantine_take_if(struct sched *s, int (*wanted)(const pawl_run *run))
{
    sched_assert_locked(s);
    quarantine_queue *all[] = {&s->quarantine.next, &s->quarantine.alone, &s->quarantine.beside};
    pawl_run *run = NULL;
    for (size_t i = 0; !run && i < sizeof all / sizeof all[0]; i++)
        run = take_from(all[i], wanted);
    return run;
}

/* ---- Unmarking ---- */

/* The unit of an unmark, and what belongs to it. */
typedef struct unmarking {
    struct sched *sched;
    arena *memory;
} unmarking;

static void count_unmarked(struct sched *s)
{
    sched_lock(s);
    s->quarantine.unmarking--;
    if (quarantine_is_ready(s))
        run_queue_call_one(s);
    sched_unlock(s);
}

static void finish_unmarking(unit *u, void *arg)
{
    unmarking *m = arg;
    if (u->answer == UNIT_UNDECIDED)
        return;
    count_unmarked(m->sched);
    arena_free(m->memory);
}

/* Takes back the mark of a run, which the caller has counted in `unmarking`. If memory is out the
 * mark stays, and the run counts one death too many. */
static void submit_unmark(struct sched *s, const run_lease *h)
{
    arena *a = arena_new(0);
    unmarking *m = a ? arena_alloc(a, sizeof *m) : NULL;
    unit *u = m ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        count_unmarked(s);
        return;
    }
    *m = (unmarking){s, a};
    run_mark(u, h, -1);
    u->class = UNIT_OF_RUN;
    u->done = finish_unmarking;
    u->done_arg = m;
    committer_submit(committers_of(s->options.committers, (uint64_t)h->run), u);
}

/* Has the journal of the run got longer? A transactional step counts too: its row is in the
 * journal, but not in the replay yet. */
static int got_further(const pawl_run *run)
{
    return run->code.want == WANT_TRANSACT || run->code.want == WANT_END ||
           (run->journal.replay && replay_seq(run->journal.replay) > run->slot->claimed_seq);
}

void quarantine_committed(struct sched *s, pawl_run *run, int is_parked)
{
    int marked = 0;
    sched_lock(s);
    if (got_further(run)) {
        quarantine_acquit(s, run);
    } else if (is_parked) {
        marked = run->slot->marked; /* RULE B8-a-run-at-rest-is-unmarked */
        run->slot->marked = 0;
        s->quarantine.unmarking += marked;
        quarantine_put_back(s, run);
    }
    sched_unlock(s);
    if (marked)
        submit_unmark(s, &run->lease);
}

void quarantine_unmark(struct sched *s)
{
    quarantine *q = &s->quarantine;
    sched_lock(s);
    int owed = q->has_unmark;
    run_lease h = q->unmark;
    q->has_unmark = 0;
    q->unmarking += owed;
    sched_unlock(s);
    if (!owed)
        return;
    submit_unmark(s, &h);
    committers_leave(s->options.committers); /* the next quarantined run waits until this unit is
                                                committed */
}

/* The next run that is marked; NULL: there is none. */
static pawl_run *next_marked(struct sched *s, size_t *cursor)
{
    uint64_t key;
    void *run;
    while (map_next(&s->runs, cursor, &key, &run))
        if (((pawl_run *)run)->slot->marked)
            return run;
    return NULL;
}

/* A node that ends in good order is no death: no run may be counted for it. */
void quarantine_leave(struct sched *s)
{
    size_t cursor = 0;
    if (s->quarantine.running)
        return;
    quarantine_unmark(s);
    for (;;) {
        run_lease h = {0};
        sched_lock(s);
        pawl_run *run = next_marked(s, &cursor);
        if (run) {
            h = run->lease;
            run->slot->marked = 0;
            s->quarantine.unmarking++;
        }
        sched_unlock(s);
        if (!run)
            return;
        submit_unmark(s, &h);
    }
}
