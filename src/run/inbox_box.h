/* What a run has read of its inbox and not consumed: for inbox.c, and for the host of the run,
 * which reads the table (WANT_INBOX; sched/runner_inbox.c).
 *
 * A mailbox is read only while a future waits at it, and its struct remembers up to which seq it
 * was read, so that no row is read twice. A few messages are read at a time, so that a run that
 * receives a hundred thousand does not query for each. What was read and not consumed stays in
 * memory until the fiber is dropped. */
#ifndef RUN_INBOX_BOX_H
#define RUN_INBOX_BOX_H

#include "run/inbox.h"

/* A row of the inbox, in one allocation with its texts behind the struct. */
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
    int64_t read;     /* the mailbox was read up to this seq */
    inbox_row *first; /* messages that were read and not received */
    inbox_row *last;
    pawl_future *waiting; /* the receives that wait, in their order */
    pawl_future *waiting_last;
} inbox_box;

/* In the arena of the replay (run_journal.arena). */
typedef struct run_inbox {
    inbox_box *boxes; /* the mailboxes at which futures have waited */
    inbox_row *rest;  /* rows that were read and are no messages */
    inbox_row *rest_last;
    int64_t cancel; /* seq of a cancel that was read and not deleted; 0: there is none */
} run_inbox;

#endif
