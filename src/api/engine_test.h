/* What a test may put under an engine and into it. No program gets here but through the test kit
 * (pawl_test.h); pawl's own tests do, because they link the archive.
 *
 * A proof needs three things that a program cannot have: a database that breaks at a given call, a
 * clock on which waiting takes no time, and fibers that are dropped when the proof says so. */
#ifndef API_ENGINE_TEST_H
#define API_ENGINE_TEST_H

#include <pawl.h>

#include "base/clock.h"
#include "base/error.h"
#include "db/db.h"

/* Borrowed for the call; what it points to, until pawl_close() has returned. */
typedef struct engine_test {
    void *arg;

    /* Put something between the engine and its database (db_fault.h), which closes `inner` with
     * itself. It may not refuse. NULL: nothing. */
    db *(*wrap)(void *arg, db *inner);

    /* Instead of the clock of the options. NULL: that one. */
    clock_source *clock;

    /* Asked wherever what a run has recorded is durable and it has not gone on yet, parks included:
     * 1 drops its fiber, so that it goes on by replay. NULL: never. */
    int (*drops)(void *arg);

    /* 1: the threads of all engines are played by one, so that a call which blocks would block them
     * all. The database answers PAWL_BUSY instead of waiting for others, and no thread listens for
     * notifications, which are only hints. */
    int one_thread;

    /* The handle is freed: `arg` is not used any more. NULL: not called. */
    void (*closed)(void *arg);
} engine_test;

/* As pawl_open(). */
pawl_code engine_test_open(pawl **out, const char *url, const pawl_options *options,
                           const engine_test *test);

/* What it was opened with. */
const engine_test *engine_test_of(pawl *p);

/* Of an engine that serves: has it nothing to do until its clock moves? Sets *looks to the looks
 * that its keeper has finished: whether there is something to claim is known two looks later. With
 * `calls`, the keeper is asked to look. */
int engine_test_is_idle(pawl *p, int calls, int64_t *looks);

/* A crash, for a handle that no thread drives, and a database that has been made to refuse
 * everything: drop everything that the engine has in memory. What is registered stays, and the last
 * errors. Then begin again, on the same database and with the options of the open: as the next
 * process would. Until that has worked the handle answers MISUSE. */
void engine_test_drop(pawl *p);
pawl_code engine_test_again(pawl *p, const pawl_options *options, error *err);

#endif
