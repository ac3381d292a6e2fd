/* Failures by run, in a map that the lock of the scheduler guards. The log is written without the
 * lock, since it is code of the user. */
#include "sched/run_failure.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sched/sched_internal.h"

/* TOLD_MAX: the log has lines about so many runs at a time at most; when the storage fails for all,
 * each run that is due would have one. STALE_MS: a run that was not tried again for so long after
 * its back-off has another owner by now, or was deleted. */
enum { FIRST_MS = 1000, LAST_MS = 30000, TOLD_MAX = 16, MANY = 1024, STALE_MS = 60000 };

struct run_failure {
    run_failure_kind kind;
    pawl_code code;
    int count;    /* failures in a row */
    int is_told;  /* the log has a line of it */
    int64_t ms;   /* the back-off after the last failure */
    int64_t ns;   /* when that back-off is over, as mono_ns */
    int64_t seen; /* sched.commits at the last failure */
    char *id;     /* of the run; NULL: memory was out */
    char words[256];
};

static const char *const BEGINS[] = {"claim-failed", "run-unread", "run-unread"};
static const char *const ENDS[] = {"claim-failed-ended", "run-unread-ended", "run-unread-ended"};
static const char *const WORDS[] = {
    "the run could not be claimed",
    "the rows of the run could not be read",
    "the row of the run could not be read, to bring it back into memory,",
};

static void free_entry(struct run_failure *f)
{
    if (f)
        free(f->id);
    free(f);
}

/* Takes the entry of the run out of the map. NULL: it has none. */
static struct run_failure *take_out(sched *s, int64_t run)
{
    struct run_failure *f = map_take(&s->failures.by_run, (uint64_t)run);
    if (!f)
        return NULL;
    s->failures.told -= f->is_told;
    atomic_fetch_sub(&s->failures.count, 1);
    return f;
}

static int is_stale(const struct run_failure *f, int64_t now_ns)
{
    return f->kind != FAILURE_READ && clock_deadline(f->ns, STALE_MS) <= now_ns;
}

/* Drops an entry of a run that this node has not met for long. */
static void drop_stale(sched *s, int64_t now_ns)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    while (map_next(&s->failures.by_run, &cursor, &key, &at)) {
        if (!is_stale(at, now_ns))
            continue;
        free_entry(take_out(s, (int64_t)key));
        return; /* the map has changed */
    }
}

static struct run_failure *entry_of(sched *s, int64_t run, const char *id, int64_t now_ns)
{
    struct run_failure *f = map_get(&s->failures.by_run, (uint64_t)run);
    if (f)
        return f;
    if (s->failures.by_run.count >= MANY)
        drop_stale(s, now_ns);
    f = calloc(1, sizeof *f);
    if (!f || map_put(&s->failures.by_run, (uint64_t)run, f) != 0) {
        free(f);
        return NULL;
    }
    f->id = strdup(id);
    atomic_fetch_add(&s->failures.count, 1);
    return f;
}

/* The back-off grows only if others were committed meanwhile. Otherwise the trouble may be that of
 * all, and when it is over none of them is to wait for long. */
static void back_off(const sched *s, struct run_failure *f, int64_t now_ns)
{
    if (f->ms == 0)
        f->ms = FIRST_MS;
    else if (f->seen != s->commits)
        f->ms = 2 * f->ms < LAST_MS ? 2 * f->ms : LAST_MS;
    f->seen = s->commits;
    f->ns = clock_deadline(now_ns, f->ms); /* RULE L7-a-claim-that-fails-has-a-back-off */
}

int run_failure_note(sched *s, int64_t run, const char *id, run_failure_kind kind, pawl_code code,
                     const char *words)
{
    if (code == PAWL_CLOSED || code == PAWL_FENCED || code == PAWL_REWOUND)
        return 0;
    int64_t now_ns = s->host->mono_ns(s->host);
    sched_lock(s);
    struct run_failure *f = entry_of(s, run, id, now_ns);
    int tells = f && !f->is_told && s->failures.told < TOLD_MAX, count = f ? ++f->count : 0;
    if (f) {
        f->kind = kind;
        f->code = code;
        f->is_told |= tells;
        s->failures.told += tells;
        text_clip(f->words, sizeof f->words, slice_of(words ? words : pawl_code_text(code)));
        back_off(s, f, now_ns);
    }
    sched_unlock(s);
    if (tells) /* RULE L6-a-run-that-fails-here-is-told */
        LOG(&s->log, LOG_WARNING, BEGINS[kind], LOG_TEXT("run", id),
            LOG_TEXT("code", pawl_code_name(code)),
            LOG_TEXT("why", words ? words : pawl_code_text(code)));
    return count;
}

void run_failure_end(sched *s, int64_t run, int tells)
{
    if (atomic_load(&s->failures.count) == 0)
        return;
    sched_lock(s);
    struct run_failure *f = take_out(s, run);
    sched_unlock(s);
    if (tells && f && f->is_told)
        LOG(&s->log, LOG_INFO, ENDS[f->kind], LOG_TEXT("run", f->id ? f->id : ""));
    free_entry(f);
}

int64_t run_failure_until_ns(const sched *s, int64_t run)
{
    sched_assert_locked(s);
    if (atomic_load(&s->failures.count) == 0)
        return 0;
    const struct run_failure *f = map_get(&s->failures.by_run, (uint64_t)run);
    return f && f->kind != FAILURE_READ ? f->ns : 0;
}

int run_failure_waits(sched *s, int64_t run)
{
    return run_failure_until_ns(s, run) > s->host->mono_ns(s->host);
}

void run_failure_forget_all(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    while (map_next(&s->failures.by_run, &cursor, &key, &at))
        free_entry(at);
    map_free(&s->failures.by_run);
    s->failures.told = 0;
    atomic_store(&s->failures.count, 0);
}

int run_failure_words(sched *s, int64_t run, char *out, size_t size)
{
    buf b;
    buf_init_fixed(&b, out, size);
    sched_lock(s);
    const struct run_failure *f = map_get(&s->failures.by_run, (uint64_t)run);
    int found = f && !is_stale(f, s->host->mono_ns(s->host));
    if (found)
        buf_printf(&b, "%s here, %d times in a row: %s: %s", WORDS[f->kind], f->count,
                   pawl_code_name(f->code), f->words);
    sched_unlock(s);
    text_drop_empty_parts(out);
    return found;
}
