/* The simulator: sim [COUNT [FIRST]] [-v]
 *
 * Each seed is a little world: some engines, some runs of programs made up at random, and random
 * choices of which node is polled when, what fails, which process dies and how the clock moves.
 * Then everything calms down, all runs must end, and what is in the database must be what the model
 * says.
 *
 * The simulation is deterministic: the same seed gives the same world, in every build and on every
 * machine. Prints a line for each seed that went wrong, with the command that repeats it; the last
 * line is the summary. -v tells what happens. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fleet.h"
#include "threads.h"

enum {
    DEFAULT_COUNT = 300,
    STEPS_MAX = 400,
    CALM_MAX = 4000,
    LONG_CALM = 3000, /* a run asks every few ms, until a moment that is far away */
    HOUR_MS = 3600000,
    IDLE_MAX = 600,
    WRONG_MAX = 10,
    TWICE_EVERY = 50,
    SECONDS_MAX = 30,
    WAITS_MAX = 600,
};

/* For the handler of signals that end the program, which must know where it was. */
static volatile sig_atomic_t seed_high, seed_low; /* tidy: the handler has no argument */

/* ---- One world ---- */

static fleet_node *some_node(fleet *f)
{
    return &f->nodes[chance_between(&f->chance, 0, f->odds.nodes - 1)];
}

/* NULL: all are down. */
static fleet_node *some_engine(fleet *f)
{
    fleet_node *n = some_node(f);
    for (int i = 0; i < f->odds.nodes && !n->engine; i++)
        n = &f->nodes[i];
    return n->engine ? n : NULL;
}

static const int64_t MS_NS = 1000000;

/* How long nothing will happen: until a run is due; or, if one is due and no node has seen to it
 * yet, until some engine wants to be called. When a run with messages wakes is unknown. */
static int64_t quiet_ms(fleet *f, int idle)
{
    int64_t due = watch_due(f), now = fleet_time(f);
    if (due == INT64_MAX && idle > 30)
        return HOUR_MS;
    if (due != INT64_MAX && due > now)
        return due - now;
    int64_t next = 1000, woken_ns = threads_next_ns();
    if (woken_ns != INT64_MAX && woken_ns - f->mono_ns < next * MS_NS)
        next = woken_ns > f->mono_ns ? (woken_ns - f->mono_ns + MS_NS - 1) / MS_NS : 0;
    for (int i = 0; i < f->odds.nodes; i++) {
        int by_hand = f->nodes[i].engine && f->nodes[i].driver == DRIVER_NONE;
        int64_t ms = by_hand ? pawl_timeout(f->nodes[i].engine) : -1;
        if (ms >= 0 && ms < next)
            next = ms;
    }
    return next;
}

/* A thread that can go on does before much time passes. */
static void move_clock(fleet *f)
{
    if (f->odds.threads && chance_of(&f->chance, 150)) {
        fleet_move(f, chance_between(&f->chance, 0, 20));
        return;
    }
    drivers_settle(f);
    int64_t ms = chance_of(&f->chance, 600)   ? quiet_ms(f, 0)
                 : chance_of(&f->chance, 500) ? chance_between(&f->chance, 0, 2000)
                                              : chance_between(&f->chance, 0, 7200000);
    liveness_rest(f, ms);
    fleet_tell(f, "%lld ms pass", (long long)ms);
    fleet_jump(f);
}

static void go_down(fleet_node *n)
{
    fleet *f = n->fleet;
    if (f->odds.memory)
        return;
    if (!f->odds.die || !chance_of(&f->chance, 500)) {
        fleet_down(n);
        return;
    }
    fleet_die(n);
    fleet_remove_dead(n);
}

/* What others do. */
static void act_as_operator(fleet *f, fleet_node *n)
{
    if (chance_of(&f->chance, f->odds.mail))
        affairs_mail(f);
    if (chance_of(&f->chance, f->odds.steal))
        affairs_steal(f);
    if (chance_of(&f->chance, 100))
        affairs_give_back(f);
    if (chance_of(&f->chance, f->odds.hold))
        affairs_hold(f, n, NULL);
    for (int i = 0; i < f->odds.runs && n->engine; i++)
        if (f->all[i].stolen && chance_of(&f->chance, 300))
            affairs_hold(f, n, &f->all[i]);
}

static void release_poison(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++) {
        fleet_node *n = f->all[i].poisoned ? some_engine(f) : NULL;
        if (n && (f->calm || chance_of(&f->chance, 200)))
            affairs_release(f, n, &f->all[i]);
    }
    fleet_node *n =
        f->odds.dialog && (f->calm || chance_of(&f->chance, 50)) ? some_engine(f) : NULL;
    if (n)
        dialogs_release(f, n);
}

static void step(fleet *f)
{
    fleet_node *n = some_node(f);
    int64_t what = chance_between(&f->chance, 0, 99);
    if (!n->engine) {
        if (what < 50)
            fleet_up(n);
        else
            move_clock(f);
    } else if (what < 20) {
        int number = (int)chance_between(&f->chance, 0, f->odds.runs - 1);
        if (!f->all[number].started || what < 2)
            affairs_start(f, n, number);
    } else if (what < 68) {
        fleet_turn(n);
    } else if (what < 90) {
        move_clock(f);
    } else if (what < 91) {
        go_down(n);
    } else {
        act_as_operator(f, n);
    }
    if (n->engine && f->odds.dialog)
        dialogs_act(f, n);
    watch_look(f);
    liveness_storm(f, n);
    release_poison(f);
}

/* ---- Its end ---- */

/* 1 if nothing is left to do but what is held by hand; then that must be left alone. */
static int all_ended(const fleet *f, int but_held)
{
    for (int i = 0; i < f->odds.runs; i++)
        if (!f->all[i].ended && !(but_held && f->all[i].hold != HOLD_NO))
            return 0;
    return but_held || !f->odds.dialog || f->dialog_log.live == 0;
}

static void start_rest(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++) {
        fleet_node *n = f->all[i].started ? NULL : some_engine(f);
        if (n)
            affairs_start(f, n, i);
    }
}

/* Every node has a turn, without faults. Gives how much was done. */
static int64_t calm_round(fleet *f)
{
    int64_t did = 0;
    for (int i = 0; i < f->odds.nodes; i++) {
        if (!f->nodes[i].engine)
            fleet_up(&f->nodes[i]);
        did += fleet_turn(&f->nodes[i]);
    }
    drivers_settle(f);
    start_rest(f);
    fleet_node *n = some_engine(f);
    if (n)
        liveness_probe(f, n);
    watch_look(f);
    liveness_look(f);
    release_poison(f);
    return did;
}

static void release_all(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++) {
        fleet_run *run = &f->all[i];
        fleet_node *n = !run->ended && run->hold != HOLD_NO ? some_engine(f) : NULL;
        if (n)
            affairs_release(f, n, run);
    }
}

static void calm_rounds(fleet *f, int but_held)
{
    int idle = 0;
    for (int round = 0; round < CALM_MAX && !all_ended(f, but_held) && !f->wrong[0]; round++) {
        if (!but_held)
            release_all(f);
        int64_t did = calm_round(f);
        idle = did == 0 ? idle + 1 : 0;
        if (did != 0)
            continue;
        watch_quiet(f);
        fleet_node *n = f->odds.dialog ? some_engine(f) : NULL;
        if (n)
            dialogs_nudge(f, n);
        liveness_rest(f, round > LONG_CALM ? HOUR_MS : quiet_ms(f, idle));
    }
}

/* What is held stays so, and is owned by no live node: one that serves again has watched for longer
 * than a claim lasts by then, and has closed those that died. */
static void wait_until_idle(fleet *f)
{
    for (int i = 0; i < 18 && !f->wrong[0]; i++) {
        f->rest = i > 15;
        calm_round(f);
        liveness_rest(f, 1000);
    }
    f->rest = 0;
}

/* Nothing is left to do for any node but what comes now. */
static void idle(fleet *f)
{
    for (int i = 0; i < IDLE_MAX && !f->wrong[0]; i++) {
        calm_round(f);
        fleet_node *n = some_engine(f);
        if (n && !liveness_orphan(f, n))
            return;
        liveness_rest(f, quiet_ms(f, 0));
    }
}

/* For debugging a world that went wrong: what each of the open runs waits for. */
static int explain(const pawl_info *info, void *arg)
{
    char *why = NULL;
    if (pawl_why(arg, pawl_info_id(info), &why) == PAWL_OK)
        fprintf(stderr, "%s\n", why);
    pawl_free(why);
    return 0;
}

static void explain_all(fleet *f)
{
    const fleet_node *n = f->verbose ? some_engine(f) : NULL;
    int64_t live_one_world = 1 << PAWL_RUN_LIVE | 1 << PAWL_RUN_FAILING | 1 << PAWL_RUN_HELD;
    if (n)
        pawl_list(n->engine, PAWL_FILTER(.phases = live_one_world), explain, n->engine);
}

/* No more faults: a node that is down comes up, what was not started is started, and all runs come
 * to an end. */
static void calm_down(fleet *f)
{
    liveness_calm(f);
    f->odds.meet = 0;
    if (!f->odds.server && f->now_ms < f->latest_ms)
        f->now_ms = f->latest_ms; /* a heartbeat in the future keeps a dead node open until then */
    affairs_give_back(f);
    for (int i = 0; i < f->odds.nodes; i++) {
        if (f->nodes[i].engine && f->nodes[i].driver == DRIVER_FINISH)
            drivers_halt(&f->nodes[i]);
        if (f->nodes[i].engine && f->nodes[i].lacks)
            fleet_down(&f->nodes[i]);
    }
    calm_rounds(f, 1);
    if (!all_ended(f, 0))
        wait_until_idle(f);
    calm_rounds(f, 0);
    for (int i = 0; i < f->odds.runs; i++)
        if (!f->all[i].ended)
            fleet_wrong(f, "%s does not end", f->all[i].id);
    if (f->dialog_log.live > 0)
        fleet_wrong(f, "%d children do not end", f->dialog_log.live);
    if (!f->wrong[0])
        idle(f);
    if (!f->wrong[0])
        neighbours(f);
    if (!f->wrong[0])
        refused(f);
    if (f->wrong[0])
        explain_all(f);
}

/* A world from its beginning to its end. 0: something was wrong. */
static int live_one_world(fleet *f, uint64_t seed, const char *model, const char *folder)
{
    fleet_open(f, seed, model, folder);
    for (int i = 0; i < STEPS_MAX && !all_ended(f, 0) && !f->wrong[0]; i++)
        step(f);
    if (!f->wrong[0])
        calm_down(f);
    if (!f->wrong[0])
        judge_end(f);
    fleet_close(f);
    if (f->entered != f->left)
        fleet_wrong(f, "%lld functions were entered and %lld left", (long long)f->entered,
                    (long long)f->left);
    return !f->wrong[0];
}

/* The same seed once more: it must be the same world. */
static int live_again(fleet *f, uint64_t seed, const char *model, const char *folder)
{
    tally none = {{0}}, *all = f->tally;
    uint64_t trace = f->trace;
    f->tally = &none;
    live_one_world(f, seed, model, folder);
    f->tally = all;
    if (f->trace != trace)
        fleet_wrong(f, "it was another world the second time: trace %016llx, then %016llx",
                    (unsigned long long)trace, (unsigned long long)f->trace);
    return !f->wrong[0];
}

/* ---- All of them ---- */

/* Async-signal-safe, as are the next two: digits by hand. */
static void put_text(char *line, const char *text)
{
    memcpy(line + strlen(line), text, strlen(text) + 1);
}

static void put_number(char *line, unsigned long long number)
{
    char digits[24] = {0};
    size_t at = sizeof digits - 1;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put_text(line, digits + at);
}

static void dying(int signal)
{
    char line[160] = "sim: a seed has ended the program by signal ";
    put_number(line, (unsigned long long)signal);
    put_text(line, signal == SIGPROF || signal == SIGALRM ? ", its time is over" : "");
    put_text(line, ". Repeat it by: ./run sim 1 ");
    put_number(line, (unsigned long long)(unsigned)seed_high << 31 |
                         (unsigned long long)(unsigned)seed_low);
    put_text(line, "\n");
    ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
    (void)ignored;
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &usual, NULL);
    raise(signal);
}

static void watch(void)
{
    static const int SIGNALS[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGPROF};
    struct sigaction action = {.sa_handler = dying};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaction(SIGNALS[i], &action, NULL);
}

static void make_folder(char folder[FLEET_PATH])
{
    const char *tmp = getenv("TMPDIR");
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : "/tmp";
    snprintf(folder, FLEET_PATH, "%s/pawl-sim-XXXXXX", base);
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(2);
    }
}

/* The database that all worlds begin with: tables are made once. */
static void make_model(const char *path)
{
    pawl *p;
    if (pawl_open(&p, path, PAWL_OPTIONS(.threads = -1)) != PAWL_OK) {
        fprintf(stderr, "sim: %s\n", pawl_errtext(p));
        exit(2);
    }
    pawl_close(p);
}

/* What is told of all seeds together. */
typedef struct sum {
    uint64_t first;
    int64_t done;
    int64_t wrong;
    uint64_t trace;
    double ms;
    tally tally;
} sum;

/* Seconds of the processor, and seconds, until a seed counts as one that hangs; 0: never. A seed
 * that only waits is ended too, but not one that a busy machine leaves waiting. */
static void limit(int cpu, int all)
{
    struct itimerval time = {.it_value = {.tv_sec = cpu}};
    setitimer(ITIMER_PROF, &time, NULL);
    alarm((unsigned)all);
}

static void remember(uint64_t seed)
{
    seed_high = (sig_atomic_t)(seed >> 31);
    seed_low = (sig_atomic_t)(seed & 0x7fffffff);
    limit(SECONDS_MAX, WAITS_MAX);
}

/* One in so many is lived twice. */
static void live_all(sum *s, int64_t count, int verbose, const char *model, const char *folder)
{
    static fleet f;
    f.verbose = verbose;
    f.tally = &s->tally;
    for (; s->done < count && s->wrong < WRONG_MAX; s->done++) {
        uint64_t seed = s->first + (uint64_t)s->done;
        remember(seed);
        int good = live_one_world(&f, seed, model, folder);
        s->trace = chance_mix(s->trace ^ f.trace);
        if (good && s->done % TWICE_EVERY == 0)
            good = live_again(&f, seed, model, folder);
        if (good)
            continue;
        printf("seed %llu: %s. Repeat it by: ./run sim 1 %llu\n", (unsigned long long)seed, f.wrong,
               (unsigned long long)seed);
        s->wrong++;
    }
    limit(0, 0);
}

/* The last line. Gives the exit code. */
static int summarize(const sum *s)
{
    const char *missing = s->done >= DEFAULT_COUNT ? tally_missing(&s->tally) : NULL;
    if (missing)
        printf("nothing was simulated of this kind: %s\n", missing);
    printf("%lld seeds from %llu, %lld wrong: ", (long long)s->done, (unsigned long long)s->first,
           (long long)s->wrong);
    tally_print(&s->tally, stdout);
    printf("; %.1f ms each, trace %016llx\n", s->done ? s->ms / (double)s->done : 0.0,
           (unsigned long long)s->trace);
    return s->wrong > 0 || (missing && s->wrong == 0);
}

static int run_all(uint64_t first, int64_t count, int verbose)
{
    char folder[FLEET_PATH], model[FLEET_PATH + 16], name[FLEET_PATH + 32];
    sum s = {.first = first};
    make_folder(folder);
    snprintf(model, sizeof model, "%s/model.db", folder);
    make_model(model);
    clock_source *clock = clock_system();
    int64_t began = clock->mono_ns(clock);
    live_all(&s, count, verbose, model, folder);
    s.ms = (double)(clock->mono_ns(clock) - began) / 1e6;
    unlink(model);
    snprintf(name, sizeof name, "%s-nodes", model);
    unlink(name);
    rmdir(folder);
    return summarize(&s);
}

/* The date as a number: every day other seeds. */
static uint64_t today(void)
{
    clock_source *clock = clock_system();
    time_t now = (time_t)(clock->now_ms(clock) / 1000);
    struct tm day;
    gmtime_r(&now, &day);
    return (uint64_t)(day.tm_year + 1900) * 10000 + (uint64_t)(day.tm_mon + 1) * 100 +
           (uint64_t)day.tm_mday;
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    if (errno || *end || end == text) {
        fprintf(stderr, "usage: sim [COUNT [FIRST]] [-v]\n");
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    int verbose = argc > 1 && strcmp(argv[argc - 1], "-v") == 0;
    argc -= verbose;
    uint64_t count = argc > 1 ? number(argv[1]) : DEFAULT_COUNT;
    uint64_t first = argc > 2 ? number(argv[2]) : today() * 100000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    watch();
    return run_all(first, (int64_t)count, verbose);
}
