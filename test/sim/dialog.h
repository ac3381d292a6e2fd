/* Dialogs: workflows made up at random that use what runs have for one another.
 *
 * Messages, futures, children, undos and finallys, state, new generations: what comes of them
 * depends on what other runs do and when. So unlike a program's, the journal of a dialog is not
 * known row by row. The model (model_dialog.c) knows which ops it must consist of and what must
 * hold of them; and whatever the function is told is noted outside, to be the same at each replay.
 *
 * What a dialog does is said by its input alone: a number, and how deep it is among its kind. So
 * its children and its next generations are dialogs too, and need not be remembered. */
#ifndef SIM_DIALOG_H
#define SIM_DIALOG_H

#include <pawl.h>

#include "chance.h"
#include "program.h"

enum {
    DIALOG_OPS = 7,
    DIALOG_PARTS = 4,
    DIALOG_DEPTH = 2,
    DIALOG_BOXES = 2,
    DIALOG_SCRIPT = 64,
    DIALOG_ID = 96
};

typedef enum {
    DIALOG_STEP,
    DIALOG_DO,   /* a step or call, and a pawl_undo() behind it */
    DIALOG_SAGA, /* one with the option .undo */
    DIALOG_FINALLY,
    DIALOG_SLEEP,
    DIALOG_RECEIVE,
    DIALOG_ALL,
    DIALOG_ANY,
    DIALOG_KEEP, /* any, and then the others too, or not */
    DIALOG_NEST, /* the first of two, one of which is all of several */
    DIALOG_CHILD,
    DIALOG_TRY_CHILD,
    DIALOG_DETACHED,
    DIALOG_TELL,
    DIALOG_SET,
    DIALOG_GET,
    DIALOG_OF,
    DIALOG_NOW,
    DIALOG_KINDS
} dialog_kind;

/* What several things at once are made of. */
typedef enum { PART_CALL, PART_STEP, PART_SLEEP, PART_RECEIVE, PART_CHILD, PART_KINDS } dialog_part;

typedef struct dialog_op {
    dialog_kind kind;
    int64_t ms;
    int64_t limit_ms; /* of a receive; PAWL_FOREVER */
    int64_t fails;    /* attempts that fail before one is different */
    int permanent;    /* … and that one fails for good, in odd generations */
    int way;          /* one of several ways to do it */
    int box;
    int whom; /* a root */
    int count;
    dialog_part parts[DIALOG_PARTS];
} dialog_op;

typedef struct dialog {
    uint64_t seed;
    int depth; /* 0: a root */
    int left;  /* so many generations may follow */
    int again; /* one does */
    int fails; /* the function ends by pawl_fail(), in odd generations */
    int count;
    dialog_op ops[DIALOG_OPS];
} dialog;

/* ---- Making up ---- */

/* Dialogs from this seed on do most of their work beside the function. */
#define DIALOG_BROAD UINT64_C(0xFFFF000000000000)

void dialog_make(dialog *t, uint64_t seed, int depth, int left);

/* The input that says all of it, and back. 0: it is not one. */
void dialog_input(uint64_t seed, int depth, int left, char out[96]);
int dialog_read(dialog *t, const char *input);

/* Seeds of what comes of it. */
uint64_t dialog_next_seed(const dialog *t);
uint64_t dialog_child_seed(const dialog *t, int at, int part);

/* Whether a child has an id that others may have too, and which. */
int dialog_child_id(const dialog *t, int at, char out[DIALOG_ID]);

/* ---- Carrying it out ---- */

/* What the world outside is told: the n-th thing that this generation of a run was told, and what
 * it has told others. */
typedef struct dialog_world {
    void (*seen)(void *arg, const char *id, int64_t generation, int64_t number, uint64_t hash);
    void (*told)(void *arg, const char *id, uint64_t number, pawl_code code);
    void *arg;
    int roots;
} dialog_world;

const char *dialog_run(pawl_run *run, const dialog *t, pawl_work_fn *work,
                       const dialog_world *world);

/* What a work function of it has to do: its input says. */
typedef struct dialog_task {
    uint64_t seed;
    int depth;
    int at;
    int64_t generation;
    int64_t seen; /* so many things the function had been told before */
} dialog_task;

int dialog_task_read(dialog_task *task, const char *input);
const char *dialog_work(pawl_work *work, const dialog_task *task, const char *input);

/* ---- The model (model_dialog.c) ---- */

/* How a generation has ended. */
typedef enum {
    DIALOG_DONE = 1,
    DIALOG_FAILED = 2,
    DIALOG_CANCELLED = 3,
    DIALOG_AGAIN = 5,
    DIALOG_LEFT = 6 /* it was held, and another one has taken its place */
} dialog_end;

typedef struct dialog_context {
    dialog dialog;
    const char *id;
    int64_t generation;
    dialog_end end;
    const char *output; /* of one that is done */
    int roots;
    size_t count;
    const program_row *rows;
    int64_t heard; /* out: messages that it has received */
} dialog_context;

/* NULL: all is as it should be; otherwise what is wrong. */
const char *dialog_check(dialog_context *s, char out[512]);

/* Kinds of rows that others have to know of. */
enum {
    DIALOG_ROW_STARTED = 1,
    DIALOG_ROW_CHILD = 17,
    DIALOG_ROW_SET = 20,
    DIALOG_ROW_RECEIVE = 23,
    DIALOG_ROW_ABANDON = 25,
    DIALOG_ROW_ENDING = 27,
    DIALOG_ROW_CLEAN_UP = 28,
    DIALOG_ROW_DONE = 40,
    DIALOG_ROW_FAILED = 41,
    DIALOG_ROW_FIRED = 42,
    DIALOG_ROW_MESSAGE = 43,
    DIALOG_ROW_CONTINUED = 62
};

/* 1 if the data of an FUTURE_CANCEL row names this op. */
int dialog_abandons(const char *data, int64_t op);

#endif
