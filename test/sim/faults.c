/* Fault injection: everything that goes wrong below an engine, or while its code is in a work
 * function; and which node gets a turn in the middle of another one's. */
#include "db/liveness_file.h"
#include "fleet.h"
#include "handle/handle.h"
#include "threads.h"

enum { LONG_MS = 8000 };

static const pawl_code CODES[] = {PAWL_STORAGE, PAWL_IO, PAWL_FULL, PAWL_BUSY, PAWL_NOMEM};

static pawl_code some_code(fleet *f)
{
    return CODES[chance_between(&f->chance, 0, (int64_t)(sizeof CODES / sizeof *CODES) - 1)];
}

/* ---- Plans ---- */

void faults_clear(fleet_node *n)
{
    n->plan.fail_call = n->plan.lose_commit = n->die_at = 0;
}

void faults_plan(fleet_node *n)
{
    fleet *f = n->fleet;
    db_fault *plan = &n->plan;
    faults_clear(n);
    if (f->calm)
        return;
    if (chance_of(&f->chance, f->odds.fail)) {
        plan->fail_call = plan->calls + chance_between(&f->chance, 1, 60);
        plan->fail_code = some_code(f);
        plan->fail_ends = chance_of(&f->chance, 300);
    }
    if (chance_of(&f->chance, f->odds.lose)) {
        plan->lose_commit = plan->commits + chance_between(&f->chance, 1, 4);
        plan->lose_happened = chance_of(&f->chance, 500);
        plan->lose_late = !f->odds.memory && chance_of(&f->chance, 500);
        plan->unknown_times = chance_between(&f->chance, 0, 3);
    }
    if (chance_of(&f->chance, f->odds.die))
        n->die_at = plan->calls + chance_between(&f->chance, 1, 90);
}

/* ---- Calls ---- */

/* Another node gets a turn in the middle: between what was read and what is written. */
static void meet(fleet_node *n)
{
    fleet *f = n->fleet;
    fleet_node *other = &f->nodes[chance_between(&f->chance, 0, f->odds.nodes - 1)];
    if (other->polled || f->depth > 2 || !other->engine)
        return;
    fleet_tell(f, "node %d is met by %d", n->index, other->index);
    fleet_count(f, TALLY_MEETINGS);
    if (f->odds.dialog && chance_of(&f->chance, 500))
        dialogs_act(f, other);
    else
        fleet_turn(other);
}

static void plan_commit(fleet_node *n, int64_t number)
{
    fleet *f = n->fleet;
    if (f->calm || !chance_of(&f->chance, f->odds.fail_commit))
        return;
    n->plan.fail_call = number;
    n->plan.fail_code = some_code(f);
    n->plan.fail_ends = chance_of(&f->chance, 300);
}

/* What a commit has written is handed in again by every live node. */
static void note_call(fleet_node *n, int64_t number, fault_call call, const char *sql)
{
    fleet *f = n->fleet;
    const db_fault *plan = &n->plan;
    int is_commit = call == FAULT_CALL_COMMIT;
    if (number == plan->fail_call) {
        fleet_tell(f, "node %d: call %d fails: %.60s", n->index, (int)call, sql);
        fleet_count(f, is_commit ? TALLY_COMMITS_FAILED : TALLY_CALLS_FAILED);
        faults_hit(n);
    } else if (is_commit && plan->commits == plan->lose_commit) {
        fleet_tell(f, "node %d: no answer to a commit that %s%s", n->index,
                   plan->lose_happened ? "happens" : "does not", plan->lose_late ? ", late" : "");
        fleet_count(f, TALLY_UNDECIDED);
        if (plan->lose_late && plan->lose_happened)
            fleet_count(f, TALLY_LATE);
        faults_hit(n);
    }
}

void faults_before(void *node, int64_t number, fault_call call, const char *sql)
{
    fleet_node *n = node;
    fleet *f = n->fleet;
    if (n->plan.dead)
        return;
    if (number == n->die_at) {
        fleet_tell(f, "node %d dies at call %d: %.60s", n->index, (int)call, sql);
        fleet_die(n);
        return;
    }
    if (call == FAULT_CALL_COMMIT)
        plan_commit(n, number);
    note_call(n, number, call, sql);
    if (call == FAULT_CALL_COMMIT && fleet_is_shut_out(n))
        fleet_wrong(f, "node %d commits although it is closed", n->index);
    if (call != FAULT_CALL_BEGIN || !chance_of(&f->chance, f->odds.meet))
        return;
    if (!threads_is_main())
        threads_yield();
    else if (n->polled)
        meet(n);
}

/* ---- In work functions ---- */

/* Others take it for dead from now on. */
static void fall_silent(fleet_node *n)
{
    fleet *f = n->fleet;
    fleet_tell(f, "node %d falls silent", n->index);
    f->silences++;
    n->silent = 1;
    liveness_file_release(db_nodes(n->inner), handle_node(n->engine));
}

static void poll_others(fleet *f, int most)
{
    for (int i = 0; i < f->odds.nodes && most > 0; i++, most--) {
        fleet_node *other = &f->nodes[i];
        if (other->polled || !other->engine)
            continue;
        if (chance_of(&f->chance, 500))
            fleet_move(f, chance_between(&f->chance, 1, 1500));
        fleet_turn(other);
    }
}

/* It is in there for so long that its claims are over, and others may see to that or not. */
static void take_long(fleet_node *n)
{
    fleet *f = n->fleet;
    int seen = chance_of(&f->chance, 700);
    fleet_tell(f, "node %d takes long", n->index);
    f->silences++;
    for (int i = 0; i < 6; i++) {
        fleet_move(f, chance_between(&f->chance, 1000, 2400));
        if (seen)
            poll_others(f, FLEET_NODES);
    }
}

/* A run is held, perhaps this one. */
static void hold(fleet *f)
{
    fleet_node *other = &f->nodes[chance_between(&f->chance, 0, f->odds.nodes - 1)];
    if (other->engine && !other->polled)
        affairs_hold(f, other, NULL);
}

/* On a thread of an engine: others go on meanwhile, for as long as it takes. */
static void take_time(fleet_node *n)
{
    fleet *f = n->fleet;
    if (!f->odds.server && !n->silent && !f->calm && chance_of(&f->chance, f->odds.silence))
        fall_silent(n);
    if (chance_of(&f->chance, f->odds.busy))
        threads_sleep(chance_between(&f->chance, 1, chance_of(&f->chance, 300) ? LONG_MS : 200));
    else if (chance_of(&f->chance, 300))
        threads_yield();
    if (!n->plan.dead && fleet_is_shut_out(n))
        faults_note(n);
}

void faults_let_happen(fleet_node *n)
{
    fleet *f = n->fleet;
    if (!threads_is_main()) {
        take_time(n);
        return;
    }
    if (f->calm || f->depth > 2)
        return;
    fleet_jump(f);
    if (f->odds.server && chance_of(&f->chance, f->odds.silence))
        take_long(n);
    else if (!f->odds.server && !n->silent && chance_of(&f->chance, f->odds.silence))
        fall_silent(n);
    if (chance_of(&f->chance, n->silent ? 700 : f->odds.meet))
        poll_others(f, 2);
    if (chance_of(&f->chance, f->odds.hold))
        hold(f);
    fleet_node *other = &f->nodes[chance_between(&f->chance, 0, f->odds.nodes - 1)];
    if (f->odds.dialog && other->engine && !other->polled)
        dialogs_act(f, other);
    if (fleet_is_shut_out(n))
        faults_note(n);
}
