/* Runs that may have left rows: see orphan_notes.h. The node loop is not woken: a run that is
 * claimed and refused again and again would keep it busy. */
#include "sched/orphan_notes.h"

#include "sched/sched_internal.h"

void orphan_notes_add(sched *s, int64_t run)
{
    if (run == 0)
        return;
    pthread_mutex_lock(&s->lock);
    orphan_notes *n = &s->orphan_notes;
    if (n->count < ORPHAN_NOTES_MAX)
        n->run[n->count++] = run;
    pthread_mutex_unlock(&s->lock);
}

int64_t orphan_notes_take(sched *s)
{
    pthread_mutex_lock(&s->lock);
    orphan_notes *n = &s->orphan_notes;
    int64_t run = n->count > 0 ? n->run[--n->count] : 0;
    pthread_mutex_unlock(&s->lock);
    return run;
}
