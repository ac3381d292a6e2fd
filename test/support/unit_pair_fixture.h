/* Pairs of units (a `deed` each) that two nodes apply to a run concurrently, for tests that step
 * them through every order: the kinds of units, and which of them an engine would try at all. */
#ifndef SUPPORT_UNIT_PAIR_FIXTURE_H
#define SUPPORT_UNIT_PAIR_FIXTURE_H

#include "api/send.h"
#include "db/unit.h"

/* Two nodes that are alive, a third one that is closed. */
enum { LEFT = 11, RIGHT = 12, DEAD = 13 };
enum { RUN = 1, SECOND_RUN = 2, ROW = 7, FENCE = 5, DUE = 100, LATER = 9000, UNITS = 2 };

typedef enum {
    CLAIM,
    SEND,
    CLOSE, /* the other's node */
    TAKE_OVER,
    PARK,
    FINISH,
    GIVE_BACK,
    APPEND,
    HOLD,    /* by hand */
    CROSS,   /* to both runs, each side beginning with another one */
    RELEASE, /* held by hand, and then let go */
    KEY,     /* a message with a key, both sides with the same one */
    CANCEL,
    MOVE, /* the row of the outbox, a message */
    REST, /* its owner parks it, then gives it back, with a message for it */
} kind;

extern const char *const DEED_NAMES[];

/* What one side does in an order, and what it was told. */
typedef struct deed {
    kind kind;
    int64_t me;
    int64_t other;
    int64_t owner; /* of the run, before all this */
    int64_t now_ms;
    db *db;
    arena *arenas[UNITS];
    unit *units[UNITS];
    int count;
    letter letter;
    int64_t read; /* rows of the journal that a new owner has read; -1: none */
} deed;

/* Make its units anew, in its arenas. */
void deed_build(deed *d);

/* May it happen at all? An engine does to a run what its owner may do only when it is the owner. */
int deed_makes_sense(const deed *d);

#endif
