/* Copies of databases, and random numbers, for tests that break things.
 *
 * All random choices of such a test come from one seed, which is printed when the test fails. If a
 * function here fails (for instance because the disk is full), it ends the program with the reason
 * on stderr. So it can be used in child processes too, unlike cmocka's assertions. */
#ifndef SUPPORT_SCRATCH_H
#define SUPPORT_SCRATCH_H

#include <stdint.h>

#include "base/clock.h"
#include "support/tmp.h"

/* Ends the test program with a message and errno. */
_Noreturn void scratch_die(const char *what);

/* Writes "path" with "suffix" behind it. */
void scratch_suffix(char out[TMP_PATH], const char *path, const char *suffix);

/* Copies a database with its log as a crash at this moment would leave them (without the shared
 * memory), and the shadows of the lossy disk if there are any. It may be called while this process
 * has the database open: another process reads the files, because a descriptor of them that is
 * closed in this process would release SQLite's locks on them. */
void scratch_copy_db(const char *from, const char *to);
void scratch_remove_db(const char *db);

/* Returns the seed of this run: $PAWL_TEST_SEED, or a new one. */
uint64_t scratch_seed(void);

/* Returns a whole number from the environment; `otherwise` if the variable is missing or is not a
 * number. */
int64_t scratch_number(const char *variable, int64_t otherwise);

/* Returns a random number from `low` to `high`, both included. */
int64_t scratch_between(random_seeded *r, int64_t low, int64_t high);

#endif
