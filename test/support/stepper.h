/* Two connections whose statements are executed one at a time, in every order (interleavings).
 *
 * Each side applies its units in a thread of its own, by batch_apply() on a connection that
 * db_fault stops before every BEGIN, every statement and every COMMIT. One side at a time goes on
 * to its next stop. Where both sides could go on there are two orders: the stepper takes the first
 * one, remembers that there is another, and takes that in a later run, until none is left.
 *
 * A side that waits for a lock of the other side does not get to its next stop. The stepper asks
 * the server whether that is so, and does not guess from the time. Then the other side goes on. A
 * unit that the database rolls back (because of a deadlock, or on SQLite because the other side
 * writes) is tried again when the other side has ended its transaction. */
#ifndef SUPPORT_STEPPER_H
#define SUPPORT_STEPPER_H

#include "db/batch.h"
#include "support/conf.h"

#define STEPPER_SIDES 2

typedef struct stepper stepper;
typedef struct stepper_side stepper_side;

/* What a side does, in a thread of its own, where assertions of cmocka must not be used. */
typedef void (*stepper_body)(stepper_side *s, void *arg);

/* What has happened, as numbers of times. */
typedef struct stepper_counts {
    int64_t orders;
    int64_t steps;
    int64_t waits;   /* a side had to wait for a lock of the other side */
    int64_t retries; /* a unit was rolled back by the database, and tried again */
} stepper_counts;

stepper *stepper_open(const conf *c);
void stepper_close(stepper *t);

/* Return the database, for set-up and checks, and the connection of a side, so that its node can be
 * set. */
db *stepper_db(stepper *t);
db_conn *stepper_connection(stepper *t, int side);

/* What counts as a step. DIRECT: a unit of that side is one step, applied in the way that is quick
 * on this database (driver->apply), between two statements of the other side. */
typedef enum {
    STEPPER_WHOLE, /* a unit is one step on both sides: units are only put into every order */
    STEPPER_PIECES,
    STEPPER_LEFT_DIRECT,
    STEPPER_RIGHT_DIRECT,
} stepper_how;

/* Begins with the first order. */
void stepper_first(stepper *t, stepper_how how);

/* Runs both sides in the present order. Fails the test if they do not come to an end. */
void stepper_run(stepper *t, stepper_body body, void *args[STEPPER_SIDES]);

/* Goes on to the next order. Returns 0 if that was the last one. */
int stepper_next(stepper *t);

/* Returns the present order, as the names of the sides in the order of their steps: "LLRL", with
 * '|' where a side had to wait. Valid until the next run. */
const char *stepper_order(const stepper *t);

stepper_counts stepper_counted(const stepper *t);

/* ---- For bodies ---- */

int stepper_number(const stepper_side *s); /* 0 or 1 */

/* Applies the unit, and repeats that until the unit has its answer. */
void stepper_apply(stepper_side *s, unit *u);

/* Makes a step outside of any transaction, where no lock protects what is read. */
void stepper_stop(stepper_side *s);

/* Called when the rows that the sides have written are about to be deleted and their keys used
 * again, which no program does: on a SQLite file the engines of both sides would take that for a
 * rewind of the database. Both begin anew with their next transaction. */
void stepper_begin_anew(stepper *t);

#endif
