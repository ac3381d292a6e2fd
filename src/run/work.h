/* Work functions (activities): one attempt of a work function, the arguments that it gets, and its
 * result. */
#ifndef RUN_WORK_H
#define RUN_WORK_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/arena.h"
#include "run/host.h"

/* The idempotency key of an attempt. pawl_work_key() writes its text. */
typedef struct work_key {
    int64_t run;
    int64_t generation;
    char text[104];
} work_key;

/* One attempt of a work function (work.c). It belongs to its run, unless the attempt runs out of
 * time before the function returns: then the run does not wait for it any more, and the thread that
 * is in the function owns it. So it has copies of its arguments. */
struct pawl_work {
    struct pawl_work *next; /* in the list run_attempt.saved */
    pawl_run *run;          /* NULL: the run does not wait for the attempt any more */
    struct job *job;        /* the job that makes the attempt; NULL: it is made for the run
                               itself */
    const run_host *host;
    const char *run_id;
    int64_t fence;
    const char *name;
    work_entry *entry; /* NULL: the function is not a registered one */
    pawl_work_fn *fn;
    pawl_transact_fn *transacts; /* called instead of `fn`, with the connection */
    void *native;                /* the connection of a transactional step */
    int misuses;                 /* 1: the function of a transactional step has called pawl */
    void *arg;
    const char *input;
    int64_t attempt;
    int64_t op;       /* seq that the op has in the journal, or will have */
    int64_t began_ms; /* when the first attempt of the call began */
    int64_t limit_ms; /* how long the attempt may take; 0: no limit */
    int64_t over_ns;  /* while the function is called: when the attempt is out of time; INT64_MAX:
                         never */
    arena *memory;
    work_key key;
    atomic_int cancelled; /* 1: the function is asked to stop (pawl_work_cancelled()) */

    const char *value; /* the result; NULL: none */
    int failed;        /* 1: the function has failed; the fields below say how */
    int permanent;
    int expired;      /* the attempt ran out of time */
    int64_t after_ms; /* the pause for which the function has asked; -1: the policy decides */
    const char *error_name;
    const char *error_message;
    const char *json_wrong; /* error of the last pawl_work_json() that has failed; NULL: none has */
};

/* work_open() empties run->attempt.work for the next attempt, and makes it if there is none.
 * work_new() makes a `pawl_work`. 0 and NULL: memory is out. work_free() frees one. */
int work_open(pawl_run *run);
pawl_work *work_new(pawl_run *run);
void work_free(pawl_work *w);

/* ---- A result outlives its fiber ----
 *
 * An attempt that is made for the run itself, on its own thread or by a worker, is in attempt.work
 * until a row records its result. If the fiber is dropped before that (memory is out for the row,
 * or another thread goes on with the run), the attempt is kept in attempt.saved with its result.
 * The replayed function asks for the same attempt of the same op, and gets it without a call. */

/* Called when the fiber is dropped: moves attempt.work to attempt.saved if the attempt is over and
 * not recorded. */
void work_keep(pawl_run *run);

/* Moves the attempt of this op and number from attempt.saved to attempt.work. 0: it is not
 * there. */
int work_take_kept(pawl_run *run, int64_t op, int64_t attempt);

/* Returns 1 if an attempt of this op is kept; `op` 0: of any op for which the function waits. */
int work_is_kept(const pawl_run *run, int64_t op);

/* Frees all attempts that are kept: the function does not ask for them any more. */
void work_forget_kept(pawl_run *run);

/* Calls the function, on the thread's own stack. Then `w` has its result or its failure. */
void work_call(pawl_work *w);

/* Copies the name, the input and the id of the run into the attempt, and fills in its key. 0:
 * memory is out. */
int work_give(pawl_run *run, pawl_work *w, const char *name, const char *input);

/* Returns 1 if the attempt is out of time by the clock, whether or not the scheduler has noticed
 * that. */
int work_is_over(const pawl_work *w);

/* These make the attempt a failed one: work_expire() because it ran out of time, work_misused()
 * because its function called pawl on the run, work_failed() with the given error. */
void work_expire(pawl_work *w);
void work_misused(pawl_work *w);
void work_failed(pawl_work *w, int permanent, const char *name, const char *message);

/* Returns a failure as the JSON text of its journal row. `next_ms` is when the next attempt is due;
 * -1: there is none. at NULL: memory is out. */
slice work_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

/* As work_error(), for a step that the function has asked for and that was not begun (call.c). */
slice work_not_begun(pawl_run *run, int64_t next_ms, int64_t began_ms);

/* These read such a text. work_tried() returns how many attempts it counts (0 if the step was not
 * begun, otherwise 1), work_next_ms() when the next attempt is due, work_began_ms() when the first
 * one began; `otherwise` is returned if the text does not say. */
int64_t work_tried(slice data);
int64_t work_next_ms(slice data);
int64_t work_began_ms(slice data, int64_t otherwise);

#endif
