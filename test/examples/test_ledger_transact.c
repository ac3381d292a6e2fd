/* The example ledger_transact: nothing is booked twice, wherever it is interrupted. The tables of
 * the application are in the engine's own memory here, so that only functions inside a transaction
 * of a run can reach them; the whole program, with a file, is run as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "support/example_fixture.h"
#include "support/tmp.h"

int example_main(int argc, char **argv);
#define main example_main
#define printf example_print
#include "../../examples/ledger_transact.c"
#undef printf
#undef main

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t result = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result;
}

static const char *make_tables(pawl_work *work, void *native, const char *input)
{
    if (sqlite3_exec(native, TABLES, NULL, NULL, NULL) != SQLITE_OK)
        return pawl_work_fail(work, PAWL_PERMANENT, "tables", "%s", sqlite3_errmsg(native));
    return input;
}

static const char *count_entries(pawl_work *work, void *native, const char *input)
{
    (void)input;
    return pawl_work_json(work, "[%" PRId64 ",%" PRId64 "]",
                          number(native, "SELECT count(*) FROM ledger"),
                          number(native, "SELECT coalesce(sum(cents), 0) FROM ledger"));
}

static const char *prepare(pawl_run *run, const char *input)
{
    return pawl_transact(run, "tables", make_tables, input, NULL);
}

static const char *balance(pawl_run *run, const char *input)
{
    return pawl_transact(run, "count", count_entries, input, NULL);
}

static void booked(example_fixture *s)
{
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "prepare", prepare, NULL));
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "balance", balance, NULL));
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "invoice", invoice, NULL));
    EXAMPLE_OK(s, pawl_start(s->p, "prepare", "prepare", "null", NULL));
    example_done(s, "prepare", "null");
    EXAMPLE_OK(s, pawl_start(s->p, "invoice", "invoice-7", "1250", NULL));
    EXAMPLE_OK(s, pawl_start(s->p, "invoice", "invoice-8", "99", NULL));
    example_done(s, "invoice-7", "true");
    example_done(s, "invoice-8", "true");
    EXAMPLE_OK(s, pawl_start(s->p, "balance", "balance", "null", NULL));
    example_done(s, "balance", "[4,0]");
}

static void the_books_balance(void **state)
{
    (void)state;
    example_run(booked, 1);
}

static void whole(example_fixture *s)
{
    char *args[] = {"ledger_transact", "invoice-7", "1250", NULL};
    char dir[TMP_PATH], before[TMP_PATH];
    sqlite3 *db = NULL;
    tmp_dir_make(dir);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(example_main(3, args), 0);
    assert_int_equal(example_main(3, args), 0);
    assert_int_equal(example_count(s, "invoice-7 is booked"), 2);
    assert_int_equal(example_main(2, args), 2);
    assert_int_equal(sqlite3_open("ledger.db", &db), SQLITE_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM ledger"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM invoices"), 1);
    assert_int_equal(number(db, "SELECT cents FROM ledger WHERE account = 'sales'"), -1250);
    sqlite3_close(db);
    assert_int_equal(chdir(before), 0);
    tmp_dir_remove(dir);
}

static void the_whole_program(void **state)
{
    (void)state;
    example_run_once(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_books_balance),
        cmocka_unit_test(the_whole_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
