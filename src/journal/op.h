/* The kinds of rows in a journal (an event history), and the shape of each kind.
 *
 * A run's journal lists the ops that its code asks for and their answers, in order. Each kind has
 * one of six shapes, so that deterministic replay (replay.c) need not know what an op does:
 *
 *   START    the first row of a generation: the input
 *   VALUE    an op whose answer is in the row itself: the time, a step that has succeeded
 *   OPEN     an op that a later row answers
 *   ANSWER   the answer to an OPEN op; its column `op` has the seq of that op
 *   NEWS     something that happened to an op, or to the run, without being an answer
 *   END      the last row of a generation
 *
 * ANSWER and NEWS rows are *arrivals*: they come from outside while the run waits, and the code
 * sees them only once their row is in the journal. VALUE and OPEN rows are *ops*: the code asks for
 * them one after the other.
 *
 * The numbers of kinds are stored in databases, so a number is never given to another kind. */
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

/* X(name, number, shape, word): `word` is the name of the kind in what pawl_history() shows. */
#define OP_KINDS(X)                                                                                \
    X(STARTED, 1, START, "started")                                                                \
    X(STEP, 2, VALUE, "step")               /* data: its result */                                 \
    X(STEP_FAILED, 3, VALUE, "step-failed") /* no attempt follows; data: the error */              \
    X(STEP_AGAIN, 4, OPEN, "step-again")    /* the first attempt has failed, others follow */      \
    X(CALL, 5, OPEN, "call")                /* data: the input */                                  \
    X(SLEEP, 6, OPEN, "sleep")              /* data: when the sleep ends, ms */                    \
    X(UNTIL, 7, OPEN, "until")              /* data: when the polling ends, ms */                  \
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
    X(TRANSACT_FAILED, 19, VALUE, "transact-failed") /* of the last attempt; data: the error */    \
    X(CHILD, 17, OPEN, "child")                      /* data: id and key of the child */           \
    X(STATE_SET, 20, VALUE, "state-set")             /* name: the key; data: its value */          \
    X(STATE_GET, 21, VALUE, "state-get")             /* name: the key; data: its value */          \
    X(STATE_OF, 22, VALUE, "state-of")               /* name: "ID/KEY" of another run */           \
    X(RECEIVE, 23, OPEN, "receive")              /* name: the mailbox; data: when it ends, ms */   \
    X(TELL, 24, OPEN, "tell")                    /* name: the mailbox; data: the run told */       \
    X(FUTURE_CANCEL, 25, VALUE, "future-cancel") /* data: the ops whose futures were cancelled */  \
    X(UNDO_OF, 26, VALUE, "undo-of")             /* undoes the next op; data: that op's input */   \
    X(ENDING, 27, VALUE, "ending")               /* clean-ups follow; name: how the run ends */    \
    X(CLEAN_UP, 28, OPEN, "clean-up") /* name: the work function; data: its undo or finally */     \
    X(TRANSACT_AGAIN, 29, VALUE, "transact-again") /* data: error, when the next attempt is due */ \
    X(SHOULD_CONTINUE, 30, VALUE, "should-continue")                                               \
    X(DONE, 40, ANSWER, "done")        /* answers op; data: the value */                           \
    X(FAILED, 41, ANSWER, "failed")    /* answers op; data: the error */                           \
    X(FIRED, 42, ANSWER, "woken")      /* answers op: its time has come */                         \
    X(MESSAGE, 43, ANSWER, "message")  /* answers op, a receive; data: seq, from, message */       \
    X(ATTEMPT, 50, NEWS, "attempt")    /* an attempt of op has failed; data: the error */          \
    X(CANCEL, 51, NEWS, "cancel")      /* of the run itself; data: the reason */                   \
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

/* Returns the description of a kind, in static memory; NULL: this version does not know the
 * number. */
const op_info *op_find(int64_t number);

/* Returns 1 if rows of this shape are arrivals, and 0 if the code asks for them. */
static inline int op_arrives(op_shape shape)
{
    return shape == OP_SHAPE_ANSWER || shape == OP_SHAPE_NEWS;
}

/* Returns the kind by which the code asks for a row of this kind. Steps and transactions are asked
 * for as OP_STEP and OP_TRANSACT, also if their row tells of a failure, which is known only
 * afterwards. */
op_kind op_asked_as(op_kind kind);

/* Returns 1 if the op of a row of this kind calls a work function after the row, so that attempts
 * and an answer may follow. A step that has succeeded or failed has all of that in its one row. */
int op_is_work(op_kind kind);

/* Returns 1 if rows of this kind record a deed: an effect that has happened outside the run (a call
 * of a work function, a message that was received), or what compensates it. If a turn is cut short
 * (the run is held, memory is out), its rows up to the last such row are committed all the same.
 * OP_CHILD and OP_TELL are no deeds: what they do happens with the commit of their unit, so row and
 * effect are cut off together. */
int op_is_deed(op_kind kind);

/* Returns 1 if an arrival of kind `arrival` can be about an op of kind `op`; OP_NONE stands for the
 * run itself. */
int op_fits(op_kind arrival, op_kind op);

#endif
