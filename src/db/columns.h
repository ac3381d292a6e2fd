/* The numbers that stand in columns of pawl's tables, each with its one name.
 *
 * Each list below makes both the enum for C and the macros for SQL (db_expand), so that the two
 * cannot differ: a statement says {LIVE} or {HELD_BY_HAND}, never a number. The numbers are stored
 * in databases (docs/format.md): none is ever changed, or used again with another meaning. */
#ifndef DB_COLUMNS_H
#define DB_COLUMNS_H

#include <pawl.h>

/* The life cycle of a run, runs.phase. In C PHASE_LIVE …, in SQL {LIVE} …
 * FAILING: the undos and finallys of the run are under way; it is executed like a live run. */
#define COLUMN_PHASES(X)                                                                           \
    X(LIVE, 0)                                                                                     \
    X(DONE, 1)                                                                                     \
    X(FAILED, 2)                                                                                   \
    X(CANCELLED, 3)                                                                                \
    X(FAILING, 4)

/* Numbers that have the same name in C and SQL.
 * HELD_…: the reason why a run is held (runs.held; 0: the run is not held). HELD_STUCK: a clean-up
 * has failed for good; HELD_RECORD: the database refuses a record of the run, which stays owned.
 * INBOX_…: the kind of an arrival (inbox.kind). OUTBOX_…: whether the outbox relay makes a start
 * or a message of a row (outbox.kind). */
#define COLUMN_NUMBERS(X)                                                                          \
    X(HELD_VERSION, 1)                                                                             \
    X(HELD_MISMATCH, 2)                                                                            \
    X(HELD_POISON, 3)                                                                              \
    X(HELD_BY_HAND, 4)                                                                             \
    X(HELD_STUCK, 5)                                                                               \
    X(HELD_RECORD, 6)                                                                              \
    X(INBOX_MESSAGE, 1)                                                                            \
    X(INBOX_CHILD, 2)                                                                              \
    X(INBOX_CANCEL, 3)                                                                             \
    X(INBOX_REQUEST, 4)                                                                            \
    X(INBOX_TASK, 5)                                                                               \
    X(OUTBOX_START, 1)                                                                             \
    X(OUTBOX_MESSAGE, 2)                                                                           \
    X(GENERATION_CONTINUED, 5) /* generations.phase: the next generation goes on */

/* Numbers that statements need, although their enum is elsewhere. {OP_…}: kinds of journal rows
 * (journal/op.h; rows/run_units.c asserts that the numbers are equal). {SHOWN_HELD}: the phase that
 * lists show for a held run (PAWL_RUN_HELD of pawl.h). */
#define COLUMN_JOURNAL_KINDS(X)                                                                    \
    X(OP_STARTED, 1)                                                                               \
    X(OP_FUTURE_CANCEL, 25)

#define COLUMN_SHOWN(X) X(SHOWN_HELD, 5)

typedef enum run_phase {
#define COLUMN_ENUM(name, number) PHASE_##name = number,
    COLUMN_PHASES(COLUMN_ENUM)
#undef COLUMN_ENUM
} run_phase;

enum {
#define COLUMN_ENUM(name, number) name = number,
    COLUMN_NUMBERS(COLUMN_ENUM)
#undef COLUMN_ENUM
};

/* pawl.h has the numbers of the phases as they stand in the table, and PAWL_RUN_HELD besides. */
#define COLUMN_SAME(name, number)                                                                  \
    _Static_assert((int)PAWL_RUN_##name == number, "a phase is the same in pawl.h and the table");
COLUMN_PHASES(COLUMN_SAME)
#undef COLUMN_SAME
#define COLUMN_SAME(name, number)                                                                  \
    _Static_assert((int)PAWL_RUN_HELD == number, "held is the same in pawl.h and statements");
COLUMN_SHOWN(COLUMN_SAME)
#undef COLUMN_SAME

#endif
