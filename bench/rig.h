/* The engine under load: an engine that serves, the runs that it is given, and their end.
 *
 * All that is measured goes through the public header, with default options: pawl_serve() on a
 * thread of its own, pawl_start() by as many client threads as the plan says (a start waits for its
 * commit, so one client has one of them on its way). What a run does is in the plan, which its
 * workflow function gets as its argument.
 *
 * To be used in a child of bench_children(), one rig per child. */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <stdatomic.h>

#include "backend.h"
#include "common.h"
#include "db/committer.h"
#include "pawl.h"

/* What a run does: `steps` steps, each of which gives back its input, with at most one sleep before
 * one of them (or, if that is number `steps`, behind the last). */
typedef struct plan {
    int steps;
    int payload;  /* bytes of the input, the output and each result; 0: "null" */
    int sleep_at; /* before this step, from 0 */
    int64_t sleep_ms;
    int64_t sleep_until_ms; /* 0: there is no such moment. Neither: it does not sleep */
    int clients;
    int64_t warm_bytes; /* 0: the default */

    /* Not NULL: each execution of step s of run r is counted at [r * steps + s]; all together in
     * `executions`. In memory that outlives the process. */
    _Atomic(unsigned char) *counts;
    atomic_llong *executions;
} plan;

typedef struct rig rig;

/* Open, register, serve; comes back when the engine is a node. */
rig *rig_open(const bench_db *d, const plan *p);

/* What it is an engine of: for other workflows than that of the plan. */
pawl *rig_pawl(rig *r);

/* Ends the process unless a call on that handle went well. */
void rig_good(rig *r, pawl_code code, const char *doing);

/* Call fn(r, number, arg) for the numbers `first` up to, and without, `end`, by the clients. */
typedef void rig_client(rig *r, int number, void *arg);
void rig_clients(rig *r, int first, int end, rig_client *fn, void *arg);

/* A function that is not the plan's has come to its end: it counts too. */
void rig_end(rig *r);

/* Stop, and close. */
void rig_close(rig *r);

/* Start the runs `first` up to, and without, `end`. All are answered when it returns. */
void rig_start(rig *r, int first, int end);

/* Start one, and wait for its end. */
void rig_run(rig *r, int number);

/* Wait until so many functions have come to their end, or further, and no run is live. */
void rig_await(rig *r, int64_t ended);

/* Wait until no run is due that this engine has, or that has no owner. */
void rig_await_rest(rig *r);

/* So many functions have come to their end so far, or to their sleep. */
int64_t rig_ended(rig *r);
int64_t rig_slept(rig *r);

/* Ends the process unless there are so many runs, and all of them are done. */
void rig_check(rig *r, int64_t runs);

/* Column 0 of the first row; 0: there is none. */
int64_t rig_number(rig *r, const db_sql *sql);

committer_stats rig_commits(rig *r);

#endif
