/* The committer's queue: units in the order in which they were handed in.
 *
 * There is one queue for all classes, so that the order is unambiguous, and a bounded share per
 * class (backpressure), so that one class cannot take the other's room. The queue has no mutex of
 * its own: the committer's lock guards it. */
#ifndef DB_QUEUE_H
#define DB_QUEUE_H

#include "db/unit.h"

enum { QUEUE_CLASSES = 2 };

typedef struct queue_share {
    int64_t units;
    int64_t bytes;
} queue_share;

/* A queue of zeroes is empty. */
typedef struct queue {
    unit *head;
    unit *tail;
    queue_share shares[QUEUE_CLASSES]; /* per class: units without a final answer, queued or not */
    int64_t look_ns; /* no deadline in the list is before this; 0: no unit has a deadline */
} queue;

/* 1: the share of the unit's class has room for it. An empty share has room for any unit, however
 * large it is. */
int queue_has_room(const queue *q, const unit *u, int64_t units_max, int64_t bytes_max);

/* Put a unit at the end and count it in the share of its class. */
void queue_add(queue *q, unit *u);

/* To be called when a unit gets its final answer: it no longer counts in the share of its class.
 * The list stays as it is. */
void queue_settle(queue *q, unit *u);

/* Take the next units out of the list into `out`, at most `units_max`, and return their number. The
 * unit that would exceed `bytes_max` stays, unless it is the first one. */
size_t queue_take(queue *q, unit **out, int64_t units_max, int64_t bytes_max);

/* Take out the units whose deadlines are over, wherever they stand, and return them as a list;
 * NULL: there is none. Costs nothing before the earliest deadline. */
unit *queue_take_late(queue *q, int64_t now_ns);

/* Put a unit at the end without counting it: it is counted in its share already. */
void queue_append(queue *q, unit *u);

/* Put units that queue_take() took out back to the front, in their order. */
void queue_put_back(queue *q, unit **units, size_t count);

/* Take this unit out of the list, wherever it stands. 1: it was in the list; 0: it was not. */
int queue_withdraw(queue *q, const unit *which);

/* queue_take_class() takes all units of a class out of the queue, queue_pick() out of the list
 * whose first unit is *list. Both return them as a list; NULL: there is none. */
unit *queue_take_class(queue *q, unit_class class);
unit *queue_pick(unit **list, unit_class class);

/* Take all units out, and return them as a list. */
unit *queue_take_all(queue *q);

/* Link the `count` units as a list, and return the first one; NULL: count is 0. */
unit *queue_link(unit **units, size_t count);

#endif
