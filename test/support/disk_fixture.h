/* The disk fixture (type `rig`): a committer driven by hand on a disk that can be broken (fault
 * injection).
 *
 * One committer on one database through the VFS shim, on a clock that stands still: nothing happens
 * unless the test makes it happen, so that "not yet" can be asserted as well as "now". Every step
 * that is handed in is kept with all of its answers, in the order they came, and goes into the
 * ledger of the test. */
#ifndef SUPPORT_DISK_FIXTURE_H
#define SUPPORT_DISK_FIXTURE_H

#include "support/ledger.h"
#include "support/scratch.h"
#include "support/steps.h"
#include "support/tmp.h"
#include "support/vfs_shim.h"

#define RIG_STEPS 256

typedef struct rig rig;

/* One step and what became of it. */
typedef struct rig_step {
    rig *rig;
    step step;
    arena *arena;
    unit *unit;
    int undecided; /* how often it was answered UNDECIDED */
    int finals;    /* how often it was answered otherwise */
    unit_answer answer;
    pawl_code code;
    char refused[16];
    char message[160];
    int dirty; /* the log had unsynced writes when the final answer came */
    int order; /* its number among all final answers */
} rig_step;

struct rig {
    char path[TMP_PATH];
    int64_t wal_bytes; /* 0: the default */
    int cache_pages;   /* of each connection, so that little is much for it; 0: the default */
    clock_fake *clock;
    db *db;
    committer *committer;
    error err; /* of the last call that failed */
    ledger ledger;
    int64_t marks;
    char *payload;
    rig_step steps[RIG_STEPS];
    int count;
    int finals;
    /* Called with every answer, before it is noted; NULL: nothing. */
    void (*on_answer)(rig_step *s, void *arg);
    void *on_answer_arg;
    void *native; /* of the connection made last, which is the committer's */
};

/* A rig on the database `path`, not opened yet. The shim is reset, and then quick. */
void rig_init(rig *r, const char *path);
void rig_free(rig *r); /* closes it */

/* Open database and committer. Not PAWL_OK: r->err says why, and nothing is open. */
pawl_code rig_open(rig *r);
void rig_close(rig *r);

/* Make the runs 1 … count. */
pawl_code rig_make_runs(rig *r, int64_t count);

/* Hand in a step of a run with `bytes` bytes of data. It is applied by rig_drive(). */
rig_step *rig_hand_in(rig *r, submitter *owner, int64_t run, int64_t seq, size_t bytes);

/* Drive as often as there is something to do now; the clock stands still. */
void rig_drive(rig *r);

/* Drive, moving the clock to each moment that the committer asks for, at most `times` times. Gives
 * 1 when nothing is left to do. */
int rig_drive_on(rig *r, int times);

/* Is the row of this very step there after a crash now? */
int rig_recovered(rig *r, const rig_step *s);

/* How many handed-in steps have no final answer. */
int rig_open_steps(const rig *r);

#endif
