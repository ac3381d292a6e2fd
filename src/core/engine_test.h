/* What a test may put under an engine and into it. No program gets here but through the test kit
 * (pawl_test.h); pawl's own tests do, because they link the archive.
 *
 * A proof needs three things that a program cannot have: a database that breaks at a given call, a
 * clock on which waiting takes no time, and fibers that are dropped when the proof says so. */
#ifndef CORE_ENGINE_TEST_H
#define CORE_ENGINE_TEST_H

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

    /* The handle is gone: `arg` is not used any more. NULL: nobody wants to know. */
    void (*closed)(void *arg);
} engine_test;

/* As pawl_open(). */
pawl_code engine_test_open(pawl **out, const char *url, const pawl_options *options,
                           const engine_test *test);

/* What it was opened with. */
const engine_test *engine_test_of(pawl *p);

/* A crash, for a handle that nobody drives, and a database that has been made to take nothing any
 * more: drop everything that the engine has in memory. What is registered stays, and the last
 * errors. Then begin again, on the same database and with the options of the open: as the next
 * process would. Until that has worked the handle answers MISUSE. */
void engine_test_drop(pawl *p);
pawl_code engine_test_again(pawl *p, const pawl_options *options, error *err);

#endif
