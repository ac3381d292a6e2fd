/* The restart fixture (type `lives`): a run that is driven by one process after the other, each of
 * which is killed at a commit that the test chooses.
 *
 * A life is a child process with an engine of its own, on a clock that all lives share and that
 * moves only when nothing is left to do. It dies by SIGKILL before or after its n-th commit. Its
 * work functions record their executions in memory that outlives it, with what the database held at
 * that moment, as another connection sees it.
 *
 * The work functions are all one: lives_work(). Its name says what it does:
 *   fails-N-…   its first N attempts fail, passing
 *   wrong-…     it fails for good
 *   slow-N-…    its first N attempts take LIVES_SLOW_MS
 *   poll-N-…    it gives null N times, then something (for pawl_until())
 *   big-…       it gives LIVES_BIG bytes
 *   …           it gives its own name
 *
 * A life also acts as an operator: it holds the run by hand and releases it, as often as it is told
 * to; and when the run is held because of a wrong program, it goes on as the next build of it. The
 * first build has no work function "called-late". */
#ifndef SUPPORT_RESTART_FIXTURE_H
#define SUPPORT_RESTART_FIXTURE_H

#include <pawl.h>

#include "support/conf.h"

enum {
    LIVES_NOTES = 512,
    LIVES_ROWS = 128,
    LIVES_TEXT = 8192, /* of longer values there is a hash: {"same":"…"} */
    LIVES_BIG = 100000,
    LIVES_SLOW_MS = 250,
};

/* One execution of a work function. */
typedef struct lives_note {
    int life;
    int64_t op;
    int64_t attempt;
    int64_t seen;   /* the last row of the journal then */
    int64_t rows;   /* how many there were */
    uint64_t input; /* a hash of it */
    char name[48];
} lives_note;

/* A row of the journal. */
typedef struct lives_row {
    int64_t seq, kind, op;
    char name[48];
    char data[LIVES_TEXT]; /* what may differ from run to run is replaced by "*" */
    char raw[LIVES_TEXT];
} lives_row;

typedef struct lives {
    const conf *conf;
    const char *workflow;
    pawl_workflow_fn *fn;
    const char *input;
    char id[64];

    int64_t now_ms;
    int64_t mono_ns;
    int life;        /* which one it is, from 1 */
    int holds;       /* to be made by hand, from now on */
    int build;       /* of the program, from 0 */
    int64_t commits; /* of the last one, if it has lived to its end */
    int note_count;
    lives_note notes[LIVES_NOTES];
    int64_t polls[LIVES_ROWS];

    pawl_code code; /* how the run has ended */
    char result[LIVES_TEXT];
    char status[256];     /* what it said of itself last */
    char row[LIVES_TEXT]; /* what of its row, attributes and inbox is the same each time */

    size_t row_count; /* its journal, read by the life that has seen its end */
    lives_row rows[LIVES_ROWS];
} lives;

/* In memory that children share. */
lives *lives_new(const conf *c, const char *workflow, pawl_workflow_fn *fn, const char *input);
void lives_free(lives *l);

/* Begin with a fresh run, which is to be held so often: forget what was. */
void lives_begin(lives *l, const char *id, int holds);

/* One life, with death before or after its n-th commit; 0: none. 1: it died; 0: it has seen the end
 * of the run. */
int lives_live(lives *l, int64_t die_before, int64_t die_after);

const char *lives_work(pawl_work *work, const char *input);

/* For workflows: which build of the program this is. */
int lives_build(void);

/* How often this attempt was executed. */
int lives_count(const lives *l, int64_t op, int64_t attempt);

#endif
