/* The application's own table in the same database: its rows and the record commit together.
 *
 *     ledger_transact invoice-7 1250
 *
 * The invoice and the start of its run are one transaction of the application (pawl_start_in). The
 * two ledger entries and the record of that step are one transaction of the run (pawl_transact):
 * however often the process dies, the books balance and nothing is booked twice. */
#include <sqlite3.h>
#include <stdio.h>
#include <pawl.h>

static const char TABLES[] =
    "CREATE TABLE IF NOT EXISTS invoices (id TEXT PRIMARY KEY, cents INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS ledger (invoice TEXT NOT NULL, account TEXT NOT NULL,"
    "                                   cents INTEGER NOT NULL, PRIMARY KEY (invoice, account));";
static const char ENTRY[] = "INSERT INTO ledger VALUES (?1, 'receivable', ?2), (?1, 'sales', -?2)";
static const char INVOICE[] = "INSERT INTO invoices VALUES (?1, ?2) ON CONFLICT DO NOTHING";

/* One statement with a text and a number; SQLITE_DONE when all went well. */
static int execute(sqlite3 *db, const char *sql, const char *id, int64_t cents)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, 2, cents);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return rc;
}

static const char *book(pawl_work *work, void *native, const char *cents)
{
    sqlite3 *db = native; /* pawl's connection, inside its transaction: no commit here */
    if (execute(db, ENTRY, pawl_work_run_id(work), pawl_get_int(cents, "", 0)) != SQLITE_DONE)
        return pawl_work_fail(work, PAWL_TRANSIENT, "not-booked", "%s", sqlite3_errmsg(db));
    return "true";
}

static const char *invoice(pawl_run *run, const char *cents)
{
    return pawl_transact(run, "book", book, cents, NULL);
}

/* The application's side: its own connection, its own transaction. */
static pawl_code submit(pawl *p, sqlite3 *db, const char *id, const char *cents)
{
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return PAWL_BUSY;
    pawl_code rc = PAWL_STORAGE;
    if (execute(db, INVOICE, id, pawl_get_int(cents, "", 0)) == SQLITE_DONE)
        rc = pawl_start_in(p, db, "invoice", id, cents, NULL);
    if (rc == PAWL_OK && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        rc = PAWL_STORAGE;
    if (rc != PAWL_OK)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc == PAWL_OK ? pawl_outbox_flush(p) : rc;
}

int main(int argc, char **argv)
{
    if (argc != 3 || pawl_get_kind(argv[2], "") != PAWL_NUMBER) {
        fprintf(stderr, "usage: ledger_transact INVOICE CENTS\n");
        return 2;
    }
    pawl *p = NULL;
    sqlite3 *db = NULL;
    pawl_code rc = pawl_open(&p, "ledger.db", NULL); /* first: it makes the file a WAL database */
    if (rc == PAWL_OK)
        rc = pawl_register_workflow(p, "invoice", invoice, NULL);
    if (rc == PAWL_OK && (sqlite3_open("ledger.db", &db) != SQLITE_OK ||
                          sqlite3_busy_timeout(db, 5000) != SQLITE_OK ||
                          sqlite3_exec(db, TABLES, NULL, NULL, NULL) != SQLITE_OK))
        rc = PAWL_STORAGE;
    if (rc == PAWL_OK)
        rc = submit(p, db, argv[1], argv[2]);
    if (rc == PAWL_OK)
        rc = pawl_finish(p, argv[1], PAWL_FOREVER, NULL);

    if (rc == PAWL_OK)
        printf("%s is booked\n", argv[1]);
    else
        fprintf(stderr, "ledger_transact: %s\n",
                pawl_errcode(p) == rc ? pawl_errtext(p) : pawl_code_text(rc));
    sqlite3_close(db);
    pawl_close(p);
    return rc != PAWL_OK;
}
