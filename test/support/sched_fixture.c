/* The scheduler and its runs are zeroed memory, in which only the fields are filled in that the
 * functions under test use. */
#include "support/sched_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

static pawl_run *new_run(const run_host *host, int key)
{
    pawl_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->slot = calloc(1, sizeof *run->slot);
    assert_non_null(run->slot);
    run->host = host;
    run->lease.run = key;
    run->slot->runner = SCHED_HAND;
    run->slot->place = PLACE_IN_HAND;
    return run;
}

sched_fixture sched_fixture_new(int runs)
{
    sched_fixture f = {.s = calloc(1, sizeof *f.s), .count = runs};
    assert_non_null(f.s);
    pthread_mutex_init(&f.s->lock, NULL);
    pthread_cond_init(&f.s->work_cond, NULL);
    f.s->driven = DRIVEN_BY_HAND;
    f.s->driver = pthread_self();
    f.s->runners[SCHED_HAND].sched = f.s;
    f.s->run_host.sched = f.s;
    f.s->fds.pipe[1] = -1; /* calls of the node loop go nowhere */
    f.runs = calloc((size_t)runs, sizeof(pawl_run *));
    assert_non_null(f.runs);
    for (int i = 0; i < runs; i++)
        f.runs[i] = new_run(&f.s->run_host, i);
    return f;
}

void sched_fixture_free(sched_fixture *f)
{
    for (int i = 0; i < f->count; i++) {
        map_free(&f->runs[i]->jobs.by_op);
        free(f->runs[i]->slot);
        free(f->runs[i]);
    }
    free(f->runs);
    pthread_cond_destroy(&f->s->work_cond);
    pthread_mutex_destroy(&f->s->lock);
    free(f->s);
}
