/* Talks: workflows made up by chance that use what runs have for one another.
 *
 * Messages, futures, children, undos and finallys, state, new generations: what comes of them
 * depends on what others do and when. So unlike a program's, the journal of a talk is not known
 * row by row. The model (model_talk.c) knows which ops it must consist of and what must hold of
 * them; and whatever the function is told is noted outside, to be the same at each replay.
 *
 * What a talk does is said by its input alone: a number, and how deep it is among its kind. So its
 * children and its next generations are talks too, and nobody need remember them. */
#ifndef SIM_TALK_H
#define SIM_TALK_H

#include <pawl.h>

#include "chance.h"
#include "program.h"

enum {
    TALK_OPS = 7,
    TALK_PARTS = 4,
    TALK_DEPTH = 2,
    TALK_BOXES = 2,
    TALK_SCRIPT = 64,
    TALK_ID = 96
};

typedef enum {
    TALK_STEP,
    TALK_DO,   /* a step or call, and a pawl_undo() behind it */
    TALK_SAGA, /* one with the option .undo */
    TALK_FINALLY,
    TALK_SLEEP,
    TALK_RECEIVE,
    TALK_ALL,
    TALK_ANY,
    TALK_KEEP, /* any, and then the others too, or not */
    TALK_NEST, /* the first of two, one of which is all of several */
    TALK_CHILD,
    TALK_TRY_CHILD,
    TALK_DETACHED,
    TALK_TELL,
    TALK_SET,
    TALK_GET,
    TALK_OF,
    TALK_NOW,
    TALK_KINDS
} talk_kind;

/* What several things at once are made of. */
typedef enum { PART_CALL, PART_STEP, PART_SLEEP, PART_RECEIVE, PART_CHILD, PART_KINDS } talk_part;

typedef struct talk_op {
    talk_kind kind;
    int64_t ms;
    int64_t limit_ms; /* of a receive; PAWL_FOREVER */
    int64_t fails;    /* attempts that fail before one is different */
    int permanent;    /* … and that one fails for good, in odd generations */
    int way;          /* one of several ways to do it */
    int box;
    int whom; /* a root */
    int count;
    talk_part parts[TALK_PARTS];
} talk_op;

typedef struct talk {
    uint64_t seed;
    int depth; /* 0: a root */
    int left;  /* so many generations may follow */
    int again; /* one does */
    int fails; /* the function ends by pawl_fail(), in odd generations */
    int count;
    talk_op ops[TALK_OPS];
} talk;

/* ---- Making up ---- */

/* Talks from this seed on do most of their work beside the function. */
#define TALK_BROAD UINT64_C(0xFFFF000000000000)

void talk_make(talk *t, uint64_t seed, int depth, int left);

/* The input that says all of it, and back. 0: it is not one. */
void talk_input(uint64_t seed, int depth, int left, char out[96]);
int talk_read(talk *t, const char *input);

/* Seeds of what comes of it. */
uint64_t talk_next_seed(const talk *t);
uint64_t talk_child_seed(const talk *t, int at, int part);

/* Whether a child has an id that others may have too, and which. */
int talk_child_id(const talk *t, int at, char out[TALK_ID]);

/* ---- Carrying it out ---- */

/* What the world outside is told: the n-th thing that this generation of a run was told, and what
 * it has told others. */
typedef struct talk_world {
    void (*seen)(void *arg, const char *id, int64_t generation, int64_t number, uint64_t hash);
    void (*told)(void *arg, const char *id, uint64_t number, pawl_code code);
    void *arg;
    int roots;
} talk_world;

const char *talk_run(pawl_run *run, const talk *t, pawl_work_fn *work, const talk_world *world);

/* What a work function of it has to do: its input says. */
typedef struct talk_task {
    uint64_t seed;
    int depth;
    int at;
    int64_t generation;
    int64_t seen; /* so many things the function had been told before */
} talk_task;

int talk_task_read(talk_task *task, const char *input);
const char *talk_work(pawl_work *work, const talk_task *task, const char *input);

/* ---- The model (model_talk.c) ---- */

/* How a generation has ended. */
typedef enum {
    TALK_DONE = 1,
    TALK_FAILED = 2,
    TALK_CANCELLED = 3,
    TALK_AGAIN = 5,
    TALK_LEFT = 6 /* it was held, and another one has taken its place */
} talk_end;

typedef struct talk_story {
    talk talk;
    const char *id;
    int64_t generation;
    talk_end end;
    const char *output; /* of one that is done */
    int roots;
    size_t count;
    const program_row *rows;
    int64_t heard; /* out: messages that it has received */
} talk_story;

/* NULL: all is as it should be; otherwise what is wrong. */
const char *talk_check(talk_story *s, char out[512]);

/* Kinds of rows that others have to know of. */
enum {
    TALK_ROW_STARTED = 1,
    TALK_ROW_CHILD = 17,
    TALK_ROW_SET = 20,
    TALK_ROW_RECEIVE = 23,
    TALK_ROW_ABANDON = 25,
    TALK_ROW_ENDING = 27,
    TALK_ROW_CLEAN_UP = 28,
    TALK_ROW_DONE = 40,
    TALK_ROW_FAILED = 41,
    TALK_ROW_FIRED = 42,
    TALK_ROW_MESSAGE = 43,
    TALK_ROW_CONTINUED = 62
};

/* 1 if the data of an ABANDON row names this op. */
int talk_abandons(const char *data, int64_t op);

#endif
