/* Programs: workflows made up by chance, and what must come of them.
 *
 * A program is a list of ops. The workflow function carries it out; the model walks through the
 * journal that was written and says what is wrong with it. What an op gives goes into a sum, and
 * the sum into the next op, so that a value that changes shows in everything behind it.
 *
 * The model is written against pawl.h and docs/format.md, and uses nothing of src. */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include <pawl.h>

#include "chance.h"

enum { PROGRAM_OPS = 14, PROGRAM_ATTEMPTS = 24, PROGRAM_ROWS = 160, PROGRAM_TEXT = 4096 };

typedef enum {
    DO_STEP,
    DO_CALL,
    DO_UNTIL,
    DO_NOW,
    DO_UUID,
    DO_RANDOM,
    DO_PATCH,
    DO_SLEEP,
    DO_BRANCH, /* a random number says whether a step follows */
    DO_STATUS,
    DO_ATTRIBUTE,
    DO_LOG,
    DO_DROP, /* memory taken and given back */
    DO_KINDS
} program_kind;

typedef struct program_op {
    program_kind kind;
    int64_t fails;    /* attempts that fail before one is different; of an until: calls */
    int permanent;    /* … and the next one fails for good */
    int64_t attempts; /* as told to pawl */
    int64_t ms;       /* of a sleep, a pause between attempts or calls */
    int64_t limit_ms; /* of an until; 0: it is not to run out */
    int64_t size;     /* of the result, about */
} program_op;

typedef struct program {
    uint64_t seed;
    int count;
    int fails;           /* the function ends by pawl_fail() */
    int64_t input_size;  /* about */
    int64_t output_size; /* about */
    program_op ops[PROGRAM_OPS];
} program;

void program_make(program *g, chance *c);

/* 1 if its op of that index calls a work function in any case. */
int program_executes(const program *g, int at);

/* The input of a run of it, for pawl_start(): `number` tells the workflow which program it is. */
void program_input(const program *g, int number, char out[PROGRAM_TEXT]);
int program_number(const char *input);

/* ---- Carrying it out ---- */

/* To be called by the workflow function. `work` is used for all steps, with `arg`; calls go to the
 * registered work function "work". */
const char *program_run(pawl_run *run, const program *g, pawl_work_fn *work, void *arg);

/* What the work function has to do, and how: its input says which op it is for. */
int program_op_of(const char *input);
const char *program_work(pawl_work *work, const program *g, const char *input, int64_t calls);

/* What it comes to, as JSON: an op's result, from the sum before it; the run's output. */
const char *program_value(const program *g, int at, uint64_t sum, char out[PROGRAM_TEXT]);
const char *program_output(const program *g, uint64_t sum, char out[PROGRAM_TEXT]);

/* ---- The model (model.c) ---- */

typedef struct program_row {
    int64_t seq;
    int64_t kind;
    int64_t op;
    int64_t at_ms;
    const char *name;
    const char *data; /* NULL: none */
} program_row;

/* What is in the database about a run that has ended. */
typedef struct program_end {
    int failed;
    const char *output; /* NULL: none; then it is in the journal */
    const char *error;
    const char *status;    /* that it gave itself; NULL: none */
    int64_t statuses;      /* how often it was changed */
    const char *attribute; /* the one called "at"; NULL: it has none */
    size_t count;
    const program_row *rows;
} program_end;

/* Which attempts the journal tells of. */
typedef struct program_attempt {
    int64_t op; /* its seq */
    int64_t number;
} program_attempt;

typedef struct program_told {
    size_t count;
    program_attempt at[PROGRAM_ATTEMPTS * 4];
} program_told;

/* NULL: all is as it should be; otherwise what is wrong. */
const char *program_check(const program *g, const program_end *end, program_told *told,
                          char out[512]);

/* ---- Journals that are not complete ---- */

/* Kinds of rows that others have to know of. */
enum { PROGRAM_ROW_SLEEP = 6, PROGRAM_ROW_FIRED = 42 };

/* Of a run whose journal ends by such a row: until when it may sleep, 0: not at all; and until when
 * nothing of it may be executed. */
int64_t program_waits_until(int64_t kind, const char *data);
int64_t program_rests_until(int64_t kind, const char *data);

/* 1 if after its n-th sleep, from 1, nothing is executed before it sleeps again or ends. */
int program_is_idle_after(const program *g, int64_t sleeps);

/* The seq of the last row that must be in the database before such an attempt, and that is there
 * then: what is recorded is flushed before the effect. */
int64_t program_rows_before(const program *g, int index, int64_t op, int64_t attempt);

#endif
