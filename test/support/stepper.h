/* Two connections, stepped statement by statement through every order.
 *
 * Each side runs its units in a thread of its own, through batch_apply() on a connection that
 * db_fault stops before every BEGIN, before each statement and before COMMIT. One side at a time is
 * let go to its next stop. Where both could go there are two orders; the stepper takes the first
 * one, remembers that there is another, and takes that in a later run, until there is none left.
 *
 * A side that runs into a lock of the other does not come to its next stop; that is asked of the
 * server, not guessed from the time. Then the other one goes on. A unit that the database throws
 * out (a deadlock; on SQLite: the other side writes) is tried again when the other is out of its
 * transaction. */
#ifndef SUPPORT_STEPPER_H
#define SUPPORT_STEPPER_H

#include "db/batch.h"
#include "support/conf.h"

#define STEPPER_SIDES 2

typedef struct stepper stepper;
typedef struct stepper_side stepper_side;

/* What a side does, in a thread of its own. No assertions of cmocka in there. */
typedef void (*stepper_body)(stepper_side *s, void *arg);

/* How often what has happened. */
typedef struct stepper_counts {
    int64_t orders;
    int64_t steps;
    int64_t waits;   /* a side had to wait for a lock of the other */
    int64_t retries; /* a unit was thrown out and tried again */
} stepper_counts;

stepper *stepper_open(const conf *c);
void stepper_close(stepper *t);

/* The database, for set-up and checks; and a side's connection, to set its node. */
db *stepper_db(stepper *t);
db_conn *stepper_connection(stepper *t, int side);

/* What is a step. Direct: a unit of that side is one step, applied in the way that is quick on this
 * database (driver->apply), in the midst of the other one's statements. */
typedef enum {
    STEPPER_WHOLE, /* a unit, on both sides: they are only put one behind the other */
    STEPPER_PIECES,
    STEPPER_LEFT_DIRECT,
    STEPPER_RIGHT_DIRECT,
} stepper_how;

/* Begin with the first order. */
void stepper_first(stepper *t, stepper_how how);

/* Run both sides in the present order. Fails the test when that comes to no end. */
void stepper_run(stepper *t, stepper_body body, void *args[STEPPER_SIDES]);

/* Go to the next order. 0: that was the last one. */
int stepper_next(stepper *t);

/* The present order, as the sides' names in the order of their steps: "LLRL"; '|' where one had to
 * wait. Good until the next run. */
const char *stepper_order(const stepper *t);

stepper_counts stepper_counted(const stepper *t);

/* ---- For bodies ---- */

int stepper_number(const stepper_side *s); /* 0 or 1 */

/* Apply the unit, again and again until it has its answer. */
void stepper_apply(stepper_side *s, unit *u);

/* A step of its own, outside any transaction: what is read then is not protected by any lock. */
void stepper_stop(stepper_side *s);

/* The rows that the sides have written are about to be taken away, and their keys used again, which
 * no program does: on a file the engines of both sides would take that for a database that went
 * back. They begin anew with their next transaction. */
void stepper_begin_anew(stepper *t);

#endif
