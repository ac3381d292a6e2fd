/* The numbers that stand in columns of pawl's tables, each with its one name.
 *
 * A list makes the enum for C and the macros for SQL (db_expand): a statement says {LIVE} or
 * {HELD_BY_HAND}, never a number, so both mean the same by construction. Databases have these
 * numbers (docs/format.md): none is ever changed, or used again for something else. */
#ifndef DB_COLUMNS_H
#define DB_COLUMNS_H

#include <pawl.h>

/* The life cycle of a run, runs.phase. In C PHASE_LIVE …, in SQL {LIVE} …
 * FAILING: the undos and finallys of the run are under way; it is as live as a live one. */
#define COLUMN_PHASES(X)                                                                           \
    X(LIVE, 0)                                                                                     \
    X(DONE, 1)                                                                                     \
    X(FAILED, 2)                                                                                   \
    X(CANCELLED, 3)                                                                                \
    X(FAILING, 4)

/* Numbers that have the same name in C and SQL. HELD_: why a run is held, runs.held, 0 where it is
 * not. STUCK: a clean-up has failed for good; RECORD: the database refuses what is to be recorded
 * of the run, which stays owned. INBOX_: what has arrived, inbox.kind. OUTBOX_: what a row is to
 * become, outbox.kind. */
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

/* Numbers that statements need, and whose enum is elsewhere. {OP_…}: kinds of journal rows, of
 * journal/op.h, which rows/run_units.c compares with these; {SHOWN_HELD}: how lists show a run that
 * is held, PAWL_RUN_HELD. */
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

/* A program sees the phases as they stand in the table, and one more. */
#define COLUMN_SAME(name, number)                                                                  \
    _Static_assert((int)PAWL_RUN_##name == number, "a phase is the same in pawl.h and the table");
COLUMN_PHASES(COLUMN_SAME)
#undef COLUMN_SAME
#define COLUMN_SAME(name, number)                                                                  \
    _Static_assert((int)PAWL_RUN_HELD == number, "held is the same in pawl.h and statements");
COLUMN_SHOWN(COLUMN_SAME)
#undef COLUMN_SAME

#endif
