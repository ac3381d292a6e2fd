/* Copies of databases, and chance, for tests that break things.
 *
 * Whatever such a test does at random comes from one seed that is printed when it fails. Nothing
 * here can fail halfway: a test without a disk to write on ends at once, with the reason on
 * stderr. Usable in children too, unlike cmocka's assertions. */
#ifndef SUPPORT_SCRATCH_H
#define SUPPORT_SCRATCH_H

#include <stdint.h>

#include "base/clock.h"
#include "support/tmp.h"

/* End the test program with a message and errno. */
_Noreturn void scratch_die(const char *what);

/* "path" with "suffix" behind it. */
void scratch_suffix(char out[TMP_PATH], const char *path, const char *suffix);

/* Copy a database with its log, as a crash at this moment would leave them (no shared memory),
 * and with the shadows of the lossy disk if there are any. Safe while this process has the
 * database open: another process does the reading, because a descriptor that is closed here
 * would take SQLite's locks with it. */
void scratch_copy_db(const char *from, const char *to);
void scratch_remove_db(const char *db);

/* The seed of this run: $PAWL_TEST_SEED, or a new one. */
uint64_t scratch_seed(void);

/* A whole number from the environment; `otherwise` if it is not there or not a number. */
int64_t scratch_number(const char *variable, int64_t otherwise);

/* Something from `low` to `high`, both included. */
int64_t scratch_between(random_seeded *r, int64_t low, int64_t high);

#endif
