/* Why a run does not go on, and what would make it go on: in sentences, one to a line.
 *
 * An operator asks this first when a run stands still. So each sentence states a fact, with the
 * names and numbers to search for, and the last sentences say what has to be done. This file does
 * not read the database: why_read() has read it in one transaction, so that all sentences about its
 * rows are true of the same moment. */
#include "query/why.h"

#include <stdlib.h>

#include "base/argument.h"
#include "query/humanize.h"
#include "query/info.h"
#include "rows/run_units.h"

enum { TEXT_MAX = 64 * 1024 };

/* Writes an instant as "2025-01-31T12:00:00.000Z (in 3 days)". */
static void put_moment(buf *b, const why *w, int64_t at_ms)
{
    humanize_time(b, at_ms);
    int64_t span = 0;
    if (__builtin_sub_overflow(at_ms, w->now_ms, &span))
        return;
    buf_text(b, span > 0 ? " (in " : " (");
    humanize_span(b, span);
    buf_text(b, span > 0 ? ")" : " ago)");
}

static void put_workflow(buf *b, const why *w)
{
    buf_text(b, "workflow ");
    humanize_name(b, w->workflow);
    if (w->version[0]) { /* "": any version will do */
        buf_text(b, " in version ");
        humanize_name(b, w->version);
    }
}

/* ---- Runs that have ended, or are held ---- */

static void put_failure(buf *b, const why *w)
{
    if (w->error_name[0] || w->error[0])
        buf_text(b, ": ");
    humanize_message(b, w->error_name);
    if (w->error_name[0] && w->error[0])
        buf_text(b, ": ");
    humanize_message(b, w->error);
    if (w->error_where[0]) {
        buf_text(b, ", in ");
        humanize_name(b, w->error_where);
    }
}

static void put_end(buf *b, const why *w)
{
    buf_text(b, w->phase == PAWL_RUN_DONE        ? "The run is done"
                : w->phase == PAWL_RUN_FAILED    ? "The run has failed"
                : w->phase == PAWL_RUN_CANCELLED ? "The run was cancelled"
                                                 : "The run is in a phase that this version does "
                                                   "not know");
    if (w->finished_ms) {
        buf_text(b, ", since ");
        put_moment(b, w, w->finished_ms);
    }
    if (w->phase != PAWL_RUN_DONE)
        put_failure(b, w);
    buf_text(b, ".\n");
    if (w->phase == PAWL_RUN_DONE)
        buf_text(b, "It waits for nothing.\n");
    else
        buf_text(b, "It goes on only by a redrive.\n");
}

/* Names the last builds that could not go on with the run. `list` has one build to a line. */
static void put_builds(buf *b, const char *list)
{
    enum { BUILDS = 3 };
    size_t size = strlen(list);
    int told = 0;
    while (size > 1 && told < BUILDS) {
        size_t from = size - 1; /* the end of a line */
        while (from > 0 && list[from - 1] != '\n')
            from--;
        char name[PAWL_MAX_NAME + 1];
        buf one;
        buf_init_fixed(&one, name, sizeof name);
        buf_add(&one, (slice){list + from, size - 1 - from});
        buf_text(b, told++ ? ", " : " than ");
        humanize_name(b, name);
        size = from;
    }
}

static void put_releaser(buf *b, const why *w)
{
    switch (w->held) {
    case HELD_VERSION:
        buf_text(b, "It goes on when a node comes that has ");
        put_workflow(b, w);
        if (w->held_for[0]) {
            buf_text(b, " and the work function ");
            humanize_name(b, w->held_for);
        }
        break;
    case HELD_MISMATCH:
    case HELD_POISON:
        buf_text(b, "It goes on with another build");
        put_builds(b, w->held_for);
        buf_text(b, ", by a release, or by a redrive");
        break;
    case HELD_RECORD:
        buf_printf(b, "It goes on when it is released: then node %lld tries to record that again",
                   (long long)w->owner);
        break;
    default:
        buf_text(b, "It goes on when it is released");
    }
    buf_text(b, ".\n");
}

/* ---- Cancel, deadline ---- */

/* Writes that the run was cancelled, while the cancel is in the inbox: the run has not followed it
 * yet, and there is no row of the journal that tells of it. A held run without an owner is failing
 * from the cancel on: its function is not executed any more. */
static void put_cancel(buf *b, const why *w)
{
    if (!w->cancel_waits) /* RULE why-tells-a-cancel */
        return;
    buf_text(b, "It was asked to stop at ");
    put_moment(b, w, w->cancel_ms);
    if (w->cancel_reason[0]) {
        buf_text(b, ", because of ");
        humanize_name(b, w->cancel_reason);
    }
    buf_text(b, w->failing ? ".\n"
                           : "; it is told at its next park, or before its next work function.\n");
}

/* Returns 1 if the run was started with a delay that is not over; arrivals do not make the run
 * begin earlier. */
static int is_delayed(const why *w)
{
    /* RULE why-tells-delays-as-they-are */
    return w->owner == 0 && w->claims == 0 && w->rows == 0 && w->wake_ms > w->now_ms;
}

static void put_deadline(buf *b, const why *w)
{
    if (!w->deadline_ms || w->failing || w->cancel_ms)
        return;
    int passed = w->deadline_ms <= w->now_ms; /* RULE why-tells-a-deadline-that-has-passed */
    int before = is_delayed(w) && w->deadline_ms <= w->wake_ms;
    buf_text(b, passed   ? "Its deadline has passed: "
                : before ? "Its deadline comes before it begins: "
                         : "It is cancelled if it has not ended by ");
    put_moment(b, w, w->deadline_ms);
    buf_text(b, before                                ? "; it is cancelled when it begins.\n"
                : passed && w->phase == PAWL_RUN_HELD ? "; a node cancels it.\n"
                : passed                              ? "; it is cancelled at its next park.\n"
                                                      : ".\n");
}

/* ---- Held ---- */

/* Writes what keeps the run from being recorded: as the run's row says, and as the memory of this
 * process has it. */
static void put_trouble(buf *b, const why *w)
{
    if (w->trouble[0]) {
        buf_text(b, "Its trouble");
        if (w->trouble_ms) {
            buf_text(b, ", since ");
            put_moment(b, w, w->trouble_ms);
        }
        buf_text(b, ": ");
        humanize_message(b, w->trouble);
        buf_text(b, ".\n");
    }
    if (w->kept[0]) {
        buf_text(b, "In the memory of this process: ");
        humanize_message(b, w->kept);
        buf_text(b, ".\n");
    }
}

static void put_held(buf *b, const why *w)
{
    buf_text(b, "The run is held");
    if (w->held_ms) {
        buf_text(b, ", since ");
        put_moment(b, w, w->held_ms);
    }
    buf_text(b, ": ");
    humanize_message(b, w->held_reason[0] ? w->held_reason : info_held_word(w->held));
    buf_text(b, ".\n");
    if (w->held == HELD_RECORD)
        put_trouble(b, w);
    put_releaser(b, w);
    put_cancel(b, w);
    if (w->held == HELD_RECORD)
        buf_text(b, "A cancel makes that node try too; it is followed when that is recorded.\n");
    else
        buf_text(b, "It can be cancelled or redriven meanwhile; a release keeps the idempotency "
                    "keys of what was under way, a redrive gives new ones.\n");
    put_deadline(b, w);
}

/* ---- What the run waits for ---- */

static void put_op(buf *b, const why_op *o)
{
    buf_printf(b, "%s ", op_find(op_asked_as(o->op->kind))->word);
    if (o->name[0])
        humanize_name(b, o->name);
    buf_printf(b, "%s(op %lld)", o->name[0] ? " " : "", (long long)o->seq);
}

static void put_attempts(buf *b, const why *w, const why_op *o)
{
    buf_printf(b, "It retries the ");
    put_op(b, o);
    buf_printf(b, ": attempt %lld", (long long)o->attempts + 1);
    if (o->next_ms != INT64_MIN) {
        buf_text(b, o->next_ms > w->now_ms ? " at " : " is due since ");
        put_moment(b, w, o->next_ms);
    } else {
        buf_text(b, " is next");
    }
    if (o->error[0]) {
        buf_text(b, "; the last error was ");
        humanize_name(b, o->error);
    }
    buf_text(b, ".\n");
}

static void put_task(buf *b, const why *w, const why_op *o)
{
    buf_printf(b, "It waits for the ");
    put_op(b, o);
    buf_printf(b, ", attempt %lld, ", (long long)o->task_attempt);
    if (o->task_owner) {
        buf_printf(b, "which node %lld is at.\n", (long long)o->task_owner);
        return;
    }
    buf_text(b, "which is in the queue ");
    humanize_name(b, o->queue);
    if (o->visible_ms > w->now_ms) {
        buf_text(b, " and may be taken at ");
        put_moment(b, w, o->visible_ms);
    } else {
        buf_text(b, " and was not taken yet");
    }
    buf_text(b, o->paused ? "; the queue is paused" : "");
    if (o->tag[0]) {
        buf_text(b, "; only nodes with the tag ");
        humanize_name(b, o->tag);
        buf_text(b, " take it");
    }
    buf_text(b, ".\n");
}

static void put_child(buf *b, const why_op *o)
{
    buf_text(b, "It waits for the ");
    put_op(b, o);
    if (!o->child) {
        buf_text(b, ", a run that is not there any more.\n");
        return;
    }
    buf_text(b, ", the run ");
    humanize_name(b, o->child);
    if (o->child_phase == PAWL_RUN_HELD) { /* RULE why-names-the-child */
        buf_text(b, ", which is held: ");
        humanize_message(b, o->child_held);
    } else {
        buf_printf(b, ", which is %s", pawl_phase_name(o->child_phase));
    }
    buf_text(b, ".\n");
}

static void put_wait(buf *b, const why *w, const why_op *o)
{
    if (o->queue) {
        put_task(b, w, o);
    } else if (o->op->kind == OP_CHILD) {
        put_child(b, o);
    } else if (o->attempts > 0) {
        put_attempts(b, w, o);
    } else if (o->op->kind == OP_SLEEP) {
        int past = o->until_ms != INT64_MIN && o->until_ms <= w->now_ms;
        buf_printf(b, "It %s (op %lld)", past ? "has slept" : "sleeps", (long long)o->seq);
        if (o->until_ms != INT64_MIN) {
            buf_text(b, " until ");
            put_moment(b, w, o->until_ms);
        }
        buf_text(b, ".\n");
    } else if (strcmp(o->op->word, "receive") == 0) {
        buf_text(b, "It waits for a message in the mailbox ");
        humanize_name(b, o->name);
        buf_printf(b, " (op %lld)", (long long)o->seq);
        if (o->until_ms != INT64_MIN) {
            buf_text(b, ", until ");
            put_moment(b, w, o->until_ms);
        }
        buf_text(b, ".\n");
    } else {
        buf_text(b, "It waits for the ");
        put_op(b, o);
        buf_text(b, ".\n");
    }
}

static void put_waits(buf *b, const why *w)
{
    for (size_t i = 0; i < w->op_count && i < WHY_OPS; i++)
        put_wait(b, w, &w->ops[i]);
    if (w->op_count > WHY_OPS)
        buf_printf(b, "It waits for %zu more.\n", w->op_count - WHY_OPS);
    if (w->rows == WHY_ROWS)
        buf_printf(b, "Only the last %d rows of its journal were looked at.\n", WHY_ROWS);
    if (w->arrivals > 0 && !w->failing)
        buf_printf(b, "%s%lld arrival%s in its inbox.\n",
                   w->arrivals == WHY_ROWS ? "At least " : "", (long long)w->arrivals,
                   w->arrivals == 1 ? " is" : "s are");
}

/* ---- What has to happen ---- */

/* Writes that the process of the owner stands still but holds its lock, so that no node may take
 * over its runs. */
static void put_still(buf *b, const why *w)
{
    buf_text(b, "has not moved since ");
    put_moment(b, w, w->node_still_ms);
    buf_text(b,
             ": its process stands still, stopped or without a processor, and keeps the run until"
             " it goes on or is ended.\n");
}

/* Writes a node as "Node 5 (name, build 1)". */
static void put_node(buf *b, const inspect_node *n)
{
    buf_printf(b, "Node %lld (", (long long)n->node);
    humanize_name(b, n->name);
    buf_text(b, ", build ");
    humanize_name(b, n->build);
    buf_text(b, ")");
}

/* Writes that a live node has fewer connections than it needs. */
static void put_unable(buf *b, const inspect_node *n)
{
    put_node(b, n);
    buf_text(b, " claims nothing: it cannot ");
    humanize_message(b, n->unable);
    buf_text(b, ", because the server gives it no connection for that.\n");
}

static void put_owner(buf *b, const why *w)
{
    if (w->node.node == 0) {
        buf_printf(b, "Node %lld owns it and is closed; another node will take it over.\n",
                   (long long)w->owner);
        return;
    }
    put_node(b, &w->node);
    buf_text(b, " owns it and ");
    if (!w->node_alive)
        buf_text(b, "is not alive, as it seems; another node will take it over.\n");
    else if (w->node_still_ms > 0) /* RULE L6-a-node-that-stands-still-is-not-called-alive */
        put_still(b, w);
    else
        buf_text(b, w->node_still_ms == 0 ? "is alive.\n"
                                          : "holds its lock; whether it moves is not known.\n");
    if (w->node_alive && w->node.unable[0])
        put_unable(b, &w->node);
    if (!w->node_alive && w->nodes_alive == 0)
        buf_text(b, "There is no live node.\n");
}

static void put_no_owner(buf *b, const why *w, int due)
{
    long long alive = w->nodes_alive, node_ready = w->nodes_able;
    if (alive == 0)
        buf_text(b,
                 "No node owns it, and there is no live node: it goes on when one comes that has ");
    else if (node_ready == 0 && w->nodes_unable > 0)
        buf_printf(b, "No node owns it, and of %lld live node%s none can execute ", alive,
                   alive == 1 ? "" : "s");
    else if (node_ready == 0)
        buf_printf(b, "No node owns it, and of %lld live node%s none has ", alive,
                   alive == 1 ? "" : "s");
    else
        buf_printf(b, "No node owns it; %s by one of %lld live node%s that ha%s ",
                   due ? "it is to be claimed" : "then it is claimed", node_ready,
                   node_ready == 1 ? "" : "s", node_ready == 1 ? "s" : "ve");
    put_workflow(b, w);
    if (node_ready && due)
        buf_text(b, node_ready == 1 ? "; if it is not, see its log"
                                    : "; if it is not, see their logs");
    buf_text(b, !alive || node_ready   ? ".\n"
                : w->nodes_unable == 0 ? ": it goes on when one comes that has it.\n"
                                       : ": it goes on when one can.\n");
    if (w->nodes_unable > 0)
        put_unable(b, &w->unable);
    if (w->nodes_unable > 1)
        buf_printf(b, "So do %lld more.\n", (long long)w->nodes_unable - 1);
}

static void put_locker(buf *b, const why *w)
{
    if (!w->is_locked)
        return;
    buf_printf(b, "Another transaction keeps its row locked, in process %lld of the server",
               (long long)w->locker);
    if (w->locker_ms) {
        buf_text(b, ", begun at ");
        put_moment(b, w, w->locker_ms);
    }
    buf_text(b, ": nothing that the run does is recorded before that transaction ends.\n");
}

static int asks_another_run(const op_info *op)
{
    return op->kind == OP_CHILD || op->kind == OP_TELL;
}

/* Returns 1 if wake_ms is neither the deadline nor the time of an op, and an op of this sort is
 * open. */
static int is_woken_for(const why *w, int (*is_of_sort)(const op_info *op))
{
    int waits = 0;
    if (w->op_count > WHY_OPS || w->deadline_ms == w->wake_ms)
        return 0;
    for (size_t i = 0; i < w->op_count; i++) {
        if (w->ops[i].until_ms == w->wake_ms || w->ops[i].next_ms == w->wake_ms)
            return 0;
        waits |= is_of_sort(w->ops[i].op);
    }
    return waits;
}

/* Returns 1 if wake_ms is only the time of a poll. A run that waits for a child, or for an answer
 * of another run, polls now and then, in case a notification was lost. */
static int only_looks_again(const why *w)
{
    return is_woken_for(w, asks_another_run);
}

static int waits_in_memory(const op_info *op)
{
    return asks_another_run(op) || op_is_work(op->kind);
}

/* Returns 1 if wake_ms may be for the next owner only, should the present one die. The row of a run
 * with work beside its function has the time of its park, and that of a run that has asked another
 * one has the time of a poll (wake_of() in sched/runner.c). The present owner has the results in
 * its memory, or hears of them, and goes by its own timer. An arrival makes the row due for
 * both. */
static int is_for_next_owner(const why *w)
{
    return w->owner && w->node_alive && w->node_still_ms <= 0 && w->arrivals == 0 &&
           is_woken_for(w, waits_in_memory);
}

static void put_wake(buf *b, const why *w)
{
    int looks = only_looks_again(w); /* RULE why-tells-a-look-from-a-wake */
    buf_text(b, w->rows == 0 ? "It begins at " : looks ? "It looks again at " : "It goes on at ");
    put_moment(b, w, w->wake_ms);
    buf_text(b, is_delayed(w) ? "; what arrives before that waits in its inbox.\n"
                : w->failing  ? ".\n"
                : looks       ? ", and goes on when something arrives for it.\n"
                              : ", or when something arrives for it.\n");
}

static void put_going_on(buf *b, const why *w)
{
    int due = w->wake_ms != INT64_MIN && w->wake_ms <= w->now_ms;
    if (due && is_for_next_owner(w)) { /* RULE why-tells-no-time-of-the-next-owner */
        buf_text(b, "It goes on when something arrives for it, or its node comes to it; a next"
                    " owner would go on at once.\n");
    } else if (due) {
        buf_text(b, "It is due since ");
        put_moment(b, w, w->wake_ms);
        buf_text(b, ".\n");
    } else if (w->wake_ms != INT64_MIN) {
        put_wake(b, w);
    } else {
        buf_text(b, "It goes on when something arrives for it.\n");
    }
    if (w->owner)
        put_owner(b, w);
    else
        put_no_owner(b, w, due);
}

/* Writes how often the run was claimed without progress. The run's row tells whether the run is in
 * quarantine and, on a server, whether it is being executed; elsewhere only its node knows that. */
static void put_claims(buf *b, const why *w)
{
    /* The claims from which on a run is executed alone (docs/format.md). */
    enum { ALONE_FROM = 4 };
    int64_t claims = w->claims - !!w->is_marked; /* RULE L6-what-is-executed-is-not-told-to-wait */
    int is_alone = claims >= ALONE_FROM;
    if (claims <= 1 || w->last_seq != w->claimed_seq)
        return;
    buf_printf(b, "It was claimed %lld times without getting beyond row %lld.\n", (long long)claims,
               (long long)w->claimed_seq);
    if (w->is_marked)
        buf_printf(b, "It %s executed%s.\n",
                   w->node_alive ? "is being" : "was being, when its node was last heard of,",
                   is_alone ? ", alone, because processes died while they executed it" : "");
    else if (is_alone && w->owner) /* RULE why-tells-of-the-quarantine */
        buf_text(b, "It is in quarantine, because processes died while they executed it: it is"
                    " executed alone, after 5 seconds or more, and after other such runs.\n");
}

static void put_live(buf *b, const why *w)
{
    if (w->phase == PAWL_RUN_FAILING) {
        buf_printf(b, "The run fails: its clean-ups %s carried out",
                   w->owner ? "are being" : "will be");
        put_failure(b, w);
        buf_text(b, ".\n");
    } else {
        buf_printf(b, "The run is live, in generation %lld.\n", (long long)w->generation);
    }
    put_cancel(b, w);
    put_waits(b, w);
    put_claims(b, w);
    put_trouble(b, w);
    put_locker(b, w);
    put_going_on(b, w);
    put_deadline(b, w);
}

static void put_why(buf *b, const why *w)
{
    if (w->phase == PAWL_RUN_HELD)
        put_held(b, w);
    else if (w->phase == PAWL_RUN_LIVE || w->phase == PAWL_RUN_FAILING)
        put_live(b, w);
    else
        put_end(b, w);
}

static pawl_code read_and_put_why(pawl *p, const char *id, arena *memory, char **out, error *err)
{
    why w;
    buf b;
    slice name;
    pawl_code rc = argument_run_id(id, &name, err);
    if (rc == PAWL_OK)
        rc = why_read(p, name, memory, &w, err);
    if (rc != PAWL_OK)
        return rc;
    buf_init(&b, TEXT_MAX);
    put_why(&b, &w);
    if (b.failed) {
        buf_free(&b);
        return error_nomem(err);
    }
    *out = b.at;
    return PAWL_OK;
}

static pawl_code why_text(pawl *p, const char *id, char **out, error *err)
{
    arena *memory = arena_new(0);
    pawl_code rc = memory ? read_and_put_why(p, id, memory, out, err) : error_nomem(err);
    arena_free(memory);
    return rc;
}

pawl_code pawl_why(pawl *p, const char *id, char **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = out ? why_text(p, id, out, &err) : argument_no_place(&err);
    return handle_leave(p, rc, &err);
}
