/* Comparing a ledger (ledger.h) with a database of PostgreSQL.
 *
 * The database is read by libpq alone, and in one transaction, so that what pawl's driver believes
 * plays no part in the comparison. No copy is needed: what a session sees of other sessions is
 * committed. */
#ifndef SUPPORT_PGLEDGER_H
#define SUPPORT_PGLEDGER_H

#include "support/ledger.h"

/* Compares the ledger with what is committed now, indexes included. Returns the number of faults of
 * all kinds. */
int64_t pgledger_check(const ledger *l, const char *url, ledger_verdict *out);

/* Returns how many rows of the journal have this mark. Ends the program if the database does not
 * answer. */
int64_t pgledger_rows(const char *url, int64_t mark);

#endif
