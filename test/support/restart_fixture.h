/* The restart fixture: a run that is driven by one process after the other, each of which is killed
 * at a commit that the test chooses (crash recovery).
 *
 * Each process is a child with an engine of its own, on a clock that all processes share and that
 * moves only when nothing is left to do. It dies by SIGKILL before or after its n-th commit. Its
 * work functions record their executions in memory that outlives it, with what the database held at
 * that moment, as another connection sees it.
 *
 * All work functions are one: restart_work(). Its name says what it does:
 *   fails-N-…   its first N attempts fail, passing
 *   wrong-…     it fails for good
 *   slow-N-…    its first N attempts take RESTART_SLOW_MS
 *   poll-N-…    it gives null N times, then something (for pawl_until())
 *   big-…       it gives RESTART_BIG bytes
 *   …           it gives its own name
 *
 * A process also acts as an operator: it holds the run by hand and releases it, as often as it is
 * told to; and when the run is held because of a wrong program, it goes on as the next build of it.
 * The first build has no work function "called-late". */
#ifndef SUPPORT_RESTART_FIXTURE_H
#define SUPPORT_RESTART_FIXTURE_H

#include <pawl.h>

#include "support/conf.h"

enum {
    RESTART_NOTES = 512,
    RESTART_ROWS = 128,
    RESTART_TEXT = 8192, /* of longer values there is a hash: {"same":"…"} */
    RESTART_BIG = 100000,
    RESTART_SLOW_MS = 250,
};

/* One execution of a work function. */
typedef struct restart_note {
    int process;
    int64_t op;
    int64_t attempt;
    int64_t seen;   /* the last row of the journal then */
    int64_t rows;   /* how many there were */
    uint64_t input; /* a hash of it */
    char name[48];
} restart_note;

/* A row of the journal. */
typedef struct restart_row {
    int64_t seq, kind, op;
    char name[48];
    char data[RESTART_TEXT]; /* what may differ from run to run is replaced by "*" */
    char raw[RESTART_TEXT];
} restart_row;

typedef struct restart_fixture {
    const conf *conf;
    const char *workflow;
    pawl_workflow_fn *fn;
    const char *input;
    char id[64];

    int64_t now_ms;
    int64_t mono_ns;
    int process;     /* the number of this one, from 1 */
    int holds;       /* to be made by hand, from now on */
    int build;       /* of the program, from 0 */
    int64_t commits; /* of the last one, if it has lived to its end */
    int note_count;
    restart_note notes[RESTART_NOTES];
    int64_t polls[RESTART_ROWS];

    pawl_code code; /* how the run has ended */
    char result[RESTART_TEXT];
    char status[256];       /* what it said of itself last */
    char row[RESTART_TEXT]; /* what of its row, attributes and inbox is the same each time */

    size_t row_count; /* its journal, read by the life that has seen its end */
    restart_row rows[RESTART_ROWS];
} restart_fixture;

/* In memory that children share. */
restart_fixture *restart_new(const conf *c, const char *workflow, pawl_workflow_fn *fn,
                             const char *input);
void restart_free(restart_fixture *l);

/* Begin with a fresh run, which is to be held so often. All that was recorded before is cleared. */
void restart_begin(restart_fixture *l, const char *id, int holds);

/* Run one process, which dies before or after its n-th commit; 0: it does not die. 1: it died; 0:
 * it has seen the end of the run. */
int restart_process(restart_fixture *l, int64_t die_before, int64_t die_after);

const char *restart_work(pawl_work *work, const char *input);

/* For workflows: which build of the program this is. */
int restart_build(void);

/* How often this attempt was executed. */
int restart_count(const restart_fixture *l, int64_t op, int64_t attempt);

#endif
