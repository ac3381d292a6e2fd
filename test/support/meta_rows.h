/* Rows of {meta} that units contend for, in tests of units: each row stands for whatever two units
 * may want to change. */
#ifndef SUPPORT_META_ROWS_H
#define SUPPORT_META_ROWS_H

#include "support/committer_fixture.h"

/* By name and number: insert or update it; insert it unless it is there, and give the number; raise
 * the number by one if it is this, and give the new one. */
extern const db_sql META_SET;
extern const db_sql META_TAKE;
extern const db_sql META_RAISE;

/* By name: its number; remove it; how many there are. */
extern const db_sql META_GET;
extern const db_sql META_DROP;
extern const db_sql META_COUNT;

/* The number of a row that must be there. */
int64_t meta_number(committer_fixture *b, const char *name);

/* The name "what.number" for a row of the unit's own, in the memory of the unit. */
db_value meta_name(conf_ticket *t, const char *what, int number);

#endif
