/* What a run does with other runs: it starts children, and sends messages by pawl_tell().
 *
 * A start or a message is part of the unit that records it, as a try (unit_try()): the commit of
 * the unit tells whether the child was made, or the message was put into the inbox. If the process
 * dies before the run has recorded that, the run reads it: a child has a key that is recorded with
 * the op, and a message leaves a receipt (idempotency). So nothing is started twice, and no run
 * waits for a child that does not exist. */
#ifndef RUN_CROSS_RUN_H
#define RUN_CROSS_RUN_H

#include "run/futures.h"

/* A statement of the unit that concerns another run. In the memory of the unit. */
typedef struct run_sent {
    struct run_sent *next;
    int statement;                 /* number of the statement in the unit */
    int64_t run;                   /* the run that it concerns */
    struct run_insert *run_insert; /* the child that is started; NULL: a message or a cancel is
                                      sent */
    pawl_future *future;           /* the future that waits for the statement; NULL: none does */
    int cancels;                   /* 1: the statement cancels that run */
} run_sent;

/* ---- On the fiber ---- */

/* A source of arrivals: reads the state of the other runs for which futures ask, and lets these
 * futures go on. Returns 1 if something has arrived. */
int cross_run_look(pawl_run *run);

/* Adds the future to those for which the state of another run is to be read, at the next wait. */
void cross_run_ask(pawl_future *f);

/* Takes a future that is about to be freed out of the list of those that ask, and out of
 * run_draft.sent. */
void cross_run_forget(pawl_future *f);

/* cross_run_leave() ends what all open futures of a run that ends have begun, and so cancels its
 * open children that are not detached. cross_run_cancel_child() adds the cancel of one child to the
 * unit. */
void cross_run_leave(pawl_run *run);
void cross_run_cancel_child(pawl_run *run, int64_t child);

/* Remembers a statement of the unit that concerns the run `target`. Returns the entry, whose other
 * fields the caller fills in. */
run_sent *cross_run_add(pawl_run *run, int statement, int64_t target);

/* ---- For the runner ---- */

/* Reports every statement in run_draft.sent to the host, which wakes other runs and drives
 * children; with `committed` also to the futures that wait for the statements. Empties the list.
 * `committed` is 0 if the unit was not committed, or the fiber is dropped. */
void cross_run_committed(pawl_run *run, int committed);

/* Called when the unit was cut to its first `count` statements: takes the others out of
 * run_draft.sent, and reports to the host that they were not committed. */
void cross_run_cut(pawl_run *run, int count);

/* Adds a message to the parent, with the result of the run, to the unit that ends the run. Does
 * nothing if the run has no parent. 0: memory is out. */
int cross_run_report(pawl_run *run);

/* ---- Kinds of futures that ask (ops_child.c, ops_tell.c) ---- */

typedef struct cross_ask_kind {
    /* Reads the state of the other run, on the thread's own stack. */
    pawl_code (*read)(db_conn *c, pawl_future *f, error *err);
    /* Called on the fiber after read(): records the answer as an arrival, or adds a statement to
     * the unit. */
    void (*go_on)(pawl_future *f);
    /* Called when the unit with the statement of the future was committed. `row` is what the
     * statement returned; NULL: no row, since it found nothing to do. */
    void (*committed)(pawl_future *f, const unit_row *row);
} cross_ask_kind;

/* The first member of the struct that `own` of such a future points to. */
typedef struct cross_ask {
    const cross_ask_kind *kind;
    pawl_future *behind; /* in the list run_futures.asking */
    pawl_future *before;
    int asks; /* 1: the future is in run_futures.asking */
} cross_ask;

#endif
