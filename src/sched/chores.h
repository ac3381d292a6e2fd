/* The table of chores: work that the node loop does from time to time besides driving runs, such as
 * the relay of the outbox and the garbage collection of rows.
 *
 * A chore may stand above the scheduler. So the scheduler calls none of them by name: api/engine.c
 * registers them when it opens the engine. All chores are run by one thread at a time, the one that
 * runs the node loop, without the lock of the scheduler. */
#ifndef SCHED_CHORES_H
#define SCHED_CHORES_H

#include "base/clock.h"
#include "db/db.h"

enum { CHORES_MAX = 8 };

struct chore;

/* Does what is due, as of `now_ns`, and gives the number of things done. It may read on `conn`,
 * which is in no transaction before and after. When it is called c->next_ns is `every_ns` from now;
 * it may set another time, for example `now_ns`: there is more to be done in the next round. */
typedef int64_t chore_fn(struct chore *c, db_conn *conn, int64_t now_ns);

typedef struct chore {
    const char *name;
    int64_t every_ns; /* 0: at every look of the node loop */
    chore_fn *run;
    void *arg;
    int64_t next_ns; /* when it is run next; 0: at the first look */
} chore;

/* A table of zeroes is empty. */
typedef struct chore_table {
    chore at[CHORES_MAX];
    int count;
} chore_table;

/* Adds a chore, before the node loop begins. Chores are run in the order in which they are
 * added. */
void chores_add(chore_table *t, const chore *c);

/* Runs the chores that are due. Gives the number of things that they have done. */
int64_t chores_run(chore_table *t, db_conn *conn, clock_source *clock);

#endif
