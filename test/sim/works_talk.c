/* The workflow and the work functions of talks.
 *
 * Here is checked that a function is told the same at each replay, unless what it was told before
 * may have been lost; that what was told before something was done cannot be lost; and what was
 * done outside is noted, with what undoes it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet.h"

/* Steps have no arg that is the fleet's. */
static fleet *the_fleet;

/* ---- Remembering ---- */

talks_log *talks_log_of(talks *all, const char *id, int64_t generation)
{
    for (int i = 0; i < all->log_count; i++)
        if (all->logs[i].generation == generation && strcmp(all->logs[i].id, id) == 0)
            return &all->logs[i];
    if (all->log_count == TALKS_LOGS)
        return NULL;
    talks_log *log = &all->logs[all->log_count++];
    *log = (talks_log){.generation = generation};
    snprintf(log->id, sizeof log->id, "%s", id);
    return log;
}

talks_deed *talks_deed_of(talks *all, const char *id, uint64_t seed, int at)
{
    for (int i = 0; i < all->deed_count; i++) {
        talks_deed *d = &all->deeds[i];
        if (d->seed == seed && d->at == at && strcmp(d->id, id) == 0)
            return d;
    }
    if (all->deed_count == TALKS_DEEDS)
        return NULL;
    talks_deed *d = &all->deeds[all->deed_count++];
    *d = (talks_deed){.seed = seed, .at = at};
    snprintf(d->id, sizeof d->id, "%s", id);
    return d;
}

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = chance_mix(h ^ (unsigned char)*text);
    return h;
}

static talks_note *note_of(talks *all, pawl_work *work)
{
    uint64_t key = hash((uint64_t)pawl_work_attempt(work), pawl_work_key(work));
    for (int i = 0; i < all->note_count; i++)
        if (all->notes[i].key == key)
            return &all->notes[i];
    if (all->note_count == TALKS_NOTES)
        return NULL;
    all->notes[all->note_count] = (talks_note){.key = key};
    return &all->notes[all->note_count++];
}

/* What this node has had may be lost. */
static int may_be_lost(fleet *f, int by, int64_t faults)
{
    return f->nodes[by].faults != faults || fleet_is_shut_out(&f->nodes[by]);
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
    talks_log *log = talks_log_of(&f->talked, id, generation);
    if (!log || number >= TALKS_SEEN) {
        fleet_wrong(f, "%s is told more than there can be", id);
        return;
    }
    talks_seen *s = &log->at[number];
    if (number < log->count && s->hash == h)
        return;
    if (number < log->sealed)
        fleet_wrong(f, "%s generation %" PRId64 " is told something else, number %" PRId64, id,
                    generation, number);
    else if (number < log->count && !f->odds.lack && s->holds == f->talked.holds &&
             !may_be_lost(f, s->by, s->faults) && !executed_was_left(s->begun, &f->nodes[s->by]))
        fleet_wrong(f, "%s generation %" PRId64 " is told something new, number %" PRId64, id,
                    generation, number);
    if (number > log->count)
        fleet_wrong(f, "%s generation %" PRId64 " is told number %" PRId64 " before %" PRId64, id,
                    generation, number, log->count);
    *s = (talks_seen){h, n->index, n->faults, f->talked.holds, n->begun};
    log->count = number + 1;
}

static void told(void *arg, const char *id, uint64_t number, pawl_code code)
{
    fleet *f = arg;
    talks *all = &f->talked;
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
    talks_sent *s = talks_new_sent(all);
    if (!s)
        return;
    *s = (talks_sent){.is_told = 1, .number = number, .sure = 1, .box = -1};
    snprintf(s->id, sizeof s->id, "%s", id);
    if (code != PAWL_OK)
        fleet_wrong(f, "%s cannot be told: %d", id, (int)code);
}

/* ---- What is done outside ---- */

static const char *killed(pawl_work *work)
{
    return pawl_work_fail(work, PAWL_TRANSIENT, "killed", "there is nobody to do it");
}

/* 0: an engine that is shut out and cannot know that it is of no use. */
static int counts(fleet_node *n)
{
    return n->fleet->odds.server || !fleet_is_shut_out(n);
}

/* Executed again: only if what it gave the last time may have been lost. */
static talks_note *note_execution(fleet_node *n, pawl_work *work, const char *input)
{
    fleet *f = n->fleet;
    talks_note *note = note_of(&f->talked, work);
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
static int live_through(fleet_node *n, pawl_work *work, talks_note *note)
{
    fleet *f = n->fleet;
    int number = -1, used = 0;
    const char *id = pawl_work_run_id(work);
    int is_root = sscanf(id, "run-%d%n", &number, &used) == 1 && !id[used];
    watch_talk_execution(n, is_root ? number : -1, pawl_work_fence(work));
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
    talk_task task;
    if (n->plan.dead)
        return killed(work);
    if (!talk_task_read(&task, input)) {
        fleet_wrong(f, "work without a task: %.80s", input);
        return killed(work);
    }
    int is_known = counts(n);
    talks_note *note = NULL;
    if (is_known) {
        note = note_execution(n, work, input);
        talks_log *log = talks_log_of(&f->talked, pawl_work_run_id(work), task.generation);
        if (log && task.seen > log->count)
            fleet_wrong(f, "%s has seen more than it was told", pawl_work_run_id(work));
        if (log && task.seen > log->sealed)
            log->sealed = task.seen;
    }
    talks_deed *deed = talks_deed_of(&f->talked, pawl_work_run_id(work), task.seed, task.at);
    if (deed && is_known)
        deed->done = ++f->talked.stamp;
    if (!live_through(n, work, note))
        return killed(work);
    return talk_work(work, &task, input);
}

/* Some fail at first; some so often that people have to look. */
static const char *clean_up(pawl_work *work, const char *input, int is_undo)
{
    fleet_node *n = the_fleet->current;
    fleet *f = n->fleet;
    talk_task task;
    char inner[256] = "";
    if (n->plan.dead)
        return killed(work);
    pawl_get_json(input, "/input", inner, sizeof inner);
    if (!talk_task_read(&task, inner[0] ? inner : input)) {
        fleet_wrong(f, "nothing to clean up: %.80s", input);
        return killed(work);
    }
    int is_known = counts(n);
    talks_note *note = is_known ? note_execution(n, work, input) : NULL;
    talks_deed *deed = talks_deed_of(&f->talked, pawl_work_run_id(work), task.seed, task.at);
    if (!deed) {
        fleet_wrong(f, "more is cleaned up than there can be");
        return killed(work);
    }
    int64_t bad = chance_mix(task.seed + (uint64_t)task.at) % 16 == 0 ? 4 : task.seed % 4 == 0;
    int succeeds = ++deed->cleaned > bad;
    if (succeeds && is_known)
        deed->undone = ++f->talked.stamp;
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

static const char *do_talk(pawl_run *run, const char *input)
{
    fleet_node *n = pawl_arg(run);
    fleet *f = n->fleet;
    talk t;
    if (!talk_read(&t, input)) {
        fleet_wrong(f, "a talk about nothing: %.80s", input);
        return "null";
    }
    f->entered++;
    pawl_defer(run, count_left, f);
    talk_world world = {seen, told, f, f->odds.runs};
    return talk_run(run, &t, do_work, &world);
}

void talks_register(fleet_node *n)
{
    the_fleet = n->fleet;
    pawl_register_workflow(n->engine, "talk", do_talk, PAWL_WORKFLOW(.arg = n));
    if (n->lacks)
        return;
    pawl_register_work(n->engine, "talk", do_work, NULL);
    pawl_register_work(n->engine, "undo", do_undo, NULL);
    pawl_register_work(n->engine, "final", do_final, NULL);
}
