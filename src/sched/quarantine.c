/* Three lists of suspects that are ready, and one suspect that is out. The rules are in the
 * header. */
#include "sched/quarantine.h"

#include "db/inflight_file.h"
#include "sched/sched.h"

static const int64_t ALONE_MS = 5000;

static int64_t now_ns(const struct sched *d)
{
    return d->host->mono_ns(d->host);
}

int quarantine_is_poison(int64_t claims)
{
    return claims > POISON_DEATHS; /* RULE 6-poison-is-held */
}

static quarantine_level level_of(const struct sched *d, int64_t claims)
{
    if (quarantine_is_poison(claims))
        return SUSPECT_NOT;
    if (claims >= SUSPECT_ALONE_FROM) /* RULE B8-suspects-are-let-out-alone */
        return SUSPECT_ALONE;
    return claims >= SUSPECT_MARK_FROM && !d->quarantine.running ? SUSPECT_MARKED : SUSPECT_NOT;
}

void quarantine_begin(struct sched *d, pawl_run *run, int64_t seq)
{
    run->slot->claimed_seq = seq;
    run->quarantine_level = level_of(d, run->slot->claims);
    /* RULE B8-a-suspect-waits-while-others-may-kill */
    run->slot->quiet_ns = run->quarantine_level == SUSPECT_ALONE && !d->only
                              ? clock_deadline(now_ns(d), ALONE_MS)
                              : 0;
}

static int lacks_mark(const struct sched *d, const pawl_run *run)
{
    /* RULE B8-where-there-is-no-list-it-is-marked */
    return run->quarantine_level >= SUSPECT_MARKED && !d->quarantine.running && !run->slot->marked;
}

int quarantine_needs_mark(struct sched *d, pawl_run *run)
{
    if (run->quarantine_level < SUSPECT_MARKED || d->quarantine.running)
        return 0;
    pthread_mutex_lock(&d->lock);
    int needs = lacks_mark(d, run);
    if (needs && !d->quarantine.marking)
        d->quarantine.marking = run;
    pthread_mutex_unlock(&d->lock);
    return needs;
}

/* ---- Waiting ---- */

static void push(quarantine_queue *q, pawl_run *run)
{
    if (q->last)
        q->last->slot->next = run;
    else
        q->first = run;
    q->last = run;
}

static pawl_run *pop(quarantine_queue *q)
{
    pawl_run *run = q->first;
    q->first = run->slot->next;
    if (!q->first)
        q->last = NULL;
    run->slot->next = NULL;
    run_move(run, PLACE_IN_HAND);
    return run;
}

int quarantine_add(struct sched *d, pawl_run *run)
{
    quarantine *s = &d->quarantine;
    if (run == s->out || run == s->marking) {
        push(&s->next, run);
    } else if (run->quarantine_level == SUSPECT_ALONE) {
        push(&s->alone, run);
    } else if (lacks_mark(d, run)) {
        push(&s->beside, run);
    } else {
        return 0;
    }
    run_queue_call_one(d);
    return 1;
}

/* ---- Letting out ---- */

static int is_marking(const quarantine *s)
{
    /* RULE B8-one-mark-is-on-its-way-at-a-time */
    return s->marking || s->unmarking || s->has_unmark;
}

/* When the first one may be let out. */
static int64_t let_out_ns(const quarantine *s)
{
    int64_t quiet = s->alone.first->slot->quiet_ns;
    /* RULE L4-a-suspect-that-hangs-stops-no-other-suspect */
    return s->out && s->until_ns > quiet ? s->until_ns : quiet;
}

static int may_let_out(const quarantine *s, int64_t now)
{
    return s->alone.first && now >= let_out_ns(s);
}

static void owe_unmark(struct sched *d, pawl_run *run)
{
    quarantine *s = &d->quarantine;
    if (!run->slot->marked)
        return;
    run->slot->marked = 0;
    s->has_unmark = 1; /* RULE B8-who-was-watched-is-unmarked */
    s->unmark = run->lease;
    run_queue_call_keeper(d);
}

/* Another one waits, and its time is over. If it is being executed, that did no harm, and a death
 * from now on is not its fault; if not, it waits for its turn once more when it comes back. */
static void end_turn_of(struct sched *d, pawl_run *run)
{
    quarantine *s = &d->quarantine;
    s->out = NULL;
    owe_unmark(d, run);
    if (run->slot->place != PLACE_IN_HAND)
        return;
    run->quarantine_level = SUSPECT_NOT;
    run->slot->cleared = 1;
    inflight_clear(s->running, run->lease.run); /* RULE B8-who-was-watched-is-not-counted */
}

static pawl_run *let_out(struct sched *d, int64_t now)
{
    quarantine *s = &d->quarantine;
    if (s->out)
        end_turn_of(d, s->out);
    if (is_marking(s)) /* the mark of the one before must not be there when this one kills */
        return NULL;
    pawl_run *run = s->out = pop(&s->alone);
    s->until_ns = clock_deadline(now, ALONE_MS);
    LOG(&d->log, LOG_WARNING, "suspect", LOG_TEXT("run", run->id),
        LOG_NUM("claims", run->slot->claims));
    return run;
}

static pawl_run *take_suspect(struct sched *d)
{
    quarantine *s = &d->quarantine;
    if (s->next.first)
        return pop(&s->next);
    if (is_marking(s))
        return NULL;
    int64_t now = now_ns(d);
    pawl_run *run = NULL;
    if (may_let_out(s, now))
        run = let_out(d, now);
    else if (s->beside.first)
        run = pop(&s->beside);
    if (run && lacks_mark(d, run))
        s->marking = run;
    return run;
}

static int has_any(const quarantine *s)
{
    return s->next.first || s->alone.first || s->beside.first;
}

pawl_run *quarantine_take(struct sched *d, int others_wait)
{
    quarantine *s = &d->quarantine;
    if (!has_any(s) || (others_wait && ++s->turns % 2 != 0))
        return NULL;
    return take_suspect(d);
}

int quarantine_is_ready(struct sched *d)
{
    const quarantine *s = &d->quarantine;
    if (s->next.first)
        return 1;
    if (!has_any(s) || is_marking(s))
        return 0;
    return s->beside.first || may_let_out(s, now_ns(d));
}

int64_t quarantine_next_ns(const struct sched *d)
{
    const quarantine *s = &d->quarantine;
    if (!s->alone.first || is_marking(s))
        return INT64_MAX;
    return let_out_ns(s);
}

void quarantine_marked(struct sched *d, pawl_run *run)
{
    quarantine *s = &d->quarantine;
    pthread_mutex_lock(&d->lock);
    run->slot->marked = 1;
    if (s->marking == run)
        s->marking = NULL;
    if (s->out == run)
        s->until_ns = clock_deadline(now_ns(d), ALONE_MS);
    if (quarantine_is_ready(d))
        run_queue_call_one(d);
    pthread_mutex_unlock(&d->lock);
}

/* ---- Survivors ---- */

void quarantine_put_back(struct sched *d, pawl_run *run)
{
    quarantine *s = &d->quarantine;
    if (s->out == run)
        s->out = NULL;
    if (s->marking == run)
        s->marking = NULL;
    if (quarantine_is_ready(d))
        run_queue_call_one(d);
}

void quarantine_acquit(struct sched *d, pawl_run *run)
{
    run->slot->cleared = 0;
    if (run->quarantine_level == SUSPECT_NOT)
        return;
    run->quarantine_level = SUSPECT_NOT;
    run->slot->marked = 0; /* a journal of another length begins a new count */
    quarantine_put_back(d, run);
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
        return run ? pop(q) : NULL;
    before->slot->next = run->slot->next;
    if (q->last == run)
        q->last = before;
    run->slot->next = NULL;
    run_move(run, PLACE_IN_HAND);
    return run;
}

pawl_run *quarantine_take_if(struct sched *d, int (*wanted)(const pawl_run *run))
{
    quarantine_queue *all[] = {&d->quarantine.next, &d->quarantine.alone, &d->quarantine.beside};
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

static void unmarked(struct sched *d)
{
    pthread_mutex_lock(&d->lock);
    d->quarantine.unmarking--;
    if (quarantine_is_ready(d))
        run_queue_call_one(d);
    pthread_mutex_unlock(&d->lock);
}

static void answered(unit *u, void *arg)
{
    unmarking *m = arg;
    if (u->answer == UNIT_UNDECIDED)
        return;
    unmarked(m->sched);
    arena_free(m->memory);
}

/* It was counted in `unmarking`. Without memory the mark stays, once. */
static void unmark(struct sched *d, const run_lease *h)
{
    arena *a = arena_new(0);
    unmarking *m = a ? arena_alloc(a, sizeof *m) : NULL;
    unit *u = m ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        unmarked(d);
        return;
    }
    *m = (unmarking){d, a};
    run_mark(u, h, -1);
    u->class = UNIT_OF_RUN;
    u->done = answered;
    u->done_arg = m;
    committer_submit(committers_of(d->options.committers, (uint64_t)h->run), u);
}

/* Its journal has got longer: the row of a transactional step is there, but its function does not
 * know that yet. */
static int got_further(const pawl_run *run)
{
    return run->code.want == WANT_TRANSACT || run->code.want == WANT_END ||
           (run->journal.replay && replay_seq(run->journal.replay) > run->slot->claimed_seq);
}

void quarantine_committed(struct sched *d, pawl_run *run, int hold_requested)
{
    int marked = 0;
    pthread_mutex_lock(&d->lock);
    if (got_further(run)) {
        quarantine_acquit(d, run);
    } else if (hold_requested) {
        marked = run->slot->marked; /* RULE B8-who-rests-is-unmarked */
        run->slot->marked = 0;
        d->quarantine.unmarking += marked;
        quarantine_put_back(d, run);
    }
    pthread_mutex_unlock(&d->lock);
    if (marked)
        unmark(d, &run->lease);
}

void quarantine_unmark(struct sched *d)
{
    quarantine *s = &d->quarantine;
    pthread_mutex_lock(&d->lock);
    int owed = s->has_unmark;
    run_lease h = s->unmark;
    s->has_unmark = 0;
    s->unmarking += owed;
    pthread_mutex_unlock(&d->lock);
    if (!owed)
        return;
    unmark(d, &h);
    committers_leave(d->options.committers); /* the next suspect waits for it */
}

/* A run that is marked; NULL: none is any more. */
static pawl_run *next_marked(struct sched *d, size_t *cursor)
{
    uint64_t key;
    void *run;
    while (map_next(&d->runs, cursor, &key, &run))
        if (((pawl_run *)run)->slot->marked)
            return run;
    return NULL;
}

/* To go in good order is no death. */
void quarantine_leave(struct sched *d)
{
    size_t cursor = 0;
    if (d->quarantine.running)
        return;
    quarantine_unmark(d);
    for (;;) {
        run_lease h = {0};
        pthread_mutex_lock(&d->lock);
        pawl_run *run = next_marked(d, &cursor);
        if (run) {
            h = run->lease;
            run->slot->marked = 0;
            d->quarantine.unmarking++;
        }
        pthread_mutex_unlock(&d->lock);
        if (!run)
            return;
        unmark(d, &h);
    }
}
