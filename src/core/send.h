/* Letters: messages with an idempotency key, and who hears that something has arrived.
 *
 * A key is remembered by a row of {receipts}, which is written with the message and lives as long
 * as its run: whoever sends the message again is told the number that it got the first time, also
 * when it was received long ago, in an earlier generation, or the run has ended. */
#ifndef CORE_SEND_H
#define CORE_SEND_H

#include "base/digest.h"
#include "core/client.h"

/* What a receipt is for (docs/format.md). */
enum { RECEIPT_MESSAGE = 1, RECEIPT_REDRIVE = 2 };

/* A message and what its receipt remembers of it. */
typedef struct letter {
    run_mail mail; /* with a key, or without */
    unsigned char print[DIGEST_SIZE];
} letter;

/* Fill in what tells it from others: its mailbox and the message. */
void letter_seal(letter *l);

/* Put it into the inbox, once. Guards: "key", there is a receipt for that key, and what was found
 * are these columns; "live", as of run_send(). Gives the number of the latter. The letter lives as
 * long as the unit. */
enum { RECEIPT_KIND, RECEIPT_SEQ, RECEIPT_ANSWER };

int letter_write(unit *u, const letter *l);

/* Is this the receipt of the same letter? */
int letter_is_same(const letter *l, const unit_row *receipt);

/* Put it in as the first arrival of a run that is born in the same unit (birth.mail is 1). */
void letter_write_first(unit *u, const letter *l);

/* As a part of a unit about something else: a run that is not there, or has ended, gets nothing,
 * and the unit goes on; the rows of the statement whose number it gives tell (SEND_SEQ,
 * SEND_OWNER). The key is not asked for, only remembered: it must be one that nobody uses twice. */
int send_try(unit *u, const letter *l);

/* ---- Messages from outside (send.c) ---- */

/* Where to read: connections shared by clients, or one of the caller's own. */
typedef struct sight {
    readers *shared;
    db_conn *own;
} sight;

pawl_code sight_begin(const sight *v, db_conn **out, error *err);
void sight_end(const sight *v, db_conn *c);

/* A message that is to be sent. */
typedef struct send_ask {
    letter letter; /* the run is filled in */
    slice id;
    start_ask start;
    int starts;       /* a run, if there is none */
    int64_t outbox;   /* the row that it comes from, which goes with it; 0: none */
    int64_t begin_ms; /* of a row: when it was written; delays count from there */
    int64_t seq;      /* what it was given, … */
    int64_t created;  /* … 1: it has started the run, … */
    int moved;        /* … 1: the row is gone already */
} send_ask;

/* Check a message as it comes from outside. Texts stay the caller's; the run is not looked for. */
pawl_code send_read(letter *out, slice *id, const char *to, const char *mailbox,
                    const char *message, const pawl_send_options *o, error *err);

/* And the start that comes with it, whose attributes are in the arena. */
pawl_code send_read_start(send_ask *ask, const pawl_send_options *o, const char *id, arena *memory,
                          error *err);

/* Send it. PAWL_NOTFOUND, ENDED, CONFLICT: the run, or the key, is not as it must be. */
pawl_code send_carry(drive *d, const sight *v, send_ask *ask, error *err);

/* Something was committed that has arrived for a run of this owner: whoever drives it hears of it.
 * Without the lock. */
void send_told(drive *d, int64_t run, int64_t owner);

#endif
