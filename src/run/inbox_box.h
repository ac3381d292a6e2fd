/* What a run has read of its inbox and not taken: for inbox.c, and for the host of the run, which
 * reads it (WANT_INBOX; sched/runner_inbox.c).
 *
 * For each mailbox that a future waits at, the run remembers up to where it was read: what lies
 * before that is for other mailboxes, and is not read again. A few messages are read at a time, so
 * that a run that receives a hundred thousand does not query as often; what was read and not taken
 * stays in memory until the fiber goes. */
#ifndef RUN_INBOX_BOX_H
#define RUN_INBOX_BOX_H

#include "run/inbox.h"

/* A row of the inbox. One allocation, with its texts behind it. */
typedef struct inbox_row {
    struct inbox_row *next;
    int64_t seq;
    int64_t kind;
    int64_t generation;
    int64_t op;
    slice name;
    slice by;
    slice data;
} inbox_row;

typedef struct inbox_box {
    struct inbox_box *next;
    slice name;
    int64_t read; /* the mailbox was read up to this seq */
    inbox_row *first;
    inbox_row *last;
    pawl_future *waiting; /* the receives that wait, in their order */
    pawl_future *waiting_last;
} inbox_box;

/* In the arena of the replay (run_journal.arena). */
typedef struct run_inbox {
    inbox_box *boxes;
    inbox_row *rest;
    inbox_row *rest_last;
    int64_t cancel; /* seq of the cancel, which was read and not taken; 0: there is none */
} run_inbox;

#endif
