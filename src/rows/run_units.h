/* The SQL of runs as parts of units: claim (a lease with a fencing token), send, park, finish, give
 * back, append.
 *
 * A function that adds statements to a unit and gives an int returns the number of one of them, for
 * unit_rows() and db_from(): of the statement that returns the row described with the function. The
 * other functions return nothing, or say what they return. "Guard X" names the condition that
 * refuses the unit if it does not hold.
 *
 * The SQL of these kinds of units is in one file, because the kinds are correct only together: what
 * a run sleeps on, the unit that wakes it must change in the same row, and what a unit reads
 * without a lock, no other unit may change back. test/interleave steps every pair of kinds through
 * every order. Other files have the SQL that begins a run, a generation or its clean-ups
 * (run_insert.c, generation.c, redrive.c) and that deletes a run (delete_units.c).
 *
 * All times are the database's (db_clock.h). */
#ifndef ROWS_RUN_UNITS_H
#define ROWS_RUN_UNITS_H

#include "db/columns.h"
#include "db/unit.h"

/* Input and output of more bytes is in the journal, and not in the row of the run, which is
 * rewritten at every park. */
enum { RUN_SMALL = 1024 };

/* A time that never comes: the run sleeps until something arrives. */
#define RUN_NEVER INT64_MAX

/* A node's lease on a run. Every statement by which the owner changes the row of the run names all
 * three values; run_append() needs no lease. */
typedef struct run_lease {
    int64_t run;
    int64_t owner;
    int64_t fence;
} run_lease;

/* A run as read by a node that wants to claim it. */
typedef struct run_found {
    int64_t run;
    int64_t owner;      /* 0: none; otherwise a closed node */
    int64_t held;       /* reason of its hold, which the claim ends; 0: the run is not held */
    int64_t seq;        /* the length of its journal */
    int64_t counted;    /* 1: the claim counts a death: the run was being executed when its owner
                           died, as far as is known */
    slice version;      /* the version that the claim gives to a run that has none yet; at NULL:
                           none */
    int64_t generation; /* the generation whose input, version and deadline were read; 0: any */
} run_found;

/* Claims a run. Guard "closed": the owner, if there is one, is closed. Guard "owner": the run has
 * the owner, the hold and the generation that were read, and has not ended. The row has the columns
 * below; CLAIM_CLAIMS is the number of claims without progress, this one included. If a guard on a
 * run refuses, here or in a function below (other than run_try_again()), unit_found() gives owner,
 * fence, phase and held of the run. */
enum { CLAIM_FENCE, CLAIM_GENERATION, CLAIM_MAIL, CLAIM_PHASE, CLAIM_WAKE_AT, CLAIM_CLAIMS };

int run_claim(unit *u, const run_found *f, int64_t owner, int64_t now_ms);

/* Adds `more`, which may be negative, to the claims of a run. More than 0 marks the run as being
 * executed under this fence; otherwise the mark is removed. Guard "fence": the lease is valid. */
int run_mark(unit *u, const run_lease *h, int64_t more);

/* An arrival: a message, an answer to an op (the result of a child), or a cancel. */
typedef struct run_inbox_row {
    int64_t run;
    int64_t generation; /* with op and attempt: the op that the arrival answers; all 0: it answers
                           none */
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

/* Puts an arrival into the run's inbox and makes the run due, unless it is held, or was started
 * with a delay and never claimed. Guard "live": the run exists and has not ended. The row has the
 * seq that the arrival got, and the owner, which should be notified. */
enum { SEND_SEQ, SEND_OWNER };

int run_send(unit *u, const run_inbox_row *m);

/* As run_send(), in a unit about something else: if the run does not exist or has ended, nothing
 * arrives, and the unit goes on. Returns the number of a try (unit_try()). */
int run_try_send(unit *u, const run_inbox_row *m);

/* As run_try_send(), for the parent of the run that the statement `finish` of this unit ends. The
 * arrival is for the generation of the parent that the row of the child names when the child ends,
 * and not for m->generation: a redrive of the parent may have kept the child. */
int run_try_report(unit *u, const run_inbox_row *m, int finish);

/* Adds only the row of the inbox, under this seq, for a run whose own row the same unit writes. */
void run_put_arrival(unit *u, const run_inbox_row *m, db_value seq);

/* Requests the cancellation of a run: an arrival of kind INBOX_CANCEL, whose data is the reason
 * (JSON text). Only the first request counts. A held run without an owner goes on to its clean-ups.
 * Guard "uncancelled": the run exists, has not ended, and was not cancelled before. The row has the
 * columns of run_send(). */
int run_cancel(unit *u, const run_inbox_row *m);

/* As run_cancel(), in a unit about something else, for a child of `parent`. Returns the number of a
 * try (unit_try()). */
int run_try_cancel(unit *u, const run_inbox_row *m, int64_t parent);

/* Lets a run that was cancelled before, and has been held since, go on to its clean-ups. Guard
 * "cancelled": the run is cancelled, held, and without an owner. */
int run_cancel_held(unit *u, int64_t run, int64_t now_ms);

/* The custom status of a run, and the number of its changes since the last unit. Functions below
 * that take a status leave the row as it is if that is NULL, or has 0 changes. */
typedef struct run_status {
    slice text;
    int64_t count;
} run_status;

/* Writes the custom status, in a unit in which no other statement writes it. */
int run_set_status(unit *u, const run_lease *h, const run_status *status, int64_t now_ms);

/* Parks a run, which wakes at `wake_ms` (RUN_NEVER: at no time), or earlier when something arrives.
 * `seen` is the `mail` up to which the run has read its inbox: if the row has another `mail`, more
 * has arrived, and the run is due at once. The run keeps its owner. But a run that was held
 * meanwhile, and not cancelled, loses its owner, and has no time at which it wakes. A cancel ends
 * the hold. Guard "fence": the lease is valid. The row has the time when the run wakes, its `mail`,
 * and the reason for which it is held (0: it is not). */
enum { PARK_WAKE_AT, PARK_MAIL, PARK_HELD };

int run_park(unit *u, const run_lease *h, int64_t seen, int64_t wake_ms, const run_status *status,
             int64_t now_ms);

/* As run_park(), for a run with jobs under way: the run keeps its owner, held or not. */
int run_park_kept(unit *u, const run_lease *h, int64_t seen, int64_t wake_ms,
                  const run_status *status, int64_t now_ms);

/* How a run ends. */
typedef struct run_end {
    run_phase phase;
    slice output; /* a small output; at NULL: it is in the journal, or there is none */
    slice error;  /* a small error; at NULL: it is in the journal, or there is none */
} run_end;

/* Ends a run, which has no owner then. Guard "fence": the lease is valid. The row has whether a
 * client waits for the run (watched), and the parent, its generation and its op. The statements of
 * generation.c that end a turn return only the first of these columns. */
enum { FINISH_WATCHED, FINISH_PARENT, FINISH_PARENT_GENERATION, FINISH_PARENT_OP };

int run_finish(unit *u, const run_lease *h, const run_end *end, const run_status *status,
               int64_t now_ms);

/* How the statement with this number ends its run, with texts in the memory of the unit. 0: it is
 * not one of run_finish(). */
int run_finish_read(const unit *u, int number, run_end *out);

/* Gives a run back: the run has no owner then, and is due when it was before. A held run is not
 * due; but if the run was cancelled too, the hold ends, and the run is due. Guard "fence": the
 * lease is valid. The row has the time at which the run is due. */
int run_give_back(unit *u, const run_lease *h, int64_t now_ms);

typedef struct run_held {
    int64_t reason; /* HELD_… */
    slice words;    /* for people; at NULL: those of the hold before it */
    slice what;     /* what is missing, or the builds that cannot go on; see hold.h */
} run_held;

/* Holds a run, which has no owner then. A run that was cancelled while it was live is not held: it
 * goes on to its clean-ups. Guard "fence": the lease is valid. The row has the reason of the hold;
 * 0: the run is not held. */
enum { HOLD_HELD };

int run_set_held(unit *u, const run_lease *h, const run_held *why, int64_t now_ms);

/* Holds a run because the database refuses its record (HELD_RECORD). The run keeps its owner, since
 * its result is in the memory of that node only, and stays due, so that another node takes it over
 * if the owner dies. `trouble` is the error in words, and stays in the row until the record is
 * committed. Guard "fence": the lease is valid. */
int run_hold_record(unit *u, const run_lease *h, const run_held *why, slice trouble,
                    int64_t now_ms);

/* Puts a guard before all other statements of a unit that is handed in again. Guard "fence": the
 * lease is still valid. If the unit is committed, this also ends the hold for its record
 * (HELD_RECORD) and the trouble of the run. */
void run_try_again(unit *u, const run_lease *h);

/* Sets the trouble of a run that is not held, in words; at NULL: the run has no trouble any
 * more. */
int run_set_trouble(unit *u, const run_lease *h, slice trouble, int64_t now_ms);

/* Holds a run that is due and that no node can drive (HELD_VERSION). A run that was cancelled is
 * not held: it goes on to its clean-ups. Guard "closed": the owner, if there is one, is closed.
 * Guard "owner": the run still has this owner, is due and not held, and has not ended. */
int run_hold_due(unit *u, int64_t run, int64_t owner, slice words, int64_t now_ms);

/* Holds any run that has not ended, for an operator. A run that is held for its record stays held
 * for that reason. The row has the owner, which notices the hold at its next poll. Guard "live":
 * the run exists and has not ended. */
int run_hold_by_hand(unit *u, int64_t run, slice words, int64_t now_ms);

/* Releases a held run, whatever the reason of the hold. Guard "held": the run is held, and has not
 * ended. The row has the owner; 0: none. */
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
 * changed its custom status, began its clean-ups (also after a success: the phase is failing while
 * they are under way), or began a new generation. */
void run_note(unit *u, db_value run, int64_t now_ms);

/* Appends a row to the journal. There is no guard: the engine knows that it owns the run, and each
 * of its transactions proves that by the lock on its node's row. */
int run_append(unit *u, const run_entry *e);

/* Finds the first journal row of the unit that is a deed (op_is_deed()), or else its first journal
 * row. Sets name, kind, op and seq of `out`. Returns 0 if the unit has no journal row. */
int run_find_deed(const unit *u, run_entry *out);

/* As run_append(), with data that another statement of the unit gives (db_from()). */
int run_append_from(unit *u, const run_entry *e, db_value data);

#endif
