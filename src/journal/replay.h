/* Deterministic replay: the journal of a generation answers what the code asks for.
 *
 * There is no database, no clock and no thread in it. The caller feeds the rows page by page; they
 * are borrowed. Replay itself keeps only a small record of each op that waits for its answer, in
 * the caller's arena. So a journal of any length needs the memory of one page and of its open ops.
 *
 * Every ask (replay_op() and its like) returns a replay_result, and two of these mean "ask again":
 *
 *     for (;;) {
 *         switch (replay_op(r, OP_STEP, name, &row)) {
 *         case REPLAY_MORE:      feed the next page, or say that there is none; continue;
 *         case REPLAY_ARRIVED:   give `row` to the future that it is about; continue;
 *         case REPLAY_RECORDED:  the answer is in `row`; return;
 *         case REPLAY_NEW:       execute the op, replay_append() its row, write it; return;
 *         default:               hold the run with replay_error(); leave;
 *
 * Each arrival is given out once, by the first ask that gets to its row. replay_op() gives out all
 * arrivals before the row of the op. replay_answer() gives out the arrivals before the answer, then
 * the answer itself, and none after it; so an answer that is given out early must be kept by the
 * caller. A live run takes the same path: replay_arrive() queues what has arrived, and the next
 * asks give it out. So the code sees the same at the same place in every replay; nothing else may
 * decide whether a future is ready.
 *
 * Replay compares only kind and name. It does not notice when two ops of the same kind and name are
 * swapped, and it does not compare data: a call with another input gets the recorded answer. */
#ifndef JOURNAL_REPLAY_H
#define JOURNAL_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "journal/op.h"

/* A row as it was read from the database. Replay checks it before it relies on it. */
typedef struct replay_row {
    int64_t seq; /* its position: 1, 2, 3 … */
    int64_t generation;
    int64_t kind; /* an op_kind, if this version knows it */
    int64_t op;   /* of arrivals: the seq of the op that they are about; otherwise 0 */
    int64_t at_ms;
    slice name;
    slice data;
} replay_row;

typedef enum replay_result {
    REPLAY_RECORDED, /* `row` is what was asked for */
    REPLAY_NEW,      /* the journal ends here: execute what was asked for, and append it */
    REPLAY_PASSED,   /* of a patch only: the journal was written by code without the patch */
    REPLAY_ARRIVED,  /* `row` is an arrival before what was asked for: take it, ask again */
    REPLAY_MORE,     /* feed the next page, ask again */
    REPLAY_MISMATCH, /* the code asks for something else than the journal has */
    REPLAY_CORRUPT,  /* the journal is damaged, or written by a newer pawl */
    REPLAY_NOMEM,    /* the arena is full; this says nothing about the run */
} replay_result;

typedef struct replay replay;

/* Makes a replay that lives as long as the arena. NULL when memory is out. */
replay *replay_new(arena *a, int64_t generation);

/* Feeds the next rows, in their order: at the beginning, and when an ask has returned MORE. The
 * rows are borrowed until the next page is fed, or the next arrivals are queued.
 *
 * Returns PAWL_OK, CORRUPT, NEWER or NOMEM, with replay_error(). The asks still give out the rows
 * before a damaged one, and only the ask that gets to it returns CORRUPT; so the answers do not
 * depend on how the rows were cut into pages. */
pawl_code replay_feed(replay *r, const replay_row *rows, size_t count);

/* Says that all rows were fed. `least` is the number of rows that the journal is known to have had
 * (0: not known). Returns PAWL_OK; CORRUPT if there were fewer rows; or the error of a feed. */
pawl_code replay_fed_all(replay *r, int64_t least);

/* The first ask: gives the row with which the generation began. NEW: the journal is empty, and the
 * caller appends that row. */
replay_result replay_start(replay *r, const replay_row **row);

/* Asks for an op of this name and kind, which is one that op_asked_as() returns. RECORDED: `row` is
 * the row of the op. Its own kind may differ, and tells how the op went (OP_STEP_FAILED). */
replay_result replay_op(replay *r, op_kind kind, slice name, const replay_row **row);

/* Asks for the answer of the op with this seq, which came from replay_op() or replay_append().
 * RECORDED: `row` is the answer, or NULL if an earlier ask has given it out. NEW: there is no
 * answer yet, and the run parks. */
replay_result replay_answer(replay *r, int64_t op, const replay_row **row);

/* Asks for any of several answers; only the caller knows which. ARRIVED: `row` is the next arrival,
 * whatever it is about. NEW: there is none, and the run parks. `asked` tells in error messages what
 * the code waits for. */
replay_result replay_wait(replay *r, const char *asked, const replay_row **row);

/* Gives out the next arrival before the next row that the code must ask for: ARRIVED. If there is
 * no such arrival: RECORDED, and `row` is that row, which is still to be asked for; or NEW. For
 * callers that must know which futures are ready before they ask. */
replay_result replay_settle(replay *r, const replay_row **row);

/* Closes an op whose future was cancelled: arrivals for it do not fit any more. */
void replay_close(replay *r, int64_t op);

/* Gives the next row, whatever it is: ARRIVED for an arrival, otherwise RECORDED. NEW: there is
 * none. For reading a journal without the code that has written it. */
replay_result replay_next(replay *r, const replay_row **row);

/* Asks for the end of the generation, when the function of the run has ended: `kind` is OP_ENDED or
 * OP_ENDED_FAILED. Arrivals that the code did not wait for are given out first. */
replay_result replay_return(replay *r, op_kind kind, const replay_row **row);

/* Appends, after NEW, the row of what was asked for. The row gets its seq and generation here, and
 * is borrowed for the call only. Returns PAWL_OK, NOMEM, or the code of what is wrong with the row;
 * after an error nothing has changed. */
pawl_code replay_append(replay *r, replay_row *row);

/* Queues, after NEW, what has arrived. The rows that fit (replay_fits()) get their seqs and
 * generation, and are moved to the front in their order; returns their number. The caller drops the
 * other rows, whose op is not open, or of a kind that they cannot answer. The rows are borrowed as
 * the rows of a page are. */
size_t replay_arrive(replay *r, replay_row *rows, size_t count);

/* Returns 1 if an arrival of this kind about this op would be accepted now; `op` 0 is the run
 * itself. */
int replay_fits(const replay *r, int64_t kind, int64_t op);

/* Attaches a pointer of the caller, such as its future, to an open op. */
void replay_own(replay *r, int64_t op, void *owner);

/* Returns the pointer attached to the op of the arrival or answer that was given out last; NULL:
 * there is none. */
void *replay_owner(const replay *r);

/* Returns the pointer attached to this op; NULL: there is none, or the op is not open. */
void *replay_owner_of(const replay *r, int64_t op);

/* Returns 1 if replay_arrive() may be called: all rows were fed and given out, the code has agreed
 * with them, and the generation has not ended. */
int replay_may_arrive(const replay *r);

/* Returns the number of failed attempts of an open op that were given out as arrivals. The one that
 * an OP_STEP_AGAIN row tells of is not among them. */
int64_t replay_attempts(const replay *r, int64_t op);

/* Returns 1 if the code has passed the last recorded row that it must ask for: what it does now, it
 * does for the first time. Returns 0 during a replay, and before replay_fed_all(), while more rows
 * may follow. With it log lines are written only once. */
int replay_is_new(const replay *r);

/* Returns the seq of the last row that was fed, appended or queued. */
int64_t replay_seq(const replay *r);

/* Returns the number of rows that were fed or queued and not given out yet. 0: their memory can be
 * reused. */
size_t replay_left(const replay *r);

/* Returns the error of the ask or feed that failed. Its code is HELD after MISMATCH; CORRUPT or
 * NEWER after CORRUPT; NOMEM after NOMEM. */
const error *replay_error(const replay *r);

/* ---- For tests ---- */

/* replay_cancelled() returns 1 if a cancel of the run was given out; replay_waiting() the number of
 * open ops. */
int replay_cancelled(const replay *r);
size_t replay_waiting(const replay *r);

/* Returns how many times a row was looked at: a measure of cost that does not depend on the
 * machine. */
int64_t replay_work(const replay *r);

#endif
