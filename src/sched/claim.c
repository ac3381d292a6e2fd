/* A claim has an arena of its own, with the unit and what is known of the run. The leader of the
 * group commit calls finish_claim(), and there the run comes into memory. */
#include "sched/claim.h"

#include <string.h>

#include "base/text.h"
#include "sched/quarantine.h"
#include "sched/sched_internal.h"

/* 1 if the run is in memory here, or about to come there. */
static int is_here(sched *s, int64_t run)
{
    sched_lock(s);
    int here = run_queue_knows(s, run);
    sched_unlock(s);
    return here;
}

int claim_waits(sched *s, int64_t run)
{
    sched_lock(s);
    int waits = run_queue_knows(s, run)     ? CLAIM_IS_HERE
                : run_failure_waits(s, run) ? CLAIM_BACKS_OFF
                                            : 0;
    sched_unlock(s);
    return waits;
}

int claim_is_meant(sched *s, const claim *c)
{
    /* RULE finish-drives-its-run-alone */
    return !s->only || (c->facts.parent && is_here(s, c->facts.parent));
}

/* ---- Claiming ---- */

enum { FENCE_OF_FIRST_CLAIM = 2 };

/* Is this the first claim of the run? A start writes fence 1, and each claim raises it. So no node
 * has executed the run, its journal is empty, and need not be read. */
static int is_first_claim(const claim *c, const unit_row *row)
{
    /* RULE 4-only-the-first-claim-leaves-the-journal-unread */
    return c->claims == 0 && row->values[CLAIM_FENCE].i == FENCE_OF_FIRST_CLAIM &&
           row->values[CLAIM_PHASE].i == PHASE_LIVE && c->found.seq == 0 && c->facts.input.at;
}

static void enter_claimed(claim *c)
{
    sched *s = c->sched;
    const unit_row *row = unit_rows(c->unit, c->row);
    pawl_run *run = c->run;
    c->run = NULL;
    run->lease.fence = row->values[CLAIM_FENCE].i;
    run->lease.owner = s->node.id;
    run->generation = row->values[CLAIM_GENERATION].i;
    run->inbox.known = row->values[CLAIM_MAIL].i;
    run->slot->claims = row->values[CLAIM_CLAIMS].i;
    run->slot->noted = c->noted;
    run->journal.is_fresh = is_first_claim(c, row);
    run->failing = row->values[CLAIM_PHASE].i == PHASE_FAILING;
    quarantine_begin(s, run, c->found.seq);
    run_queue_enter(s, run);
}

/* While claims are on their way the node loop does not look for others. But a claim that waits for
 * a row lock of a foreign transaction may wait for hours. So it is not counted any more; it is put
 * into locked_claims, so that the run is not claimed once more meanwhile. If there is no memory for
 * that entry, the claim stays counted. */
static void begins_to_wait(unit *u, void *arg)
{
    (void)u;
    claim *c = arg;
    sched *s = c->sched;
    sched_lock(s);
    c->is_locked = map_put(&s->locked_claims, (uint64_t)c->found.run, c) == 0;
    s->claiming -= c->is_locked; /* RULE L4-a-claim-that-waits-for-a-lock-stops-no-other */
    if (s->claiming == 0)
        run_queue_call_node_loop(s);
    sched_unlock(s);
}

/* Logs that the run is held, or that a held run goes on here because hold_walk_on() has found that
 * this node can drive it. */
static void tell_hold(const claim *c)
{
    const log_sink *log = &c->sched->log;
    if (c->holds && unit_rows(c->unit, c->row)->values[HOLD_HELD].i)
        LOG(log, LOG_WARNING, "run-held", LOG_TEXT("run", c->facts.id.at),
            LOG_TEXT("why", c->holds));
    else if (!c->holds && c->releases)
        LOG(log, LOG_INFO, "run-released", LOG_TEXT("run", c->facts.id.at));
}

/* A claim that has failed is noted before it is counted as answered: otherwise the node loop could
 * read the row of the run again at once. */
static void note_answer(claim *c)
{
    const unit *u = c->unit;
    if (u->answer == UNIT_FAILED)
        run_failure_note(c->sched, c->found.run, c->facts.id.at, FAILURE_CLAIM, u->code,
                         u->message);
    else
        run_failure_end(c->sched, c->found.run, 1);
    if (u->answer == UNIT_COMMITTED) /* RULE L6-a-claim-that-fails-tells-of-no-hold */
        tell_hold(c);
}

static void finish_claim(unit *u, void *arg)
{
    claim *c = arg;
    sched *s = c->sched;
    if (u->answer == UNIT_UNDECIDED)
        return;
    note_answer(c);
    sched_lock(s);
    if (c->is_locked)
        map_take(&s->locked_claims, (uint64_t)c->found.run);
    else
        s->claiming--;
    map_take(&s->coming, (uint64_t)c->found.run);
    if (u->answer == UNIT_REFUSED && strcmp(u->refused, "node") == 0)
        /* RULE A1-a-closed-node-stops-claiming */
        atomic_store(&s->fenced, 1); /* this node is closed: each further claim would be refused */
    if (u->answer == UNIT_COMMITTED) {
        storage_backoff_committed(s);
        if (claim_is_for_us(c))
            enter_claimed(c);
    }
    s->claims_succeed |= u->answer != UNIT_FAILED;
    if (s->claiming == 0 && s->claims_succeed) { /* more runs may be due than were claimed */
        s->claims_succeed = 0;
        run_queue_call_node_loop(s);
    }
    sched_unlock(s);
    claim_free(c);
}

static void hand_in(claim *c)
{
    sched *s = c->sched;
    c->unit->class = UNIT_OF_RUN;
    c->unit->done = finish_claim;
    c->unit->done_arg = c;
    c->unit->waits = begins_to_wait;
    c->unit->name = c->facts.id.at;
    committer_submit(committers_of(s->options.committers, (uint64_t)c->found.run), c->unit);
}

/* Logs once that memory was out for a claim, and once that there is memory again. Both lines name
 * the run whose claim failed first, whichever run is claimed now. */
static void tell_memory(const claim *c, int is_out)
{
    sched *s = c->sched;
    char *starved = s->node_ready.starved;
    if (is_out && !starved[0]) {
        text_clip(starved, sizeof s->node_ready.starved, c->facts.id);
        LOG(&s->log, LOG_WARNING, "memory-out", LOG_TEXT("run", starved),
            LOG_TEXT("why", "a claim; the run is left to other nodes"));
    } else if (!is_out && starved[0]) {
        /* RULE L6-memory-is-there-again-for-the-run-that-lacked-it */
        LOG(&s->log, LOG_INFO, "memory-again", LOG_TEXT("run", starved));
        starved[0] = '\0';
    }
}

/* Allocates the memory that the run needs to be driven here, so that none is missing once this node
 * owns it. 0: memory is out. */
static int reserve_run(claim *c)
{
    sched *s = c->sched;
    pawl_run *run = claim_make_run(c);
    sched_lock(s);
    int has = run && run_queue_reserve(s, c->found.run);
    s->claiming += has;
    sched_unlock(s);
    if (has)
        c->run = run;
    else
        run_free(run);
    tell_memory(c, !has);
    return has;
}

int claim_submit(claim *c)
{
    sched *s = c->sched;
    if (!reserve_run(c)) { /* RULE L3-a-claim-has-its-memory-before-it-is-handed-in */
        claim_free(c);
        return 0;
    }
    c->row = run_claim(c->unit, &c->found, s->node.id, sched_now_ms(s));
    hand_in(c);
    return 1;
}

/* ---- Holding ---- */

void claim_hold(claim *c)
{
    sched *s = c->sched;
    char words[2 * PAWL_MAX_NAME + 32];
    buf b;
    buf_init_fixed(&b, words, sizeof words);
    buf_printf(&b, "no node has %s%s%s", c->workflow.at, c->version.size ? " " : "", c->version.at);
    slice text = {arena_copy(c->arena, (slice){b.at, b.size}), b.size};
    if (!text.at) {
        claim_free(c);
        return;
    }
    c->holds = text.at;
    c->row = run_hold_due(c->unit, c->found.run, c->found.owner, text, sched_now_ms(s));
    sched_lock(s);
    s->claiming++;
    sched_unlock(s);
    hand_in(c);
}
