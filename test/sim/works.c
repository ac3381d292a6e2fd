/* The workflow and the work functions of the fleet: they carry programs out.
 *
 * A work function is where the world outside sees what pawl does. So here is checked that all that
 * was recorded before is in the database, that nothing is done twice without need, and that what is
 * done again is the same. */
#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "handle/handle.h"

/* An until has no arg to find it by. */
static fleet *the_fleet;

/* ---- Executions ---- */

void executed_begin(executed *e, const fleet_node *n)
{
    *e = (executed){.by = n->index,
                    .faults = n->faults,
                    .driven = n->driven,
                    .inside = e->inside + 1,
                    .began_ns = n->fleet->mono_ns,
                    .id = handle_node(n->engine),
                    .begun = n->begun};
}

/* Its run may have been cancelled, by a client or by its deadline: then it goes on without it after
 * a while. */
static int is_cancelled(const executed *e, const fleet *f)
{
    return f->odds.dialog && f->mono_ns >= clock_deadline(e->began_ns, FLEET_DRAIN_MS);
}

void executed_end(executed *e, fleet_node *n)
{
    int64_t drained = n->stopped ? clock_deadline(n->stopped_ns, FLEET_DRAIN_MS) : INT64_MAX;
    e->inside--;
    n->worked_ns = n->fleet->mono_ns;
    if (e->by == n->index &&
        (n->fleet->mono_ns >= drained || n->driven != e->driven || is_cancelled(e, n->fleet)))
        e->late = 1;
}

/* A thread that was given up is in it still, or was so when its engine was driven again. */
static int is_given_up(const executed *e, const fleet_node *n)
{
    return e->late || (e->inside > 0 && (n->driven != e->driven || is_cancelled(e, n->fleet)));
}

/* What gives runs back tries to record what was executed for as long as a drain takes, and the
 * storage may fail for all of that. */
static int has_given_up(const fleet_node *n, int64_t since_ns)
{
    return n->hit_ns >= since_ns && n->fleet->mono_ns >= clock_deadline(since_ns, FLEET_DRAIN_MS);
}

/* A driver of another kind gives back what was driven before. */
int executed_was_left(int begun, const fleet_node *n)
{
    return n->begun != begun && has_given_up(n, n->begun_ns);
}

static int was_stopped(const executed *e, const fleet_node *n)
{
    return n->stopped && n->stopped_ns >= e->began_ns && has_given_up(n, n->stopped_ns);
}

/* A node that was closed by others may have begun anew since; and the one that closes it may wait
 * for the answer still, when a third one has the run already. */
int executed_was_shut_out(int64_t id, fleet_node *n)
{
    return fleet_is_shut_out(n) || fleet_was_closed(n->fleet, id) ||
           (n->silent && !fleet_is_open(n->fleet, id));
}

int executed_may_be_lost(const executed *e, fleet *f)
{
    fleet_node *n = &f->nodes[e->by];
    return n->faults != e->faults || is_given_up(e, n) || executed_was_left(e->begun, n) ||
           was_stopped(e, n) || executed_was_shut_out(e->id, n);
}

/* ---- Notes ---- */

static fleet_note *note_of(fleet *f, int run, int64_t op, int64_t attempt)
{
    for (int i = 0; i < f->note_count; i++) {
        fleet_note *n = &f->notes[i];
        if (n->run == run && n->op == op && n->attempt == attempt)
            return n;
    }
    if (f->note_count == FLEET_NOTES)
        return NULL;
    f->notes[f->note_count] = (fleet_note){.run = run, .op = op, .attempt = attempt};
    return &f->notes[f->note_count++];
}

static uint64_t hash(const char *text)
{
    uint64_t h = 1;
    for (; *text; text++)
        h = chance_mix(h ^ (unsigned char)*text);
    return h;
}

/* Which call it is, as its key says: run, generation, op. */
typedef struct identity {
    int64_t key, generation, op;
} identity;

static identity identify(pawl_work *work)
{
    identity who = {0};
    if (sscanf(strchr(pawl_work_key(work), '.') + 1, "%" SCNd64 ".%" SCNd64 ".%" SCNd64, &who.key,
               &who.generation, &who.op) != 3)
        who.key = -1;
    return who;
}

/* Everything that was recorded before is in the database, and nothing that was not. */
static void check_rows(fleet_node *n, const fleet_run *run, const identity *who, int at,
                       int64_t attempt)
{
    fleet *f = n->fleet;
    sqlite3_bind_int64(f->rows, 1, who->key);
    sqlite3_step(f->rows);
    int64_t count = sqlite3_column_int64(f->rows, 0);
    int64_t last = sqlite3_column_int64(f->rows, 1);
    sqlite3_reset(f->rows);
    char input[PROGRAM_TEXT];
    program_input(&run->program, 0, input);
    int64_t hidden = strlen(input) <= 1024; /* a small input is in the row of the run */
    int64_t wanted = program_rows_before(&run->program, at, who->op, attempt);
    if (count + hidden != wanted || (count > 0 && last != wanted))
        fleet_wrong(f,
                    "%s op %" PRId64 " attempt %" PRId64 " on node %d: %" PRId64
                    " rows up to %" PRId64 " when it is executed, not up to %" PRId64,
                    run->id, who->op, attempt, n->index, count, last, wanted);
}

/* Executed again: only if what it gave the last time may have been lost. */
static void check_times(fleet_node *n, const fleet_run *run, const fleet_note *note)
{
    fleet *f = n->fleet;
    if (note->times > 0 && !executed_may_be_lost(&note->last, f))
        fleet_wrong(f,
                    "%s op %" PRId64 " attempt %" PRId64
                    " is executed by node %d although node %d has done it",
                    run->id, note->op, note->attempt, n->index, note->last.by);
}

/* NULL: too many notes. */
static fleet_note *note_execution(fleet_node *n, pawl_work *work, int number, const char *input)
{
    fleet *f = n->fleet;
    fleet_run *run = &f->all[number];
    identity who = identify(work);
    int64_t attempt = pawl_work_attempt(work);
    int at = program_op_of(input);
    fleet_tell(f, "node %d executes %s op %" PRId64 " attempt %" PRId64, n->index, run->id, who.op,
               attempt);
    f->tally->at[TALLY_RETRIES] += attempt > 1;
    fleet_note *note = note_of(f, number, who.op, attempt);
    if (!note) {
        fleet_wrong(f, "more is executed than there can be");
        return NULL;
    }
    watch_execution(n, number, who.key, pawl_work_fence(work));
    check_rows(n, run, &who, at, attempt);
    if (run->program.ops[at].kind != DO_UNTIL)
        check_times(n, run, note);
    if (note->times > 0 && note->input != hash(input))
        fleet_wrong(f, "%s op %" PRId64 " has another input the second time", run->id, who.op);
    f->tally->at[TALLY_AGAIN] += note->times > 0 && run->program.ops[at].kind != DO_UNTIL;
    note->input = hash(input);
    note->times++;
    executed_begin(&note->last, n);
    return note;
}

/* ---- Working ---- */

static const char *killed(pawl_work *work)
{
    return pawl_work_fail(work, PAWL_TRANSIENT, "killed", "there is no process to do it");
}

/* Is it deadly, the n-th time? */
static int kills(fleet_run *run, int at, int64_t times)
{
    if (run->kills == 0 || (run->killer < 0 ? times != 1 : run->killer != at + 1))
        return 0;
    run->kills--;
    return 1;
}

static const char *do_work(pawl_work *work, const char *input)
{
    fleet_node *n = the_fleet->current;
    fleet *f = n->fleet;
    if (n->plan.dead)
        return killed(work);
    int number = -1;
    sscanf(pawl_work_run_id(work), "run-%d", &number);
    if (number < 0 || number >= f->odds.runs) {
        fleet_wrong(f, "work for an unknown run");
        return killed(work);
    }
    fleet_run *run = &f->all[number];
    fleet_note *note = NULL;
    if (f->odds.server || !fleet_is_shut_out(n)) /* otherwise it cannot know that it is of no use */
        note = note_execution(n, work, number, input);
    int64_t calls = note ? note->times : 1;
    n->working = number + 1;
    if (!f->calm && kills(run, program_op_of(input), calls)) {
        fleet_tell(f, "node %d is killed by %s", n->index, run->id);
        fleet_die(n);
    } else {
        run->inside++;
        faults_let_happen(n);
        run->inside--;
    }
    if (!f->calm && !n->plan.dead && chance_of(&f->chance, f->odds.die_in)) {
        fleet_tell(f, "node %d dies at work", n->index);
        fleet_die(n);
    }
    n->working = 0;
    if (note)
        executed_end(&note->last, n);
    return program_work(work, &run->program, input, calls);
}

/* ---- The workflow ---- */

static void count_left(void *arg)
{
    ((fleet *)arg)->left++;
}

static const char *do_program(pawl_run *run, const char *input)
{
    fleet_node *n = pawl_arg(run);
    int number = program_number(input);
    n->fleet->entered++;
    pawl_defer(run, count_left, n->fleet);
    return program_run(run, &n->fleet->all[number].program, do_work, n);
}

/* A run that is there to be done at once. */
static const char *do_probe(pawl_run *run, const char *input)
{
    (void)run;
    (void)input;
    return "true";
}

void works_register(fleet_node *n)
{
    the_fleet = n->fleet;
    pawl_register_workflow(n->engine, "program", do_program, PAWL_WORKFLOW(.arg = n));
    pawl_register_workflow(n->engine, "probe", do_probe, NULL);
    neighbours_register(n);
    refused_register(n);
    if (!n->lacks)
        pawl_register_work(n->engine, "work", do_work, PAWL_WORK(.arg = n));
}
