/* Nodes up and down, the clock, and what engines are given.
 *
 * A node dies by having its database answer nothing any more (db_fault.dead): closed like that, its
 * engine frees what it has and leaves the database as it is, and the kernel gets back its locks. */
#include "fleet.h"

#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/engine.h"

static const int64_t START_MS = INT64_C(1700000000000);
static const int64_t MS_NS = 1000000;

/* ---- Telling ---- */

void fleet_tell(fleet *f, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *c = text; *c; c++)
        f->trace = chance_mix(f->trace ^ (unsigned char)*c);
    if (f->talks)
        fprintf(stderr, "%12lld %*s%s\n", (long long)(f->now_ms - START_MS), f->depth * 4, "",
                text);
}

void fleet_wrong(fleet *f, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fleet_tell(f, "WRONG: %s", text);
    if (!f->wrong[0])
        snprintf(f->wrong, sizeof f->wrong, "%s", text);
}

static _Noreturn void give_up(const char *what)
{
    perror(what);
    exit(2);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = 0;
    while (in >= 0 && out >= 0 && (n = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)n) != n)
            give_up(to);
    if (in < 0 || out < 0 || n < 0)
        give_up(from);
    close(in);
    close(out);
}

/* ---- Time and randomness ---- */

static int64_t now_ms(clock_source *c)
{
    return ((fleet *)(void *)c)->now_ms;
}

static int64_t mono_ns(clock_source *c)
{
    return ((fleet *)(void *)c)->mono_ns;
}

static int64_t server_ms(clock_source *c)
{
    return ((fleet *)(void *)((char *)c - offsetof(fleet, server)))->server_ms;
}

void fleet_move(fleet *f, int64_t ms)
{
    f->now_ms += ms;
    f->server_ms += ms;
    f->mono_ns += ms * MS_NS;
    if (fleet_time(f) > f->latest_ms)
        f->latest_ms = fleet_time(f);
}

void fleet_jump(fleet *f)
{
    if (f->calm || !chance_of(&f->chance, f->odds.jump))
        return;
    int64_t jump = chance_between(&f->chance, -7200000, 7200000);
    f->now_ms += jump;
    fleet_move(f, 0);
    fleet_count(f, TALLY_JUMPS);
    fleet_tell(f, "the clock is set by %lld ms", (long long)jump);
}

/* Somebody waits: what holds him up comes to its end. */
static void land_all(fleet *f)
{
    for (int i = 0; i < FLEET_NODES; i++)
        if (f->nodes[i].engine && !f->nodes[i].plan.dead)
            db_fault_land(&f->nodes[i].plan);
}

/* There is one thread: nobody else will signal anything. So whoever waits waits for the time. */
static int wait_until(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                      int64_t deadline_ns)
{
    fleet *f = (fleet *)(void *)c;
    (void)cond;
    (void)mutex;
    if (deadline_ns == INT64_MAX) {
        fprintf(stderr, "sim: seed %llu: somebody waits for ever\n", (unsigned long long)f->seed);
        abort();
    }
    land_all(f);
    if (deadline_ns > f->mono_ns)
        fleet_move(f, (deadline_ns - f->mono_ns + MS_NS - 1) / MS_NS);
    return 1;
}

static int give_random(void *arg, void *bytes, size_t count)
{
    fleet *f = ((fleet_node *)arg)->fleet;
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)chance_next(&f->dice);
    return 0;
}

/* ---- What engines are given ---- */

static void hear(void *arg, int level, const char *event, const char *fields)
{
    fleet_node *n = arg;
    (void)level;
    if (n->fleet->talks)
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
        give_up("memory");
    n->inner = inner;
    return wrapped;
}

/* ---- Nodes ---- */

static int is_open(fleet *f, int64_t id)
{
    sqlite3_bind_int64(f->open, 1, id);
    int open = sqlite3_step(f->open) == SQLITE_ROW && sqlite3_column_int(f->open, 0) > 0;
    sqlite3_reset(f->open);
    return open;
}

/* Where a lock is the sign of life, only who has lost it can be shut out. */
int fleet_is_shut_out(fleet_node *n)
{
    fleet *f = n->fleet;
    int64_t id = (n->silent || f->odds.server) && n->engine ? engine_node(n->engine) : 0;
    if (id == 0 || is_open(f, id))
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
    n->silent = n->told = n->working = n->died_in = 0;
    n->lacks = !f->calm && chance_of(&f->chance, f->odds.lack);
    f->tally->at[TALLY_LACKS] += n->lacks;
    n->die_at = 0;
    pawl_hooks hooks = {.size = sizeof hooks, .random = give_random, .arg = n};
    engine_test test = {.arg = n, .wrap = wrap, .clock = &f->clock, .drops = drops};
    pawl_options o = {.size = sizeof o,
                      .threads = -1,
                      .name = name,
                      .build = build,
                      .claim_ms = FLEET_CLAIM_MS,
                      .hooks = &hooks,
                      .log = hear,
                      .log_arg = n};
#ifdef PAWL_ALWAYS_REPLAY
    test.drops = NULL;
#endif
    pawl_code rc = engine_test_open(&n->engine, f->odds.memory ? "memory:" : f->path, &o, &test);
    fleet_tell(f, "node %d comes up: %d", n->index, (int)rc);
    if (rc != PAWL_OK)
        fleet_wrong(f, "node %d cannot be opened: %s", n->index, pawl_errtext(n->engine));
    works_register(n);
    talks_register(n);
}

static void close_node(fleet_node *n)
{
    fleet_node *before_it = n->fleet->current;
    n->polled = 1; /* nobody may poll it meanwhile */
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
    long long id = engine_node(n->engine);
    snprintf(list, FLEET_PATH + 40, "%s-running-%lld", n->fleet->path, id);
    snprintf(kept, FLEET_PATH + 40, "%s-kept-%lld", n->fleet->path, id);
}

void fleet_die(fleet_node *n)
{
    char list[FLEET_PATH + 40], kept[FLEET_PATH + 40];
    running_names(n, list, kept);
    if (access(list, R_OK) == 0)
        copy_file(list, kept);
    fleet_count(n->fleet, TALLY_CRASHES);
    n->plan.dead = 1;
    n->died_in = n->polled ? n->working : -1;
    faults_hit(n);
    faults_note(n);
}

void fleet_bury(fleet_node *n)
{
    char list[FLEET_PATH + 40], kept[FLEET_PATH + 40];
    fleet_tell(n->fleet, "node %d is dead", n->index);
    running_names(n, list, kept);
    int64_t id = engine_node(n->engine);
    close_node(n);
    rename(kept, list);
    watch_death(n->fleet, n, id);
}

void fleet_down(fleet_node *n)
{
    fleet_tell(n->fleet, "node %d goes down", n->index);
    faults_plan(n);
    n->die_at = 0;
    n->plan.lose_commit = 0;
    faults_note(n);
    close_node(n);
}

/* Others have closed it. It may have noticed, and begin anew at the next poll. */
static void see_fenced(fleet_node *n, int64_t id)
{
    fleet *f = n->fleet;
    if (id && is_open(f, id))
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
    int64_t did = 0, id = engine_node(n->engine);
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
        fleet_bury(n);
    else if (rc == PAWL_FENCED)
        see_fenced(n, id);
    else if (n->silent && fleet_is_shut_out(n))
        fleet_down(n); /* nobody can tell it: a lock that is gone is nothing that happens */
    else if (rc != PAWL_OK && rc != PAWL_BUSY && n->hits == hits && !fleet_is_shut_out(n))
        fleet_wrong(f, "node %d cannot be polled: %s", n->index, pawl_errtext(n->engine));
    return did;
}

/* ---- The whole ---- */

static void prepare(fleet *f, const char *sql, sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(f->look, sql, -1, out, NULL) != SQLITE_OK) {
        fprintf(stderr, "sim: %s: %s\n", sql, sqlite3_errmsg(f->look));
        exit(2);
    }
}

static void open_look(fleet *f)
{
    if (f->odds.memory) {
        db_conn *c;
        if (db_connect(f->nodes[0].inner, DB_READER, &c, NULL) != PAWL_OK)
            give_up("memory");
        f->look = c->driver->native(c);
        db_disconnect(c);
    } else if (sqlite3_open_v2(f->path, &f->look, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        give_up(f->path);
    }
    prepare(f, "SELECT count(*), max(seq) FROM pawl_journal WHERE run = ?1", &f->rows);
    prepare(f, "SELECT count(*) FROM pawl_nodes WHERE node = ?1 AND closed = 0", &f->open);
    prepare(f, "SELECT at FROM pawl_beats WHERE node = ?1", &f->beat);
    prepare(f,
            "SELECT run, status, held, owner, fence, wake_at, output, error, held_reason,"
            " custom_status, custom_seq, created_at, length(held_for), generation FROM pawl_runs "
            "WHERE id = ?1",
            &f->runs);
    prepare(f, "SELECT kind, data FROM pawl_journal WHERE run = ?1 ORDER BY seq DESC LIMIT 1",
            &f->last);
    prepare(f, "SELECT count(*) FROM pawl_journal WHERE run = ?1 AND kind = 6", &f->sleeps);
    prepare(f, "SELECT seq, kind, op, at, name, data FROM pawl_journal WHERE run = ?1 ORDER BY seq",
            &f->journal);
    prepare(f, "SELECT value FROM pawl_attributes WHERE run = ?1 AND name = 'at'", &f->attribute);
    prepare(f, "SELECT count(*) FROM pawl_inbox WHERE run = ?1 AND kind <> 1", &f->arrived);
}

/* The same for talks: what to look at, and what to judge. */
static void open_talks(fleet *f)
{
    prepare(f, "SELECT max(pos) FROM pawl_journal", &f->last_pos);
    prepare(f,
            "SELECT r.run, r.id, r.status, r.held, r.held_reason, r.wake_at, r.owner, r.parent,"
            " r.parent_generation, r.cancel_at, r.claims, (SELECT coalesce(max(i.kind), 0) FROM "
            "pawl_inbox i"
            " WHERE i.run = r.run AND i.kind <> 1 AND (i.kind <> 3 OR r.status = 0)),"
            " p.status, p.generation,"
            " (SELECT count(*) FROM pawl_journal j WHERE j.run = r.run"
            " AND j.generation = r.generation AND j.kind = 27)"
            " FROM pawl_runs r LEFT JOIN pawl_runs p ON p.run = r.parent"
            " WHERE r.status IN (0, 4) AND r.workflow = 'talk'",
            &f->family);
    prepare(f, /* who has so many in its boxes does not wait for one more */
            "SELECT id FROM pawl_runs r WHERE status = 0 AND held = 0 AND wake_at IS NULL"
            " AND (SELECT count(*) FROM pawl_inbox i WHERE i.run = r.run AND i.kind = 1) < 20",
            &f->dormant);
    prepare(f,
            "SELECT id FROM pawl_runs WHERE status IN (0, 4) AND held IN (3, 5)"
            " AND workflow = 'talk'",
            &f->stuck);
    prepare(f,
            "SELECT r.run, r.generation, j.seq, r.id FROM pawl_runs r JOIN pawl_journal j"
            " ON j.run = r.run AND j.generation = r.generation AND j.kind = 23"
            " WHERE r.status = 0 AND r.held = 0 AND (r.wake_at IS NULL OR r.wake_at > ?1)"
            " AND EXISTS (SELECT 1 FROM pawl_inbox i WHERE i.run = r.run AND i.kind = 1"
            " AND i.name = j.name)",
            &f->letters);
    prepare(f,
            "SELECT kind, op, data FROM pawl_journal WHERE run = ?1 AND generation = ?2"
            " ORDER BY seq",
            &f->after);
    prepare(f,
            "SELECT run, id, status, generation, parent, parent_generation, parent_op, cancel_at,"
            " deadline_at, output, error, input, owner, wake_at FROM pawl_runs"
            " WHERE workflow = 'talk' ORDER BY run",
            &f->tales);
    prepare(f,
            "SELECT seq, kind, op, at, name, data FROM pawl_journal WHERE run = ?1"
            " AND generation = ?2 ORDER BY seq",
            &f->talk_rows);
    prepare(f,
            "SELECT status, finished_at FROM pawl_generations WHERE run = ?1 AND generation = ?2",
            &f->generations);
    prepare(f, "SELECT seq, name, data FROM pawl_inbox WHERE run = ?1 AND kind = 1 ORDER BY seq",
            &f->inbox);
    prepare(f,
            "SELECT count(*) FROM pawl_journal a JOIN pawl_journal b ON b.run = a.run"
            " AND b.generation = a.generation AND b.op = a.seq AND b.kind = 42"
            " WHERE a.run = ?1 AND a.kind = 6 AND a.pos > ?2"
            " AND CAST(a.data AS INTEGER) - a.at >= 60000",
            &f->slept);
    prepare(f, "SELECT data FROM pawl_state WHERE run = ?1 AND key = ?2", &f->state);
}

/* In so many of a thousand worlds, this much. */
static int sometimes(chance *c, int64_t worlds, int64_t low, int64_t high)
{
    return chance_of(c, worlds) ? (int)chance_between(c, low, high) : 0;
}

/* Who is stolen from must not read the journal again before it finds out: it would take for its own
 * what the thief has written by then. */
static void draw_steal(fleet_odds *o, chance *c)
{
    o->steal = sometimes(c, 300, 500, 1000);
#ifdef PAWL_ALWAYS_REPLAY
    o->steal = 0;
#endif
    if (o->steal)
        o->drop = o->fail = o->fail_commit = o->lose = 0;
}

/* A quarter of all seeds without any fault; most kinds of faults in some of the others only. */
static void draw_odds(fleet_odds *o, chance *c)
{
    o->runs = (int)chance_between(c, 1, FLEET_RUNS);
    o->memory = chance_of(c, 200);
    o->server = !o->memory && chance_of(c, 300);
    o->nodes = o->memory ? 1 : (int)chance_between(c, 1, FLEET_NODES);
    o->drop = chance_of(c, 500) ? 0 : chance_of(c, 300) ? 1000 : 250;
    o->meet = sometimes(c, 600, 20, 600);
    o->jump = sometimes(c, 300, 100, 300);
    o->mail = sometimes(c, 300, 100, 400);
    o->hold = sometimes(c, 300, 100, 600);
    o->lack = o->memory ? 0 : sometimes(c, 150, 200, 600);
    o->talk = chance_of(c, 500) ? 0 : chance_of(c, 500) ? 1000 : 500;
    o->send = sometimes(c, 900, 50, 500);
    o->cancel = sometimes(c, 500, 5, 60);
    o->redrive = sometimes(c, 700, 10, 100);
    if (chance_of(c, 250))
        return;
    o->fail = sometimes(c, 500, 50, 500);
    o->fail_commit = sometimes(c, 400, 20, 200);
    o->lose = sometimes(c, 500, 50, 500);
    if (o->memory)
        return;
    o->die = sometimes(c, 500, 30, 200);
    o->die_in = sometimes(c, 500, 30, 200);
    o->killer = sometimes(c, 300, 200, 500);
    o->silence = o->nodes < 2 ? 0 : sometimes(c, 400, 50, 300);
}

static void draw_run(fleet *f, int number)
{
    chance *c = &f->chance;
    fleet_run *run = &f->all[number];
    program_make(&run->program, c);
    snprintf(run->id, sizeof run->id, "run-%d", number);
    run->delay_ms = chance_of(c, 150) ? chance_between(c, 1, 100000) : 0;
    run->talks = chance_of(c, f->odds.talk);
    if (run->talks) {
        run->talk_seed = chance_next(c);
        run->talk_left = (int)chance_between(c, 0, 2);
        run->deadline_ms = chance_of(c, 100) ? chance_between(c, 1, 7200000) : 0;
        return;
    }
    if (!chance_of(c, f->odds.killer))
        return;
    run->kills = chance_between(c, 2, 9);
    run->killer = chance_of(c, 400) ? -1 : 0;
    int from = (int)chance_between(c, 0, run->program.count);
    for (int i = from; i < run->program.count && !run->killer; i++)
        run->killer = program_executes(&run->program, i) ? i + 1 : 0;
}

void fleet_open(fleet *f, uint64_t seed, const char *model, const char *folder)
{
    int verbose = f->talks;
    tally *t = f->tally;
    *f = (fleet){.clock = {now_ms, mono_ns, wait_until},
                 .server = {server_ms, mono_ns, wait_until},
                 .seed = seed,
                 .talks = verbose,
                 .tally = t};
    f->now_ms = f->server_ms = f->latest_ms = START_MS;
    f->mono_ns = START_MS;
    f->chance.state = chance_mix(seed);
    f->dice.state = chance_mix(~seed);
    draw_odds(&f->odds, &f->chance);
    draw_steal(&f->odds, &f->chance);
    for (int i = 0; i < FLEET_NODES; i++)
        f->nodes[i] = (fleet_node){.fleet = f, .index = i};
    for (int i = 0; i < f->odds.runs; i++)
        draw_run(f, i);
    if (f->odds.memory) {
        fleet_up(&f->nodes[0]);
    } else {
        snprintf(f->path, sizeof f->path, "%s/sim.db", folder);
        copy_file(model, f->path);
    }
    open_look(f);
    open_talks(f);
}

/* Everything in the folder that belongs to the database. */
static void remove_files(const char *path)
{
    glob_t found;
    char pattern[FLEET_PATH + 8];
    snprintf(pattern, sizeof pattern, "%s*", path);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

static void close_look(fleet *f)
{
    sqlite3_finalize(f->rows);
    sqlite3_finalize(f->open);
    sqlite3_finalize(f->beat);
    sqlite3_finalize(f->runs);
    sqlite3_finalize(f->journal);
    sqlite3_finalize(f->last);
    sqlite3_finalize(f->sleeps);
    sqlite3_finalize(f->attribute);
    sqlite3_finalize(f->arrived);
    sqlite3_finalize(f->last_pos);
    sqlite3_finalize(f->family);
    sqlite3_finalize(f->dormant);
    sqlite3_finalize(f->stuck);
    sqlite3_finalize(f->letters);
    sqlite3_finalize(f->after);
    sqlite3_finalize(f->tales);
    sqlite3_finalize(f->talk_rows);
    sqlite3_finalize(f->generations);
    sqlite3_finalize(f->inbox);
    sqlite3_finalize(f->slept);
    sqlite3_finalize(f->state);
    if (!f->odds.memory)
        sqlite3_close(f->look);
}

void fleet_close(fleet *f)
{
    if (f->odds.memory) /* it goes with the engine */
        close_look(f);
    for (int i = 0; i < FLEET_NODES; i++)
        if (f->nodes[i].engine)
            close_node(&f->nodes[i]);
    if (f->odds.memory)
        return;
    close_look(f);
    remove_files(f->path);
}
