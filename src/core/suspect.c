/* One list of those who wait, and one who is out. The rules are in the header. Those who take long
 * are waited for once and tolerated then: otherwise each suspect would have to wait for them. */
#include "core/suspect.h"

#include "core/drive.h"
#include "core/jobs.h"
#include "core/running.h"

static const int64_t ALONE_MS = 5000;

static int64_t now_ns(struct drive *d)
{
    return d->host->mono_ns(d->host);
}

int suspect_is_poison(int64_t claims)
{
    return claims > POISON_DEATHS;
}

int suspect_is(const struct drive *d, int64_t claims)
{
    int64_t from = d->suspects.running ? SUSPECT_KNOWN : SUSPECT_GUESSED;
    return claims >= from && !suspect_is_poison(claims);
}

int suspect_needs_mark(struct drive *d, const pawl_run *run)
{
    if (!run->suspect || d->suspects.running)
        return 0;
    pthread_mutex_lock(&d->lock);
    int needs = run->suspect && !run->marked;
    pthread_mutex_unlock(&d->lock);
    return needs;
}

/* ---- Waiting ---- */

static void wake(struct drive *d, int all)
{
    for (int i = 0; i < d->thread_count; i++) {
        if (!d->runners[i].waits)
            continue;
        pthread_cond_signal(&d->runners[i].cond);
        if (!all)
            break;
    }
}

/* The one who is out comes first: it has to go on. */
void suspect_add(struct drive *d, pawl_run *run)
{
    suspects *s = &d->suspects;
    if (run == s->alone) {
        run->next = s->first;
        s->first = run;
    } else if (s->last) {
        s->last->next = run;
    } else {
        s->first = run;
    }
    if (!run->next)
        s->last = run;
    wake(d, 0);
}

static pawl_run *pop(suspects *s)
{
    pawl_run *run = s->first;
    s->first = run->next;
    if (!s->first)
        s->last = NULL;
    run->next = NULL;
    run->where = RUN_IN_HAND;
    return run;
}

/* ---- Letting out ---- */

static void end_alone(struct drive *d)
{
    suspects *s = &d->suspects;
    s->alone = NULL;
    s->until_ns = 0;
    running_blame(s->running, 0);
    wake(d, 1);
}

static pawl_run *let_out(struct drive *d, int64_t now)
{
    suspects *s = &d->suspects;
    if (s->until_ns == 0)
        s->until_ns = clock_deadline(now, ALONE_MS);
    if (s->in_hand > s->tolerated && now < s->until_ns)
        return NULL;
    s->tolerated = s->in_hand;
    pawl_run *run = s->alone = pop(s);
    s->until_ns = clock_deadline(now, ALONE_MS);
    running_blame(s->running, run->hold.run);
    LOG(&d->log, LOG_WARNING, "suspect", LOG_TEXT("run", run->id), LOG_NUM("claims", run->claims));
    return run;
}

static pawl_run *take(struct runner *r)
{
    struct drive *d = r->drive;
    suspects *s = &d->suspects;
    if (!s->first && !s->alone)
        return drive_take(r);
    int64_t now = now_ns(d);
    if (s->alone && now >= s->until_ns) {
        pawl_run *run = s->alone, *ready = s->first == run ? pop(s) : NULL;
        s->tolerated += !ready && run->where == RUN_IN_HAND;
        suspect_acquit(d, run);
        if (ready)
            return ready; /* it is no suspect any more, and has no place among them */
    }
    if (s->alone)
        return s->first == s->alone ? pop(s) : NULL;
    return s->first ? let_out(d, now) : drive_take(r);
}

pawl_run *suspect_take(struct runner *r)
{
    pawl_run *run = take(r);
    if (run)
        r->drive->suspects.in_hand++;
    return run;
}

/* Runs come first, since they are what makes jobs; but not always. */
enum { JOBS_EVERY = 8 };

job *suspect_take_job(struct runner *r)
{
    struct drive *d = r->drive;
    suspects *s = &d->suspects;
    if (!d->jobs.first || s->first || s->alone || (r->first && ++r->turns % JOBS_EVERY != 0))
        return NULL;
    s->in_hand++;
    return jobs_take(d);
}

void suspect_done(struct drive *d)
{
    suspects *s = &d->suspects;
    s->in_hand--;
    if (s->tolerated > s->in_hand)
        s->tolerated = s->in_hand;
    if (s->first && s->in_hand <= s->tolerated)
        wake(d, 0);
}

int suspect_has(struct runner *r)
{
    const suspects *s = &r->drive->suspects;
    if (s->alone)
        return s->first == s->alone;
    return s->first ? s->in_hand <= s->tolerated : r->first || r->drive->jobs.first;
}

int64_t suspect_next_ns(const struct drive *d)
{
    const suspects *s = &d->suspects;
    return (s->alone || s->first) && s->until_ns ? s->until_ns : INT64_MAX;
}

/* ---- Survivors ---- */

void suspect_acquit(struct drive *d, pawl_run *run)
{
    suspects *s = &d->suspects;
    size_t room = sizeof s->unmark / sizeof *s->unmark;
    if (!run->suspect)
        return;
    if (run->marked && s->unmarks < room) {
        s->unmark[s->unmarks++] = run->hold;
        drive_call_keeper(d);
    }
    run->marked = 0;
    run->suspect = 0;
    if (s->alone == run)
        end_alone(d);
}

void suspect_put_back(struct drive *d, pawl_run *run)
{
    if (d->suspects.alone == run)
        end_alone(d);
}

static void free_unit(unit *u, void *arg)
{
    if (u->answer != UNIT_UNDECIDED)
        arena_free(arg);
}

static void unmark(struct drive *d, const run_hold *h)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return;
    }
    run_mark(u, h, -1);
    u->class = UNIT_OF_RUN;
    u->done = free_unit;
    u->done_arg = a;
    committer_submit(committers_of(d->options.committers, (uint64_t)h->run), u);
}

void suspect_unmark(struct drive *d)
{
    suspects *s = &d->suspects;
    run_hold some[sizeof s->unmark / sizeof *s->unmark];
    pthread_mutex_lock(&d->lock);
    size_t count = s->unmarks;
    for (size_t i = 0; i < count; i++)
        some[i] = s->unmark[i];
    s->unmarks = 0;
    pthread_mutex_unlock(&d->lock);
    for (size_t i = 0; i < count; i++)
        unmark(d, &some[i]);
}
