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
    slice version; /* empty: the first claim sets it */
    slice input;
    int64_t owner;          /* 0: none */
    struct pawl_run *ready; /* with an owner: the run in the memory of this process */
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

/* Adds the rows of a new run to a unit. With `as_guard` a run of that id refuses the unit (guard
 * "id"), and unit_found() gives its workflow and the input of its first generation, in the columns
 * below. Otherwise the insert is a try (unit_try), and if a run has that id none of these rows is
 * written. Gives the number of the statement that returns the run's key if the run was made. */
enum { BIRTH_WORKFLOW, BIRTH_INPUT };

int run_insert_write(unit *u, const run_insert *b, int as_guard);

/* Tells whether the run that was found is the one that is being started: the same workflow, with
 * the same JSON value as its input. 1, 0, or -1: memory is out. */
int run_insert_is_same(const run_insert *b, const unit_row *found);

/* 1 if the input is so small that it is in the row of the run, and not in the journal. */
int run_insert_is_small(const run_insert *b);

#endif
