/* The journal of a run (its event history) as the ops use it: every op asks the journal first, and
 * what is new becomes a row of the unit that is committed next. All functions are called on the
 * fiber. */
#ifndef RUN_JOURNAL_WRITER_H
#define RUN_JOURNAL_WRITER_H

#include <pawl.h>

#include "db/unit.h"
#include "journal/op.h"
#include "journal/replay.h"

/* The journal while the function is in memory. */
typedef struct run_journal {
    arena *arena; /* the memory of the replay */
    replay *replay;
    arena *page;     /* memory of the rows that were read last; NULL: none were */
    int64_t fed;     /* seq of the last row that was read from the database */
    int64_t durable; /* the generation is known to have rows up to this seq, also while the function
                        is not in memory; 0: none is known */
    int is_owned; /* 1: what was read last, the run's row or a page, says that the lease is valid;
                        0: the next page has to */
    int fed_all;  /* 1: all rows were read */
    int is_fresh; /* 1: the journal is empty, so that nothing has to be read */
    int is_ahead; /* 1: the journal was read before the replay has asked for it; then `ahead` has
                        its rows behind the first one, durable - 1 of them, in `page` */
    replay_row *ahead;

    replay_row *arriving; /* what journal_arrive() has got, in the arena of the draft */
    size_t arrivals;
    size_t arrivals_room;
} run_journal;

/* These ask the replay until its result is RECORDED, NEW or PASSED. Before that they hand arrivals
 * to their futures, and have more rows read. A row is valid until the next ask. journal_start()
 * asks for the row with which the generation began, journal_op() for an op, journal_return() for
 * the end of the generation. journal_op() first cancels the futures that are listed for that
 * (future_cancel.c). */
replay_result journal_start(pawl_run *run, const replay_row **row);
replay_result journal_op(pawl_run *run, op_kind kind, slice name, const replay_row **row);
replay_result journal_return(pawl_run *run, op_kind kind);

/* As journal_op(), but cancels no futures: for the row that says which were cancelled. */
replay_result journal_ask(pawl_run *run, op_kind kind, slice name, const replay_row **row);

/* Hands the next arrival before the next op to its future. 0: there is none. */
int journal_settle_one(pawl_run *run);

/* Hands the next arrival to its future, for a wait. 0: nothing more is recorded. `op` is the op
 * that is waited for; 0: several, and `asked` names them in errors. */
int journal_wait(pawl_run *run, int64_t op, const char *asked);

/* Returns the next row, whatever it is, for code that reads the journal itself. NEW: there is
 * none. */
replay_result journal_next(pawl_run *run, const replay_row **row);

/* Records an op that is NEW, in the replay and in the unit that is committed next. Returns its
 * seq. */
int64_t journal_record(pawl_run *run, op_kind kind, slice name, slice data);

/* Adds an op that was NEW to the replay only: its row is in the database already. */
void journal_note(pawl_run *run, op_kind kind, slice name, slice data);

/* journal_arrive() keeps something that has arrived for an op. journal_arrive_all() records all of
 * that, and the next asks give it out. Returns 0 if there was nothing, or no op waits for it any
 * more. */
void journal_arrive(pawl_run *run, op_kind kind, int64_t op, slice data);
int journal_arrive_all(pawl_run *run);

/* journal_unit() returns the unit that is committed next. journal_keep() returns a copy of the text
 * in the memory of that unit; NULL stays NULL. */
unit *journal_unit(pawl_run *run);
slice journal_keep(pawl_run *run, slice s);

#endif
