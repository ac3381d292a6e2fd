/* Backup and restore wait until the writers of pawl let them in, so that a test need not stop its
 * writers. */
#include "support/backup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <string.h>

static sqlite3 *open_file(const char *path)
{
    sqlite3 *file;
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    sqlite3_busy_timeout(file, 1000);
    return file;
}

static void copy_file(const char *from, const char *to)
{
    sqlite3 *source = open_file(from), *target = open_file(to);
    int64_t until = tmp_deadline();
    int rc = SQLITE_BUSY;
    while (rc != SQLITE_DONE) {
        sqlite3_backup *copy = sqlite3_backup_init(target, "main", source, "main");
        assert_non_null(copy);
        rc = sqlite3_backup_step(copy, -1);
        sqlite3_backup_finish(copy);
        if (rc != SQLITE_DONE)
            tmp_pause(until, "the file can be copied", __FILE__, __LINE__);
    }
    sqlite3_close(source);
    sqlite3_close(target);
}

static const char *file_of(const conf *c)
{
    assert_memory_equal(c->url, "sqlite:", 7);
    return c->url + 7;
}

/* The tables of a backup are made once; every backup after that only changes their rows. */
static const char TAKE[] =
    "BEGIN ISOLATION LEVEL REPEATABLE READ; DO $$ DECLARE t text; BEGIN"
    " IF to_regnamespace('saved') IS NULL THEN CREATE SCHEMA saved;"
    " FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'pawl' LOOP"
    " EXECUTE format('CREATE TABLE saved.%I (LIKE pawl.%I)', t, t); END LOOP; END IF;"
    " FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'pawl' LOOP"
    " EXECUTE format('DELETE FROM saved.%I', t);"
    " EXECUTE format('INSERT INTO saved.%I SELECT * FROM pawl.%I', t, t); END LOOP; END $$;"
    "COMMIT";

/* A deadlock with a writer of pawl rolls one turn of the loop back, which is then repeated. */
static const char RESTORE[] =
    "DO $$ DECLARE t text; done bool := false; BEGIN WHILE NOT done LOOP BEGIN"
    " FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'pawl' ORDER BY 1 LOOP"
    " EXECUTE format('LOCK TABLE pawl.%I IN ACCESS EXCLUSIVE MODE', t); END LOOP;"
    " FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'pawl' LOOP"
    " EXECUTE format('DELETE FROM pawl.%I', t);"
    " EXECUTE format('INSERT INTO pawl.%I SELECT * FROM saved.%I', t, t); END LOOP;"
    " done := true; EXCEPTION WHEN deadlock_detected OR lock_not_available THEN NULL; END;"
    " END LOOP; END $$";

void backup_take(const conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "backup.db");
    if (c->server)
        pgserver_exec(c->server, c->database, TAKE);
    else
        copy_file(file_of(c), path);
}

void backup_restore(const conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "backup.db");
    if (c->server)
        pgserver_exec(c->server, c->database, RESTORE);
    else
        copy_file(path, file_of(c));
}

void backup_tidy(const conf *c)
{
    if (c->server)
        pgserver_exec(c->server, c->database, "VACUUM");
}
