/* What is known about why a run does not go on, read in one transaction (why_read.c), to be put
 * into sentences (why.c). */
#ifndef QUERY_WHY_H
#define QUERY_WHY_H

#include "journal/op.h"
#include "query/inspect.h"

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

    const char *child; /* id of the run that a child is; NULL: it is none, or is gone */
    pawl_phase child_phase;
    const char *child_held; /* why it is held; "" */
} why_op;

typedef struct why {
    int64_t now_ms;
    pawl_phase phase;
    int failing; /* its clean-ups are under way, also while it is held */
    int64_t run;
    int64_t generation;
    int64_t held;
    int64_t held_ms;
    int64_t owner;
    int64_t wake_ms; /* INT64_MIN: when something arrives */
    int64_t claims;  /* the mark included */
    int64_t claimed_seq;
    int is_marked;       /* its owner executes it, or did when it died; 0: it does not, or no mark
                            tells (docs/format.md) */
    int64_t last_seq;    /* of the journal; 0: it is empty */
    int64_t deadline_ms; /* 0: none */
    int64_t finished_ms;
    int64_t arrivals; /* in the inbox; WHY_ROWS stands for more */
    const char *held_reason;
    const char *held_for; /* what that depends on, see hold.h; "" */
    const char *trouble;  /* in words; "": none */
    int64_t trouble_ms;
    char kept[512]; /* what this process has of it that is not recorded, in words; "": nothing */
    const char *workflow;
    const char *version;
    const char *error_name; /* of a run that has failed */
    const char *error;
    const char *error_where;

    why_op ops[WHY_OPS]; /* the newest first */
    size_t op_count;     /* perhaps more than are there */
    int64_t rows;        /* of the journal that were looked at */
    int64_t cancel_ms;   /* when it was asked to stop; 0: it was not */
    int cancel_waits;    /* and has not taken that yet: it is in the inbox */
    const char *cancel_reason;

    int is_locked;     /* a transaction that is not pawl's keeps its row locked: */
    int64_t locker;    /* the process of the server that it is in, … */
    int64_t locker_ms; /* … and when it began; 0: not known */

    inspect_node node; /* that owns it; node 0: it has no open row */
    int node_alive;
    int64_t node_still_ms; /* it is, and has not moved since then; see inspect_still_ms() */
    int64_t nodes_alive;   /* of the first LOOK_NODES … */
    int64_t nodes_able;    /* … and those of them that have its workflow in its version … */
    int64_t nodes_unable;  /* … and, not counted before, have it too but claim nothing: */
    inspect_node unable;   /* the first of those */
} why;

/* Texts are in the arena. PAWL_NOTFOUND. */
pawl_code why_read(pawl *p, slice id, arena *memory, why *out, error *err);

#endif
