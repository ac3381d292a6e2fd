/* The kinds of units that make a run go on: claim, send, park, finish, give back, append.
 *
 * Each function adds its statements to a unit and gives the number of the one that returns the row
 * described with it, for unit_rows() and db_from(). The SQL is here and nowhere else, because the
 * kinds are right only together: what one of them sleeps on, another one must change in the same
 * row (A2), and what one reads without a lock, no other may take back (A1). test/interleave steps
 * every pair of them through every order.
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

/* Take a run that belongs to `from`: to nobody (0), or to a node that is closed. Guards: "closed",
 * that node; "owner", the run is somebody else's by now, has ended, or is held. These are the
 * columns of its row. Where a guard on a run does not hold, owner, fence, status and held are what
 * was found. */
enum { CLAIM_FENCE, CLAIM_GENERATION, CLAIM_MAIL, CLAIM_STATUS, CLAIM_WAKE_AT };

int run_claim(unit *u, int64_t run, int64_t from, int64_t owner, int64_t now_ms);

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

/* Sleep until `deadline_ms` (RUN_NEVER), unless more has arrived than `seen`, the mail that was
 * applied: then it is due at once. It stays the owner's. Guard "fence". The row says when it wakes,
 * and how much mail there is. */
enum { PARK_WAKE_AT, PARK_MAIL };

int run_park(unit *u, const run_hold *h, int64_t seen, int64_t deadline_ms, int64_t now_ms);

/* How a run ends. */
typedef struct run_end {
    run_status status;
    slice output; /* small enough for the row; at NULL: it is in the journal, or there is none */
    slice error;  /* likewise */
} run_end;

/* End it and give it back. Guard "fence". The row says who waits for it. */
enum { FINISH_WATCHED, FINISH_PARENT, FINISH_PARENT_GENERATION, FINISH_PARENT_OP };

int run_finish(unit *u, const run_hold *h, const run_end *end, int64_t now_ms);

/* Give it back as it is; whatever it waits for, it wakes for the next owner. Guard "fence". */
int run_give_back(unit *u, const run_hold *h, int64_t now_ms);

/* One more row of a run's journal. */
typedef struct run_entry {
    int64_t run;
    int64_t generation;
    int64_t seq;
    int64_t kind;
    slice name;
    int64_t at_ms;
    int64_t enc;
    slice data; /* at NULL: it has none */
} run_entry;

/* Append it. There is no guard: the engine knows that it owns the run, and that this is still so is
 * what the lock on the node's own row says, under which it commits. */
int run_append(unit *u, const run_entry *e);

#endif
