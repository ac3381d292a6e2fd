/* The SQL of letters with keys.
 *
 * That a key is new is asked first, so that one that is not is answered whatever has become of the
 * run. Two who send the same key at once both find it new; then the row of the run lets one of them
 * in after the other, whose receipt is there by then, and the primary key refuses the second one's.
 * It is an error of the unit and not a refusal, so it costs more; but it is rare, and in the usual
 * case nothing is locked that was not locked anyway. */
#include "core/send.h"

#include <assert.h>

static const db_sql NEW_KEY = {"SELECT 1 WHERE NOT EXISTS"
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

void letter_seal(letter *l)
{
    digest d;
    digest_begin(&d);
    digest_add(&d, l->mail.name);
    digest_add(&d, (slice){"", 1}); /* no name has a NUL in it */
    digest_add(&d, l->mail.data);
    digest_end(&d, l->print);
}

static slice print_of(const letter *l)
{
    return (slice){(const char *)l->print, sizeof l->print};
}

/* Keys of different runs may have the same name here, which does no harm. */
static uint64_t row_of(const letter *l)
{
    return unit_key_text("receipts", l->mail.key);
}

static void write_receipt(unit *u, const db_sql *sql, const letter *l, db_value seq)
{
    if (!l->mail.key.at)
        return;
    const db_value row[] = {db_int(l->mail.run),     db_text(l->mail.key),
                            db_int(RECEIPT_MESSAGE), seq,
                            db_int(l->mail.at_ms),   db_bytes(print_of(l))};
    unit_write(u, sql, row_of(l), row, DB_COUNT(row));
}

int letter_write(unit *u, const letter *l)
{
    assert(l->mail.kind == MAIL_MESSAGE);
    if (l->mail.key.at) {
        const db_value key[] = {db_int(l->mail.run), db_text(l->mail.key)};
        unit_guard(u, &NEW_KEY, "key", row_of(l), key, DB_COUNT(key));
        unit_found(u, &OLD_KEY, key, DB_COUNT(key));
    }
    int live = run_send(u, &l->mail);
    write_receipt(u, &RECEIPT, l, db_from(live, SEND_SEQ));
    return live;
}

int letter_is_same(const letter *l, const unit_row *receipt)
{
    return receipt && receipt->values[RECEIPT_KIND].i == RECEIPT_MESSAGE &&
           slice_equal(receipt->values[RECEIPT_ANSWER].s, print_of(l));
}

void letter_write_first(unit *u, const letter *l)
{
    run_put_mail(u, &l->mail, db_int(1));
    write_receipt(u, &RECEIPT, l, db_int(1));
}

int send_try(unit *u, const letter *l)
{
    int arrives = run_try_send(u, &l->mail);
    write_receipt(u, &RECEIPT_IF_NEW, l, db_from(arrives, SEND_SEQ));
    return arrives;
}

void send_told(drive *d, int64_t run, int64_t owner)
{
    if (owner && owner == atomic_load(&d->open_node)) {
        drive_mail(d, run);
        return;
    }
    pthread_mutex_lock(&d->lock);
    drive_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
    wake_open(d);
    wake_tell(d);
}
