/* The committer's queue: units in the order in which they were handed in.
 *
 * One queue for all classes, so that the order is unambiguous; a bounded share per class
 * (backpressure), so that one class cannot take the other's room. No mutex here: the committer's
 * guards the queue. */
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
    queue_share shares[QUEUE_CLASSES]; /* everything without its final answer, queued or not */
    int64_t look_ns; /* no unit in the queue is late before; 0: none has a deadline */
} queue;

/* Is there room for the unit in its class? One unit always fits, however large. */
int queue_has_room(const queue *q, const unit *u, int64_t units_max, int64_t bytes_max);

/* Put a unit at the end and count it in the share of its class. */
void queue_add(queue *q, unit *u);

/* The unit has its final answer: it no longer counts in the share of its class. */
void queue_settle(queue *q, unit *u);

/* Take out the next units, at most `units_max` and about `bytes_max` bytes, but at least one, and
 * give their number. */
size_t queue_take(queue *q, unit **out, int64_t units_max, int64_t bytes_max);

/* Take out the units past their deadlines, wherever they stand, as a list. Cheap while none is. */
unit *queue_take_late(queue *q, int64_t now_ns);

/* Put a unit at the end that is already counted in a share. */
void queue_append(queue *q, unit *u);

/* Put units that were taken back to the front, in their order. */
void queue_put_back(queue *q, unit **units, size_t count);

/* Take one unit out of the middle. 1 if it was still there. */
int queue_withdraw(queue *q, const unit *which);

/* Take out all of a class, as a list; and out of a list. */
unit *queue_take_class(queue *q, unit_class class);
unit *queue_pick(unit **list, unit_class class);

/* Take out everything, as a list. */
unit *queue_take_all(queue *q);

/* Link units up as a list. */
unit *queue_link(unit **units, size_t count);

#endif
