/* The workflow and the work functions of dialogs.
 *
 * Here is checked that a function is told the same at each replay, unless what it was told before
 * may have been lost; that what was told before something was done cannot be lost; and what was
 * done outside is noted, with what undoes it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet.h"
#include "handle/handle.h"

/* Steps have no arg that is the fleet's. */
static fleet *the_fleet;

/* ---- Remembering ---- */

dialogs_log *dialogs_log_of(dialogs *all, const char *id, int64_t generation)
{
    for (int i = 0; i < all->log_count; i++)
        if (all->logs[i].generation == generation && strcmp(all->logs[i].id, id) == 0)
            return &all->logs[i];
    if (all->log_count == DIALOGS_LOGS)
        return NULL;
    dialogs_log *log = &all->logs[all->log_count++];
    *log = (dialogs_log){.generation = generation};
    snprintf(log->id, sizeof log->id, "%s", id);
    return log;
}

dialogs_step *dialogs_step_of(dialogs *all, const char *id, uint64_t seed, int at)
{
    for (int i = 0; i < all->step_count; i++) {
        dialogs_step *d = &all->steps[i];
        if (d->seed == seed && d->at == at && strcmp(d->id, id) == 0)
            return d;
    }
    if (all->step_count == DIALOGS_STEPS)
        return NULL;
    dialogs_step *d = &all->steps[all->step_count++];
    *d = (dialogs_step){.seed = seed, .at = at};
    snprintf(d->id, sizeof d->id, "%s", id);
    return d;
}

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = chance_mix(h ^ (unsigned char)*text);
    return h;
}

static dialogs_note *note_of(dialogs *all, pawl_work *work)
{
    uint64_t key = hash((uint64_t)pawl_work_attempt(work), pawl_work_key(work));
    for (int i = 0; i < all->note_count; i++)
        if (all->notes[i].key == key)
            return &all->notes[i];
    if (all->note_count == DIALOGS_NOTES)
        return NULL;
    all->notes[all->note_count] = (dialogs_note){.key = key};
    return &all->notes[all->note_count++];
}

/* What the node has had, and what it was told, may be lost. */
static int may_be_lost(fleet *f, const dialogs_seen *s)
{
    fleet_node *n = &f->nodes[s->by];
    return n->faults != s->faults || executed_was_left(s->begun, n) ||
           executed_was_shut_out(s->id, n);
}

/* ---- What the function is told ---- */

/* What is not recorded yet is lost if the node dies; and if the run is held, by hand or because the
 * node lacks something. */
static void seen(void *arg, const char *id, int64_t generation, int64_t number, uint64_t h)
{
    fleet *f = arg;
    fleet_node *n = f->current;
    if (n->plan.dead || fleet_is_shut_out(n)) /* what it does is of no use */
        return;
    dialogs_log *log = dialogs_log_of(&f->dialog_log, id, generation);
    if (!log || number >= DIALOGS_SEEN) {
        fleet_wrong(f, "%s is told more than there can be", id);
        return;
    }
    dialogs_seen *s = &log->at[number];
    if (number < log->count && s->hash == h)
        return;
    if (number < log->sealed)
        fleet_wrong(f, "%s generation %" PRId64 " is told something else, number %" PRId64, id,
                    generation, number);
    else if (number < log->count && !f->odds.lack && s->holds == f->dialog_log.holds &&
             !may_be_lost(f, s))
        fleet_wrong(f, "%s generation %" PRId64 " is told something new, number %" PRId64, id,
                    generation, number);
    if (number > log->count)
        fleet_wrong(f, "%s generation %" PRId64 " is told number %" PRId64 " before %" PRId64, id,
                    generation, number, log->count);
    *s = (dialogs_seen){
        h, n->index, n->faults, f->dialog_log.holds, n->begun, handle_node(n->engine)};
    log->count = number + 1;
}

static void told(void *arg, const char *id, uint64_t number, pawl_code code)
{
    fleet *f = arg;
    dialogs *all = &f->dialog_log;
    int root = -1;
    if (f->current->plan.dead || fleet_is_shut_out(f->current))
        return;
    sscanf(id, "run-%d", &root);
    f->all[root].mailed = 1;
    for (int i = 0; i < all->sent_count; i++)
        if (all->sent[i].is_told && all->sent[i].number == number)
            return;
    if (code == PAWL_ENDED || code == PAWL_NOTFOUND)
        return;
    dialogs_sent *s = dialogs_new_sent(all);
    if (!s)
        return;
    *s = (dialogs_sent){.is_told = 1, .number = number, .sure = 1, .box = -1};
    snprintf(s->id, sizeof s->id, "%s", id);
    if (code != PAWL_OK)
        fleet_wrong(f, "%s cannot be told: %d", id, (int)code);
}

/* ---- What is done outside ---- */

static const char *killed(pawl_work *work)
{
    return pawl_work_fail(work, PAWL_TRANSIENT, "killed", "there is no process to do it");
}

/* 0: an engine that is shut out and cannot know that it is of no use. */
static int counts(fleet_node *n)
{
    return n->fleet->odds.server || !fleet_is_shut_out(n);
}

/* Executed again: only if what it gave the last time may have been lost. */
static dialogs_note *note_execution(fleet_node *n, pawl_work *work, const char *input)
{
    fleet *f = n->fleet;
    dialogs_note *note = note_of(&f->dialog_log, work);
    fleet_tell(f, "node %d executes %s of %s, attempt %" PRId64 ": %.80s", n->index,
               pawl_work_name(work),
               strchr(pawl_work_key(work), '.') + 1, /* without the database */
               pawl_work_attempt(work), input);
    if (!note) {
        fleet_wrong(f, "more is executed than there can be");
        return NULL;
    }
    uint64_t h = hash(1, input);
    if (note->times > 0 && note->input != h)
        fleet_wrong(f, "%s of %s has another input the second time", pawl_work_name(work),
                    pawl_work_key(work));
    if (note->times > 0 && !executed_may_be_lost(&note->last, f))
        fleet_wrong(f, "%s of %s is executed by node %d although node %d has done it",
                    pawl_work_name(work), pawl_work_key(work), n->index, note->last.by);
    f->tally->at[TALLY_AGAIN] += note->times > 0;
    f->tally->at[TALLY_RETRIES] += pawl_work_attempt(work) > 1;
    note->input = h;
    note->times++;
    executed_begin(&note->last, n);
    return note;
}

/* What may happen meanwhile. 0: the node has died. */
static int live_through(fleet_node *n, pawl_work *work, dialogs_note *note)
{
    fleet *f = n->fleet;
    int number = -1, used = 0;
    const char *id = pawl_work_run_id(work);
    int is_root = sscanf(id, "run-%d%n", &number, &used) == 1 && !id[used];
    watch_dialog_execution(n, is_root ? number : -1, pawl_work_fence(work));
    n->working = is_root ? number + 1 : FLEET_RUNS + 1;
    if (is_root)
        f->all[number].inside++;
    faults_let_happen(n);
    if (is_root)
        f->all[number].inside--;
    if (!f->calm && !n->plan.dead && chance_of(&f->chance, f->odds.die_in)) {
        fleet_tell(f, "node %d dies at work", n->index);
        fleet_die(n);
    }
    n->working = 0;
    if (note)
        executed_end(&note->last, n);
    return !n->plan.dead;
}

static const char *do_work(pawl_work *work, const char *input)
{
    fleet_node *n = the_fleet->current;
    fleet *f = n->fleet;
    dialog_task task;
    if (n->plan.dead)
        return killed(work);
    if (!dialog_task_read(&task, input)) {
        fleet_wrong(f, "work without a task: %.80s", input);
        return killed(work);
    }
    int is_known = counts(n);
    dialogs_note *note = NULL;
    if (is_known) {
        note = note_execution(n, work, input);
        dialogs_log *log = dialogs_log_of(&f->dialog_log, pawl_work_run_id(work), task.generation);
        if (log && task.seen > log->count)
            fleet_wrong(f, "%s has seen more than it was told", pawl_work_run_id(work));
        if (log && task.seen > log->sealed)
            log->sealed = task.seen;
    }
    dialogs_step *step =
        dialogs_step_of(&f->dialog_log, pawl_work_run_id(work), task.seed, task.at);
    if (step && is_known)
        step->done = ++f->dialog_log.stamp;
    if (!live_through(n, work, note))
        return killed(work);
    return dialog_work(work, &task, input);
}

/* Some fail at first; some so often that people have to look. */
static const char *clean_up(pawl_work *work, const char *input, int is_undo)
{
    fleet_node *n = the_fleet->current;
    fleet *f = n->fleet;
    dialog_task task;
    char inner[256] = "";
    if (n->plan.dead)
        return killed(work);
    pawl_get_json(input, "/input", inner, sizeof inner);
    if (!dialog_task_read(&task, inner[0] ? inner : input)) {
        fleet_wrong(f, "nothing to clean up: %.80s", input);
        return killed(work);
    }
    int is_known = counts(n);
    dialogs_note *note = is_known ? note_execution(n, work, input) : NULL;
    dialogs_step *step =
        dialogs_step_of(&f->dialog_log, pawl_work_run_id(work), task.seed, task.at);
    if (!step) {
        fleet_wrong(f, "more is cleaned up than there can be");
        return killed(work);
    }
    int64_t bad = chance_mix(task.seed + (uint64_t)task.at) % 16 == 0 ? 4 : task.seed % 4 == 0;
    int succeeds = ++step->cleaned > bad;
    if (succeeds && is_known)
        step->undone = ++f->dialog_log.stamp;
    fleet_count(f, is_undo ? TALLY_UNDOS : TALLY_FINALLYS);
    if (!live_through(n, work, note))
        return killed(work);
    return succeeds ? "true" : pawl_work_fail(work, PAWL_TRANSIENT, "passing", "not yet");
}

static const char *do_undo(pawl_work *work, const char *input)
{
    return clean_up(work, input, 1);
}

static const char *do_final(pawl_work *work, const char *input)
{
    return clean_up(work, input, 0);
}

/* ---- The workflow ---- */

static void count_left(void *arg)
{
    ((fleet *)arg)->left++;
}

static const char *do_dialog(pawl_run *run, const char *input)
{
    fleet_node *n = pawl_arg(run);
    fleet *f = n->fleet;
    dialog t;
    if (!dialog_read(&t, input)) {
        fleet_wrong(f, "a dialog about nothing: %.80s", input);
        return "null";
    }
    f->entered++;
    pawl_defer(run, count_left, f);
    dialog_world world = {seen, told, f, f->odds.runs};
    return dialog_run(run, &t, do_work, &world);
}

void dialogs_register(fleet_node *n)
{
    the_fleet = n->fleet;
    pawl_register_workflow(n->engine, "dialog", do_dialog, PAWL_WORKFLOW(.arg = n));
    if (n->lacks)
        return;
    pawl_register_work(n->engine, "dialog", do_work, NULL);
    pawl_register_work(n->engine, "undo", do_undo, NULL);
    pawl_register_work(n->engine, "final", do_final, NULL);
}
