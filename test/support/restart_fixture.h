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
    RESTART_TEXT = 8192, /* of a longer value a hash is kept: {"same":"…"} */
    RESTART_BIG = 100000,
    RESTART_SLOW_MS = 250,
};

/* One execution of a work function. */
typedef struct restart_note {
    int process;
    int64_t op;
    int64_t attempt;
    int64_t seen;   /* seq of the last row of the journal at that time */
    int64_t rows;   /* number of rows of the journal at that time */
    uint64_t input; /* a hash of the input */
    char name[48];
} restart_note;

/* A row of the journal. */
typedef struct restart_row {
    int64_t seq, kind, op;
    char name[48];
    char data[RESTART_TEXT]; /* the data, where "*" replaces what may differ from run to run */
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
    int process;     /* number of the current process, from 1 */
    int holds;       /* how many times the run is still to be held by hand */
    int build;       /* the build of the program, from 0 */
    int64_t commits; /* number of commits of the last process that was not killed */
    int note_count;
    restart_note notes[RESTART_NOTES];
    int64_t polls[RESTART_ROWS];

    pawl_code code; /* how the run has ended */
    char result[RESTART_TEXT];
    char status[256];       /* the custom status that the run has set last */
    char row[RESTART_TEXT]; /* the parts of its row, its attributes and its inbox that must be
                               the same each time */

    size_t row_count; /* number of rows of its journal, as the process that saw its end has read
                         it */
    restart_row rows[RESTART_ROWS];
} restart_fixture;

/* Makes a fixture in memory that is shared with the child processes. */
restart_fixture *restart_new(const conf *c, const char *workflow, pawl_workflow_fn *fn,
                             const char *input);
void restart_free(restart_fixture *l);

/* Begins with a fresh run, which will be held by hand `holds` times. Clears everything that was
 * recorded before. */
void restart_begin(restart_fixture *l, const char *id, int holds);

/* Lets one process drive the run. The process is killed before its commit number `die_before`, or
 * after its commit number `die_after`; 0: it is not killed there. Returns 1 if it was killed; 0: it
 * has seen the end of the run. */
int restart_process(restart_fixture *l, int64_t die_before, int64_t die_after);

const char *restart_work(pawl_work *work, const char *input);

/* Returns the build of the program, for workflows. */
int restart_build(void);

/* Returns how many times this attempt of the op was executed. */
int restart_count(const restart_fixture *l, int64_t op, int64_t attempt);

#endif
