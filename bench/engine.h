/* The cases of bench engine. Those that are more than a loop over rounds are in files of their own,
 * crash.c and memory.c. */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "report.h"
#include "rig.h"

/* A start waits for its commit. So many clients start runs that a commit has something to do, and
 * few enough that they are not what is measured. */
enum { ENGINE_CLIENTS = 64 };

typedef struct engine_case {
    const char *name;
    void (*run)(const struct engine_case *c, const backend *on);
    int runs;
    int steps;
    int payload;
    int clients;
    int batch; /* rows per transaction of the floor */
} engine_case;

typedef struct engine_floor {
    floor_result floor;
    double commit_us;
} engine_floor;

/* What one commit of one row costs, of the rows of this database. */
double engine_commit_us(const bench_db *source);

void case_crash(const engine_case *c, const backend *on);
void case_memory(const engine_case *c, const backend *on);

#endif
