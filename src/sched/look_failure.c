/* Failures by kind of look: since when, the last error, and whether the log has a line of it. The
 * log is written without the lock, since it is code of the user. */
#include "sched/look_failure.h"

#include "base/text.h"
#include "sched/sched_internal.h"

enum { TOLD_MS = 1000 };

static const char *const WHAT[LOOKS] = {
    "which of its sleeping runs are due", "which runs are due that have no owner",
    "which runs of closed nodes are due", "what other processes have sent",
    "which held runs can go on here",     "which held runs are past their deadline",
    "the run that it is to finish",       "the children of the run that it is to finish",
};

/* Is the failure one that another part of the node reports? */
static int is_known(pawl_code code)
{
    return code == PAWL_UNREACHABLE || code == PAWL_CLOSED || code == PAWL_FENCED ||
           code == PAWL_REWOUND;
}

void look_failure_note(sched *s, look_kind kind, const error *err)
{
    struct look_failure *f = &s->look_failures.of[kind];
    int64_t now_ns = s->host->mono_ns(s->host);
    char words[sizeof f->words];
    buf b;
    if (is_known(err->code))
        return;
    buf_init_fixed(&b, words, sizeof words);
    buf_printf(&b, "%s%s%s", err->message, err->detail[0] ? ": " : "", err->detail);
    sched_lock(s);
    if (!f->fails) {
        atomic_fetch_add(&s->look_failures.count, 1);
        f->since_ns = now_ns;
    }
    f->fails = 1;
    f->code = err->code;
    text_clip(f->words, sizeof f->words, slice_of(buf_str(&b)));
    int tells = !f->is_told && clock_deadline(f->since_ns, TOLD_MS) <= now_ns;
    f->is_told |= tells;
    sched_unlock(s);
    if (tells) /* RULE L6-a-look-that-fails-is-told */
        LOG(&s->log, LOG_WARNING, "look-failed", LOG_TEXT("what", WHAT[kind]),
            LOG_TEXT("code", pawl_code_name(err->code)), LOG_TEXT("why", buf_str(&b)));
}

void look_failure_end(sched *s, look_kind kind)
{
    struct look_failure *f = &s->look_failures.of[kind];
    if (atomic_load_explicit(&s->look_failures.count, memory_order_relaxed) == 0)
        return;
    sched_lock(s);
    int tells = f->is_told;
    atomic_fetch_sub(&s->look_failures.count, f->fails);
    f->fails = f->is_told = 0;
    sched_unlock(s);
    if (tells)
        LOG(&s->log, LOG_INFO, "look-failed-ended", LOG_TEXT("what", WHAT[kind]));
}

void look_failure_result(sched *s, look_kind kind, pawl_code rc, const error *err)
{
    if (rc == PAWL_OK)
        look_failure_end(s, kind);
    else
        look_failure_note(s, kind, err);
}

void look_failure_forget_all(sched *s)
{
    sched_assert_locked(s);
    for (int i = 0; i < LOOKS; i++)
        s->look_failures.of[i].fails = s->look_failures.of[i].is_told = 0;
    atomic_store(&s->look_failures.count, 0);
}

/* Returns a kind of look that fails and could have found a run that is not in memory; `kind` if
 * there is none. */
static look_kind other_failure(const sched *s, look_kind kind)
{
    static const look_kind OTHERS[] = {LOOK_ONE, LOOK_FAMILY};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (s->look_failures.of[OTHERS[i]].fails)
            return OTHERS[i];
    return kind;
}

int look_failure_words(sched *s, int64_t run, int64_t owner, char *out, size_t size)
{
    buf b;
    buf_init_fixed(&b, out, size);
    sched_lock(s);
    int is_here = map_get(&s->runs, (uint64_t)run) != NULL;
    look_kind kind = owner == 0                            ? LOOK_DUE
                     : owner != atomic_load(&s->open_node) ? LOOK_LEFT
                     : is_here                             ? LOOK_ARRIVALS
                                                           : LOOK_DORMANT;
    if (!s->look_failures.of[kind].fails && !is_here)
        kind = other_failure(s, kind);
    const struct look_failure *f = &s->look_failures.of[kind];
    int fails = f->fails;
    if (fails)
        buf_printf(&b, "it cannot be read here %s: %s: %s", WHAT[kind], pawl_code_name(f->code),
                   f->words);
    sched_unlock(s);
    text_drop_empty_parts(out);
    return fails;
}
