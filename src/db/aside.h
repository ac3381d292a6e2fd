/* Units that wait for a row lock of a foreign transaction, set aside so that no other unit waits
 * behind them (no head-of-line blocking).
 *
 * On a server any transaction may keep a row locked for as long as it likes. A unit that meets such
 * a lock leaves the queue for this list, and so do the later units of its submitter, whose order
 * must not change. Each is tried again alone, with a back-off that doubles; after a failed attempt
 * no unit of the list is tried for four times as long as that attempt took. So all units that wait
 * for locks together take a fifth of the committer's time at most.
 *
 * No mutex here: the committer's guards the list. Units still count towards the bounds of the queue
 * (queue_settle()). */
#ifndef DB_ASIDE_H
#define DB_ASIDE_H

#include "db/queue.h"

/* A zeroed struct is an empty list. */
typedef struct aside {
    queue list;      /* its shares are not used; the units of a submitter are in order */
    int64_t pace_ns; /* no unit is tried before this moment */
    int64_t next_ns; /* when the next unit can be tried; meaningless while the list is empty */
} aside;

/* Returns 1 if an earlier unit of the same submitter is set aside: the unit must follow it. */
int aside_has_before(const unit *u);

/* Set aside a unit that has met a row lock, for the first time or again, and schedule its next
 * attempt. The failed attempt took `took_ns`. */
void aside_put(aside *a, unit *u, int64_t now_ns, int64_t took_ns);

/* Put back a unit whose attempt failed for another reason than a row lock. It is due at once. */
void aside_put_back(aside *a, unit *u, int64_t now_ns);

/* Set aside a unit behind an earlier unit of its submitter. It is due when that one is answered. */
void aside_follow(aside *a, unit *u);

/* Returns when aside_take() will find a unit that is due; INT64_MAX: the list is empty. */
int64_t aside_next_ns(const aside *a);

/* Take a unit that is due out of the list and return it; NULL: no unit is due. */
unit *aside_take(aside *a, int64_t now_ns);

/* These do with the list what queue_take_late() and so on do with a queue (queue.h). */
unit *aside_take_late(aside *a, int64_t now_ns);
unit *aside_take_class(aside *a, unit_class class);
unit *aside_take_all(aside *a);
int aside_withdraw(aside *a, const unit *u);

/* A unit that was set aside, and was taken out of the list, has its final answer: make the next
 * unit of its submitter due. */
void aside_leave(aside *a, unit *u, int64_t now_ns);

/* Make all units due now, except those behind an earlier unit of their submitter. */
void aside_hurry(aside *a, int64_t now_ns);

#endif
