/* A scheduler without threads and without a database, for unit tests of its parts: only its lock,
 * the list of ready runs and the condition of the workers are set up. Its runs are in place
 * PLACE_IN_HAND, and have no function. */
#ifndef SUPPORT_SCHED_FIXTURE_H
#define SUPPORT_SCHED_FIXTURE_H

#include "sched/sched_internal.h"

typedef struct sched_fixture {
    sched *s;
    int count;
    pawl_run **runs; /* their keys are 0, 1, 2 … */
} sched_fixture;

sched_fixture sched_fixture_new(int runs);
void sched_fixture_free(sched_fixture *f);

#endif
