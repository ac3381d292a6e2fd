/* What a run records (its event history): every op asks the journal first, and what is new becomes
 * a row of the unit that is committed next. All functions are called on the fiber. */
#ifndef RUN_JOURNAL_WRITER_H
#define RUN_JOURNAL_WRITER_H

#include <pawl.h>

#include "db/unit.h"
#include "journal/op.h"
#include "journal/replay.h"

/* The journal of the run as its function meets it, while the function is in memory. */
typedef struct run_journal {
    arena *arena; /* the memory of the replay */
    replay *replay;
    arena *page;  /* the rows that were read last; NULL: none were */
    int64_t fed;  /* seq of the last row that was read from the database */
    int fed_all;  /* all rows were read */
    int is_fresh; /* nothing is recorded of the run but its start */

    replay_row
        *arriving; /* results that were given to journal_arrive(), in the arena of the draft */
    size_t arrivals;
    size_t arrivals_room;
} run_journal;

/* Ask the journal, going on until the answer is RECORDED, NEW or PASSED. Rows are good until the
 * next ask. */
replay_result journal_start(pawl_run *run, const replay_row **row);
replay_result journal_op(pawl_run *run, op_kind kind, slice name, const replay_row **row);
replay_result journal_return(pawl_run *run, op_kind kind);

/* As journal_op(), for the row that cancels futures (future_cancel.c): journal_op() would cancel
 * them first. */
replay_result journal_ask(pawl_run *run, op_kind kind, slice name, const replay_row **row);

/* Give out what has arrived next, before the next op. 0: nothing has. */
int journal_settle_one(pawl_run *run);

/* Gives out the next arrival, for a wait. 0: nothing more is recorded. `op`: the op that is waited
 * for; 0: not one op, but what `asked` says in words. */
int journal_wait(pawl_run *run, int64_t op, const char *asked);

/* The next row, whatever it is; NEW: there is none. */
replay_result journal_next(pawl_run *run, const replay_row **row);

/* Record an op that is NEW: into the replay, and into the unit that is committed next. Gives its
 * seq. */
int64_t journal_record(pawl_run *run, op_kind kind, slice name, slice data);

/* Tells the replay of an op that was NEW and whose row is in the journal already. */
void journal_note(pawl_run *run, op_kind kind, slice name, slice data);

/* Something has arrived for an op. journal_arrive_all() records all such arrivals, which are given
 * out by the next asks. 0: there were none. */
void journal_arrive(pawl_run *run, op_kind kind, int64_t op, slice data);
int journal_arrive_all(pawl_run *run);

/* The unit that is committed next; a copy of the text in its memory (at NULL stays NULL). */
unit *journal_unit(pawl_run *run);
slice journal_keep(pawl_run *run, slice s);

#endif
