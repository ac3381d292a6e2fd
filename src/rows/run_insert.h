/* The rows with which a run begins, for every way to start one: by a client, by another run, by the
 * outbox. Which node the new run belongs to is for the caller to say (sched/handover.h). */
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
    slice version; /* empty: the first claim decides */
    slice input;
    int64_t owner; /* 0: none */
    struct pawl_run
        *ready; /* with an owner: the run in the memory of this process, as it will be */
    int64_t now_ms;
    int64_t wake_ms;     /* not before */
    int64_t deadline_ms; /* 0: none */
    slice by;
    const attribute_set *attributes;
    int64_t mail;                /* arrivals that are written with it: run_put_mail(), from seq 1 */
    const struct workflow *here; /* the function, if this process has it; NULL: it does not */
    int64_t parent;              /* the run that starts it; 0: none … */
    int64_t parent_generation;
    int64_t parent_op; /* … and by which op */
} run_insert;

/* Add the rows of a new run to a unit. As a guard, "id", a run of that id refuses the unit, and
 * these are the columns of what was found: the workflow, and the input of the first generation.
 * Otherwise the run is merely tried (unit_try), and where there is one of that id nothing of this
 * is written. Gives the number of the statement whose row, with the run's key, says that the run
 * was made. */
enum { BIRTH_WORKFLOW, BIRTH_INPUT };

int run_insert_write(unit *u, const run_insert *b, int as_guard);

/* Is what was found there what is being started: the same workflow, with the same JSON value as its
 * input? 1, 0, or -1: memory is out. */
int run_insert_is_same(const run_insert *b, const unit_row *found);

/* 1 if the input is so small that it is in the row of the run, and not in the journal. */
int run_insert_is_small(const run_insert *b);

#endif
