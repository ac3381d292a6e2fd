/* Nodes up and down: what an engine is given, how it is driven by hand, how it dies and closes.
 *
 * A node dies by having its database answer nothing any more (db_fault.dead): closed like that, its
 * engine frees what it has and leaves the database as it is, and the kernel gets back its locks.
 * Its threads come to their ends first, in no time at all as far as others can see. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet.h"
#include "handle/handle.h"
#include "threads.h"

static int give_random(void *bytes, size_t count, void *arg)
{
    fleet *f = ((fleet_node *)arg)->fleet;
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)chance_next(&f->dice);
    return 0;
}

/* ---- What engines are given ---- */

/* A node that closes a dead one logs it. */
static void note_closed(fleet *f, const char *fields)
{
    long long id;
    if (sscanf(fields, "node=%lld", &id) == 1 && f->closed_count < FLEET_CLOSED)
        f->closed[f->closed_count++] = id;
}

int fleet_was_closed(const fleet *f, int64_t id)
{
    for (int i = 0; i < f->closed_count; i++)
        if (f->closed[i] == id)
            return 1;
    return 0;
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    fleet_node *n = arg;
    (void)level;
    if (strcmp(event, "node-closed") == 0)
        note_closed(n->fleet, fields);
    if (n->fleet->verbose)
        fprintf(stderr, "%12s %*snode %d: %s %s\n", "", n->fleet->depth * 4, "", n->index, event,
                fields);
}

static int drops(void *arg)
{
    fleet *f = ((fleet_node *)arg)->fleet;
    int drop = chance_of(&f->chance, f->odds.drop);
    f->tally->at[TALLY_EVICTIONS] += drop;
    return drop;
}

static db *wrap(void *arg, db *inner)
{
    fleet_node *n = arg;
    db *wrapped = db_fault_wrap(inner, &n->plan);
    if (!wrapped)
        abort();
    n->inner = inner;
    return wrapped;
}

/* ---- Nodes ---- */

int fleet_is_open(fleet *f, int64_t id)
{
    sqlite3_bind_int64(f->open, 1, id);
    int open = sqlite3_step(f->open) == SQLITE_ROW && sqlite3_column_int(f->open, 0) > 0;
    sqlite3_reset(f->open);
    return open;
}

int fleet_has_node(const fleet *f, int64_t id)
{
    for (int i = 0; i < f->odds.nodes; i++)
        if (f->nodes[i].engine && handle_node(f->nodes[i].engine) == id)
            return 1;
    return 0;
}

/* Where liveness is a lock, only a node that has lost it can be shut out. */
int fleet_is_shut_out(fleet_node *n)
{
    fleet *f = n->fleet;
    int64_t id = (n->silent || f->odds.server) && n->engine ? handle_node(n->engine) : 0;
    if (id == 0 || fleet_is_open(f, id))
        return 0;
    if (!n->told) {
        n->told = 1;
        f->silences++;
        fleet_count(f, TALLY_SHUT_OUT);
    }
    return 1;
}

void fleet_up(fleet_node *n)
{
    fleet *f = n->fleet;
    char name[16], build[16];
    f->builds += f->builds == 0 || (!f->calm && chance_of(&f->chance, 150));
    snprintf(name, sizeof name, "node-%d", n->index);
    snprintf(build, sizeof build, "build-%d", f->builds);
    n->plan = (db_fault){.before = faults_before, .before_arg = n};
    if (f->odds.server) {
        n->plan.no_file = 1;
        n->plan.clock = &f->server;
    }
    n->silent = n->told = n->working = n->died_in = n->stopped = n->stops = 0;
    n->threads = f->odds.threads ? (int)chance_between(&f->chance, 0, f->odds.threads) : 0;
    n->lacks = !f->calm && chance_of(&f->chance, f->odds.lack);
    f->tally->at[TALLY_LACKS] += n->lacks;
    n->die_at = 0;
    n->queued_ns = -1;
    pawl_hooks hooks = {.size = sizeof hooks, .random = give_random, .arg = n};
    engine_test test = {
        .arg = n, .wrap = wrap, .clock = &f->clock, .drops = drops, .one_thread = 1};
    pawl_options o = {.size = sizeof o,
                      .threads = n->threads ? n->threads : -1,
                      .threads_max = n->threads ? n->threads + 8 : 0,
                      .drain_ms = FLEET_DRAIN_MS,
                      .name = name,
                      .build = build,
                      .claim_ms = FLEET_CLAIM_MS,
                      .hooks = &hooks,
                      .log = hear,
                      .log_arg = n};
#ifdef PAWL_ALWAYS_REPLAY
    test.drops = NULL;
#endif
    fleet_node *before_it = f->current;
    f->current = n; /* whose threads they are */
    pawl_code rc = engine_test_open(&n->engine, f->odds.memory ? "memory:" : f->path, &o, &test);
    f->current = before_it;
    fleet_tell(f, "node %d comes up with %d threads: %d", n->index, n->threads, (int)rc);
    if (rc != PAWL_OK)
        fleet_wrong(f, "node %d cannot be opened: %s", n->index, pawl_errtext(n->engine));
    works_register(n);
    dialogs_register(n);
}

void fleet_shut(fleet_node *n)
{
    fleet_node *before_it = n->fleet->current;
    drivers_halt(n);
    n->polled = 1; /* no thread may poll it meanwhile */
    n->fleet->current = n;
    pawl_close(n->engine);
    n->fleet->current = before_it;
    n->polled = 0;
    n->engine = NULL;
    n->inner = NULL;
}

/* The list of what a node is at, which outlives it, and what is kept of it. */
static void running_names(const fleet_node *n, char list[FLEET_PATH + 40],
                          char kept[FLEET_PATH + 40])
{
    long long id = n->died_id;
    snprintf(list, FLEET_PATH + 40, "%s-running-%lld", n->fleet->path, id);
    snprintf(kept, FLEET_PATH + 40, "%s-kept-%lld", n->fleet->path, id);
}

void fleet_die(fleet_node *n)
{
    char list[FLEET_PATH + 40], kept[FLEET_PATH + 40];
    n->died_id = handle_node(n->engine);
    running_names(n, list, kept);
    if (access(list, R_OK) == 0)
        fleet_copy(list, kept);
    fleet_count(n->fleet, TALLY_CRASHES);
    n->plan.dead = 1;
    n->died_in = n->driver != DRIVER_NONE ? 0 : n->polled ? n->working : -1;
    faults_hit(n);
    faults_note(n);
}

/* What the clocks show. */
typedef struct times {
    int64_t now_ms, server_ms, latest_ms, mono_ns;
} times;

static times times_of(const fleet *f)
{
    return (times){f->now_ms, f->server_ms, f->latest_ms, f->mono_ns};
}

static void set_times(fleet *f, times t)
{
    f->now_ms = t.now_ms;
    f->server_ms = t.server_ms;
    f->latest_ms = t.latest_ms;
    f->mono_ns = t.mono_ns;
}

void fleet_remove_dead(fleet_node *n)
{
    char list[FLEET_PATH + 40], kept[FLEET_PATH + 40];
    fleet_tell(n->fleet, "node %d is dead", n->index);
    running_names(n, list, kept);
    times before = times_of(n->fleet);
    threads_only(n);
    fleet_shut(n);
    threads_only(NULL);
    set_times(n->fleet, before);
    rename(kept, list);
    watch_death(n->fleet, n, n->died_id);
}

void fleet_down(fleet_node *n)
{
    fleet_tell(n->fleet, "node %d goes down", n->index);
    faults_plan(n);
    n->die_at = 0;
    n->plan.lose_commit = 0;
    int64_t hits = n->hits;
    if (fleet_is_shut_out(n))
        faults_note(n);
    fleet_shut(n);
    if (n->hits != hits)
        faults_note(n);
}

/* Others have closed it. It may have noticed, and begin anew at the next poll. */
void fleet_fenced(fleet_node *n, int64_t id)
{
    fleet *f = n->fleet;
    if (id && fleet_is_open(f, id))
        fleet_wrong(f, "node %d believes that it was closed", n->index);
    fleet_tell(f, "node %d is shut out", n->index);
    if (!n->told) {
        f->silences++;
        fleet_count(f, TALLY_SHUT_OUT);
    }
    faults_note(n);
    n->silent = n->told = 0;
}

int64_t fleet_poll(fleet_node *n)
{
    fleet *f = n->fleet;
    int64_t did = 0, id = handle_node(n->engine);
    fleet_node *before_it = f->current;
    f->current = n;
    n->polled = 1;
    n->began_ns = f->mono_ns;
    f->depth++;
    faults_plan(n);
    int64_t hits = n->hits;
    pawl_code rc = pawl_poll(n->engine, &did);
    f->depth--;
    n->polled = 0;
    f->current = before_it;
    fleet_tell(f, "node %d (%lld) polled: %d did %lld", n->index, (long long)id, (int)rc,
               (long long)did);
    if (n->plan.dead)
        fleet_remove_dead(n);
    else if (rc == PAWL_FENCED)
        fleet_fenced(n, id);
    else if (n->silent && fleet_is_shut_out(n))
        fleet_down(n); /* no event tells it: a lock that is gone gives none */
    else if (rc == PAWL_CLOSED && n->stops > 0)
        n->stops = n->stopped = 0;
    else if (rc != PAWL_OK && rc != PAWL_BUSY && n->hits == hits && !fleet_is_shut_out(n))
        fleet_wrong(f, "node %d cannot be polled: %s", n->index, pawl_errtext(n->engine));
    return did;
}

int64_t fleet_turn(fleet_node *n)
{
    if (n->driver == DRIVER_NONE && (n->threads == 0 || !drivers_begin(n)))
        return fleet_poll(n);
    drivers_play(n);
    return 0;
}
