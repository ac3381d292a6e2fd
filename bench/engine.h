/* The cases of bench engine. Those that are more than a loop over rounds are in files of their own:
 * crash.c, takeover.c, memory.c, due.c, loop.c, cold.c, claims.c, open.c, and talk.c for runs that
 * talk with others. */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "cases.h"
#include "report.h"
#include "rig.h"

/* A start waits for its commit. So many clients start runs that a commit has something to do, and
 * few enough that they are not what is measured. */
enum { ENGINE_CLIENTS = 64 };

/* What a case is given to do: the runs of a plan, or something else by functions of its own. */
typedef struct engine_load {
    int runs;
    int steps;
    int payload;
    int clients;
    int batch; /* rows per transaction of the floor */

    /* Rates: `items` of `in`, instead of runs * steps and "steps/s". Of a load that takes long:
     * fewer rounds, and on a server so many times fewer items; 0: all. */
    const char *in;
    int items;
    int rounds_max;
    int fewer;

    /* Before the clock: register, have everything durable that should be there. What it gives is
     * handed to the others, and freed. NULL: the plan's runs are started. */
    void *(*prepare)(rig *r, const struct engine_load *l, const backend *on);

    /* Rates: do it. Everything is durable when it returns. */
    void (*go)(void *own);

    /* One at a time: how long it took, and, if not 0, how long until it was durable. */
    void (*once)(void *own, int number, int64_t took_ns[2]);
} engine_load;

/* How many items that are on this backend. */
int engine_items(const engine_load *l, const backend *on);

typedef struct engine_floor {
    floor_result floor;
    double commit_us;
} engine_floor;

void case_crash(const bench_case *c, const backend *on);
void case_takeover(const bench_case *c, const backend *on);
void case_memory(const bench_case *c, const backend *on);
void case_due(const bench_case *c, const backend *on);
void case_futures(const bench_case *c, const backend *on);
void case_random(const bench_case *c, const backend *on);
void case_growth(const bench_case *c, const backend *on);
void case_claims(const bench_case *c, const backend *on);
void case_open(const bench_case *c, const backend *on);
void case_loop(const bench_case *c, const backend *on);

/* Runs that talk (talk.c): for case_rate() and case_one() of engine.c. */
extern const engine_load LOAD_WAKE, LOAD_CHILDREN, LOAD_MESSAGES, LOAD_MESSAGES_EACH, LOAD_TRANSACT;

#endif
