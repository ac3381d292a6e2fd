/* Deterministic replay: how the journal of a generation answers what the code asks for next.
 *
 * Pure: no database, no clock, no threads. Rows come in from outside, page by page, and are
 * borrowed; all that is kept is a small record of each op that waits for its answer, in the arena
 * that was handed in. So a journal of any length costs the memory of a page and of what is open.
 *
 * Every ask is answered by a replay_result, and two of these mean "ask again":
 *
 *     for (;;) {
 *         switch (replay_op(r, OP_STEP, name, &row)) {
 *         case REPLAY_MORE:      feed the next page, or say that there is none; continue;
 *         case REPLAY_ARRIVED:   give `row` to the future that it is about; continue;
 *         case REPLAY_RECORDED:  the answer is in `row`; return;
 *         case REPLAY_NEW:       do it, replay_append() the row, write it; return;
 *         default:               hold the run with replay_error(); leave;
 *
 * Arrivals are given out one by one, each once, at the ask at which the code may see them: before
 * an op all that stand before its row; in a wait those before the answer, then the answer itself,
 * and none after it. A caller that may ask for an answer later has to keep it when it is given out.
 * A live run takes the same path: what has arrived is queued by replay_arrive() and given out by
 * the next asks. So the code sees the same at the same place however often it is replayed; nothing
 * else may decide whether a future is ready.
 *
 * Replay compares kind and name only. It cannot notice that two ops of the same kind and name were
 * swapped, and it does not compare data: a call with another input gets the answer that is
 * recorded. */
#ifndef JOURNAL_REPLAY_H
#define JOURNAL_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "journal/op.h"

/* A row as the database has it. Nothing in it is trusted. */
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
    REPLAY_RECORDED, /* the journal has what was asked for */
    REPLAY_NEW,      /* the journal ends here: what was asked for is to be done and appended */
    REPLAY_PASSED,   /* of a patch: the journal went past this point without it */
    REPLAY_ARRIVED,  /* something has arrived before that: note the row, ask again */
    REPLAY_MORE,     /* feed the next page, ask again */
    REPLAY_MISMATCH, /* the code asks for something else than the journal has */
    REPLAY_CORRUPT,  /* the journal is damaged, or written by a newer pawl */
    REPLAY_NOMEM,    /* the arena is full; of no meaning for the run */
} replay_result;

typedef struct replay replay;

/* A replay that lives as long as the arena. NULL when memory is out. */
replay *replay_new(arena *a, int64_t generation);

/* Feed the next rows, in their order: at the beginning, and when an ask was answered MORE. They are
 * borrowed until the next page is fed, or the next arrivals are queued.
 *
 * PAWL_OK, CORRUPT, NEWER or NOMEM, with replay_error(). Damage is reported early here; asks meet
 * it at its position, so that the answers do not depend on how the rows were cut into pages. */
pawl_code replay_feed(replay *r, const replay_row *rows, size_t count);

/* All rows were fed. `least`: so many rows this journal is known to have had (0: not known);
 * CORRUPT if its end is missing. */
pawl_code replay_fed_all(replay *r, int64_t least);

/* The first ask: the row that the generation began with. NEW: the journal is empty; append it. */
replay_result replay_start(replay *r, const replay_row **row);

/* The code asks for an op: of the kind that op_asked_as() gives, with that name. */
replay_result replay_op(replay *r, op_kind kind, slice name, const replay_row **row);

/* The code waits for the answer of an op that it got by replay_op() or replay_append(). RECORDED:
 * `row` is the answer; NULL if it was given out before, as an arrival that stood before another
 * ask. NEW: it is not there: the run parks. */
replay_result replay_answer(replay *r, int64_t op, const replay_row **row);

/* The code waits for one of several answers, which it knows itself: ARRIVED with whatever comes
 * next. NEW: nothing is there, the run parks. `asked` names what is waited for, in messages. */
replay_result replay_wait(replay *r, const char *asked, const replay_row **row);

/* Give out what has arrived before the next row that the code must ask for; then RECORDED or NEW.
 * For callers that have to know what is answered before they ask. */
replay_result replay_settle(replay *r, const replay_row **row);

/* The future of an op was cancelled: what arrives for it from now on does not fit. */
void replay_close(replay *r, int64_t op);

/* The next row, whatever it is: RECORDED or ARRIVED. NEW: there is none. For reading a journal
 * without the code that has written it. */
replay_result replay_next(replay *r, const replay_row **row);

/* The function has ended: `kind` is OP_ENDED or OP_ENDED_FAILED. Arrivals that the code did not
 * wait for are given out first. */
replay_result replay_return(replay *r, op_kind kind, const replay_row **row);

/* After NEW: the row for what was asked. Gets its seq and generation here; only borrowed for the
 * call. PAWL_OK, NOMEM, or what is wrong with it; then nothing has changed. */
pawl_code replay_append(replay *r, replay_row *row);

/* After NEW from replay_answer(): what has arrived. Rows that fit get their seqs and generation and
 * are moved to the front, in their order; gives their number. The others, whose op is not open, not
 * any more, or of another kind, are to be dropped. Borrowed as the rows of a page are. */
size_t replay_arrive(replay *r, replay_row *rows, size_t count);

/* 1 if an arrival of this kind for this op would fit now. */
int replay_fits(const replay *r, int64_t kind, int64_t op);

/* Attach a pointer of the caller's to an op that is open: its future, say. */
void replay_own(replay *r, int64_t op, void *owner);

/* The pointer attached to the op that the arrival or answer given out last is about; NULL: none. */
void *replay_owner(const replay *r);

/* The pointer attached to this op; NULL: none, or it is not open. */
void *replay_owner_of(const replay *r, int64_t op);

/* 1: replay_arrive() may be called: all rows were given out, and the function fits them. */
int replay_may_arrive(const replay *r);

/* The number of failed attempts of an op that is open, as far as they were given out. An
 * OP_STEP_AGAIN row tells of one more. */
int64_t replay_attempts(const replay *r, int64_t op);

/* 1 if this code has never been here: nothing is recorded that it would still have to ask for. For
 * log lines. While pages are missing the answer is 0: say replay_fed_all() with the last one. */
int replay_is_new(const replay *r);

/* The seq of the last row that is known. */
int64_t replay_seq(const replay *r);

/* Rows that were fed, or have arrived, and were not given out yet. 0: their memory can be
 * reused. */
size_t replay_left(const replay *r);

/* Why it came to MISMATCH, CORRUPT or NOMEM: code HELD; CORRUPT or NEWER; NOMEM. */
const error *replay_error(const replay *r);

/* ---- For tests ---- */

/* May the code know that the run is cancelled? The number of ops that wait for their answer. */
int replay_cancelled(const replay *r);
size_t replay_waiting(const replay *r);

/* How many rows were looked at: a measure of cost that does not depend on the machine. */
int64_t replay_work(const replay *r);

#endif
