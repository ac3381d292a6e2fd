/* What a run does with other runs: children, and telling.
 *
 * What it does to them is part of the unit that records it, as a try: whether the child was made,
 * or the message put in, is known when that is committed. If the process dies before the run has
 * recorded the result, the run reads it: a child has a key that is recorded with the op, and a
 * message leaves a receipt (idempotency). So nothing is started twice, and nothing is waited for
 * that is not there. */
#ifndef RUN_CROSS_RUN_H
#define RUN_CROSS_RUN_H

#include "run/futures.h"

/* What the unit does to other runs. In its memory. */
typedef struct run_sent {
    struct run_sent *next;
    int statement;                 /* its number */
    int64_t run;                   /* that it concerns */
    struct run_insert *run_insert; /* of a child; NULL: something was sent */
    pawl_future *future;           /* that is waiting for it; NULL: none */
    int cancels;
} run_sent;

/* ---- On the fiber ---- */

/* Read the state of other runs, where it is not known. 1: something has arrived by that. */
int cross_run_look(pawl_run *run);

/* Ask for the run that this future is about to be read. */
void cross_run_ask(pawl_future *f);

/* It is given back, whether it was looked at or not: a replay that finds its answer does not. */
void cross_run_forget(pawl_future *f);

/* The run leaves: children that it waits for are cancelled. */
void cross_run_leave(pawl_run *run);
void cross_run_cancel_child(pawl_run *run, int64_t child);

/* Remember a statement of the unit. */
run_sent *cross_run_add(pawl_run *run, int statement, int64_t whom);

/* ---- For the runner ---- */

/* The unit was committed, or not: children go on, other runs are woken. */
void cross_run_committed(pawl_run *run, int committed);

/* The unit was cut to its first statements: what comes behind them is not sent. */
void cross_run_cut(pawl_run *run, int count);

/* The run ends, by draft.parked: its parent is told, in the same unit. 0: memory is out. */
int cross_run_report(pawl_run *run);

/* ---- Kinds of futures that ask (ops_child.c, ops_tell.c) ---- */

typedef struct other_kind {
    /* Read what there is to know, on the thread's own stack. */
    pawl_code (*read)(db_conn *c, pawl_future *f, error *err);
    /* Go on with it, on the fiber: record an arrival, or put something into the unit. */
    void (*go_on)(pawl_future *f);
    /* Its statement was committed: the row, NULL if it gave none. */
    void (*committed)(pawl_future *f, const unit_row *row);
} other_kind;

/* What `own` of such a future begins with. */
typedef struct other {
    const other_kind *kind;
    pawl_future *behind; /* among those that ask … */
    pawl_future *before; /* … on both sides */
    int asks;
} other;

#endif
