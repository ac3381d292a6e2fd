/* Keeping units: what a failure means, waiting for another try, and holding runs whose record is
 * refused for good. The rules are in the header. */
#include "sched/unit_retry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "run/transact.h"
#include "sched/kept.h"
#include "sched/sched_internal.h"
#include "sched/unit_verdict.h"
#include "sched/work_limit.h"

/* So many failures for an unknown reason, each followed by a probe that was committed, and the
 * record counts as refused for good. */
enum { OWN_TRIES = 5 };

/* ---- May the unit be kept? ---- */

int unit_retry_may(const pawl_run *run)
{
    const unit *u = run->draft.unit;
    if (run->slot->marks || u->broken_build)
        return 0;
    if (u->answer == UNIT_REFUSED)
        return strcmp(u->refused, "prefix") == 0 && !transact_goes(run);
    return u->answer == UNIT_FAILED && u->code != PAWL_UNDECIDED && u->code != PAWL_CLOSED &&
           u->code != PAWL_FENCED && u->code != PAWL_REWOUND;
}

int unit_retry_waits(const sched *s)
{
    /* RULE L5-nor-while-they-are-undecided */
    return atomic_load(&s->doubts) > 0 ||
           (atomic_load(&s->failing) > 0 && atomic_load(&s->backoff_ms) > 0);
}

/* ---- What is known of a failure ---- */

void unit_retry_name(char what[UNIT_RETRY_NAME_SIZE], const unit *u)
{
    buf b;
    run_entry e = {0};
    buf_init_fixed(&b, what, UNIT_RETRY_NAME_SIZE);
    if (!run_find_deed(u, &e)) {
        buf_text(&b, "how the run goes on");
        return;
    }
    const op_info *info = op_find(e.kind);
    if (e.name.size > 0)
        buf_printf(&b, "%s %.*s (op %lld)", info ? info->word : "op", (int)e.name.size, e.name.at,
                   (long long)(e.op ? e.op : e.seq));
    else
        buf_printf(&b, "op %lld", (long long)(e.op ? e.op : e.seq));
}

/* Remembers why the unit has failed. If memory is out the unit is kept all the same, without words.
 * 1: it is the first failure of this unit. */
static int remember_failure(pawl_run *run, pawl_code code)
{
    sched *s = run->host->sched;
    const unit *u = run->draft.unit;
    struct kept *k = run->slot->failure ? run->slot->failure : calloc(1, sizeof *k);
    if (!k)
        return 0;
    sched_lock(s);
    int first = !run->slot->failure;
    run->slot->failure = k;
    k->code = code;
    k->undone = transact_goes(run);
    text_clip(k->words, sizeof k->words, slice_of(u->message ? u->message : pawl_code_text(code)));
    if (first)
        unit_retry_name(k->what, u);
    sched_unlock(s);
    return first;
}

void unit_retry_tell_undone(pawl_run *run, pawl_code code, const char *words)
{
    char why[512];
    buf b;
    buf_init_fixed(&b, why, sizeof why);
    buf_printf(&b, "%s: %s",
               run->slot->marks ? "its mark of quarantine was not written"
                                : "the transaction of its step was rolled back",
               words);
    if (!run->slot->undone) /* RULE L6-a-turn-that-is-undone-is-told-once */
        LOG(&run->host->sched->log, LOG_WARNING, "turn-undone", LOG_TEXT("run", run->id),
            LOG_TEXT("code", pawl_code_name(code)), LOG_TEXT("why", why));
    run->slot->undone = 1;
}

static void log_failure(pawl_run *run)
{
    const struct kept *k = run->slot->failure;
    if (k->undone) {
        unit_retry_tell_undone(run, k->code, k->words);
        return;
    }
    LOG(&run->host->sched->log, LOG_WARNING, "record-kept", LOG_TEXT("run", run->id),
        LOG_TEXT("what", k->what), LOG_TEXT("code", pawl_code_name(k->code)),
        LOG_TEXT("why", k->words));
}

void unit_retry_count(pawl_run *run, int counted)
{
    atomic_fetch_add(&run->host->sched->failing, counted - run->slot->retry_counted);
    run->slot->retry_counted = counted;
}

/* With the lock held. */
static void set_state(pawl_run *run, run_keeps state)
{
    int was = run->slot->keeps == KEPT_HOLDS || run->slot->keeps == KEPT_HELD;
    int is = state == KEPT_HOLDS || state == KEPT_HELD;
    run->host->sched->unit_retry_held += is - was;
    run->slot->keeps = state;
}

/* ---- Waiting ---- */

/* The run waits for the storage with all others; or alone (`is_own`), if the trouble is its own:
 * the database refuses its record, or memory was out for its next try, which says nothing about
 * others. */
static void wait_for_retry(pawl_run *run, int is_own)
{
    sched *s = run->host->sched;
    work_limit_pass(s, run);
    sched_lock(s);
    quarantine_put_back(s, run);
    unit_retry_count(run, !is_own);
    run->slot->put_off = 1;
    set_state(run, KEPT_WAITS);
    if (is_own)
        storage_backoff_alone(s, run);
    else
        storage_backoff(s, run);
    sched_unlock(s);
}

/* ---- Small units beside the one that is kept ---- */

/* Called by the leader of the group commit. */
static void small_unit_answered(unit *u, void *arg)
{
    pawl_run *run = arg;
    if (u->answer != UNIT_UNDECIDED)
        run_queue_answered(run->host->sched, run);
}

/* NULL: memory is out. */
static unit *small_unit(pawl_run *run)
{
    struct kept *k = run->slot->failure;
    arena_free(k->unit_arena);
    k->unit_arena = arena_new(0);
    k->unit = k->unit_arena ? unit_new(k->unit_arena) : NULL;
    if (!k->unit)
        return NULL;
    k->unit->class = UNIT_OF_RUN;
    k->unit->done = small_unit_answered;
    k->unit->done_arg = run;
    return k->unit;
}

static void submit_small_unit(pawl_run *run, run_keeps state)
{
    sched *s = run->host->sched;
    unit *u = run->slot->failure->unit;
    work_limit_pass(s, run);
    sched_lock(s);
    quarantine_put_back(s, run);
    set_state(run, state);
    run_move(run, PLACE_COMMITS);
    sched_unlock(s);
    committer_submit(committers_of(s->options.committers, (uint64_t)run->lease.run), u);
}

static slice print_words(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

static slice print_words(arena *a, const char *format, ...)
{
    char text[sizeof((struct kept *)0)->what + 512];
    va_list args;
    va_start(args, format);
    text_print(text, sizeof text, format, args);
    va_end(args);
    text_drop_empty_parts(text);
    slice s = slice_of(text);
    return (slice){arena_copy(a, s), s.size};
}

/* ---- Is the trouble the run's own? ---- */

/* A node that leaves does not ask: it begins nothing, and has only the time of a drain to try
 * again. */
static int asks_storage(const pawl_run *run)
{
    /* RULE L5-a-node-that-leaves-tries-and-does-not-ask */
    return run->slot->failure && !host_is_leaving(run->host);
}

/* From here on this node claims no runs, brings back no dormant ones and begins no work functions,
 * until the probe is answered: if the storage fails, what is begun in between could not be recorded
 * either. If no probe will be sent, this does nothing. */
static void begin_nothing(pawl_run *run)
{
    if (!asks_storage(run))
        return;
    unit_retry_count(run, 1);
    sched_lock(run->host->sched);
    storage_backoff_asks(run->host->sched); /* RULE L5-nothing-is-begun-before-the-probe-answers */
    sched_unlock(run->host->sched);
}

/* A probe: is a small write committed that touches no run? An idle node has nothing else from which
 * it could learn that the storage works. begin_nothing() comes before it. */
static void probe_storage(pawl_run *run)
{
    int asks = asks_storage(run);
    unit *u = asks ? small_unit(run) : NULL;
    if (u)
        node_add_probe(u);
    if (!u || u->broken_build) {
        /* RULE L4-no-memory-is-no-storage-trouble */
        wait_for_retry(run, asks || !run->slot->failure);
        return;
    }
    submit_small_unit(run, KEPT_ASKS);
}

/* The row of the run tells other processes of the trouble; if not now, with the next try. */
static void tell_trouble(pawl_run *run)
{
    const struct kept *k = run->slot->failure;
    unit *u = small_unit(run);
    slice words = {0};
    if (u)
        words =
            print_words(k->unit_arena,
                        "the result of %s is in the memory of node %lld only, which tries again to"
                        " record it: %s: %s",
                        k->what, (long long)run->lease.owner, pawl_code_name(k->code), k->words);
    if (k->undone && u)
        words =
            print_words(k->unit_arena,
                        "the transaction of %s was rolled back, and node %lld executes it again:"
                        " %s: %s",
                        k->what, (long long)run->lease.owner, pawl_code_name(k->code), k->words);
    if (words.at) /* RULE L6-the-row-tells-of-a-record-that-fails */
        run_set_trouble(u, &run->lease, words, sched_now_ms(run->host->sched));
    if (words.at && !u->broken_build)
        submit_small_unit(run, KEPT_TELLS);
    else
        wait_for_retry(run, 1);
}

static void after_telling(pawl_run *run)
{
    struct kept *k = run->slot->failure;
    k->told = k->unit->answer == UNIT_COMMITTED;
    if (k->undone && k->told)
        run->slot->noted = 1; /* RULE L6-a-step-that-was-rolled-back-ends-its-trouble */
    wait_for_retry(run, 1);
}

/* The probe has its answer: if it was committed, the trouble is the run's own. */
static void after_probe(pawl_run *run)
{
    sched *s = run->host->sched;
    struct kept *k = run->slot->failure;
    if (k->unit->answer != UNIT_COMMITTED) {
        wait_for_retry(run, 0);
        return;
    }
    /* RULE L7-what-passes-does-not-hold */
    if (unit_verdict_of(k->code) != VERDICT_PASSES)
        k->tries++;
    unit_retry_count(run, 0); /* the small unit with the words may have to wait for a row lock */
    sched_lock(s);
    storage_backoff_committed(s);
    sched_unlock(s);
    if (k->told)
        wait_for_retry(run, 1);
    else
        tell_trouble(run);
}

/* ---- Handing in again ---- */

/* Puts a guard before the unit, which asks for the lease: the run may have been deleted meanwhile.
 * The same statement ends the hold of the run when the record is committed. 0: memory is out. */
static int put_guard(pawl_run *run)
{
    if (run->slot->guarded)
        return 1;
    unit_renew(run->draft.unit);
    run_try_again(run->draft.unit, &run->lease); /* RULE L5-a-deleted-run-is-not-written */
    run->slot->guarded = !run->draft.unit->broken_build;
    run->draft.unit->broken_build = 0; /* what it had before is whole */
    return run->slot->guarded;
}

static void hand_in_again(pawl_run *run)
{
    sched *s = run->host->sched;
    sched_lock(s);
    set_state(run, KEPT_NOT);
    if (run->slot->failure)
        run->slot->failure->released = 0;
    run_move(run, PLACE_COMMITS);
    sched_unlock(s);
    run->draft.submitter = (submitter){0};
    committer_submit(committers_of(s->options.committers, (uint64_t)run->lease.run),
                     run->draft.unit);
}

/* Of a transactional step: nothing of it is left, so its run is replayed and comes to it again. The
 * tries so far stay counted. */
static void execute_again(pawl_run *run)
{
    sched *s = run->host->sched;
    struct kept *k = run->slot->failure;
    if (k)
        k->is_carried = 1; /* RULE L7-tries-of-a-step-that-was-rolled-back-are-counted */
    run_cool(run);
    run->draft.handed_in = 0;
    run->draft.submitter = (submitter){0};
    sched_lock(s);
    set_state(run, KEPT_NOT);
    if (k)
        k->is_carried = k->released = 0;
    run_queue_ready(s, run);
    sched_unlock(s);
}

/* The hold of such a run ends first, since no unit of its own ends it. */
static void end_hold(pawl_run *run)
{
    unit *u = small_unit(run);
    if (u)
        run_try_again(u, &run->lease);
    if (u && !u->broken_build)
        submit_small_unit(run, KEPT_FREES);
    else
        wait_for_retry(run, 1);
}

static void after_freeing(pawl_run *run)
{
    struct kept *k = run->slot->failure;
    if (k->unit->answer != UNIT_COMMITTED) {
        wait_for_retry(run, 1);
        return;
    }
    k->is_held = k->told = 0;
    execute_again(run);
}

static void try_again(pawl_run *run)
{
    if (run->slot->failure && run->slot->failure->is_held)
        end_hold(run); /* RULE L7-a-release-ends-the-hold-of-a-step-that-was-rolled-back */
    else if (transact_goes(run))
        execute_again(run);
    else if (put_guard(run))
        hand_in_again(run);
    else
        wait_for_retry(run, 1);
}

/* ---- Holding ---- */

/* The unit that holds the run. 0: memory is out. */
static int build_hold(pawl_run *run)
{
    const struct kept *k = run->slot->failure;
    unit *u = small_unit(run);
    if (!u)
        return 0;
    run_held why = {.reason = HELD_RECORD};
    why.words =
        print_words(k->unit_arena, "the database refuses to record %s: %s", k->what, k->words);
    slice trouble = k->undone
                        ? print_words(k->unit_arena,
                                      "the transaction of %s was rolled back, and is executed again"
                                      " after a release",
                                      k->what)
                        : print_words(k->unit_arena,
                                      "the result of %s is in the memory of node %lld only, and is"
                                      " executed again if that node ends",
                                      k->what, (long long)run->lease.owner);
    if (!why.words.at || !trouble.at)
        return 0;
    run_hold_record(u, &run->lease, &why, trouble, sched_now_ms(run->host->sched));
    return !u->broken_build;
}

static void hold_run(pawl_run *run)
{
    const struct kept *k = run->slot->failure;
    unit_retry_count(run, 0);
    if (!build_hold(run)) {
        wait_for_retry(run, 1);
        return;
    }
    if (!k->unheld) /* RULE L6-a-record-that-is-refused-is-told-once */
        LOG(&run->host->sched->log, LOG_ERROR, "record-refused", LOG_TEXT("run", run->id),
            LOG_TEXT("what", k->what), LOG_TEXT("code", pawl_code_name(k->code)),
            LOG_TEXT("why", k->words));
    submit_small_unit(run, KEPT_HOLDS);
}

/* The run is held, and sleeps until it is released. Another thread may have released it already,
 * with the lock held (`released`): then it is tried again at once. */
static void stay_held(pawl_run *run)
{
    sched *s = run->host->sched;
    sched_lock(s);
    int released = run->slot->failure->released;
    set_state(run, KEPT_HELD);
    if (!released) {
        run->slot->put_off = 1;
        run_queue_sleep(s, run, RUN_NEVER);
    }
    sched_unlock(s);
    if (released)
        try_again(run);
}

static void after_hold(pawl_run *run)
{
    sched *s = run->host->sched;
    LOG(&s->log, LOG_WARNING, "run-held", LOG_TEXT("run", run->id),
        LOG_TEXT("why", run->slot->failure->words));
    run->slot->failure->unheld = 0;
    run->slot->failure->is_held = run->slot->failure->undone;
    sched_lock(s);
    storage_backoff_committed(s);
    run_queue_tell_watches(s, run); /* calls that wait for the run get HELD */
    sched_unlock(s);
    stay_held(run);
}

static void after_refused_hold(pawl_run *run)
{
    struct kept *k = run->slot->failure;
    const unit *u = k->unit;
    if (!k->unheld)
        LOG(&run->host->sched->log, LOG_ERROR, "hold-refused", LOG_TEXT("run", run->id),
            LOG_TEXT("code", pawl_code_name(u->code)),
            LOG_TEXT("why", u->message ? u->message : ""));
    k->unheld = 1;
    begin_nothing(run);
    probe_storage(run); /* RULE L4-a-hold-that-is-refused-stops-no-other */
}

/* ---- For the runner ---- */

void unit_retry_unit(pawl_run *run)
{
    pawl_code code = run->draft.unit->answer == UNIT_FAILED ? run->draft.unit->code : PAWL_STORAGE;
    int first = remember_failure(run, code);
    const struct kept *k = run->slot->failure;
    /* RULE L7-an-unknown-failure-holds-when-others-are-committed */
    int holds = k && (unit_verdict_of(code) == VERDICT_FOR_GOOD || k->tries >= OWN_TRIES);
    if (!holds)
        begin_nothing(run); /* RULE L5-a-failure-is-logged-when-nothing-is-begun */
    if (k && (first || k->undone))
        log_failure(run);
    if (holds)
        hold_run(run);
    else
        /* RULE L7-an-idle-node-asks-whose-trouble-it-is */
        /* RULE L4-a-full-disk-for-one-run-stops-no-other */
        /* RULE L4-the-simulator-sees-a-record-that-stops-others */
        probe_storage(run);
}

const unit *unit_retry_go_on(pawl_run *run)
{
    const struct kept *k = run->slot->failure;
    if (run->slot->keeps == KEPT_WAITS) {
        try_again(run);
        return NULL;
    }
    assert(k && k->unit); /* a run that asks, tells, or is held for its record has both */
    if (run->slot->keeps != KEPT_HELD && k->unit->answer == UNIT_REFUSED)
        return k->unit;
    if (run->slot->keeps == KEPT_ASKS)
        after_probe(run);
    else if (run->slot->keeps == KEPT_TELLS)
        after_telling(run);
    else if (run->slot->keeps == KEPT_HELD)
        stay_held(run);
    else if (run->slot->keeps == KEPT_FREES)
        after_freeing(run);
    else if (k->unit->answer == UNIT_COMMITTED)
        after_hold(run);
    else
        after_refused_hold(run);
    return NULL;
}

void unit_retry_forget(pawl_run *run)
{
    sched *s = run->host->sched;
    struct kept *k = run->slot->failure;
    run->slot->guarded = 0;
    if (run->slot->retry_counted)
        unit_retry_count(run, 0);
    if ((!k && run->slot->keeps == KEPT_NOT) || (k && k->is_carried))
        return;
    sched_lock(s); /* another thread may be reading the words, or releasing the run */
    set_state(run, KEPT_NOT);
    run->slot->failure = NULL;
    sched_unlock(s);
    if (k)
        arena_free(k->unit_arena);
    free(k);
}

void unit_retry_committed(pawl_run *run)
{
    if (!run->slot->failure && !run->slot->retry_counted)
        return;
    const struct kept *k = run->slot->failure;
    /* turn-undone-ended tells of a step that was rolled back. */
    if (!k || !k->undone) /* RULE L6-a-step-that-was-rolled-back-is-not-kept */
        LOG(&run->host->sched->log, LOG_INFO, "record-committed", LOG_TEXT("run", run->id),
            LOG_TEXT("what", k ? k->what : ""));
    unit_retry_forget(run);
}

/* ---- For all others ---- */

/* Was the unit given up since it had no answer in time? Then nothing of it was written. */
static int was_given_up(const pawl_run *run)
{
    const unit *u = run->draft.unit;
    return u->code == PAWL_CLOSED && !run->slot->marks && !u->broken_build;
}

int unit_retry_at_once(pawl_run *run)
{
    /* While the unit is on its way its answer is that of a try, and not the last one. */
    /* RULE L5-a-unit-on-its-way-is-not-handed-in-beside */
    int is_answered = run->slot->place == PLACE_READY || run->slot->place == PLACE_SLEEPS;
    const unit *u = is_answered && run->draft.handed_in ? run->draft.unit : NULL;
    sched_assert_locked(run->host->sched);
    /* RULE L5-the-last-failure-of-a-finish-is-tried-at-once */
    if (run->slot->keeps == KEPT_NOT && u && u->answer == UNIT_FAILED &&
        /* RULE L5-what-a-serve-gives-up-is-handed-in-again */
        (unit_retry_may(run) || was_given_up(run)))
        set_state(run, KEPT_WAITS);
    return run->slot->keeps == KEPT_WAITS;
}

void unit_retry_release(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    if (run->slot->keeps != KEPT_HELD && run->slot->keeps != KEPT_HOLDS)
        return;
    run->slot->failure->released = 1;
    if (run->slot->keeps == KEPT_HELD && run->slot->place == PLACE_SLEEPS)
        run_queue_ready(s, run);
}
