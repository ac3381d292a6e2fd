/* Futures: what a run has started and has not been told the end of.
 *
 * Every op that waits has one, also where the function waits at once. A future is open until an
 * arrival about its op is given out by the journal (replay.h); so what is ready, and what came
 * first, is deterministic, and `any` needs no row to say which future it chose.
 *
 * What a future does when it becomes due depends on its kind, a table of functions. Only the wait
 * (futures.c) calls them, and only at the end of the journal: they never see a replay.
 *
 * A fan-out of ten thousand costs ten thousand times what one costs. So a wait does not scan its
 * futures repeatedly: it counts down. */
#ifndef RUN_FUTURES_H
#define RUN_FUTURES_H

#include "base/map.h"
#include "run/run.h"

typedef struct future_kind {
    /* Its time has come: record an arrival, or start something. NULL: it never does. */
    void (*due)(pawl_future *f);
    /* Something has arrived for it. NULL: the answer is the row's data. */
    void (*arrived)(pawl_future *f, const replay_row *row);
    /* It was cancelled: leave nothing behind. Not live: a replay, in which what it does to other
     * runs is done already. NULL: there is nothing to do. */
    void (*abandon)(pawl_future *f, int live);
    /* It is freed: release what it has. NULL: nothing. */
    void (*release)(pawl_future *f);
} future_kind;

/* A wait for several futures, and the link of each of them to it. */
typedef struct future_wait {
    struct future_link *links; /* one for each of them */
    size_t left;               /* that are open */
    pawl_future *first;        /* that has ended … */
    size_t index;              /* … and which one it is */
    pawl_future *failed;       /* the first that has */
    pawl_future *composite;    /* whose answer depends on it; NULL: the function waits */
} future_wait;

typedef struct future_link {
    struct future_link *next;
    future_wait *wait; /* NULL: the future has ended, and may be gone */
    size_t index;
} future_link;

struct pawl_future {
    pawl_run *run;
    const future_kind *kind; /* NULL: it is made of others */
    const char *what;        /* for messages: the word of its op */
    int64_t op;
    int over;          /* it has its answer … */
    int lost;          /* … or will be abandoned */
    pawl_code code;    /* OK, FAILED, TIMEOUT, CANCELLED */
    int failed;        /* with an error: a receive that timed out has not */
    int64_t order;     /* answers are numbered as they come */
    const char *value; /* JSON text: its value, or the error */
    const pawl_outcome *outcome;
    future_link *links;
    timer timer;
    void *own; /* of the kind, in the run's memory */

    pawl_future *const *parts; /* of one that is made of others */
    size_t count;
    int uses; /* in those that are made of it, and have no answer yet */
    int any;
    future_wait wait;
    int looks;           /* it is to be looked at: some of its parts have ended */
    pawl_future *next;   /* among those that are to be abandoned, or looked at */
    pawl_future *behind; /* in a mailbox, or another list of its kind */
    pawl_future *before;
};

void futures_free(run_futures *all);

/* ---- For the ops ---- */

/* A future for the op that was asked for: recorded (`op` is its row), or new. */
pawl_future *future_new(pawl_run *run, const future_kind *kind, op_kind what, int64_t op);

/* It becomes due then, or not any more (RUN_NEVER). */
void future_due_at(pawl_future *f, int64_t at_ms);

/* Free it: it is not needed any more, and no other future is made of it. */
void future_release(pawl_future *f);

/* For pawl_drop(): is it a future of the run? Give it back; 0: it is still needed. */
int future_is_one(pawl_run *run, const void *memory);
int future_drop(pawl_run *run, const void *memory);

/* For pawl_drop(): give back memory of the function; the value of a future that others are made of
 * stays. 0: it is not the run's. */
int future_drop_value(pawl_run *run, const void *memory);

/* The future, if it is one of the run; otherwise the function is left. */
pawl_future *future_known(pawl_run *run, pawl_future *f);

/* Its value; the function is left if that was given back. */
const char *future_value(const pawl_future *f);

/* Link a wait to these futures, and end that. Futures that have ended are not touched: they may be
 * freed. */
void future_link_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count);
void future_unlink_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count);

/* How it ended; as a row says that is its answer. */
void future_answer(pawl_future *f, pawl_code code, const char *value);
void future_answer_row(pawl_future *f, const replay_row *row);

/* It is not needed any more: it is cancelled with the next ask. One that is freed before that,
 * because it has had its answer meanwhile, is taken out of the list. */
void future_cancel_add(pawl_future *f);
void future_cancel_remove(const pawl_future *f);

/* ---- For the turn ---- */

/* An arrival was given out. */
void futures_arrived(pawl_run *run, const replay_row *row);

/* Cancel the listed futures, before anything else is asked. */
void future_cancel_flush(pawl_run *run);

/* All that are open: the run ends, or begins anew. */
void future_cancel_all(pawl_run *run);

#endif
