/* The rows of a journal (an event history): which kinds there are, and what shape each has.
 *
 * A run's journal lists the ops of its code and their answers, in order. Its shapes are few, so
 * that deterministic replay (replay.c) need not know what an op does:
 *
 *   START    the first row of a generation: the input
 *   VALUE    an op whose answer is in the row itself: the time, a step that has succeeded
 *   OPEN     an op that is answered later; its seq is its number
 *   ANSWER   how the op `op` went on, or ended: it has an answer from here on
 *   NEWS     something that happened to an op, or to the run, without being an answer
 *   END      the last row of a generation
 *
 * ANSWER and NEWS rows are *arrivals*: they enter where the run waits, and the code sees them only
 * once their row is in the journal. VALUE and OPEN rows are *ops*: the code asks for them one after
 * the other.
 *
 * Numbers are in databases: they are never used again for something else. */
#ifndef JOURNAL_OP_H
#define JOURNAL_OP_H

#include <stdint.h>

typedef enum op_shape {
    OP_SHAPE_START,
    OP_SHAPE_VALUE,
    OP_SHAPE_OPEN,
    OP_SHAPE_ANSWER,
    OP_SHAPE_NEWS,
    OP_SHAPE_END,
} op_shape;

/* X(name, number, shape, word): the word is what a history shows. */
#define OP_KINDS(X)                                                                                \
    X(STARTED, 1, START, "started")                                                                \
    X(STEP, 2, VALUE, "step")               /* data: its result */                                 \
    X(STEP_FAILED, 3, VALUE, "step-failed") /* at the first attempt, for good; data: the error */  \
    X(STEP_AGAIN, 4, OPEN, "step-again")    /* the first attempt has failed, others follow */      \
    X(CALL, 5, OPEN, "call")                /* data: the input */                                  \
    X(SLEEP, 6, OPEN, "sleep")              /* data: until when, ms */                             \
    X(UNTIL, 7, OPEN, "until")              /* data: when the asking ends, ms */                   \
    X(NOW, 8, VALUE, "now")                                                                        \
    X(UUID, 9, VALUE, "uuid")                                                                      \
    X(RANDOM, 10, VALUE, "random")                                                                 \
    X(STATUS, 11, VALUE, "status")                                                                 \
    X(ATTRIBUTE, 12, VALUE, "attribute")                                                           \
    X(PATCH, 13, VALUE, "patch")                                                                   \
    X(UNDO, 14, VALUE, "undo")                                                                     \
    X(FINALLY, 15, VALUE, "finally")                                                               \
    X(STEP_LATER, 16, OPEN, "step-later")                                                          \
    X(TRANSACT, 18, VALUE, "transact")               /* data: its result */                        \
    X(TRANSACT_FAILED, 19, VALUE, "transact-failed") /* for good; data: the error */               \
    X(CHILD, 17, OPEN, "child")                      /* data: id and key of the run */             \
    X(STATE_SET, 20, VALUE, "state-set")             /* of a key; data: its value */               \
    X(STATE_GET, 21, VALUE, "state-get")             /* likewise */                                \
    X(STATE_OF, 22, VALUE, "state-of")               /* of another run: "ID/KEY" */                \
    X(RECEIVE, 23, OPEN, "receive")                  /* of a mailbox; data: until when, ms */      \
    X(TELL, 24, OPEN, "tell")                        /* a mailbox; data: the target */             \
    X(FUTURE_CANCEL, 25, VALUE, "future-cancel") /* data: the ops whose futures were cancelled */  \
    X(UNDO_OF, 26, VALUE, "undo-of")             /* of the op behind it; data: its input */        \
    X(ENDING, 27, VALUE, "ending")    /* name: how; data: the error or value. Clean-ups follow */  \
    X(CLEAN_UP, 28, OPEN, "clean-up") /* a work function; data: for which row */                   \
    X(TRANSACT_AGAIN, 29, VALUE, "transact-again") /* data: the error, and when next */            \
    X(SHOULD_CONTINUE, 30, VALUE, "should-continue")                                               \
    X(DONE, 40, ANSWER, "done")        /* of op; data: the value */                                \
    X(FAILED, 41, ANSWER, "failed")    /* of op; data: the error */                                \
    X(FIRED, 42, ANSWER, "woken")      /* of op: its time is over */                               \
    X(MESSAGE, 43, ANSWER, "message")  /* of op, a receive; data: seq, from, message */            \
    X(ATTEMPT, 50, NEWS, "attempt")    /* one of op has failed; data: error and when next */       \
    X(CANCEL, 51, NEWS, "cancel")      /* of the run; data: the reason */                          \
    X(ENDED, 60, END, "ended")         /* data: the output */                                      \
    X(ENDED_FAILED, 61, END, "failed") /* data: the error */                                       \
    X(CONTINUED, 62, END, "continued") /* data: the input of the next generation */

typedef enum op_kind {
    OP_NONE = 0,
#define OP_ENUM(name, number, shape, word) OP_##name = number,
    OP_KINDS(OP_ENUM)
#undef OP_ENUM
} op_kind;

typedef struct op_info {
    op_kind kind;
    op_shape shape;
    const char *word;
} op_info;

/* What there is to know of a kind; NULL for a number that this version does not know. Static. */
const op_info *op_find(int64_t number);

/* 1 if rows of this shape enter where the run waits, instead of being asked for. */
static inline int op_arrives(op_shape shape)
{
    return shape == OP_SHAPE_ANSWER || shape == OP_SHAPE_NEWS;
}

/* The kind that the code asks for: how a step went is known only after it was asked for. */
op_kind op_asked_as(op_kind kind);

/* 1 if ops of this kind call a work function, perhaps several times. */
int op_is_work(op_kind kind);

/* 1 if it records something that was done outside, or its compensation: a redrive keeps it,
 * whatever happens to the run. */
int op_is_deed(op_kind kind);

/* 1 if this arrival can be about an op of that kind; OP_NONE: about the run itself. */
int op_fits(op_kind arrival, op_kind op);

#endif
