/* Calls: futures of a work function (an activity), which is called until it succeeds, fails for
 * good, or has used up its attempts.
 *
 * A call for which the workflow function waits at once, as pawl_step() does, is made "in line": the
 * runner of the run calls the work function, or has a worker call it (sched/work_threads.h), and
 * the fiber waits for that. Calls of the _later forms are made beside the workflow function, as
 * jobs (jobs.h); but those of a quarantined run in line. The results of both are recorded by the
 * same functions. */
#ifndef RUN_CALL_H
#define RUN_CALL_H

#include "run/futures.h"

typedef struct call {
    struct call *next;   /* in run_futures.in_line or .beside */
    pawl_future *future; /* NULL: the future is freed, and this struct is still in its list */
    op_kind kind;
    const char *name;
    const char *input;
    work_entry *entry; /* NULL: the function is not a registered one */
    pawl_work_fn *fn;
    pawl_transact_fn *transacts; /* the function of a transactional step, called instead of `fn` */
    void *arg;
    retry_policy policy;
    int64_t began_ms;
    int64_t before;   /* number of failed attempts that the row of the op itself counts
                         (OP_STEP_AGAIN) */
    int beside;       /* 1: of a _later form, and made as a job; 0: in line */
    int is_due;       /* 1: the next attempt may begin now */
    int listed;       /* 1: the call is in one of the lists, perhaps without being due any more */
    int64_t every_ms; /* of an until: the pause between two attempts */
    int64_t end_ms;   /* of an until: when its time is over */
    int64_t end_ns;   /* of an until: that end as a moment of future_not_before(); 0: a replay has
                         made the call */
    int64_t rests_ns; /* end of the pause before the next attempt, as a moment of
                         future_not_before(); 0: there is no pause, or a replay has made the call */
    int is_undone;    /* 1: a clean-up will undo the call: the attempt under way is the last */
    int never_fails;  /* 1: a clean-up, for which the run is held when its attempts are used up */
} call;

/* Makes the future of a call whose op is recorded. Its next attempt is due at `at_ms`. The call is
 * copied. */
pawl_future *call_new(pawl_run *run, const call *c, int64_t op, int64_t at_ms);

/* Returns the call of a future; NULL: the future is none of a call. */
call *call_of(const pawl_future *f);

/* Takes the first call in line that is due, makes an attempt, and records the result. Returns 0 if
 * no call is due. */
int call_do(pawl_run *run);

/* Takes the first call that is due out of a list (run_futures.in_line or .beside), and returns it.
 * NULL: none is due. */
call *call_pop(pawl_run *run, call **list);

/* call_attempt() returns the number of a call's next attempt, from 1. call_fill() prepares that
 * attempt: function, input, key and time limit. It returns 0 if the time for all attempts is over,
 * and this one must not begin. */
int call_fill(const call *c, pawl_work *w, int64_t number, int64_t op);
int64_t call_attempt(const call *c);

/* Puts the next attempt of the call off until `at_ms`. The time is not recorded, but kept with the
 * run in memory (run->untils), also when the fiber is dropped: otherwise a run that is replayed at
 * once would never pause. */
void call_put_off(call *c, int64_t at_ms);

/* Records the result of an attempt: the answer of the op, or that another attempt follows. A
 * pawl_until() that is tried again records nothing. Does not return if the call is a clean-up that
 * has used up its attempts, for which the run is held. */
void call_ended(call *c, pawl_work *w);

/* Makes the first attempt of a step that has no row yet. Returns 1 if it has succeeded. */
int call_first(pawl_run *run, const call *c);

/* Makes an attempt of a transactional step. Returns 1 if it has succeeded, and its row is
 * durable. */
int call_in_transaction(pawl_run *run, const call *c, int64_t number);

/* call_again_ms() returns when the next attempt is due after attempt `number` has failed, and sets
 * `rests_ns`; -1: there is none. call_error() returns the failure as JSON text for a row; `next_ms`
 * is the result of call_again_ms(). */
int64_t call_again_ms(pawl_run *run, call *c, const pawl_work *w, int64_t number);
slice call_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

#endif
