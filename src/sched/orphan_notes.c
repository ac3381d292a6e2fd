/* Runs that may have left rows: see orphan_notes.h. The node loop is not woken: a run that is
 * claimed and refused again and again would keep it busy. */
#include "sched/orphan_notes.h"

#include "sched/sched_internal.h"

void orphan_notes_add(sched *s, int64_t run)
{
    if (run == 0)
        return;
    sched_lock(s);
    orphan_notes *n = &s->orphan_notes;
    if (n->count < ORPHAN_NOTES_MAX)
        n->run[n->count++] = run;
    sched_unlock(s);
}

int64_t orphan_notes_take(sched *s)
{
    sched_lock(s);
    orphan_notes *n = &s->orphan_notes;
    int64_t run = n->count > 0 ? n->run[--n->count] : 0;
    sched_unlock(s);
    return run;
}
