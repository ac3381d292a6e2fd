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

/* An answer that a unit got. It has a fixed size and no pointers, so that it can be sent through a
 * pipe. */
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

/* The faults that a comparison has found. All numbers but `rows` are 0 if there is none. */
typedef struct ledger_verdict {
    int64_t lost;    /* units answered COMMITTED whose row is missing */
    int64_t ghosts;  /* units answered REFUSED or FAILED whose row is there. An undecided unit is
                        answered FAILED with PAWL_UNDECIDED when the committer closes: its row
                        may be there or not */
    int64_t twice;   /* units with more than one final answer, or with an UNDECIDED that came
                        twice or after the final one */
    int64_t holes;   /* runs whose rows do not have the seqs 1, 2, 3 … without a gap */
    int64_t torn;    /* runs where the counter that the guards raise does not agree with the rows */
    int64_t broken;  /* 1: the database does not open, or does not pass its own check */
    int64_t rows;    /* not a fault: the number of rows */
    char first[256]; /* the first fault in words */
} ledger_verdict;

/* A ledger of zeroes is an empty one. */
void ledger_add(ledger *l, const ledger_entry *e);
void ledger_free(ledger *l);

/* Returns how many entries have this answer. */
int64_t ledger_count(const ledger *l, unit_answer answer);

/* Returns how many units were answered UNDECIDED and got no final answer. */
int64_t ledger_unsettled(const ledger *l);

/* Compares the ledger with what a crash of all processes at this moment would leave: a copy of the
 * database and its log is recovered, and read by SQLite alone. The database itself is not touched.
 * Returns the number of faults of all kinds. */
int64_t ledger_check(ledger *l, const char *path, ledger_verdict *out);

/* As ledger_check(), but lost units are not faults. For a database that promises less durability
 * than the units ask for (durability=relaxed): it may lose the last units, and nothing else may be
 * wrong. */
int64_t ledger_check_order(ledger *l, const char *path, ledger_verdict *out);

/* ---- Comparing with a database that other code reads (pgledger.h) ---- */

typedef struct ledger_reading ledger_reading;

/* Begin a comparison; tell it of every row of the journal, in the order of run and seq; then tell
 * it of every run; and end it. ledger_read_end() returns the number of faults, without those of the
 * kind `lost`. The ledger must not change meanwhile. */
ledger_reading *ledger_read(const ledger *l, ledger_verdict *out);
void ledger_read_row(ledger_reading *r, int64_t run, int64_t seq, int64_t mark);
void ledger_read_run(ledger_reading *r, int64_t run, int64_t claimed, int64_t rows);
void ledger_read_broken(ledger_reading *r, const char *what, const char *why);
int64_t ledger_read_end(ledger_reading *r);

#endif
