/* Messages for the inbox of a run, with an idempotency key.
 *
 * A receipt, a row of {receipts}, remembers the key. It is written with the message and lives as
 * long as the run. A second send with the key is answered with the number that the message got the
 * first time, also when the message was received long ago, in an earlier generation, or the run has
 * ended. */
#ifndef ROWS_SEND_UNITS_H
#define ROWS_SEND_UNITS_H

#include "base/digest.h"
#include "rows/run_units.h"

/* The kinds of receipts (docs/format.md). */
enum { RECEIPT_MESSAGE = 1, RECEIPT_REDRIVE = 2 };

/* A message, and the digest of it that its receipt keeps. */
typedef struct inbox_message {
    run_inbox_row row; /* `row.key` at NULL: the message has no idempotency key */
    unsigned char print[DIGEST_SIZE];
} inbox_message;

/* Fills in the digest, of the mailbox and the JSON value of the message. Only a message with a key
 * needs it. Errors: NOMEM. */
pawl_code inbox_message_seal(inbox_message *l);

/* Puts the message into the inbox, once. Guard "key": the key has no receipt; otherwise
 * unit_found() gives the receipt, in the columns below. Guard "live": as of run_send(). Gives the
 * number of the statement of run_send(). The message must live as long as the unit. */
enum { RECEIPT_KIND, RECEIPT_SEQ, RECEIPT_ANSWER };

int inbox_message_write(unit *u, const inbox_message *l);

/* inbox_message_is_same() tells whether a receipt belongs to the same message;
 * inbox_message_has_answer() tells the same of the receipt's digest. */
int inbox_message_is_same(const inbox_message *l, const unit_row *receipt);
int inbox_message_has_answer(const inbox_message *l, slice answer);

/* Puts the message in as the first arrival of a run that the same unit inserts (its run_insert has
 * `mail` 1). */
void inbox_message_write_first(unit *u, const inbox_message *l);

/* Sends the message as part of a unit about something else: if the run does not exist or has ended,
 * nothing arrives and the unit goes on. Returns the number of a try (unit_try()), whose row has
 * SEND_SEQ and SEND_OWNER. The key is not looked up, only recorded: it must be one that is never
 * used twice. */
int send_try(unit *u, const inbox_message *l);

#endif
