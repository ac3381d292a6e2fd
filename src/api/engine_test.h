/* What a test may put under an engine and into it: fault injection, a fake clock, forced replay.
 * Programs can use this only through the test kit (pawl_test.h); pawl's own tests use it directly,
 * because they link the archive.
 *
 * A proof needs three things that a program cannot have: a database that fails at a given call, a
 * clock on which waiting takes no time, and fibers that are dropped when the proof says so. */
#ifndef API_ENGINE_TEST_H
#define API_ENGINE_TEST_H

#include <pawl.h>

#include "base/clock.h"
#include "base/error.h"
#include "db/db.h"

/* The struct is copied; what it points to must live until pawl_close() has returned. */
typedef struct engine_test {
    void *arg;

    /* Puts a wrapper between the engine and its database (db_fault.h), which closes `inner` when it
     * is closed. It must not fail. NULL: no wrapper. */
    db *(*wrap)(void *arg, db *inner);

    /* Replaces the clock of the options. NULL: the clock of the options is used. */
    clock_source *clock;

    /* Asked wherever the records of a run are durable and the run has not gone on yet, parks
     * included: 1 drops the run's fiber, so that it goes on by replay. NULL: never. */
    int (*drops)(void *arg);

    /* 1: one thread plays the threads of all engines, so that a call which blocks would block them
     * all. The database answers PAWL_BUSY instead of waiting for a lock, and no thread listens for
     * notifications, which are only hints. */
    int one_thread;

    /* Called when the handle is freed and `arg` is not used any more. NULL: not called. */
    void (*closed)(void *arg);
} engine_test;

/* Opens an engine as pawl_open() does, on what `test` puts under it. */
pawl_code engine_test_open(pawl **out, const char *url, const pawl_options *options,
                           const engine_test *test);

/* What the engine was opened with. */
const engine_test *engine_test_of(pawl *p);

/* Tells whether an engine under pawl_serve() waits for its clock to move. Returns 0: it has
 * something to do now; 1: only its node loop has a round before it, or is in one; 2: it has nothing
 * to do. Sets *looks to twice the number of rounds that its node loop has finished, and one more
 * while it is in one. With `calls` the node loop is woken for a round. */
int engine_test_is_idle(pawl *p, int calls, int64_t *looks);

/* A crash, for a handle that no thread drives and whose database has been made to refuse
 * everything. engine_test_drop() drops everything that the engine has in memory, except the
 * registrations and the last errors. engine_test_again() then begins again on the same database,
 * with the options of the open, as the next process would. Between the two, and if the second one
 * fails, the handle answers MISUSE. */
void engine_test_drop(pawl *p);
pawl_code engine_test_again(pawl *p, const pawl_options *options, error *err);

#endif
