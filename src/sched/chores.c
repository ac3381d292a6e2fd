/* The table of chores: see chores.h. The time is read before each chore, since the one before may
 * have taken long. */
#include "sched/chores.h"

#include <assert.h>

void chores_add(chore_table *t, const chore *c)
{
    assert(t->count < CHORES_MAX && c->run && c->every_ns >= 0);
    t->at[t->count++] = *c;
}

int64_t chores_run(chore_table *t, db_conn *conn, clock_source *clock)
{
    int64_t did = 0;
    for (int i = 0; i < t->count; i++) {
        chore *c = &t->at[i];
        int64_t now_ns = clock->mono_ns(clock);
        if (now_ns < c->next_ns) /* RULE a-chore-waits-for-its-time */
            continue;
        c->next_ns = now_ns + c->every_ns;
        did += c->run(c, conn, now_ns); /* RULE a-chore-may-say-when-it-is-next */
    }
    return did;
}
