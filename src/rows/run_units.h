/* The SQL of runs as parts of units: claim (a lease with a fencing token), send, park, finish, give
 * back, append.
 *
 * Each function adds its statements to a unit, and gives the number of the statement that returns
 * the row described with the function, for unit_rows() and db_from(). "Guard X" names the condition
 * that refuses the unit if it does not hold.
 *
 * The SQL of these kinds of units is in one file, because the kinds are correct only together: what
 * a run sleeps on, the unit that wakes it must change in the same row (hazard A2), and what a unit
 * reads without a lock, no other unit may change back (hazard A1). test/interleave steps every pair
 * of kinds through every order. Other files have the SQL that begins a run, a generation or its
 * clean-ups (run_insert.c, generation.c, redrive.c) and that deletes a run (delete_units.c).
 *
 * All times are the database's (db_clock.h). */
#ifndef ROWS_RUN_UNITS_H
#define ROWS_RUN_UNITS_H

#include "db/columns.h"
#include "db/unit.h"

/* Input and output of more bytes is in the journal, and not in the row of the run, which is
 * rewritten at every park. */
enum { RUN_SMALL = 1024 };

/* A deadline that never comes: the run sleeps until something arrives. */
#define RUN_NEVER INT64_MAX

/* A node's lease on a run. Every statement of the owner names all three. */
typedef struct run_lease {
    int64_t run;
    int64_t owner;
    int64_t fence;
} run_lease;

/* A run as read by a node that wants to claim it. */
typedef struct run_found {
    int64_t run;
    int64_t owner;      /* 0: none; otherwise a closed node */
    int64_t held;       /* the reason for which it is held, and the claim ends the hold; 0: not
                           held */
    int64_t seq;        /* the length of its journal */
    int64_t counted;    /* 1: it was being executed when its owner died, as far as is known */
    slice version;      /* the version for a run that has none yet; at NULL: none */
    int64_t generation; /* the generation whose input, version and deadline were read; 0: any */
} run_found;

/* Claims a run. Guard "closed": the owner is closed. Guard "owner": the run has the owner, the hold
 * and the generation that were read, and has not ended. The row has the columns below; CLAIM_CLAIMS
 * is the number of claims without progress, this one included. If a guard on a run refuses,
 * unit_found() gives owner, fence, phase and held of the run. */
enum { CLAIM_FENCE, CLAIM_GENERATION, CLAIM_MAIL, CLAIM_PHASE, CLAIM_WAKE_AT, CLAIM_CLAIMS };

int run_claim(unit *u, const run_found *f, int64_t owner, int64_t now_ms);

/* Adds `more`, which may be negative, to the claims of a run; with more than 0 the run is marked as
 * being executed under this fence. Guard "fence": the lease is valid. */
int run_mark(unit *u, const run_lease *h, int64_t more);

/* An arrival: a message, an answer or a cancel for a run. */
typedef struct run_inbox_row {
    int64_t run;
    int64_t generation; /* with op and attempt: the call that it answers; all 0: it is a message */
    int64_t op;
    int64_t attempt;
    int64_t kind; /* INBOX_… */
    slice name;
    slice key; /* at NULL: none */
    slice by;
    int64_t at_ms;
    int64_t enc;
    slice data; /* at NULL: none */
} run_inbox_row;

/* Puts an arrival into the run's inbox and wakes the run. Guard "live": the run exists and has not
 * ended. The row has the seq that the arrival got, and the node that should be notified. */
enum { SEND_SEQ, SEND_OWNER };

int run_send(unit *u, const run_inbox_row *m);

/* The same as run_send(), as part of a unit about something else: if the run does not exist or has
 * ended, nothing arrives, and the unit goes on. Gives the number of a try. */
int run_try_send(unit *u, const run_inbox_row *m);

/* The same as run_try_send(), for the parent of the run that the statement `finish` of this unit
 * ends. The arrival goes to the parent's generation that the row of the child names by then, since
 * a redrive of the parent may have kept the child. */
int run_try_report(unit *u, const run_inbox_row *m, int finish);

/* Writes only the row of the inbox, under this seq, for a run whose own row the same unit
 * writes. */
void run_put_arrival(unit *u, const run_inbox_row *m, db_value seq);

/* Requests the cancellation of a run: an arrival of kind INBOX_CANCEL, whose data is the reason
 * (JSON text). Only the first request counts. A held run without an owner goes on to its clean-ups.
 * Guard "uncancelled": the run exists, has not ended, and was not cancelled before. Columns as of
 * run_send(). */
int run_cancel(unit *u, const run_inbox_row *m);

/* The same as run_cancel(), as part of a unit about something else, for a child of `parent`. Gives
 * the number of a try. */
int run_try_cancel(unit *u, const run_inbox_row *m, int64_t parent);

/* Lets a run that was cancelled before, and has been held since, go on to its clean-ups. Guard
 * "cancelled": the run is cancelled, held, and without an owner. */
int run_cancel_held(unit *u, int64_t run, int64_t now_ms);

/* The custom status of a run, and the number of its changes since the last unit. NULL, or 0
 * changes: it is unchanged. */
typedef struct run_status {
    slice text;
    int64_t count;
} run_status;

/* Writes the custom status, in units where no other statement writes it. */
int run_set_status(unit *u, const run_lease *h, const run_status *status, int64_t now_ms);

/* Parks a run: it sleeps until `deadline_ms` (or RUN_NEVER), unless more has arrived than `seen`,
 * the `mail` up to which arrivals were applied; then it is due at once. It keeps its owner, unless
 * it was held: then it has none. Guard "fence": the lease is valid. The row has the time when it
 * wakes, its `mail`, and whether it is held. */
enum { PARK_WAKE_AT, PARK_MAIL, PARK_HELD };

int run_park(unit *u, const run_lease *h, int64_t seen, int64_t deadline_ms,
             const run_status *status, int64_t now_ms);

/* The same as run_park(), for a run with jobs under way: it keeps its owner, held or not. */
int run_park_kept(unit *u, const run_lease *h, int64_t seen, int64_t deadline_ms,
                  const run_status *status, int64_t now_ms);

/* How a run ends. */
typedef struct run_end {
    run_phase phase;
    slice output; /* a small output; at NULL: it is in the journal, or there is none */
    slice error;  /* a small error; at NULL: it is in the journal, or there is none */
} run_end;

/* Ends a run and gives it back. Guard "fence": the lease is valid. The row tells whether a client
 * waits for the run (watched), and its parent. */
enum { FINISH_WATCHED, FINISH_PARENT, FINISH_PARENT_GENERATION, FINISH_PARENT_OP };

int run_finish(unit *u, const run_lease *h, const run_end *end, const run_status *status,
               int64_t now_ms);

/* Gives a run back as it is: the next owner wakes it when what it waits for comes. Guard "fence":
 * the lease is valid. */
int run_give_back(unit *u, const run_lease *h, int64_t now_ms);

typedef struct run_held {
    int64_t reason; /* HELD_… */
    slice words;    /* for people */
    slice what;     /* what is missing, or the builds that cannot go on; see hold.h */
} run_held;

/* Holds a run, and gives it back. Guard "fence": the lease is valid. */
int run_set_held(unit *u, const run_lease *h, const run_held *why, int64_t now_ms);

/* Holds a run because the database refuses its record (HELD_RECORD). The owner keeps the run, whose
 * result is in its memory only. The run stays due, for a takeover when the owner is dead. `trouble`
 * tells the error in words, until the run has got further. Guard "fence": the lease is valid. */
int run_hold_record(unit *u, const run_lease *h, const run_held *why, slice trouble,
                    int64_t now_ms);

/* Puts a guard, "fence", before all other statements of a unit that is committed again: the lease
 * is still valid. If the unit is committed, a hold for its record, and the trouble of the run, are
 * over. */
void run_try_again(unit *u, const run_lease *h);

/* Sets the trouble of a run that is not held, in words; at NULL: it is over. */
int run_set_trouble(unit *u, const run_lease *h, slice trouble, int64_t now_ms);

/* Holds a run that is due and that no node can drive (HELD_VERSION). Guard "closed": the owner is 0
 * or closed. Guard "owner": the run still has this owner, and is live and due. */
int run_hold_due(unit *u, int64_t run, int64_t owner, slice words, int64_t now_ms);

/* Holds any live run. The row has its owner, which notices the hold at its next poll. Guard "live":
 * the run exists and has not ended. */
int run_hold_by_hand(unit *u, int64_t run, slice words, int64_t now_ms);

/* Releases a held run, whatever the reason for the hold. Guard "held": the run is held. The row has
 * its owner; 0: none. */
int run_set_free(unit *u, int64_t run, int64_t now_ms);

/* Checks, without a lock, that the lease is valid. Guard "fence". */
int run_check_fence(unit *u, const run_lease *h);

/* A row of a run's journal. */
typedef struct run_entry {
    int64_t run;
    int64_t generation;
    int64_t seq;
    int64_t kind;
    int64_t op; /* of an arrival: the seq of its op; otherwise 0 */
    slice name;
    int64_t at_ms;
    int64_t enc;
    slice data; /* at NULL: none */
} run_entry;

/* Adds a row to the change feed (change_feed.h): the run was made, ended, was held or released,
 * changed its custom status, began to fail, or began a new generation. */
void run_note(unit *u, db_value run, int64_t now_ms);

/* Appends a row. There is no guard: the engine knows that it owns the run, and each of its
 * transactions proves that by the lock on its node's row. */
int run_append(unit *u, const run_entry *e);

/* Finds the first row of the unit that records an effect outside, or else its first row. Sets name,
 * kind, op and seq. 0: the unit has no rows. */
int run_find_deed(const unit *u, run_entry *out);

/* The same as run_append(), with data that another statement of the unit gives (db_from()). */
int run_append_from(unit *u, const run_entry *e, db_value data);

#endif
