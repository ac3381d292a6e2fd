/* The ledger (ledger.h) compared with a database of PostgreSQL.
 *
 * It is read by libpq alone, and in one transaction, so that what the driver believes plays no part
 * in it. A server needs no copy: what one session sees of others is committed. */
#ifndef SUPPORT_PGLEDGER_H
#define SUPPORT_PGLEDGER_H

#include "support/ledger.h"

/* Compare with what is committed now, the indexes included. Gives the number of faults of all
 * kinds. */
int64_t pgledger_check(const ledger *l, const char *url, ledger_verdict *out);

/* How many rows of the journal have this mark. Ends the program when that cannot be asked. */
int64_t pgledger_rows(const char *url, int64_t mark);

#endif
