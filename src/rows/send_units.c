/* The SQL of messages with idempotency keys.
 *
 *   1. A guard looks for the receipt of the key first, so that a second send gets its answer even
 *      if the run has ended.
 *   2. Two units at once may both find the key new. Then the lock on the row of the run makes the
 *      second one wait until the receipt of the first one is committed.
 *   3. The primary key of {receipts} refuses the receipt of the second unit.
 *
 * Step 3 is an error of the unit and not a refusal, so it costs more. But it is rare, and in the
 * usual case no additional row is locked. */
#include "rows/send_units.h"

#include <assert.h>

#include "base/json_canonical.h"

static const db_sql NEW_KEY = {"SELECT 1 WHERE NOT EXISTS"
                               /* RULE A6-a-key-is-asked-for-before-its-message-is-sent */
                               " (SELECT 1 FROM {receipts} WHERE run = $1 AND key = $2)",
                               "it"};
static const db_sql OLD_KEY = {
    "SELECT kind, seq, answer FROM {receipts} WHERE run = $1 AND key = $2", "it"};
static const db_sql RECEIPT = {"INSERT INTO {receipts} (run, key, kind, seq, at, answer)"
                               " VALUES ($1, $2, $3, $4, $5, $6)",
                               "itiiib"};
static const db_sql RECEIPT_IF_NEW = {"INSERT INTO {receipts} (run, key, kind, seq, at, answer)"
                                      " VALUES ($1, $2, $3, $4, $5, $6)"
                                      " ON CONFLICT (run, key) DO NOTHING",
                                      "itiiib"};

static void begin_seal(digest *d, const inbox_message *l)
{
    digest_begin(d);
    digest_add(d, l->row.name);
    digest_add(d, (slice){"", 1}); /* no name has a NUL in it */
}

pawl_code inbox_message_seal(inbox_message *l)
{
    digest d;
    pawl_code rc = PAWL_OK;
    if (!l->row.key.at)
        return rc;
    begin_seal(&d, l);
    rc = value_digest(&d, l->row.data); /* RULE a-message-is-compared-as-a-value */
    /* Another program may have put text into the outbox that is not JSON: its bytes count. */
    if (rc == PAWL_INVALID) {
        begin_seal(&d, l);
        digest_add(&d, l->row.data);
    }
    digest_end(&d, l->print);
    return rc == PAWL_NOMEM ? rc : PAWL_OK; /* RULE a-row-that-is-no-json-stops-no-other */
}

static slice digest_of(const inbox_message *l)
{
    return (slice){(const char *)l->print, sizeof l->print};
}

/* The same key of two runs gives the same unit key, which only makes their units wait for each
 * other. */
static uint64_t receipt_key(const inbox_message *l)
{
    return unit_key_text("receipts", l->row.key);
}

static void write_receipt(unit *u, const db_sql *sql, const inbox_message *l, db_value seq)
{
    if (!l->row.key.at)
        return;
    const db_value row[] = {db_int(l->row.run),      db_text(l->row.key),
                            db_int(RECEIPT_MESSAGE), seq,
                            db_int(l->row.at_ms),    db_bytes(digest_of(l))};
    unit_write(u, sql, receipt_key(l), row, DB_COUNT(row));
}

int inbox_message_write(unit *u, const inbox_message *l)
{
    assert(l->row.kind == INBOX_MESSAGE);
    if (l->row.key.at) {
        const db_value key[] = {db_int(l->row.run), db_text(l->row.key)};
        unit_guard(u, &NEW_KEY, "key", receipt_key(l), key, DB_COUNT(key));
        unit_found(u, &OLD_KEY, key, DB_COUNT(key));
    }
    int live = run_send(u, &l->row);
    /* RULE A6-a-receipt-is-written-with-its-message */
    write_receipt(u, &RECEIPT, l, db_from(live, SEND_SEQ));
    return live;
}

int inbox_message_is_same(const inbox_message *l, const unit_row *receipt)
{
    /* RULE A6-a-receipt-is-of-one-message */
    return receipt && receipt->values[RECEIPT_KIND].i == RECEIPT_MESSAGE &&
           inbox_message_has_answer(l, receipt->values[RECEIPT_ANSWER].s);
}

/* Receipts of older versions have a digest of the message's bytes, and not of its JSON value. */
int inbox_message_has_answer(const inbox_message *l, slice answer)
{
    unsigned char written[DIGEST_SIZE];
    digest d;
    if (slice_equal(answer, digest_of(l)))
        return 1;
    begin_seal(&d, l);
    digest_add(&d, l->row.data);
    digest_end(&d, written);
    /* RULE a-receipt-of-an-older-version-is-recognised */
    return slice_equal(answer, (slice){(const char *)written, sizeof written});
}

void inbox_message_write_first(unit *u, const inbox_message *l)
{
    run_put_arrival(u, &l->row, db_int(1));
    write_receipt(u, &RECEIPT, l, db_int(1));
}

int send_try(unit *u, const inbox_message *l)
{
    int arrives = run_try_send(u, &l->row);
    write_receipt(u, &RECEIPT_IF_NEW, l, db_from(arrives, SEND_SEQ));
    return arrives;
}
