/* What a run does with other runs: children, and telling.
 *
 * A start or a message is part of the unit that records it, as a try: whether the child was made,
 * or the message put in, is known when the unit is committed. If the process dies before the run
 * has recorded the result, the run reads it: a child has a key that is recorded with the op, and a
 * message leaves a receipt (idempotency). So nothing is started twice, and nothing is waited for
 * that is not there. */
#ifndef RUN_CROSS_RUN_H
#define RUN_CROSS_RUN_H

#include "run/futures.h"

/* A statement of the unit that concerns another run. In the memory of the unit. */
typedef struct run_sent {
    struct run_sent *next;
    int statement;                 /* its number in the unit */
    int64_t run;                   /* the run that it concerns */
    struct run_insert *run_insert; /* of a child that is started; NULL: something was sent */
    pawl_future *future;           /* the future that waits for it; NULL: none */
    int cancels;                   /* the statement cancels the run */
} run_sent;

/* ---- On the fiber ---- */

/* A source of arrivals: reads the state of other runs that futures ask for. 1: something has
 * arrived. */
int cross_run_look(pawl_run *run);

/* The state of the run that this future is about is to be read. */
void cross_run_ask(pawl_future *f);

/* The future is freed, and asks no more. */
void cross_run_forget(pawl_future *f);

/* The run ends: children that it waits for are cancelled, or one child is. */
void cross_run_leave(pawl_run *run);
void cross_run_cancel_child(pawl_run *run, int64_t child);

/* Remembers a statement of the unit that concerns the run `target`. */
run_sent *cross_run_add(pawl_run *run, int statement, int64_t target);

/* ---- For the runner ---- */

/* The unit was committed, or not: children go on, other runs are woken. */
void cross_run_committed(pawl_run *run, int committed);

/* The unit was cut to its first statements: what comes behind them is not sent. */
void cross_run_cut(pawl_run *run, int count);

/* The statement draft.parked ends the run: its parent is told, in the same unit. 0: memory is
 * out. */
int cross_run_report(pawl_run *run);

/* ---- Kinds of futures that ask (ops_child.c, ops_tell.c) ---- */

typedef struct other_kind {
    /* Reads the state of the other run, on the thread's own stack. */
    pawl_code (*read)(db_conn *c, pawl_future *f, error *err);
    /* Goes on with the future, on the fiber: records an arrival, or adds to the unit. */
    void (*go_on)(pawl_future *f);
    /* The statement of the future was committed, and gave this row; NULL: none. */
    void (*committed)(pawl_future *f, const unit_row *row);
} other_kind;

/* The beginning of what `own` of such a future points to. */
typedef struct other {
    const other_kind *kind;
    pawl_future *behind; /* in the list run_futures.asking */
    pawl_future *before;
    int asks; /* the future is in that list */
} other;

#endif
