/* A unit: what commits together, or not at all.
 *
 * A unit is a list of statements in an arena: *guards*, the conditions it must meet, and *writes*.
 * Contention is expressed in guards only (UPDATE … RETURNING, INSERT … ON CONFLICT DO NOTHING
 * RETURNING, SELECT): a guard that gives no row refuses the unit. An error in a plain write is a
 * bug or bad data, and hits its own unit only.
 *
 * A unit is handed to the committer (committer.h) and belongs to it, with its arena and all the
 * bytes its values point to, until its answer is there. Rows that its statements returned, and
 * the reason of a refusal, come back in the same arena. */
#ifndef DB_UNIT_H
#define DB_UNIT_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/error.h"
#include "db/db.h"

typedef enum {
    UNIT_OPEN,      /* being built, or queued */
    UNIT_COMMITTED, /* durable */
    UNIT_REFUSED,   /* a guard gave no row, or the submitter is broken; nothing was written */
    UNIT_UNDECIDED, /* perhaps durable; one of the other answers follows */
    UNIT_FAILED, /* not durable; `code` and `message` say why. One exception: PAWL_UNDECIDED, when
                       nobody will ever know: closed, or the database damaged, too early */
} unit_answer;

typedef enum {
    UNIT_GUARD, /* must give a row */
    UNIT_FOUND, /* runs only when the guard before it gave none: its rows say what was found */
    UNIT_WRITE, /* whatever it gives is returned */
} unit_kind;

/* A row that a statement returned; text and bytes are copies in the unit's arena. */
typedef struct unit_row {
    struct unit_row *next;
    int count;
    db_value values[];
} unit_row;

typedef struct unit_stmt {
    struct unit_stmt *next;
    const db_sql *sql;
    const char *name; /* of a guard: what it stands for, "fence"; static text */
    db_value *values;
    unit_row *rows;
    int count;
    unit_kind kind;
    uint64_t key; /* the row it locks, reads or writes, as unit_key() names it; 0: one that no other
                     unit at this time knows of */
} unit_stmt;

/* Units of one submitter keep their order, and once one of them was not committed, or is
 * undecided, the later ones are refused: a journal never has a hole. One per claimed run, thrown
 * away with it; a client call needs none (NULL). Zeroed at first; lives at least as long as its
 * units, which are handed in by one thread at a time. */
typedef struct submitter {
    int64_t handed_in;   /* units so far */
    atomic_llong broken; /* number of the first unit that was not committed; 0: none */
    uint64_t broken_in;  /* number of the pass that would break it; see batch.c */
} submitter;

/* Whose share of the queue it takes: what runs have to say must get through when starts and
 * messages from outside fill the queue, since only they can empty it. */
typedef enum { UNIT_OF_RUN, UNIT_OF_CLIENT } unit_class;

typedef struct unit unit;

struct unit {
    arena *arena;
    unit_stmt *first;
    unit_stmt *last;
    int count;
    int broken_build; /* a statement could not be added: memory or a wrong parameter */
    int writes;       /* a statement so far writes … */
    int needs_mark;   /* … and a guard comes behind it: see batch.c */
    size_t bytes;     /* of its values, for the bounds of queue and batch */
    submitter *submitter;
    unit_class class;

    /* Called by the thread that leads the committer, without any lock: once with the final
     * answer, and before that at most once with UNIT_UNDECIDED. After the final answer the unit
     * is the caller's again. Must not block, and must not wait for another unit. */
    void (*done)(unit *u, void *arg);
    void *done_arg;

    /* The answer. */
    unit_answer answer;
    pawl_code code;        /* PAWL_OK, PAWL_REFUSED, PAWL_UNDECIDED, or why it failed */
    const char *refused;   /* name of the guard; "prefix" for a broken submitter */
    const unit_row *found; /* rows of the UNIT_FOUND statement behind it */
    const char *message;   /* of a failure; in the arena, or static */

    /* The committer's own. */
    unit *next;
    struct committer_waiter *waiter;
    int64_t order; /* its number among the units of its submitter, from 1 */
    int64_t deadline_ns;
    arena_mark mark;
    int marked;
    unit_answer provisional; /* while undecided: what it is if the commit has happened */
    pawl_code provisional_code;
    pawl_code cause; /* and why it failed if it has not */
};

/* An empty unit in the arena; NULL when the arena is full. */
unit *unit_new(arena *a);

/* Add a statement with its parameters (copied; the bytes they point to are not). Gives its
 * number, from 0, for db_from() and unit_rows(). A wrong number or type of parameters is a bug of
 * the caller: assert. When the arena is full the unit remembers, and fails at submission. */
int unit_guard(unit *u, const db_sql *sql, const char *name, uint64_t key, const db_value *values,
               int count);
int unit_found(unit *u, const db_sql *sql, const db_value *values, int count);
int unit_write(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* Take back all statements behind the first `count`. */
void unit_cut(unit *u, int count);

/* Put its guards, and what is found where they refuse, before everything else: they get the first
 * numbers. A unit that writes before it guards is applied alone where several can write at a time.
 * No value may be that of another statement. */
void unit_guards_first(unit *u);

/* The rows that a statement of a committed unit returned; NULL: none. */
const unit_row *unit_rows(const unit *u, int statement);

/* The unit was not committed: so are none of its submitter's later ones. */
void unit_break_submitter(unit *u);

/* Would a unit before this one leave a hole if this one were committed? */
int unit_is_cut_off(const unit *u);

/* A name for a row, equal for equal rows: the table's name and the row's id, or its key text.
 * Drivers that take locks row by row take them in this order, and put statements of different
 * units together only where their keys say that nobody could tell. */
uint64_t unit_key(const char *table, int64_t id);
uint64_t unit_key_text(const char *table, slice text);

#endif
