/* The disk fixture: a committer driven by hand on a disk that can be broken (fault injection).
 *
 * One committer on one database through the VFS shim, on a clock that stands still: nothing happens
 * unless the test makes it happen, so that "not yet" can be asserted as well as "now". Every step
 * that is handed in is kept with its answer, and all answers go into the ledger of the test, in the
 * order in which they came. */
#ifndef SUPPORT_DISK_FIXTURE_H
#define SUPPORT_DISK_FIXTURE_H

#include "support/ledger.h"
#include "support/scratch.h"
#include "support/steps.h"
#include "support/tmp.h"
#include "support/vfs_shim.h"

#define DISK_STEPS 256

typedef struct disk_fixture disk_fixture;

/* One step and what became of it. */
typedef struct disk_step {
    disk_fixture *disk;
    step step;
    arena *arena;
    unit *unit;
    int undecided; /* how often its answer was UNDECIDED */
    int finals;    /* how often it got another answer, which is final */
    unit_answer answer;
    pawl_code code;
    char refused[16];
    char message[160];
    int dirty; /* the log had unsynced writes when the final answer came */
    int order; /* its number among all final answers */
} disk_step;

struct disk_fixture {
    char path[TMP_PATH];
    int64_t wal_bytes; /* 0: the default */
    int cache_pages; /* cache of each connection; with few, small transactions spill; 0: default */
    clock_fake *clock;
    db *db;
    committer *committer;
    error err; /* the error of the last call that failed */
    ledger ledger;
    int64_t marks;
    char *payload;
    disk_step steps[DISK_STEPS];
    int count;
    int finals;
    /* Called with every answer, before that is counted and goes into the ledger; NULL: no call. */
    void (*on_answer)(disk_step *s, void *arg);
    void *on_answer_arg;
    void *native; /* the sqlite3 * of the connection made last, which is the committer's */
};

/* Set up a fixture for the database `path`, which is not opened yet. Resets the VFS shim, and makes
 * its syncs quick (vfs_shim.quick). */
void disk_init(disk_fixture *r, const char *path);
void disk_free(disk_fixture *r); /* closes the database first */

/* Open database and committer. Not PAWL_OK: r->err says why, and nothing is open. */
pawl_code disk_open(disk_fixture *r);
void disk_close(disk_fixture *r);

/* Make the runs 1 … count. */
pawl_code disk_make_runs(disk_fixture *r, int64_t count);

/* Hand in a step of a run with `bytes` bytes of data. It is applied by disk_drive(). */
disk_step *disk_submit(disk_fixture *r, submitter *owner, int64_t run, int64_t seq, size_t bytes);

/* Drive the committer as long as it has something to do at this time; the clock stands still. */
void disk_drive(disk_fixture *r);

/* Drive the committer, and move the clock to each time that it asks for, at most `times` times.
 * Gives 1 when nothing is left to do. */
int disk_drive_on(disk_fixture *r, int times);

/* 1 if the row of this very step would be there after a crash at this moment. */
int disk_recovered(disk_fixture *r, const disk_step *s);

/* The number of steps that were handed in and have no final answer. */
int disk_count_open(const disk_fixture *r);

/* ---- A disk fixture in a folder of the test ---- */

typedef struct disk_folder {
    char folder[TMP_PATH];
    char path[TMP_PATH];
    disk_fixture disk;
} disk_folder;

/* For cmocka: `*state` is a disk_folder. */
int disk_set_up(void **state);
int disk_tear_down(void **state);

/* Open the database of the fixture, and make the runs 1 … `runs`; ends the program if that
 * fails. */
disk_fixture *disk_open_with_runs(disk_folder *s, int64_t runs);

#endif
