/* Futures: what a run has started and has not been told the end of.
 *
 * Every op that waits has one, also where the function waits at once. A future is open until an
 * arrival about its op is given out by the journal (replay.h); so what is ready, and what came
 * first, is deterministic, and `any` needs no row to say which future it chose.
 *
 * What a future does when it becomes due depends on its kind, a table of functions. Only the wait
 * (wait.c) calls them, and only at the end of the journal: they never see a replay.
 *
 * A fan-out of ten thousand costs ten thousand times what one costs. So a wait does not scan its
 * futures repeatedly: it counts down. */
#ifndef RUN_FUTURES_H
#define RUN_FUTURES_H

#include "base/map.h"
#include "run/run.h"

typedef struct future_kind {
    /* The future is due: record an arrival, or start something. NULL: it never becomes due. */
    void (*due)(pawl_future *f);
    /* Something has arrived for the future. NULL: the answer is the row's data. */
    void (*arrived)(pawl_future *f, const replay_row *row);
    /* The future was cancelled: leave nothing behind. live 0: in a replay, where what this does to
     * other runs is done already. NULL: there is nothing to do. */
    void (*cancel)(pawl_future *f, int live);
    /* The future is freed: release what it has. NULL: it has nothing. */
    void (*release)(pawl_future *f);
} future_kind;

/* A wait for several futures, and the link of each of them to it. */
typedef struct future_wait {
    struct future_link *links; /* one for each of the futures */
    size_t left;               /* number of futures that are open */
    pawl_future *first;        /* the first future that has ended; NULL: none */
    size_t index;              /* which of the futures that is */
    pawl_future *failed;       /* the first future that has failed; NULL: none */
    pawl_future *composite;    /* the future whose answer depends on this wait; NULL: the function
                                  waits */
} future_wait;

typedef struct future_link {
    struct future_link *next;
    future_wait *wait; /* NULL: the future has ended, and may be gone */
    size_t index;
} future_link;

struct pawl_future {
    pawl_run *run;
    const future_kind *kind; /* NULL: a composite future, made of others */
    const char *what;        /* for messages: the word of its op */
    int64_t op;
    int over;          /* the future has its answer */
    int is_cancelled;  /* the future will be cancelled */
    pawl_code code;    /* OK, FAILED, TIMEOUT, CANCELLED */
    int failed;        /* the answer is an error: that of a receive which timed out is none */
    int64_t order;     /* number of the answer, in the order in which answers come */
    const char *value; /* JSON text: its value, or the error */
    const pawl_outcome *outcome;
    future_link *links;
    timer timer;
    int64_t not_before_ns; /* of the monotonic clock: the future is not due before; 0: by the
                              database's time only */
    void *own;             /* what its kind keeps, in the memory of the run */

    pawl_future *const *parts; /* of a composite future */
    size_t count;
    int uses; /* number of composite futures made of it that have no answer yet */
    int any;  /* a composite future: 1 any, 0 all */
    future_wait wait;
    int looks; /* a composite future that is to be evaluated, since parts of it have ended */
    pawl_future *next;   /* in the list of futures to be cancelled, or evaluated */
    pawl_future *behind; /* in a mailbox, or another list of its kind */
    pawl_future *before;
};

void futures_free(run_futures *all);

/* ---- For the ops ---- */

/* A future for the op that was asked for: recorded (`op` is its row), or new. */
pawl_future *future_new(pawl_run *run, const future_kind *kind, op_kind what, int64_t op);

/* The future becomes due at this time, or not any more (RUN_NEVER). */
void future_due_at(pawl_future *f, int64_t at_ms);

/* A duration begins now whose end makes the future due: the moment of the monotonic clock before
 * which it is not. The database's clock may be set or corrected meanwhile, also forward; a duration
 * that this process has begun takes its time nevertheless, as long as the fiber is kept. A future
 * that is made again by a replay goes by the database's time, as one of another process does. */
int64_t future_not_before(const pawl_run *run, int64_t ms);

/* 0: the monotonic clock lets the future be due; otherwise how long that takes, rounded up. */
int64_t future_rest_ms(const pawl_future *f);
int64_t future_rest_until(const pawl_run *run, int64_t not_before_ns);

/* Frees a future that is not needed any more, and that no other future is made of. */
void future_release(pawl_future *f);

/* For pawl_drop(): is this a future of the run? future_drop() frees it; 0: it is still needed. */
int future_is_one(pawl_run *run, const void *memory);
int future_drop(pawl_run *run, const void *memory);

/* For pawl_drop(): give back memory of the function; the value of a future that others are made of
 * stays. 0: it is not the run's. */
int future_drop_value(pawl_run *run, const void *memory);

/* The future, if it is one of the run; otherwise the function is left. */
pawl_future *future_known(pawl_run *run, pawl_future *f);

/* The value of the future; the function is left if the value was given back. */
const char *future_value(const pawl_future *f);

/* Link a wait to these futures, and end that. Futures that have ended are not touched: they may be
 * freed. */
void future_link_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count);
void future_unlink_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count);

/* The future gets its answer: a code and a value; or as a row of the journal says. */
void future_answer(pawl_future *f, pawl_code code, const char *value);
void future_answer_row(pawl_future *f, const replay_row *row);

/* The future is not needed any more, and is cancelled before the next op. If it is freed before
 * that, because it has had its answer meanwhile, it is taken out of the list. */
void future_cancel_add(pawl_future *f);
void future_cancel_remove(const pawl_future *f);

/* ---- For the turn ---- */

/* An arrival was given out. */
void futures_arrived(pawl_run *run, const replay_row *row);

/* Cancel the listed futures, before anything else is asked. */
void future_cancel_flush(pawl_run *run);

/* Cancels all open futures: the run ends, or begins a new generation. */
void future_cancel_all(pawl_run *run);

#endif
