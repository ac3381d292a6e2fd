/* The whole world: its clock, its database, and which odds it has. Nodes come and go in it
 * (nodes.c); what the database says is read over a connection that no engine knows of. */
#include "fleet.h"

#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "threads.h"

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
    if (f->verbose)
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

void fleet_copy(const char *from, const char *to)
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
    f->ahead_ms += jump > 0 ? jump : 0;
    fleet_move(f, 0);
    fleet_count(f, TALLY_JUMPS);
    fleet_tell(f, "the clock is set by %lld ms", (long long)jump);
}

/* A thread waits: what holds it up comes to its end. */
static void land_all(fleet *f)
{
    for (int i = 0; i < FLEET_NODES; i++)
        if (f->nodes[i].engine && !f->nodes[i].plan.dead)
            db_fault_land(&f->nodes[i].plan);
}

void fleet_pass(fleet *f, int64_t until_ns)
{
    if (until_ns > f->mono_ns)
        fleet_move(f, (until_ns - f->mono_ns + MS_NS - 1) / MS_NS);
}

static int wait_until(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                      int64_t deadline_ns)
{
    land_all((fleet *)(void *)c);
    return threads_wait(cond, mutex, deadline_ns);
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
            "SELECT run, phase, held, owner, fence, wake_at, output, error, held_reason,"
            " status, status_seq, created_at, length(held_for), generation, claims"
            " FROM pawl_runs WHERE id = ?1",
            &f->runs);
    prepare(f, "SELECT kind, data FROM pawl_journal WHERE run = ?1 ORDER BY seq DESC LIMIT 1",
            &f->last);
    prepare(f, "SELECT count(*) FROM pawl_journal WHERE run = ?1 AND kind = 6", &f->sleeps);
    prepare(f, "SELECT seq, kind, op, at, name, data FROM pawl_journal WHERE run = ?1 ORDER BY seq",
            &f->journal);
    prepare(f, "SELECT value FROM pawl_attributes WHERE run = ?1 AND name = 'at'", &f->attribute);
    prepare(f, "SELECT count(*) FROM pawl_inbox WHERE run = ?1 AND kind <> 1", &f->arrived);
    prepare(f,
            "SELECT r.run, r.fence, r.id FROM pawl_runs r WHERE r.phase IN (0, 4) AND r.held = 0"
            " AND r.wake_at <= ?1 AND r.workflow <> 'nowhere' AND NOT EXISTS"
            " (SELECT 1 FROM pawl_nodes n WHERE n.node = r.owner AND n.closed = 0)",
            &f->unclaimed);
}

/* The same for dialogs: what to look at, and what to judge. */
static void open_dialogs(fleet *f)
{
    prepare(f, "SELECT max(pos) FROM pawl_journal", &f->last_pos);
    prepare(f,
            "SELECT r.run, r.id, r.phase, r.held, r.held_reason, r.wake_at, r.owner, r.parent,"
            " r.parent_generation, r.cancel_at, (SELECT count(*) FROM pawl_journal b WHERE b.run ="
            " r.run AND b.generation = r.generation AND b.seq > 1),"
            " (SELECT coalesce(max(i.kind), 0) FROM pawl_inbox i"
            " WHERE i.run = r.run AND i.kind <> 1 AND (i.kind <> 3 OR r.phase = 0)),"
            " p.phase, p.generation,"
            " (SELECT count(*) FROM pawl_journal j WHERE j.run = r.run"
            " AND j.generation = r.generation AND j.kind = 27)"
            " FROM pawl_runs r LEFT JOIN pawl_runs p ON p.run = r.parent"
            " WHERE r.phase IN (0, 4) AND r.workflow = 'dialog'",
            &f->family);
    /* A run with so many messages in its boxes does not wait for one more. One that was held and
     * released before its owner heard of it is due, and sleeps nevertheless. */
    prepare(f,
            "SELECT id FROM pawl_runs r WHERE phase = 0 AND held = 0"
            " AND (wake_at IS NULL OR (owner <> 0 AND wake_at <= ?1)) AND workflow = 'dialog'"
            " AND (SELECT count(*) FROM pawl_inbox i WHERE i.run = r.run AND i.kind = 1) < 20",
            &f->dormant);
    prepare(f,
            "SELECT id FROM pawl_runs WHERE phase IN (0, 4) AND held IN (3, 5)"
            " AND workflow = 'dialog'",
            &f->stuck);
    prepare(f,
            "SELECT r.run, r.generation, j.seq, r.id FROM pawl_runs r JOIN pawl_journal j"
            " ON j.run = r.run AND j.generation = r.generation AND j.kind = 23"
            " WHERE r.phase = 0 AND r.held = 0 AND (r.wake_at IS NULL OR r.wake_at > ?1)"
            " AND EXISTS (SELECT 1 FROM pawl_inbox i WHERE i.run = r.run AND i.kind = 1"
            " AND i.name = j.name)",
            &f->messages);
    prepare(f,
            "SELECT kind, op, data FROM pawl_journal WHERE run = ?1 AND generation = ?2"
            " ORDER BY seq",
            &f->after);
    prepare(f,
            "SELECT run, id, phase, generation, parent, parent_generation, parent_op, cancel_at,"
            " deadline_at, output, error, input, owner, wake_at FROM pawl_runs"
            " WHERE workflow = 'dialog' ORDER BY run",
            &f->dialog_runs);
    prepare(f,
            "SELECT seq, kind, op, at, name, data FROM pawl_journal WHERE run = ?1"
            " AND generation = ?2 ORDER BY seq",
            &f->dialog_rows);
    prepare(f, "SELECT phase, finished_at FROM pawl_generations WHERE run = ?1 AND generation = ?2",
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

/* A node that a run was stolen from must not read the journal again before it finds out: it would
 * take for its own what the thief has written by then. */
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
    o->dialog = chance_of(c, 500) ? 0 : chance_of(c, 500) ? 1000 : 500;
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

/* By a chance of their own: a world in which engines are only polled is what it always was. */
static void draw_drivers(fleet_odds *o, uint64_t seed)
{
    chance c = {chance_mix(seed ^ UINT64_C(0x7468726561647321))};
    o->threads = chance_of(&c, 600) ? (int)chance_between(&c, 1, 3) : 0;
    if (!o->threads)
        return;
    o->serve = (int)chance_between(&c, 200, 1000);
    o->finish = sometimes(&c, 500, 50, 400);
    o->stop = sometimes(&c, 600, 10, 150);
    o->busy = sometimes(&c, 700, 100, 900);
    o->broad = sometimes(&c, 500, 300, 1000);
    if (!o->broad)
        return;
    o->dialog = o->dialog > 500 ? o->dialog : 500;
    o->hold = sometimes(&c, 600, 200, 800);
    o->busy = (int)chance_between(&c, 500, 1000);
}

static void draw_run(fleet *f, int number)
{
    chance *c = &f->chance;
    fleet_run *run = &f->all[number];
    program_make(&run->program, c);
    snprintf(run->id, sizeof run->id, "run-%d", number);
    run->delay_ms = chance_of(c, 150) ? chance_between(c, 1, 100000) : 0;
    run->is_dialog = chance_of(c, f->odds.dialog);
    if (run->is_dialog) {
        run->dialog_seed = chance_next(c) | (chance_of(c, f->odds.broad) ? DIALOG_BROAD : 0);
        run->dialog_left = (int)chance_between(c, 0, 2);
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
    int verbose = f->verbose;
    tally *t = f->tally;
    *f = (fleet){.clock = {now_ms, mono_ns, wait_until, NULL},
                 .server = {server_ms, mono_ns, wait_until, NULL},
                 .seed = seed,
                 .verbose = verbose,
                 .tally = t};
    f->now_ms = f->server_ms = f->latest_ms = START_MS;
    f->mono_ns = START_MS;
    f->chance.state = chance_mix(seed);
    f->dice.state = chance_mix(~seed);
    draw_odds(&f->odds, &f->chance);
    draw_steal(&f->odds, &f->chance);
    draw_drivers(&f->odds, seed);
    threads_open(f);
    for (int i = 0; i < FLEET_NODES; i++)
        f->nodes[i] = (fleet_node){.fleet = f, .index = i};
    for (int i = 0; i < f->odds.runs; i++)
        draw_run(f, i);
    if (f->odds.memory) {
        fleet_up(&f->nodes[0]);
    } else {
        snprintf(f->path, sizeof f->path, "%s/sim.db", folder);
        fleet_copy(model, f->path);
    }
    open_look(f);
    open_dialogs(f);
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
    sqlite3_finalize(f->messages);
    sqlite3_finalize(f->after);
    sqlite3_finalize(f->dialog_runs);
    sqlite3_finalize(f->dialog_rows);
    sqlite3_finalize(f->generations);
    sqlite3_finalize(f->inbox);
    sqlite3_finalize(f->slept);
    sqlite3_finalize(f->state);
    sqlite3_finalize(f->unclaimed);
    if (!f->odds.memory)
        sqlite3_close(f->look);
}

void fleet_close(fleet *f)
{
    if (f->odds
            .memory) { /* the database ends with its engine, whose threads may use the statements */
        drivers_halt(&f->nodes[0]);
        close_look(f);
    }
    for (int i = 0; i < FLEET_NODES; i++)
        if (f->nodes[i].engine)
            fleet_shut(&f->nodes[i]);
    threads_open(NULL);
    if (f->odds.memory)
        return;
    close_look(f);
    remove_files(f->path);
}
