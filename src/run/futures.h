/* Futures (promises): the results of ops that a run has begun and may wait for.
 *
 * Every op that is answered by a later row has a future, also where the function waits at once. A
 * future is open until the journal gives out an arrival that answers its op (replay.h). So which
 * futures are ready, and in which order, is deterministic, and pawl_any() needs no row to say which
 * future it chose.
 *
 * What a future does when it is due depends on its kind, a table of functions. It does that only at
 * the end of the journal, where a wait polls the sources of arrivals (wait.c): a replay begins
 * nothing.
 *
 * A fan-out of ten thousand costs ten thousand times as much as one future. So a wait does not scan
 * its futures repeatedly, but counts those that are open. */
#ifndef RUN_FUTURES_H
#define RUN_FUTURES_H

#include "base/map.h"
#include "run/run.h"

typedef struct future_kind {
    /* Called when the future is due: records an arrival, or begins something. NULL: the future is
     * never due. */
    void (*due)(pawl_future *f);
    /* Called when the journal gives out an arrival for the future. NULL: the answer of the future
     * is the data of the row. */
    void (*arrived)(pawl_future *f, const replay_row *row);
    /* Called when the future is cancelled: ends what it has begun. `live` is 0 in a replay, where
     * the effects on other runs have happened before. NULL: there is nothing to end. */
    void (*cancel)(pawl_future *f, int live);
    /* Called before the future is freed: frees what belongs to it. NULL: nothing does. */
    void (*release)(pawl_future *f);
} future_kind;

/* A wait for several futures. Each of them that is open has a link to the wait. */
typedef struct future_wait {
    struct future_link *links; /* one for each of the futures */
    size_t left;               /* number of futures that are open */
    pawl_future *first;        /* the first future that has ended; NULL: none */
    size_t index;              /* index of `first` in the array of these futures */
    pawl_future *failed;       /* the first future that has failed; NULL: none */
    pawl_future *composite;    /* the future whose answer depends on this wait; NULL: the function
                                  waits */
} future_wait;

typedef struct future_link {
    struct future_link *next;
    future_wait *wait; /* NULL: the future has ended, and may be freed */
    size_t index;
} future_link;

struct pawl_future {
    pawl_run *run;
    const future_kind *kind; /* NULL: a composite future, made of others */
    const char *what;        /* the word for the op in error messages */
    int64_t op;
    int over;          /* 1: the future has its answer */
    int is_cancelled;  /* 1: the future is listed, to be cancelled before the next op */
    pawl_code code;    /* OK, FAILED, TIMEOUT, CANCELLED */
    int failed;        /* 1: the answer is an error, which a time-out of a receive is not */
    int64_t order;     /* the number of the answer: the run's answers are counted from 1 */
    const char *value; /* JSON text: its value, or the error */
    const pawl_outcome *outcome;
    future_link *links;
    timer timer;
    int64_t not_before_ns; /* moment of the monotonic clock before which the future is not due; 0:
                              only the time of the database counts */
    void *own;             /* data of its kind, in the memory of the run */

    pawl_future *const *parts; /* of a composite future */
    size_t count;
    int uses; /* number of composite futures that are made of this one and have no answer yet */
    int any;  /* of a composite future: 1: of pawl_any_later(), 0: of pawl_all_later() */
    future_wait wait;
    int looks; /* 1: a composite future that is to be evaluated, since parts of it have ended */
    pawl_future *next;   /* in the list of futures to be cancelled, or evaluated */
    pawl_future *behind; /* in a mailbox, or another list of its kind */
    pawl_future *before;
};

void futures_free(run_futures *all);

/* ---- For the ops ---- */

/* Makes a future for an op whose row, with the seq `op`, is in the journal or was just recorded. */
pawl_future *future_new(pawl_run *run, const future_kind *kind, op_kind what, int64_t op);

/* Sets when the future is due; RUN_NEVER: not by time. */
void future_due_at(pawl_future *f, int64_t at_ms);

/* Returns the end of a duration that begins now, as a moment of the monotonic clock, for
 * not_before_ns. The database's clock may be set or corrected meanwhile, also forward; a duration
 * that this process has begun takes its time nevertheless, as long as the fiber is kept. A future
 * that a replay makes again goes by the database's time, as one of another process does. */
int64_t future_not_before(const pawl_run *run, int64_t ms);

/* future_rest_ms() returns how many ms are left on the monotonic clock, rounded up, until the
 * future may be due, and future_rest_until() until the moment `not_before_ns` of
 * future_not_before(). 0: that moment has passed, or there is none. */
int64_t future_rest_ms(const pawl_future *f);
int64_t future_rest_until(const pawl_run *run, int64_t not_before_ns);

/* Frees a future that is not needed any more, and that no other future is made of. */
void future_release(pawl_future *f);

/* For pawl_drop(). future_is_one() returns 1 if the memory is a future of the run. future_drop()
 * frees that future. It returns 0 and frees nothing if the future is open, or composite futures are
 * made of it. */
int future_is_one(pawl_run *run, const void *memory);
int future_drop(pawl_run *run, const void *memory);

/* For pawl_drop(): frees memory of the function, except the value of a future that others are made
 * of. 0: the memory is not the run's. */
int future_drop_value(pawl_run *run, const void *memory);

/* Returns `f` if it is a future of the run. Otherwise the function is left. */
pawl_future *future_known(pawl_run *run, pawl_future *f);

/* Returns the value of the future. If pawl_drop() has freed that, the function is left. */
const char *future_value(const pawl_future *f);

/* future_link_all() makes `w` a wait for these futures, by a link in each that is open.
 * future_unlink_all() ends the wait. It does not touch futures that have ended: they may be
 * freed. */
void future_link_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count);
void future_unlink_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count);

/* future_answer() gives the future its answer, a code and a value. future_answer_row() gives it the
 * answer that a row of the journal has. */
void future_answer(pawl_future *f, pawl_code code, const char *value);
void future_answer_row(pawl_future *f, const replay_row *row);

/* future_cancel_add() lists a future that is not needed any more, to be cancelled before the next
 * op. future_cancel_remove() takes a future that is about to be freed out of that list. */
void future_cancel_add(pawl_future *f);
void future_cancel_remove(const pawl_future *f);

/* ---- For journal_writer.c and wait.c ---- */

/* Hands an arrival, which the journal has given out, to the future that it is about. */
void futures_arrived(pawl_run *run, const replay_row *row);

/* Cancels the listed futures. To be called before the journal is asked for an op. */
void future_cancel_flush(pawl_run *run);

/* Cancels what all open futures have begun, since the run ends or begins a new generation. The
 * futures get no answer. */
void future_cancel_all(pawl_run *run);

#endif
