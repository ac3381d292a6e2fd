/* Rows of {meta} that units contend for, in tests of units: each row stands for whatever two units
 * may want to change. */
#ifndef SUPPORT_META_ROWS_H
#define SUPPORT_META_ROWS_H

#include "support/committer_fixture.h"

/* Statements with a name and a number as parameters. META_SET inserts or updates the row. META_TAKE
 * inserts it unless it is there, and returns the number. META_RAISE raises the number of the row by
 * one if it is the given one, and returns the new number. */
extern const db_sql META_SET;
extern const db_sql META_TAKE;
extern const db_sql META_RAISE;

/* Statements with a name as parameter. META_GET returns the number of the row, META_DROP deletes
 * the row, META_COUNT returns how many rows have the name. */
extern const db_sql META_GET;
extern const db_sql META_DROP;
extern const db_sql META_COUNT;

/* Returns the number of a row. Fails the test if the row is not there. */
int64_t meta_number(committer_fixture *b, const char *name);

/* Returns the name "what.number", for a row that only this unit changes, in the memory of the
 * unit. */
db_value meta_name(conf_ticket *t, const char *what, int number);

#endif
