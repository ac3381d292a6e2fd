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

/* One attempt of a work function (work.c). It belongs to its run, unless its time is over before
 * the function returns: then to the thread that is in it, and nobody waits for it any more. So it
 * has copies of what it was given. */
struct pawl_work {
    pawl_run *run;   /* NULL: abandoned */
    struct job *job; /* NULL: it is in line */
    const run_host *host;
    const char *run_id;
    int64_t fence;
    const char *name;
    work_entry *entry; /* NULL: not a registered one */
    pawl_work_fn *fn;
    pawl_transact_fn *transacts; /* instead, with the connection */
    void *native;
    int misuses; /* it has called pawl from there */
    void *arg;
    const char *input;
    int64_t attempt;
    int64_t op;       /* the position that it will have, or has, in the journal */
    int64_t began_ms; /* when the first attempt of the call began */
    int64_t limit_ms; /* 0: none */
    int64_t over_ns;  /* and when that is over, while it runs */
    arena *memory;
    work_key key;
    atomic_int cancelled;

    const char *value; /* what it gave … */
    int failed;        /* … or how it failed */
    int permanent;
    int expired;      /* its time was over */
    int64_t after_ms; /* -1: as the policy says */
    const char *error_name;
    const char *error_message;
    const char *json_wrong; /* why its last pawl_work_json() that failed did; NULL: none has */
};

/* Prepare attempt.work for its next attempt: forget the last one. 0: memory is out. */
int work_open(pawl_run *run);
pawl_work *work_new(pawl_run *run);
void work_free(pawl_work *w);

/* Call it, on the thread's own stack; what it gave or how it failed is there afterwards. */
void work_call(pawl_work *w);

/* Give it its name and input. 0: memory is out. */
int work_give(pawl_run *run, pawl_work *w, const char *name, const char *input);

/* 1 if its time is over, by the clock: nobody may have looked at it yet. */
int work_is_over(const pawl_work *w);

/* It has failed: its time was over; its function called pawl on the run. */
void work_expire(pawl_work *w);
void work_misused(pawl_work *w);
void work_failed(pawl_work *w, int permanent, const char *name, const char *message);

/* A failure as it is written into the journal, and read from there. */
slice work_error(pawl_run *run, const pawl_work *w, int64_t next_ms);

/* The same place in the journal for a step that was asked for and not begun; see call.c. */
slice work_not_begun(pawl_run *run, int64_t next_ms, int64_t began_ms);

/* What that says: how many attempts the row tells of (1 but for one that was not begun), when the
 * next attempt is due, and when the first one began; `otherwise`: it does not say. */
int64_t work_tried(slice data);
int64_t work_next_ms(slice data);
int64_t work_began_ms(slice data, int64_t otherwise);

#endif
