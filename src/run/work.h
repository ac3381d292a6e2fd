/* Work functions (activities): one attempt of one of them, what it was given, and what became of
 * it. */
#ifndef RUN_WORK_H
#define RUN_WORK_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/arena.h"
#include "run/host.h"

/* The idempotency key of an attempt: the run and its generation, and the text, which is written
 * when it is asked for. */
typedef struct work_key {
    int64_t run;
    int64_t generation;
    char text[104];
} work_key;

/* One attempt of a work function (work.c). It belongs to its run, unless the attempt runs out of
 * time before the function returns: then the thread that is in the function owns it, and the run
 * waits for it no more. So it has copies of what it was given. */
struct pawl_work {
    struct pawl_work *next; /* in the list run_attempt.saved */
    pawl_run *run;          /* NULL: the run waits for the attempt no more */
    struct job *job;        /* NULL: it is called on the run's own thread */
    const run_host *host;
    const char *run_id;
    int64_t fence;
    const char *name;
    work_entry *entry; /* NULL: the function is not a registered one */
    pawl_work_fn *fn;
    pawl_transact_fn *transacts; /* called instead of `fn`, with the connection */
    void *native;                /* the connection of a transactional step */
    int misuses;                 /* the function of a transactional step has called pawl */
    void *arg;
    const char *input;
    int64_t attempt;
    int64_t op;       /* the position in the journal that the op has, or will have */
    int64_t began_ms; /* when the first attempt of the call began */
    int64_t limit_ms; /* how long the attempt may take; 0: no limit */
    int64_t over_ns;  /* when the attempt is out of time, while it runs */
    arena *memory;
    work_key key;
    atomic_int cancelled;

    const char *value; /* the result; NULL: none */
    int failed;        /* 1: the function has failed; the fields below say how */
    int permanent;
    int expired;      /* the attempt ran out of time */
    int64_t after_ms; /* the pause that the function has asked for; -1: as the policy says */
    const char *error_name;
    const char *error_message;
    const char *json_wrong; /* why the last pawl_work_json() that failed has failed; NULL: none
                               has */
};

/* Prepare attempt.work for its next attempt: forget the last one. 0: memory is out. */
int work_open(pawl_run *run);
pawl_work *work_new(pawl_run *run);
void work_free(pawl_work *w);

/* ---- A result outlives its fiber ----
 *
 * An attempt of a run's own thread, or of a worker for it, is in `attempt.work` until there is a
 * row of what came of it. When the fiber is dropped before (memory is out for the row, or another
 * thread drives on), the attempt is kept in `attempt.saved` with its result. After the replay the
 * function asks for the same attempt of the same op, and gets it without a call. */

/* The fiber is dropped: keep the attempt if it has returned and is not recorded. */
void work_keep(pawl_run *run);

/* The attempt is the one that the function asks for: it goes back to attempt.work. 0: it is not
 * kept. */
int work_take_kept(pawl_run *run, int64_t op, int64_t attempt);

/* 1 if an attempt is kept that the function waits for, or (op not 0) asks for as that op. */
int work_is_kept(const pawl_run *run, int64_t op);

/* No attempt that is kept is asked for any more. */
void work_forget_kept(pawl_run *run);

/* Calls the function, on the thread's own stack. Afterwards the result or the failure is in `w`. */
void work_call(pawl_work *w);

/* Copies name and input into the attempt. 0: memory is out. */
int work_give(pawl_run *run, pawl_work *w, const char *name, const char *input);

/* 1 if the attempt is out of time by the clock, whether or not the scheduler has noticed that. */
int work_is_over(const pawl_work *w);

/* The attempt has failed: it ran out of time; its function called pawl on the run; as given. */
void work_expire(pawl_work *w);
void work_misused(pawl_work *w);
void work_failed(pawl_work *w, int permanent, const char *name, const char *message);

/* A failure as it is written into the journal, and read from there. */
slice work_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

/* As work_error(), for a step that was asked for and not begun (call.c). */
slice work_not_begun(pawl_run *run, int64_t next_ms, int64_t began_ms);

/* What such a text says: how many attempts the row tells of (1 but for one that was not begun),
 * when the next attempt is due, and when the first one began; `otherwise`: it does not say. */
int64_t work_tried(slice data);
int64_t work_next_ms(slice data);
int64_t work_began_ms(slice data, int64_t otherwise);

#endif
