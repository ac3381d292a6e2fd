/* The crash fixture: a database file in a folder of the test, random choices from one seed, and the
 * ledger of everything that was acknowledged. */
#ifndef SUPPORT_CRASH_FIXTURE_H
#define SUPPORT_CRASH_FIXTURE_H

#include "support/ledger.h"
#include "support/scratch.h"
#include "support/tmp.h"

typedef struct crash_fixture {
    char folder[TMP_PATH];
    char path[TMP_PATH]; /* the path of the database, which is not made yet */
    uint64_t seed;
    random_seeded random;
    ledger ledger;
    int64_t
        births; /* number of processes started so far, which makes the marks of their rows unique */
} crash_fixture;

/* For cmocka: `*state` is a crash_fixture. */
int crash_set_up(void **state);
int crash_tear_down(void **state);

/* Spin for a random number of rounds, `most` at most: so the next call comes at any point of what
 * other processes do. */
void crash_spin(random_seeded *random, int64_t most);

/* Fail the test with a message: `when`, the seed, and the verdict of a comparison of the ledger. */
void crash_fail(const ledger_verdict *v, const char *when, uint64_t seed);

#endif
