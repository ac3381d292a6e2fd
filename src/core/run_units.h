/* The kinds of units that make a run go on: claim, send, park, finish, give back, append.
 *
 * Each function adds its statements to a unit and gives the number of the one that returns the row
 * described with it, for unit_rows() and db_from(). The SQL is here, but for what begins a run, a
 * generation or its clean-ups (birth.c, again.c, redrive.c) and delete.c, because the kinds are
 * right only together: what one of them sleeps on, another one must change in the same row (A2),
 * and what one reads without a lock, no other may take back (A1). test/interleave steps every pair
 * of them through every order.
 *
 * All times are the database's (db_clock.h). */
#ifndef CORE_RUN_UNITS_H
#define CORE_RUN_UNITS_H

#include "db/unit.h"

typedef enum {
    RUN_LIVE,
    RUN_DONE,
    RUN_FAILED,
    RUN_CANCELLED,
    RUN_FAILING, /* its compensations are under way: as live as a live one */
} run_status;

/* No deadline: it sleeps until something arrives. */
#define RUN_NEVER INT64_MAX

/* A run as its owner knows it. All that the owner does to the row names all three. */
typedef struct run_hold {
    int64_t run;
    int64_t owner;
    int64_t fence;
} run_hold;

/* A run as somebody has found it who wants to claim it. */
typedef struct run_found {
    int64_t run;
    int64_t owner;   /* nobody (0), or a node that is closed */
    int64_t held;    /* it is held for this reason, and the claim ends that */
    int64_t seq;     /* length of its journal */
    int64_t counted; /* 1: as far as is known it was being executed when its owner died */
    slice version;   /* for a run that has none yet; at NULL: none */
} run_found;

/* Take it. Guards: "closed", the owner; "owner", the run is somebody else's by now, has ended, or
 * is held for something else. These are the columns of its row; CLAIM_CLAIMS: the how-manieth claim
 * this is without getting further. Where a guard on a run does not hold, owner, fence, status and
 * held are what was found. */
enum { CLAIM_FENCE, CLAIM_GENERATION, CLAIM_MAIL, CLAIM_STATUS, CLAIM_WAKE_AT, CLAIM_CLAIMS };

int run_claim(unit *u, const run_found *f, int64_t owner, int64_t now_ms);

/* So many claims more, or less. Guard "fence". */
int run_mark(unit *u, const run_hold *h, int64_t more);

/* What kind of thing arrives (docs/format.md). */
enum { MAIL_MESSAGE = 1, MAIL_CHILD = 2, MAIL_CANCEL = 3, MAIL_REQUEST = 4, MAIL_TASK = 5 };

/* Something that arrives for a run. */
typedef struct run_mail {
    int64_t run;
    int64_t generation; /* which call it answers; 0, 0, 0: none, it is a message */
    int64_t op;
    int64_t attempt;
    int64_t kind;
    slice name;
    slice key; /* at NULL: it has none */
    slice by;
    int64_t at_ms;
    int64_t enc;
    slice data; /* at NULL: it has none */
} run_mail;

/* Put it into the run's inbox and wake the run. Guard "live": there is no such run, or it has
 * ended. The row says as which seq it came, and which node should hear of it. */
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

/* Ask for its cancellation: an arrival of kind MAIL_CANCEL, whose reason (JSON text) is the data;
 * only the first one counts. One that is held and nobody's goes on to its clean-ups. Guard
 * "uncancelled": there is no such run, it has ended, or was asked before. Columns as of run_send().
 */
int run_cancel(unit *u, const run_mail *m);

/* The same as a part of a unit about something else, for a child of `parent`. A try. */
int run_try_cancel(unit *u, const run_mail *m, int64_t parent);

/* It was asked before, and is held and nobody's by now: let it go on to its clean-ups. Guard
 * "cancelled". */
int run_cancel_held(unit *u, int64_t run, int64_t now_ms);

/* What a run says about itself: its custom status, after so many changes. NULL, or 0 changes: it is
 * as it was. */
typedef struct run_said {
    slice status;
    int64_t count;
} run_said;

/* By itself, in units that do nothing else to the run's row. */
int run_say(unit *u, const run_hold *h, const run_said *said, int64_t now_ms);

/* Sleep until `deadline_ms` (RUN_NEVER), unless more has arrived than `seen`, the mail that was
 * applied: then it is due at once. It stays the owner's, unless it was held: then it is nobody's.
 * Guard "fence". The row says when it wakes, how much mail there is, and whether it is held. */
enum { PARK_WAKE_AT, PARK_MAIL, PARK_HELD };

int run_park(unit *u, const run_hold *h, int64_t seen, int64_t deadline_ms, const run_said *said,
             int64_t now_ms);

/* How a run ends. */
typedef struct run_end {
    run_status status;
    slice output; /* small enough for the row; at NULL: it is in the journal, or there is none */
    slice error;  /* likewise */
} run_end;

/* End it and give it back. Guard "fence". The row says who waits for it. */
enum { FINISH_WATCHED, FINISH_PARENT, FINISH_PARENT_GENERATION, FINISH_PARENT_OP };

int run_finish(unit *u, const run_hold *h, const run_end *end, const run_said *said,
               int64_t now_ms);

/* Give it back as it is; whatever it waits for, it wakes for the next owner. Guard "fence". */
int run_give_back(unit *u, const run_hold *h, int64_t now_ms);

/* Why a run is held (docs/format.md). */
enum {
    HELD_VERSION = 1,
    HELD_MISMATCH = 2,
    HELD_POISON = 3,
    HELD_BY_HAND = 4,
    HELD_STUCK = 5, /* a clean-up has failed for good */
};

typedef struct run_held {
    int64_t reason;
    slice words; /* for people */
    slice what;  /* that would help is missing, or the builds that cannot go on: hold.h */
} run_held;

/* Hold it, and give it back. Guard "fence". */
int run_set_held(unit *u, const run_hold *h, const run_held *why, int64_t now_ms);

/* Hold a run that is due and that no node can drive: HELD_VERSION. It belongs to nobody (0), or to
 * a node that is closed. Guards "closed", "owner". */
int run_hold_due(unit *u, int64_t run, int64_t owner, slice words, int64_t now_ms);

/* Hold any live run; its owner, which the row tells, hears of it when it looks. Guard "live". */
int run_hold_by_hand(unit *u, int64_t run, slice words, int64_t now_ms);

/* Let a run go on that is held, for whatever reason. Guard "held"; the row tells its owner. */
int run_set_free(unit *u, int64_t run, int64_t now_ms);

/* It is still the owner's: a look, which locks nothing. Guard "fence". */
int run_check_fence(unit *u, const run_hold *h);

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
 * generation: to be told to those who follow the change feed (changes.h). */
void run_note(unit *u, db_value run, int64_t now_ms);

/* Append it. There is no guard: the engine knows that it owns the run, and that this is still so is
 * what the lock on the node's own row says, under which it commits. */
int run_append(unit *u, const run_entry *e);

/* The same with data that another statement of the unit gives (db_from()). */
int run_append_from(unit *u, const run_entry *e, db_value data);

#endif
