/* What is known about why a run does not go on, gathered in one look (why_read.c), to be put into
 * sentences (why.c). */
#ifndef CORE_WHY_H
#define CORE_WHY_H

#include "core/look.h"
#include "core/op.h"

enum {
    WHY_OPS = 8,     /* that are told of */
    WHY_ROWS = 1000, /* of the journal that are looked at, from its end */
};

/* An op that has no answer yet. */
typedef struct why_op {
    const op_info *op;
    int64_t seq;
    const char *name;
    int64_t until_ms;    /* of a sleep and the like; INT64_MIN: not known */
    int64_t attempts;    /* that have failed */
    int64_t attempt_seq; /* where the last of them is recorded; 0: nowhere */
    int64_t next_ms;     /* when the next is due; INT64_MIN: not known */
    const char *error;   /* of the last, in words; "" */

    const char *queue; /* of a task that waits there, or is under way; NULL: there is none */
    const char *tag;
    int64_t task_owner;
    int64_t task_attempt;
    int64_t visible_ms;
    int paused; /* the queue */
} why_op;

typedef struct why {
    int64_t now_ms;
    pawl_phase phase;
    int64_t run;
    int64_t generation;
    int64_t held;
    int64_t held_ms;
    int64_t owner;
    int64_t wake_ms; /* INT64_MIN: when something arrives */
    int64_t claims;
    int64_t claimed_seq;
    int64_t deadline_ms; /* 0: none */
    int64_t finished_ms;
    int64_t arrivals; /* in the inbox; WHY_ROWS stands for more */
    const char *held_reason;
    const char *held_for; /* what that depends on, see hold.h; "" */
    const char *workflow;
    const char *version;
    const char *error_name; /* of a run that has failed */
    const char *error;
    const char *error_where;

    why_op ops[WHY_OPS]; /* the newest first */
    size_t op_count;     /* perhaps more than are there */
    int64_t rows;        /* of the journal that were looked at */
    int cancelled;       /* it was asked to stop */
    const char *cancel_reason;

    look_node node; /* that owns it; node 0: it has no open row */
    int node_alive;
    int64_t nodes_alive; /* of the first LOOK_NODES … */
    int64_t nodes_able;  /* … and those of them that have its workflow in its version */
} why;

/* Texts are in the arena. PAWL_NOTFOUND. */
pawl_code why_read(pawl *p, slice id, arena *memory, why *out, error *err);

#endif
