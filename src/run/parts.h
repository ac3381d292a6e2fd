/* The parts of a run in memory that are larger than a field (run.h). Each belongs to the file that
 * is named with it. */
#ifndef RUN_PARTS_H
#define RUN_PARTS_H

#include <pawl.h>

#include "base/heap.h"
#include "base/map.h"
#include "db/unit.h"

/* What a run has started and not been told the end of, while its function is in memory:
 * futures.h. */
typedef struct run_futures {
    map all;  /* by address: what comes from outside may be anything */
    heap due; /* the open ones that become due */
    int64_t answers;
    pawl_future *losers; /* to be abandoned at the next ask; … */
    pawl_future *lost;   /* … and those that are made of others */
    pawl_future *looks;  /* made of others, of which some have ended … */
    pawl_future *looks_last;
    int looking;          /* … while they are evaluated */
    pawl_future *asking;  /* to know what has become of others; see cross_run.h */
    struct call *in_line; /* work that is due, and done on the run's own thread … */
    struct call *in_line_last;
    struct call *beside; /* … or on others, when there is room for it; the first of each … */
    struct call *beside_last; /* … and the last */
} run_futures;

/* A transactional step that is wanted; see transact.h. */
typedef struct run_transact {
    enum {
        TRANSACT_ASKED,  /* for one that has not been tried */
        TRANSACT_GOES,   /* its unit is handed in; when the runner sees it again: committed */
        TRANSACT_FAILED, /* the function has, and the work says how */
    } state;
    unit_guest guest;
    int before; /* statements of the unit that are not its own */
    int here;   /* the thread that has the run in hand is applying it */
} run_transact;

void run_add_name(pawl_run *run, slice name); /* an attribute that it has */
void run_write_status(pawl_run *run);         /* into the unit, which is about to be handed in */
void run_forget_status(pawl_run *run);        /* it was committed, or never will be */

#endif
