/* Pairs of units that two nodes apply to a run concurrently, for tests that step
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

extern const char *const PAIR_KIND_NAMES[];

/* One side: the units that it applies in an order, and their answers. */
typedef struct pair_side {
    kind kind;
    int64_t me;
    int64_t other;
    int64_t owner; /* of the run, before all this */
    int64_t now_ms;
    db *db;
    arena *arenas[UNITS];
    unit *units[UNITS];
    int count;
    inbox_message message;
    int64_t read; /* rows of the journal that a new owner has read; -1: none */
} pair_side;

/* Make the units of the side anew, in its arenas. */
void pair_side_build(pair_side *d);

/* Would an engine try it at all? What only an owner may do to a run, an engine does only when it is
 * the owner. */
int pair_side_makes_sense(const pair_side *d);

#endif
