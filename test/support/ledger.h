/* The ledger: the record that a test keeps of its answers, and its comparison with the database.
 *
 * A unit of the test writes one row of the journal. The row is known by its `mark`, a number that
 * no other unit of the test has: after a refusal the same (run, seq) is written again by another
 * unit, and must not be taken for the one that was refused. */
#ifndef SUPPORT_LEDGER_H
#define SUPPORT_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "db/unit.h"

/* One answer. Of fixed size and without pointers, so that it can go through a pipe. */
typedef struct ledger_entry {
    int64_t run;
    int64_t seq;
    int64_t mark;
    int64_t answer; /* a unit_answer */
    int64_t code;   /* a pawl_code */
} ledger_entry;

typedef struct ledger {
    ledger_entry *entries;
    size_t count;
    size_t room;
} ledger;

/* What is wrong; all zero: nothing. */
typedef struct ledger_verdict {
    int64_t lost;    /* answered COMMITTED, and not there */
    int64_t ghosts;  /* answered REFUSED or FAILED, and there; FAILED with PAWL_UNDECIDED, which
                       closing gives to undecided units, may be there or not */
    int64_t twice;   /* more than one final answer, or UNDECIDED after one or more than once */
    int64_t holes;   /* runs whose rows are not 1, 2, 3 … */
    int64_t torn;    /* runs where a guard's update and the row do not go together */
    int64_t broken;  /* the database does not open, or does not pass its own check */
    int64_t rows;    /* not a fault: how many there are */
    char first[256]; /* the first fault in words */
} ledger_verdict;

/* A ledger of zeroes is an empty one. */
void ledger_add(ledger *l, const ledger_entry *e);
void ledger_free(ledger *l);

/* How many entries have this answer. */
int64_t ledger_count(const ledger *l, unit_answer answer);

/* How many units were told UNDECIDED and nothing after it. */
int64_t ledger_unsettled(const ledger *l);

/* Compare with what a crash of all processes at this moment would leave: a copy of database and
 * log is recovered and read, by SQLite alone. The database itself is not touched. Gives the
 * number of faults of all kinds. */
int64_t ledger_check(ledger *l, const char *path, ledger_verdict *out);

/* The same, but losses are not faults: what a database that promises less than it is asked for
 * must still keep. */
int64_t ledger_check_order(ledger *l, const char *path, ledger_verdict *out);

/* ---- For reading another database (pgledger.h) ---- */

typedef struct ledger_reading ledger_reading;

/* Begin a comparison, tell of every row of the journal, by run and seq, then of every run, and end
 * it; gives the number of faults without those of the kind `lost`. The ledger must not change. */
ledger_reading *ledger_read(const ledger *l, ledger_verdict *out);
void ledger_read_row(ledger_reading *r, int64_t run, int64_t seq, int64_t mark);
void ledger_read_run(ledger_reading *r, int64_t run, int64_t claimed, int64_t rows);
void ledger_read_broken(ledger_reading *r, const char *what, const char *why);
int64_t ledger_read_end(ledger_reading *r);

#endif
