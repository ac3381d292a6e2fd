/* Units that wait for a row lock of a foreign transaction, set aside so that no other unit waits
 * behind them (no head-of-line blocking).
 *
 * On a server any transaction may keep a row locked for as long as it likes. A unit that meets such
 * a lock leaves the queue for this list, and so do the later ones of its submitter, whose order
 * must not change. Each is tried again alone, with a back-off that doubles; after a failed attempt
 * nothing here is tried for four times as long as that attempt took. So all units that wait for
 * locks together take a fifth of the committer's time at most.
 *
 * No mutex here: the committer's guards the list. Units still count towards the bounds of the queue
 * (queue_settle()). */
#ifndef DB_ASIDE_H
#define DB_ASIDE_H

#include "db/queue.h"

/* A list of zeroes is empty. */
typedef struct aside {
    queue list;      /* only its list is used; the units of a submitter are in order */
    int64_t pace_ns; /* nothing is tried before this moment */
    int64_t next_ns; /* when a unit can be tried; meaningless while the list is empty */
} aside;

/* Does a unit of the same submitter wait here, so that this one must wait behind it? */
int aside_has_before(const unit *u);

/* The unit has met a lock, in an attempt that took so long; for the first time or again. */
void aside_put(aside *a, unit *u, int64_t now_ns, int64_t took_ns);

/* The unit was tried, and something else was in the way: it can be tried again at once. */
void aside_put_back(aside *a, unit *u, int64_t now_ns);

/* The unit must wait behind an earlier one of its submitter. */
void aside_follow(aside *a, unit *u);

/* When aside_take() gives a unit; INT64_MAX: there is none in the list. */
int64_t aside_next_ns(const aside *a);

/* Take out a unit that is due; NULL: none is. */
unit *aside_take(aside *a, int64_t now_ns);

/* These do what the functions of the same names do with a queue (queue.h). */
unit *aside_take_late(aside *a, int64_t now_ns);
unit *aside_take_class(aside *a, unit_class class);
unit *aside_take_all(aside *a);
int aside_withdraw(aside *a, const unit *u);

/* A unit that was here, and is not in the list, has its answer: the next one of its submitter is
 * due. */
void aside_leave(aside *a, unit *u, int64_t now_ns);

/* Everything that waits is due now. */
void aside_hurry(aside *a, int64_t now_ns);

#endif
