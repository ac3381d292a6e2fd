/* Letters: messages with an idempotency key.
 *
 * A key is remembered by a row of {receipts}, which is written with the message and lives as long
 * as its run: a second send with the key is told the number that the message got the first time,
 * also when that was received long ago, in an earlier generation, or the run has ended. */
#ifndef ROWS_SEND_UNITS_H
#define ROWS_SEND_UNITS_H

#include "base/digest.h"
#include "rows/run_units.h"

/* What a receipt is for (docs/format.md). */
enum { RECEIPT_MESSAGE = 1, RECEIPT_REDRIVE = 2 };

/* A message and what its receipt remembers of it. */
typedef struct letter {
    run_mail mail; /* with a key, or without */
    unsigned char print[DIGEST_SIZE];
} letter;

/* Fill in what tells it from others: its mailbox and the value of the message. PAWL_NOMEM. Only a
 * letter with a key needs it. */
pawl_code letter_seal(letter *l);

/* Put it into the inbox, once. Guards: "key", there is a receipt for that key, and what was found
 * are these columns; "live", as of run_send(). Gives the number of the latter. The letter lives as
 * long as the unit. */
enum { RECEIPT_KIND, RECEIPT_SEQ, RECEIPT_ANSWER };

int letter_write(unit *u, const letter *l);

/* Is this the receipt of the same letter? _ANSWER: is this what it remembers of it? */
int letter_is_same(const letter *l, const unit_row *receipt);
int letter_has_answer(const letter *l, slice answer);

/* Put it in as the first arrival of a run that is born in the same unit (birth.mail is 1). */
void letter_write_first(unit *u, const letter *l);

/* As a part of a unit about something else: a run that is not there, or has ended, gets nothing,
 * and the unit goes on; the rows of the statement whose number it gives tell (SEND_SEQ,
 * SEND_OWNER). The key is not looked up, only recorded: it must be one that is never used twice. */
int send_try(unit *u, const letter *l);

#endif
