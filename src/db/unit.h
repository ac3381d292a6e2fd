/* A unit: statements that commit atomically, as a part of a group commit.
 *
 * A unit is a list of statements in an arena: *guards*, the conditions it must meet, *tries*, which
 * may give no row, and *writes*. Contention is expressed in guards and tries only (UPDATE …
 * RETURNING, INSERT … ON CONFLICT DO NOTHING RETURNING, SELECT). A guard that gives no row refuses
 * the unit. A try that gives no row does not: only the statements that take a value of it
 * (db_from()) are left out, and those that take a value of these. An error in a plain write is a
 * bug or bad data, and fails its own unit only.
 *
 * A unit is handed to the committer (committer.h) and belongs to it, with its arena and all the
 * bytes its values point to, until its final answer is there; UNIT_UNDECIDED may come before that.
 * Rows that its statements returned come back in the same arena. `refused` is static text, and
 * `message` is in the arena, or static too.
 *
 * Two more kinds of statements: UNIT_FOUND reads what a guard that refused has met instead, and
 * UNIT_CALL is a function of the application, called inside the transaction. */
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
    UNIT_FAILED, /* not durable; `code` and `message` say why. With the code PAWL_UNDECIDED perhaps
                    durable: the engine was closed, or the database damaged, before it was known */
} unit_answer;

typedef enum {
    UNIT_GUARD, /* must give a row */
    UNIT_FOUND, /* runs only when the guard before it gave no row: says what was found instead */
    UNIT_TRY,   /* may give no row; then what takes a value of it is left out */
    UNIT_WRITE, /* a plain write; rows that it gives are returned */
    UNIT_CALL,  /* a function instead of a statement, which must give a value; see unit_call() */
} unit_kind;

/* A row that a statement returned; text and bytes are copies in the unit's arena. */
typedef struct unit_row {
    struct unit_row *next;
    int count;
    db_value values[];
} unit_row;

/* Code of the application, called inside the transaction on the thread that applies the unit. The
 * bytes that it returns are copied, and are the row of its statement, in one column. NULL bytes:
 * the unit is to be rolled back. */
typedef struct unit_guest {
    slice (*call)(void *native, void *arg); /* `native` as db_guests.lend() gives it */
    void *arg;
    int misused; /* 1: the function has ended the transaction, or left something open in it; what
                    was left of the transaction was rolled back */
} unit_guest;

typedef struct unit_stmt {
    struct unit_stmt *next;
    const db_sql *sql;
    const char *name; /* of a guard: which one it is, "fence"; static text */
    db_value *values;
    struct unit_stmt **sources; /* per value: the statement that a db_from() names; NULL: the
                                   statement has no db_from() */
    unit_guest *guest;          /* of UNIT_CALL */
    unit_row *rows;
    int count;
    int part;     /* where unit_guards_first() puts it: guards 0, tries 1, writes 2 */
    int note;     /* see unit_note() */
    int appends;  /* see unit_append() */
    int left_out; /* 1: the statement is not run, see unit_leaves_out() */
    unit_kind kind;
    uint64_t key; /* the row it locks, reads or writes, as unit_key() names it; 0: a row that no
                     other unit can address at this time */
} unit_stmt;

/* A source of units whose order matters. They are committed in their order, and once one of them
 * was not committed, or is undecided, the later ones are refused: a journal never has a hole. A run
 * has one in its draft, which begins anew when its unit has its answer; the unit of a client needs
 * none (NULL). Zeroed at first; lives at least as long as its units, which are handed in by one
 * thread at a time. */
typedef struct submitter {
    int64_t handed_in;   /* number of units handed in so far */
    atomic_llong broken; /* number of the first unit that was not committed; 0: none */
    uint64_t broken_in; /* the last pass in which a unit of the submitter was refused or has failed:
                           batch.c */
    int64_t aside;      /* number of its units that wait for a row lock, or behind such a unit:
                           aside.h */
} submitter;

/* The class whose share of the queue a unit takes (backpressure): units of runs must get through
 * when starts and messages from outside fill the queue, since only runs can work them off. */
typedef enum { UNIT_OF_RUN, UNIT_OF_CLIENT } unit_class;

typedef struct unit unit;

/* What the committer knows of a unit that was handed in, and of its attempts. */
typedef struct unit_commit {
    int counted;             /* the queue has counted the unit in its share (queue.h) */
    int set_aside;           /* the unit waits for a row lock (aside.h) */
    int aside_told;          /* that wait was logged */
    int64_t aside_since_ns;  /* when the unit was set aside */
    int64_t aside_ns;        /* when the unit is tried next */
    int64_t aside_ms;        /* the back-off before that try */
    arena_mark mark;         /* the arena before the first attempt, to go back to */
    int marked;              /* `mark` is set */
    unit_answer provisional; /* while undecided: the answer if the commit has happened */
    pawl_code provisional_code;
    pawl_code cause; /* while undecided: the code if the commit has not happened */
} unit_commit;

struct unit {
    arena *arena;
    unit_stmt *first;
    unit_stmt *last;
    unit_stmt **numbered; /* by the number that unit_guard() and the others gave */
    int count;            /* of statements */
    int room;             /* in `numbered` */
    int broken_build;     /* a statement could not be added: memory is out */
    int writes;           /* a statement of the unit writes */
    int needs_mark; /* 1: when the unit is refused it may have written something, so it needs a
                       savepoint (batch.c) */
    int notes;      /* the unit has notes (unit_note()) */
    size_t bytes;   /* of statements and values, for the bounds of queue and batch */
    submitter *submitter;
    unit_class class;

    /* Called by the thread that leads the committer, without any lock: once with the final
     * answer, and before that at most once with UNIT_UNDECIDED. After the final answer the unit
     * is the caller's again. Must not block, and must not wait for another unit. */
    void (*done)(unit *u, void *arg);
    void *done_arg;

    /* Called once, in the same way, when the unit begins to wait for a row lock of a foreign
     * transaction; NULL: not called. The unit stays the committer's. */
    void (*waits)(unit *u, void *done_arg);
    const char *name; /* for log lines: the id of its run; NULL: none */
    int64_t lock_ms;  /* how long a client's unit waits for a row lock; 0: until its deadline */

    /* The answer. */
    unit_answer answer;
    pawl_code code;        /* PAWL_OK, PAWL_REFUSED, PAWL_UNDECIDED, or why it failed */
    const char *refused;   /* name of the guard; "prefix" for a broken submitter */
    const unit_row *found; /* rows of the UNIT_FOUND statement behind that guard */
    const char *message;   /* of a failure; in the arena, or static */
    int at_commit;         /* of a failure: the COMMIT was refused, and none of the statements */
    int row_locked; /* with PAWL_BUSY: another transaction kept a row locked; others may go on */

    /* The committer's own. */
    unit *next;
    struct committer_waiter *waiter;
    int64_t order; /* its number among the units of its submitter, from 1 */
    int64_t deadline_ns;
    unit_commit commit; /* its attempts */
};

/* An empty unit in the arena; NULL when the arena is full. */
unit *unit_new(arena *a);

/* Add a guard, what is found where it refuses, a try or a plain write. The parameters are copied;
 * the bytes they point to are not. Returns the statement's number, from 0, for db_from() and
 * unit_rows(). A wrong number or type of parameters is a bug of the caller: assert. When the arena
 * is full -1 is returned, and the unit fails when it is handed in. */
int unit_guard(unit *u, const db_sql *sql, const char *name, uint64_t key, const db_value *values,
               int count);
int unit_found(unit *u, const db_sql *sql, const db_value *values, int count);
int unit_try(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);
int unit_write(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* Add a guest: a function of the application that is called inside the transaction of the unit. If
 * it gives nothing, the unit is refused, and `name` is the name of the guard that refused it. The
 * function may take long, so such a unit is handed to committers_apply() and never to
 * committer_submit(). `guest` has to live until the unit is answered. */
int unit_call(unit *u, const char *name, unit_guest *guest);

/* Add a plain write for the change feed. Where one transaction writes at a time (DB_TURNS) it is
 * left out as long as no reader has asked for the feed: each transaction reads that once ('feed' in
 * {meta}). */
int unit_note(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* Add a plain write that appends a row to a journal: its first three values are run, generation and
 * seq, and the seventh is the time. The row that was appended last proves that its transaction is
 * in the database (world.h). */
int unit_append(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* Take back all statements but the first `count`, in the order in which they were added. A unit
 * that was refused and is cut can be built anew from there, and handed in again. */
void unit_cut(unit *u, int count);

/* The last step of building a unit: order its statements so that guards, each with its UNIT_FOUND
 * statement, come before tries, and tries before writes; but none comes before a statement of which
 * it takes a value. They keep their numbers. Where several transactions can write at a time, a unit
 * that still has a guard or a try behind a write is applied alone, and so is a unit in which a
 * guard or a try takes a value. */
void unit_guards_first(unit *u);

/* Forget the answer: a unit that was not committed can be added to, and handed in again. */
void unit_renew(unit *u);

/* Put this statement before all others; none of its values may be a db_from(). */
void unit_put_first(unit *u, int statement);

/* The rows that a statement of a committed unit returned; NULL: none. */
const unit_row *unit_rows(const unit *u, int statement);

/* Once the statements before it were run: is this one left out, since a try of which it takes a
 * value gave no row, or since it takes a value of a statement that is left out? Kept in
 * s->left_out. A guard that is left out has no row, and refuses. */
int unit_leaves_out(unit_stmt *s);

/* 0: the statement is a SELECT, and changes nothing. */
int unit_stmt_writes(const unit_stmt *s);

/* To be called when the unit was not committed: no later unit of its submitter is committed from
 * now on. */
void unit_break_submitter(unit *u);

/* 1: an earlier unit of the same submitter was not committed, so that this one must be refused: its
 * commit would leave out that earlier one. */
int unit_is_cut_off(const unit *u);

/* The code of a unit that was answered `rc`, for its caller: PAWL_FENCED or PAWL_REWOUND instead of
 * PAWL_REFUSED, if no guard of its own has refused it but the node is closed, or the database went
 * back. */
pawl_code unit_shut_out(const unit *u, pawl_code rc);

/* A hash that names a row: of the table's name and the row's id, or its key text. Never 0; equal
 * for equal rows. Drivers that take locks row by row take them in the order of these keys, which
 * avoids deadlocks, and merge statements of different units only where their keys show that the
 * result is the same. */
uint64_t unit_key(const char *table, int64_t id);
uint64_t unit_key_text(const char *table, slice text);

#endif
