/* Why a run does not go on: the facts, which why_read.c reads in one transaction, and why.c puts
 * into sentences. */
#ifndef QUERY_WHY_H
#define QUERY_WHY_H

#include "journal/op.h"
#include "query/inspect.h"

enum {
    WHY_OPS = 8,     /* how many ops are described */
    WHY_ROWS = 1000, /* how many rows of the journal are read, from its end */
};

/* An op that has no answer yet. */
typedef struct why_op {
    const op_info *op;
    int64_t seq;
    const char *name;
    int64_t until_ms;    /* when a sleep or a receive ends; INT64_MIN: never, or not known */
    int64_t attempts;    /* number of attempts that have failed */
    int64_t attempt_seq; /* seq of the row of the last failed attempt; 0: none */
    int64_t next_ms;     /* when the next attempt is due; INT64_MIN: not known */
    const char *error;   /* error of the last attempt, in words; "": none */

    const char *queue; /* queue of the op's task; NULL: the op has no task */
    const char *tag;
    int64_t task_owner;
    int64_t task_attempt;
    int64_t visible_ms;
    int paused; /* 1: the queue is paused */

    const char *child; /* id of the child run; NULL: the op is no child, or the run is gone */
    pawl_phase child_phase;
    const char *child_held; /* why the child is held; "": it is not */
} why_op;

typedef struct why {
    int64_t now_ms;
    pawl_phase phase;
    int failing; /* 1: the clean-ups are under way, also while the run is held */
    int64_t run;
    int64_t generation;
    int64_t held;
    int64_t held_ms;
    int64_t owner;
    int64_t wake_ms; /* INT64_MIN: the run has no timer */
    int64_t claims;  /* number of claims without progress, and 1 for a mark */
    int64_t claimed_seq;
    int is_marked;       /* 1: the owner executes the run, or did so when it died; 0: it does not,
                            or the row has no mark that tells (docs/format.md) */
    int64_t last_seq;    /* seq of the last journal row; 0: the journal is empty */
    int64_t deadline_ms; /* 0: none */
    int64_t finished_ms;
    int64_t arrivals; /* number of arrivals in the inbox; WHY_ROWS: that many or more */
    const char *held_reason;
    const char *held_for; /* what nodes compare to find out whether they can end the hold (hold.h);
                             "": nothing */
    const char *trouble;  /* trouble that is not a hold, in words; "": none */
    int64_t trouble_ms;
    char kept[512]; /* what the memory of this process has of the run's trouble: a result that is
                       not recorded, a claim, a read or a look that fails; "": nothing */
    const char *workflow;
    const char *version;
    const char *error_name; /* set if the run has failed */
    const char *error;
    const char *error_where;

    why_op ops[WHY_OPS]; /* the newest first */
    size_t op_count;     /* number of open ops; may be larger than WHY_OPS */
    int64_t rows;        /* number of journal rows that were read */
    int64_t cancel_ms;   /* when the run was cancelled; 0: it was not */
    int cancel_waits;    /* 1: the cancel is still in the inbox */
    const char *cancel_reason;

    int is_locked;     /* 1: a transaction that is not pawl's keeps the run's row locked */
    int64_t locker;    /* the server process of that transaction */
    int64_t locker_ms; /* when that transaction began; 0: not known */

    inspect_node node; /* the owner; node 0: the owner has no open row */
    int node_alive;
    int64_t node_still_ms; /* of a live owner: inspect_still_ms() */
    int64_t nodes_alive;   /* number of live nodes, of the first LOOK_NODES */
    int64_t nodes_able;    /* number of live nodes that have the workflow in its version */
    int64_t nodes_unable;  /* number of live nodes that have the workflow, and can claim nothing */
    inspect_node unable;   /* the first of the nodes that can claim nothing */
} why;

/* Reads the facts about a run, in one transaction. Texts are allocated in the arena. Errors:
 * NOTFOUND. */
pawl_code why_read(pawl *p, slice id, arena *memory, why *out, error *err);

#endif
