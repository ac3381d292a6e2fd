/* A unit: statements that commit atomically, as a part of a group commit.
 *
 * A unit is a list of statements in an arena: *guards*, the conditions it must meet, *tries*, which
 * may find nothing, and *writes*. Contention is expressed in guards and tries only (UPDATE …
 * RETURNING, INSERT … ON CONFLICT DO NOTHING RETURNING, SELECT). A guard that gives no row refuses
 * the unit. After a try that gives none, only those statements are left out that take a value of it
 * (db_from), and those that take a value of these. An error in a plain write is a bug or bad data,
 * and hits its own unit only.
 *
 * A unit is handed to the committer (committer.h) and belongs to it, with its arena and all the
 * bytes its values point to, until its answer is there. Rows that its statements returned, and the
 * reason of a refusal, come back in the same arena. */
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
                    it can never be known: closed, or the database damaged, too early */
} unit_answer;

typedef enum {
    UNIT_GUARD, /* must give a row */
    UNIT_FOUND, /* runs only when the guard before it gave none: its rows say what was found */
    UNIT_TRY,   /* gives a row if it has done or found something; statements that need one */
    UNIT_WRITE, /* whatever it gives is returned */
    UNIT_CALL,  /* no statement but a function, which must give something; see unit_call() */
} unit_kind;

/* A row that a statement returned; text and bytes are copies in the unit's arena. */
typedef struct unit_row {
    struct unit_row *next;
    int count;
    db_value values[];
} unit_row;

/* Code of the application, called inside the transaction on the thread that applies it. What it
 * gives is the row of its statement, one column of bytes; it is copied. NULL bytes: the unit is to
 * be rolled back. */
typedef struct unit_guest {
    slice (*call)(void *native, void *arg); /* `native` as db_guests.lend() gives it */
    void *arg;
    int misused; /* it has ended the transaction, or left something open in it; what is left of it
                    was rolled back */
} unit_guest;

typedef struct unit_stmt {
    struct unit_stmt *next;
    const db_sql *sql;
    const char *name; /* of a guard: what it stands for, "fence"; static text */
    db_value *values;
    struct unit_stmt **sources; /* per value: the statement of a db_from(); NULL: there is
                                   none */
    unit_guest *guest;          /* of UNIT_CALL */
    unit_row *rows;
    int count;
    int part;     /* where unit_guards_first() puts it */
    int note;     /* see unit_note() */
    int appends;  /* see unit_append() */
    int left_out; /* a try gave no row that it needs; decided when it is its turn */
    unit_kind kind;
    uint64_t key; /* the row it locks, reads or writes, as unit_key() names it; 0: a row that no
                     other unit can address at this time */
} unit_stmt;

/* Units of one submitter keep their order, and once one of them was not committed, or is
 * undecided, the later ones are refused: a journal never has a hole. One per claimed run, thrown
 * away with it; a client call needs none (NULL). Zeroed at first; lives at least as long as its
 * units, which are handed in by one thread at a time. */
typedef struct submitter {
    int64_t handed_in;   /* units so far */
    atomic_llong broken; /* number of the first unit that was not committed; 0: none */
    uint64_t broken_in;  /* number of the pass that would break it; see batch.c */
    int64_t aside;       /* units of it that wait for a lock, or behind such a one; see aside.h */
} submitter;

/* The class whose share of the queue a unit takes (backpressure): units of runs must get through
 * when starts and messages from outside fill the queue, since only runs can work them off. */
typedef enum { UNIT_OF_RUN, UNIT_OF_CLIENT } unit_class;

typedef struct unit unit;

/* What the committer keeps of a unit that was handed in: its attempts, and what is known of
 * them. */
typedef struct unit_commit {
    int counted;            /* the queue has counted the unit in its share (queue.h) */
    int set_aside;          /* the unit waits for a row lock (aside.h) */
    int aside_told;         /* that wait was logged */
    int64_t aside_since_ns; /* when the unit was set aside */
    int64_t aside_ns;       /* when the unit is tried next */
    int64_t aside_ms;       /* the back-off before that try */
    arena_mark mark;
    int marked;
    unit_answer provisional; /* while undecided: what it is if the commit has happened */
    pawl_code provisional_code;
    pawl_code cause; /* while undecided: why it failed, if the commit has not happened */
} unit_commit;

struct unit {
    arena *arena;
    unit_stmt *first;
    unit_stmt *last;
    unit_stmt **numbered; /* by the number that unit_guard() and the others gave */
    int count;
    int room;         /* in `numbered` */
    int broken_build; /* a statement could not be added: memory or a wrong parameter */
    int writes;       /* a statement of the unit writes */
    int needs_mark;   /* a guard comes behind a statement that writes (see batch.c) */
    int notes;        /* the unit has notes (unit_note()) */
    size_t bytes;     /* of its values, for the bounds of queue and batch */
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
    int64_t lock_ms;  /* a client's unit waits for a lock only so long; 0: as for anything else */

    /* The answer. */
    unit_answer answer;
    pawl_code code;        /* PAWL_OK, PAWL_REFUSED, PAWL_UNDECIDED, or why it failed */
    const char *refused;   /* name of the guard; "prefix" for a broken submitter */
    const unit_row *found; /* rows of the UNIT_FOUND statement behind it */
    const char *message;   /* of a failure; in the arena, or static */
    int row_locked; /* of PAWL_BUSY: another transaction kept a row locked; others may go on */

    /* The committer's own. */
    unit *next;
    struct committer_waiter *waiter;
    int64_t order; /* its number among the units of its submitter, from 1 */
    int64_t deadline_ns;
    unit_commit commit; /* how far that has got */
};

/* An empty unit in the arena; NULL when the arena is full. */
unit *unit_new(arena *a);

/* Add a statement with its parameters (copied; the bytes they point to are not). Gives its
 * number, from 0, for db_from() and unit_rows(). A wrong number or type of parameters is a bug of
 * the caller: assert. When the arena is full the unit remembers, and fails at submission. */
int unit_guard(unit *u, const db_sql *sql, const char *name, uint64_t key, const db_value *values,
               int count);
int unit_found(unit *u, const db_sql *sql, const db_value *values, int count);
int unit_try(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);
int unit_write(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* Adds a guest: a function of the user that is called inside the transaction of the unit. If it
 * gives nothing, the unit is refused, and `name` is the name of the guard that refused it. It may
 * take long, so that such a unit is handed to committers_apply() and never to committer_submit().
 * `guest` has to live until the unit is answered. */
int unit_call(unit *u, const char *name, unit_guest *guest);

/* A write for the change feed: where one transaction writes at a time it is left out until a reader
 * asks for the feed, which is decided once in each transaction ('feed' in {meta}). */
int unit_note(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* A write that appends a row to a journal: its first three values are run, generation and seq, and
 * the seventh is the time. What was appended last proves that a transaction is there (world.h). */
int unit_append(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count);

/* Take back all statements but the first `count`, as they were added. A unit that was refused and
 * is cut can be built anew from there, and handed in again. */
void unit_cut(unit *u, int count);

/* The last thing to do to a unit: put its guards, and what is found where they refuse, before its
 * tries, and these before its writes, but none before one of which it takes a value. They keep
 * their numbers. A unit that writes before it guards or tries is applied alone where several can
 * write at a time, and so is one in which a guard or a try takes a value. */
void unit_guards_first(unit *u);

/* Forget the answer: a unit that was not committed can be added to, and handed in again. */
void unit_renew(unit *u);

/* Put this statement before all others; none of its values may be another one's. */
void unit_put_first(unit *u, int statement);

/* The rows that a statement of a committed unit returned; NULL: none. */
const unit_row *unit_rows(const unit *u, int statement);

/* Is it left out, given the rows of those before it? Remembered in it. A guard that is left out has
 * no row, and refuses. */
int unit_leaves_out(unit_stmt *s);

/* May it change anything? */
int unit_stmt_writes(const unit_stmt *s);

/* The unit was not committed: so are none of its submitter's later ones. */
void unit_break_submitter(unit *u);

/* Would a unit before this one leave a hole if this one were committed? */
int unit_is_cut_off(const unit *u);

/* How a unit went whose code this is: PAWL_FENCED or PAWL_REWOUND instead of PAWL_REFUSED, where no
 * guard of its own has refused it but the node is closed, or the database went back. */
pawl_code unit_shut_out(const unit *u, pawl_code rc);

/* A name for a row, equal for equal rows: the table's name and the row's id, or its key text.
 * Drivers that take locks row by row take them in this order, which avoids deadlocks, and merge
 * statements of different units only where their keys show that the result is the same. */
uint64_t unit_key(const char *table, int64_t id);
uint64_t unit_key_text(const char *table, slice text);

#endif
