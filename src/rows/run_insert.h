/* The rows with which a run begins, for every way to start one: by a client, by another run, by the
 * outbox. The caller chooses the node that owns the new run (sched/handover.h). */
#ifndef ROWS_RUN_INSERT_H
#define ROWS_RUN_INSERT_H

#include "rows/attributes.h"
#include "rows/run_units.h"

struct workflow; /* run/registry.h */
struct pawl_run; /* run/run.h */

typedef struct run_insert {
    int64_t run; /* a fresh key */
    slice tenant;
    slice id;
    slice workflow;
    slice version; /* version of the workflow; empty: the first claim sets it */
    slice input;
    int64_t owner;          /* 0: none */
    struct pawl_run *ready; /* with an owner: the run in the memory of this process, made before it
                               is inserted */
    int64_t now_ms;
    int64_t wake_ms;     /* the run begins at this time */
    int64_t deadline_ms; /* 0: none */
    slice by;
    const attribute_set *attributes;
    int64_t mail; /* number of arrivals that the unit writes by run_put_arrival(), with
                     seqs from 1 */
    const struct workflow *here; /* the workflow as registered in this process; NULL: it is not */
    int64_t parent;              /* the run that starts this one; 0: none */
    int64_t parent_generation;
    int64_t parent_op; /* the op of the parent that starts this run */
} run_insert;

/* Adds the rows of a new run to a unit, and returns the number of the statement that returns the
 * run's key if the run is made. With `as_guard` another run of that id refuses the unit (guard
 * "id"); then unit_found() gives that run's workflow and the input of its first generation, in the
 * columns below. Without, the insert is a try (unit_try()): if another run has the id, none of the
 * rows is written. */
enum { BIRTH_WORKFLOW, BIRTH_INPUT };

int run_insert_write(unit *u, const run_insert *b, int as_guard);

/* Returns 1 if the run that was found is the one that is being started: the same workflow, and as
 * input the same JSON value. Otherwise 0; -1: memory is out. */
int run_insert_is_same(const run_insert *b, const unit_row *found);

/* Returns 1 if the input is so small that it is in the row of the run, and not in the journal. */
int run_insert_is_small(const run_insert *b);

#endif
