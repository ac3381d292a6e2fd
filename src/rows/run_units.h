/* The SQL of runs as parts of units: claim (a lease with a fencing token), send, park, finish, give
 * back, append.
 *
 * Each function adds its statements to a unit and gives the number of the one that returns the row
 * described with it, for unit_rows() and db_from(). The SQL is here, but for what begins a run, a
 * generation or its clean-ups (run_insert.c, generation.c, redrive.c) and delete.c, because the
 * kinds are right only together: what one of them sleeps on, another one must change in the same
 * row (A2), and what one reads without a lock, no other may take back (A1). test/interleave steps
 * every pair of them through every order.
 *
 * All times are the database's (db_clock.h). */
#ifndef ROWS_RUN_UNITS_H
#define ROWS_RUN_UNITS_H

#include "db/columns.h"
#include "db/unit.h"

/* Larger input and output is in the journal, and not in the row of the run, which is rewritten at
 * every park. */
enum { RUN_SMALL = 1024 };

/* No deadline: it sleeps until something arrives. */
#define RUN_NEVER INT64_MAX

/* A run as its owner knows it. All that the owner does to the row names all three. */
typedef struct run_lease {
    int64_t run;
    int64_t owner;
    int64_t fence;
} run_lease;

/* A run as a node has read it that wants to claim it. */
typedef struct run_found {
    int64_t run;
    int64_t owner;      /* none (0), or a node that is closed */
    int64_t held;       /* it is held for this reason, and the claim ends that */
    int64_t seq;        /* length of its journal */
    int64_t counted;    /* 1: as far as is known it was being executed when its owner died */
    slice version;      /* for a run that has none yet; at NULL: none */
    int64_t generation; /* which was read: its input, version and deadline are that one's; 0: any */
} run_found;

/* Claim it. Guards: "closed", the owner; "owner", another node has the run by now, or it has ended,
 * is held for another reason, or has begun a new generation. These are the columns of its row;
 * CLAIM_CLAIMS: the number of claims without progress, this one included. Where a guard on a run
 * does not hold, owner, fence, phase and held are what was found. */
enum { CLAIM_FENCE, CLAIM_GENERATION, CLAIM_MAIL, CLAIM_PHASE, CLAIM_WAKE_AT, CLAIM_CLAIMS };

int run_claim(unit *u, const run_found *f, int64_t owner, int64_t now_ms);

/* So many claims more, or less; with more it is marked as being executed under this fence. Guard
 * "fence". */
int run_mark(unit *u, const run_lease *h, int64_t more);

/* Something that arrives for a run. */
typedef struct run_mail {
    int64_t run;
    int64_t generation; /* which call it answers; 0, 0, 0: none, it is a message */
    int64_t op;
    int64_t attempt;
    int64_t kind; /* INBOX_… */
    slice name;
    slice key; /* at NULL: it has none */
    slice by;
    int64_t at_ms;
    int64_t enc;
    slice data; /* at NULL: it has none */
} run_mail;

/* Put it into the run's inbox and wake the run. Guard "live": there is no such run, or it has
 * ended. The row says which seq it got, and which node should be notified. */
enum { SEND_SEQ, SEND_OWNER };

int run_send(unit *u, const run_mail *m);

/* The same as a part of a unit about something else: if there is no such run, or it has ended,
 * nothing arrives, and the unit goes on. Gives the number of a try. */
int run_try_send(unit *u, const run_mail *m);

/* The same for the parent of a run that `finish` of this unit ends: to the generation that the row
 * of the run names then, since a parent may have begun anew and kept its child. */
int run_try_report(unit *u, const run_mail *m, int finish);

/* Only the row of the inbox, as this seq, for a run whose own row is written with it. */
void run_put_mail(unit *u, const run_mail *m, db_value seq);

/* Ask for its cancellation: an arrival of kind INBOX_CANCEL, whose reason (JSON text) is the data;
 * only the first one counts. A held run without an owner goes on to its clean-ups. Guard
 * "uncancelled": there is no such run, it has ended, or was asked before. Columns as of run_send().
 * */
int run_cancel(unit *u, const run_mail *m);

/* The same as a part of a unit about something else, for a child of `parent`. A try. */
int run_try_cancel(unit *u, const run_mail *m, int64_t parent);

/* The cancellation was asked for before, and the run is held and without an owner by now: let it go
 * on to its clean-ups. Guard "cancelled". */
int run_cancel_held(unit *u, int64_t run, int64_t now_ms);

/* What a run says about itself: its custom status, after so many changes. NULL, or 0 changes: it is
 * as it was. */
typedef struct run_status {
    slice text;
    int64_t count;
} run_status;

/* In units where no other statement writes the status. */
int run_set_status(unit *u, const run_lease *h, const run_status *status, int64_t now_ms);

/* Sleep until `deadline_ms` (RUN_NEVER), unless more has arrived than `seen`, the mail that was
 * applied: then it is due at once. It keeps its owner, unless it was held: then it has none. Guard
 * "fence". The row says when it wakes, how much mail there is, and whether it is held. */
enum { PARK_WAKE_AT, PARK_MAIL, PARK_HELD };

int run_park(unit *u, const run_lease *h, int64_t seen, int64_t deadline_ms,
             const run_status *status, int64_t now_ms);

/* The same while it has jobs under way: it keeps its owner, held or not. */
int run_park_kept(unit *u, const run_lease *h, int64_t seen, int64_t deadline_ms,
                  const run_status *status, int64_t now_ms);

/* How a run ends. */
typedef struct run_end {
    run_phase phase;
    slice output; /* small enough for the row; at NULL: it is in the journal, or there is none */
    slice error;  /* likewise */
} run_end;

/* End it and give it back. Guard "fence". The row says whether a parent or a client waits for
 * it. */
enum { FINISH_WATCHED, FINISH_PARENT, FINISH_PARENT_GENERATION, FINISH_PARENT_OP };

int run_finish(unit *u, const run_lease *h, const run_end *end, const run_status *status,
               int64_t now_ms);

/* Give it back as it is; whatever it waits for, it wakes for the next owner. Guard "fence". */
int run_give_back(unit *u, const run_lease *h, int64_t now_ms);

typedef struct run_held {
    int64_t reason; /* HELD_… */
    slice words;    /* for people */
    slice what;     /* that would help is missing, or the builds that cannot go on: hold.h */
} run_held;

/* Hold it, and give it back. Guard "fence". */
int run_set_held(unit *u, const run_lease *h, const run_held *why, int64_t now_ms);

/* Hold it because its record is refused (HELD_RECORD), and keep it: the result is in the memory of
 * its owner only. It stays due, for a takeover when that owner is dead. `trouble`: in words, until
 * it has got further. Guard "fence". */
int run_hold_record(unit *u, const run_lease *h, const run_held *why, slice trouble,
                    int64_t now_ms);

/* Put before a unit that is handed in again: the run is still the owner's; a hold for its record,
 * and its trouble, are over if the unit is committed. Guard "fence". */
void run_try_again(unit *u, const run_lease *h);

/* The trouble of a run that is not held, in words; at NULL: it is over. */
int run_set_trouble(unit *u, const run_lease *h, slice trouble, int64_t now_ms);

/* Hold a run that is due and that no node can drive: HELD_VERSION. It has no owner (0), or a node
 * that is closed. Guards "closed", "owner". */
int run_hold_due(unit *u, int64_t run, int64_t owner, slice words, int64_t now_ms);

/* Hold any live run; its owner, which the row names, notices it at its next poll. Guard "live". */
int run_hold_by_hand(unit *u, int64_t run, slice words, int64_t now_ms);

/* Release a held run, whatever the reason for the hold. Guard "held". The returned row has its
 * owner; 0: none. */
int run_set_free(unit *u, int64_t run, int64_t now_ms);

/* Check that the owner still has it, without a lock. Guard "fence". */
int run_check_fence(unit *u, const run_lease *h);

/* One more row of a run's journal. */
typedef struct run_entry {
    int64_t run;
    int64_t generation;
    int64_t seq;
    int64_t kind;
    int64_t op; /* of an arrival: the seq of the op that it is about; otherwise 0 */
    slice name;
    int64_t at_ms;
    int64_t enc;
    slice data; /* at NULL: it has none */
} run_entry;

/* A run was made, ended, was held or released, changed its custom status, began to fail, or a new
 * generation: a row for the change feed (change_feed.h). */
void run_note(unit *u, db_value run, int64_t now_ms);

/* Append it. There is no guard: the engine knows that it owns the run, and that this is still so is
 * what the lock on the node's own row says, under which it commits. */
int run_append(unit *u, const run_entry *e);

/* The first row in the unit that tells of something that was done outside, or else the first. Name,
 * kind, op and seq are set. 0: the unit has no rows. */
int run_find_deed(const unit *u, run_entry *out);

/* The same with data that another statement of the unit gives (db_from()). */
int run_append_from(unit *u, const run_entry *e, db_value data);

#endif
