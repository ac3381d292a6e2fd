/* Calls: futures of a work function (an activity), which is called until it succeeds, fails for
 * good, or has used up its attempts.
 *
 * Where the function waits for the call at once, it is called on the run's own thread ("in line").
 * Later forms are called on others, beside the function (jobs.h). What comes of an attempt is
 * recorded in the same way. */
#ifndef RUN_CALL_H
#define RUN_CALL_H

#include "run/futures.h"

typedef struct call {
    struct call *next;   /* in run_futures.in_line or .beside */
    pawl_future *future; /* NULL: the future is freed, and this entry is still in its list */
    op_kind kind;
    const char *name;
    const char *input;
    work_entry *entry; /* NULL: the function is not a registered one */
    pawl_work_fn *fn;
    pawl_transact_fn *transacts; /* called instead of `fn`, in a transaction */
    void *arg;
    retry_policy policy;
    int64_t began_ms;
    int64_t before;   /* attempts that had failed when the op was opened */
    int beside;       /* 1: a later form, called on another thread; 0: in line */
    int is_due;       /* the call is due */
    int listed;       /* the call is in one of the lists, perhaps without being due any more */
    int64_t every_ms; /* of an until: the pause between two attempts */
    int64_t end_ms;   /* of an until: when it ends */
    int64_t end_ns;   /* future_not_before() of that; 0: this process has not begun it */
    int64_t rests_ns; /* future_not_before() of the next attempt; 0: this process has begun no pause
                       */
    int is_undone;    /* the call will be undone: only the end of this attempt is waited for */
    int never_fails;  /* a clean-up: when its attempts are used up, the run is held */
} call;

/* The future of a call whose op is recorded; its next attempt is at `at_ms`. The call is copied. */
pawl_future *call_new(pawl_run *run, const call *c, int64_t op, int64_t at_ms);

/* One attempt on the run's own thread, of the first call that is in line, and what came of it as
 * rows. 0: there is none. */
int call_do(pawl_run *run);

/* The next call that is due, out of a list of them; NULL: there is none. */
call *call_pop(pawl_run *run, call **list);

/* Prepare an attempt: which one it is, what it is given, how long it may take. 0: its time is over
 * before it has begun. */
int call_fill(const call *c, pawl_work *w, int64_t number, int64_t op);
int64_t call_attempt(const call *c);

/* The call is not tried before that moment. This is not recorded, but known as long as the run is
 * in memory, whatever becomes of its fiber: otherwise a run that is replayed at once would never
 * rest. */
void call_put_off(call *c, int64_t at_ms);

/* Records what an attempt has come to, with the next rows. */
void call_ended(call *c, pawl_work *w);

/* Makes the first attempt of a step, of which nothing is recorded yet. 1: it has succeeded. */
int call_first(pawl_run *run, const call *c);

/* Makes an attempt of a transactional step. 1: it has succeeded, and its row is durable. */
int call_in_transaction(pawl_run *run, const call *c, int64_t number);

/* call_again_ms(): when the next attempt is, after one that has failed; -1: there is none.
 * call_error(): the failure as text. */
int64_t call_again_ms(pawl_run *run, call *c, const pawl_work *w, int64_t number);
slice call_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

#endif
