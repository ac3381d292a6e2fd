/* Pairs of units that two nodes apply to a run concurrently, for tests that step the pairs through
 * every order of their statements: the kinds of units, and which of these an engine would apply at
 * all. */
#ifndef SUPPORT_UNIT_PAIR_FIXTURE_H
#define SUPPORT_UNIT_PAIR_FIXTURE_H

#include "api/send.h"
#include "db/unit.h"

/* The ids of two nodes that are alive, and of a third one that is closed. */
enum { LEFT = 11, RIGHT = 12, DEAD = 13 };
enum { RUN = 1, SECOND_RUN = 2, ROW = 7, FENCE = 5, DUE = 100, LATER = 9000, UNITS = 2 };

typedef enum {
    CLAIM,
    SEND,
    CLOSE, /* closes the node of the other side */
    TAKE_OVER,
    PARK,
    FINISH,
    GIVE_BACK,
    APPEND,
    HOLD,    /* a hold by hand */
    CROSS,   /* a message to each of two runs; the two sides begin with different runs */
    RELEASE, /* a hold by hand, and then a release */
    KEY,     /* a message with an idempotency key, the same one on both sides */
    CANCEL,
    MOVE, /* the outbox relay turns a row of the outbox into a message */
    REST, /* the owner of the run parks it, then gives it back; a message for the run is there */
} kind;

extern const char *const PAIR_KIND_NAMES[];

/* One side: its units in the order in which it applies them, with their answers. */
typedef struct pair_side {
    kind kind;
    int64_t me;
    int64_t other;
    int64_t owner; /* the owner of the run before both sides begin */
    int64_t now_ms;
    db *db;
    arena *arenas[UNITS];
    unit *units[UNITS];
    int count;
    inbox_message message;
    int64_t read; /* number of journal rows that a new owner has read; -1: it has read none */
} pair_side;

/* Makes the units of the side anew, in the side's arenas. */
void pair_side_build(pair_side *d);

/* Returns 1 if an engine would apply the units of the side at all: what only the owner of a run may
 * do, an engine does only while it is the owner. */
int pair_side_makes_sense(const pair_side *d);

#endif
