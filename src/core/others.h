/* What a run does with other runs: children, and telling.
 *
 * What it does to them is part of the unit that records it, as a try: whether the child was made,
 * or the message put in, is known when that is committed. If the process dies before the run has
 * written down what came of it, the run looks: a child has a key that is recorded with the op, and
 * a message leaves a receipt. So nothing is started twice, and nothing is waited for that is not
 * there. */
#ifndef CORE_OTHERS_H
#define CORE_OTHERS_H

#include "core/futures.h"

struct drive;
struct runner;

/* What the unit does to other runs. In its memory. */
typedef struct run_sent {
    struct run_sent *next;
    int statement;       /* its number */
    int64_t run;         /* whom it concerns */
    struct birth *birth; /* of a child; NULL: something was sent */
    pawl_future *future; /* that is waiting for it; NULL: none */
    int cancels;
} run_sent;

/* ---- On the fiber ---- */

/* Look what has become of others, where that is not known. 1: something has arrived by that. */
int others_look(pawl_run *run);

/* Ask for a look at what this future is about. */
void others_ask(pawl_future *f);

/* It is given back, whether it was looked at or not: a replay that finds its answer does not. */
void others_forget(pawl_future *f);

/* The run leaves: children that it waits for are cancelled. */
void others_leave(pawl_run *run);
void others_cancel_child(pawl_run *run, int64_t child);

/* Remember a statement of the unit. */
run_sent *others_add(pawl_run *run, int statement, int64_t whom);

/* ---- For the runner ---- */

/* What is asked is read; a key for a child is taken. */
pawl_code others_read(struct runner *r, pawl_run *run, error *err);

/* The unit was committed, or not: children go on, others hear of it. */
void others_committed(pawl_run *run, int committed);

/* The unit was cut to its first statements: what comes behind them is not sent. */
void others_cut(pawl_run *run, int count);

/* The run ends, by run->parked: its parent is told, in the same unit. 0: memory is out. */
int others_report(pawl_run *run);

/* ---- Kinds of futures that ask (children.c, tell.c) ---- */

typedef struct other_kind {
    /* Read what there is to know, on the thread's own stack. */
    pawl_code (*read)(struct drive *d, db_conn *c, pawl_future *f, error *err);
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
