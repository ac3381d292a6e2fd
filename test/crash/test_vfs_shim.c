/* The broken disk is itself in order: what the other tests here conclude rests on it.
 *
 * Bare SQLite on the shim, without the library: syncs count, what was not synced is lost, faults
 * hit exactly the call they were meant for, and without instructions nothing is different. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/scratch.h"
#include "support/vfs_shim.h"

typedef struct disk {
    char folder[TMP_PATH];
    char path[TMP_PATH];
    sqlite3 *db;
} disk;

static int set_up(void **state)
{
    static disk d;
    d = (disk){.db = NULL};
    tmp_dir_make(d.folder);
    tmp_path(d.path, d.folder, "app.db");
    assert_int_equal(vfs_shim_register(), 0);
    vfs_shim_reset();
    *state = &d;
    return 0;
}

static int tear_down(void **state)
{
    disk *d = *state;
    vfs_shim_reset();
    sqlite3_close(d->db);
    tmp_dir_remove(d->folder);
    return 0;
}

static void open_disk(disk *d)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    assert_int_equal(sqlite3_open_v2(d->path, &d->db, flags, VFS_SHIM_NAME), SQLITE_OK);
    sqlite3_extended_result_codes(d->db, 1);
}

static int run(disk *d, const char *sql)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

static void must(disk *d, const char *sql)
{
    int rc = run(d, sql);
    if (rc != SQLITE_OK)
        fail_msg("%s: %d %s", sql, rc, sqlite3_errmsg(d->db));
}

static void open_table(disk *d)
{
    open_disk(d);
    must(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t(x)");
}

/* End without a checkpoint and without any sync, as a killed process does. */
static void die(disk *d)
{
    int on = 1;
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, &on);
    on = 1;
    sqlite3_file_control(d->db, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    assert_int_equal(sqlite3_close(d->db), SQLITE_OK);
    d->db = NULL;
}

/* Rows of the table in the file at `path`, recovered without the shim. */
static int rows_in(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    int rows = -1;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &s, NULL) == SQLITE_OK) {
        if (sqlite3_step(s) == SQLITE_ROW)
            rows = sqlite3_column_int(s, 0);
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
    return rows;
}

static void keeps_what_was_synced(void **state)
{
    disk *d = *state;
    atomic_store(&vfs_shim.lossy, 1);
    open_table(d);
    for (int i = 0; i < 50; i++)
        must(d, "INSERT INTO t VALUES (randomblob(1000))");
    die(d);
    assert_int_equal(vfs_shim_lose(d->path, 0), 0);
    assert_int_equal(rows_in(d->path), 50);
}

static void loses_what_was_not_synced(void **state)
{
    disk *d = *state;
    atomic_store(&vfs_shim.lossy, 1);
    open_table(d);
    for (int i = 0; i < 10; i++)
        must(d, "INSERT INTO t VALUES (randomblob(1000))");
    must(d, "PRAGMA synchronous = OFF");
    for (int i = 0; i < 10; i++)
        must(d, "INSERT INTO t VALUES (randomblob(1000))");
    die(d);
    char live[TMP_PATH];
    tmp_path(live, d->folder, "live.db");
    scratch_copy_db(d->path, live);
    assert_int_equal(rows_in(live), 20);
    assert_int_equal(vfs_shim_lose(d->path, 0), 0);
    assert_int_equal(rows_in(d->path), 10);
}

/* A checkpoint writes the database; a log that begins anew overwrites the old one. */
static void keeps_through_checkpoints(void **state)
{
    disk *d = *state;
    atomic_store(&vfs_shim.lossy, 1);
    open_table(d);
    must(d, "PRAGMA wal_autocheckpoint = 5");
    for (int i = 0; i < 100; i++) {
        must(d, "INSERT INTO t VALUES (randomblob(3000))");
        if (i % 40 == 39)
            must(d, "PRAGMA wal_checkpoint(TRUNCATE)");
        if (i % 10 != 0)
            continue;
        char lost[TMP_PATH];
        tmp_path(lost, d->folder, "lost.db");
        scratch_copy_db(d->path, lost);
        assert_int_equal(vfs_shim_lose(lost, 0), 0);
        assert_int_equal(rows_in(lost), i + 1);
        scratch_remove_db(lost);
    }
}

/* With a seed some blocks survive: the synced rows are there in any case, never fewer. */
static void seeds_keep_some(void **state)
{
    disk *d = *state;
    int seen[21] = {0};
    atomic_store(&vfs_shim.lossy, 1);
    open_table(d);
    for (int i = 0; i < 10; i++)
        must(d, "INSERT INTO t VALUES (randomblob(3000))");
    must(d, "PRAGMA synchronous = OFF");
    for (int i = 0; i < 10; i++)
        must(d, "INSERT INTO t VALUES (randomblob(3000))");
    die(d);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        char lost[TMP_PATH];
        tmp_path(lost, d->folder, "lost.db");
        scratch_copy_db(d->path, lost);
        assert_int_equal(vfs_shim_lose(lost, seed), 0);
        int rows = rows_in(lost);
        assert_in_range(rows, 10, 20);
        seen[rows] = 1;
        scratch_remove_db(lost);
    }
    assert_true(seen[10]);
    assert_true(seen[11] || seen[12] || seen[13]);
}

static void a_file_never_synced_is_empty(void **state)
{
    disk *d = *state;
    atomic_store(&vfs_shim.lossy, 1);
    open_disk(d);
    must(d, "PRAGMA synchronous = OFF; CREATE TABLE t(x)");
    die(d);
    assert_int_equal(vfs_shim_lose(d->path, 0), 0);
    assert_int_equal(tmp_size(d->path), 0);
}

static void a_file_never_lossy_is_left_alone(void **state)
{
    disk *d = *state;
    open_table(d);
    must(d, "INSERT INTO t VALUES (1)");
    die(d);
    errno = 0;
    assert_int_equal(vfs_shim_lose(d->path, 0), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rows_in(d->path), 1);
}

/* Two connections, one of which checkpoints: the bookkeeping is that of the file. */
static void connections_share_their_file(void **state)
{
    disk *d = *state;
    disk other = *d;
    atomic_store(&vfs_shim.lossy, 1);
    open_table(d);
    open_disk(&other);
    must(d, "PRAGMA wal_autocheckpoint = 0");
    for (int i = 0; i < 30; i++) {
        must(d, "INSERT INTO t VALUES (randomblob(3000))");
        if (i % 7 == 6)
            must(&other, "PRAGMA wal_checkpoint(PASSIVE)");
    }
    die(&other);
    die(d);
    assert_int_equal(vfs_shim_lose(d->path, 0), 0);
    assert_int_equal(rows_in(d->path), 30);
}

static void counts_and_dirt(void **state)
{
    disk *d = *state;
    open_table(d);
    assert_int_equal(vfs_shim_wal_dirty(), 0);
    int64_t syncs = atomic_load(&vfs_shim.syncs[VFS_FILE_WAL]);
    int64_t writes = atomic_load(&vfs_shim.writes[VFS_FILE_WAL]);
    must(d, "INSERT INTO t VALUES (1)");
    assert_int_equal(atomic_load(&vfs_shim.syncs[VFS_FILE_WAL]), syncs + 1);
    assert_true(atomic_load(&vfs_shim.writes[VFS_FILE_WAL]) > writes);
    assert_int_equal(vfs_shim_wal_dirty(), 0);
    must(d, "PRAGMA synchronous = OFF; INSERT INTO t VALUES (2)");
    assert_int_equal(atomic_load(&vfs_shim.syncs[VFS_FILE_WAL]), syncs + 1);
    assert_int_equal(vfs_shim_wal_dirty(), 1);
    must(d, "PRAGMA synchronous = FULL; INSERT INTO t VALUES (3)");
    assert_int_equal(vfs_shim_wal_dirty(), 0);
}

/* What every rule about undecided commits rests on: the row of a commit whose sync failed is in
 * the log and would be recovered, until a later commit overwrites it. */
static void a_failed_sync_leaves_the_frames(void **state)
{
    disk *d = *state;
    char copy[TMP_PATH];
    tmp_path(copy, d->folder, "copy.db");
    open_table(d);
    must(d, "INSERT INTO t VALUES (1)");
    atomic_store(&vfs_shim.suffix, "-wal");
    vfs_fault_arm(&vfs_shim.sync, 1, 1);
    assert_int_equal(run(d, "INSERT INTO t VALUES (2)"), SQLITE_IOERR_FSYNC);
    assert_int_equal(atomic_load(&vfs_shim.sync.fired), 1);
    assert_int_equal(vfs_shim_wal_dirty(), 1);
    scratch_copy_db(d->path, copy);
    assert_int_equal(rows_in(copy), 2);
    must(d, "CREATE TABLE later(x)");
    scratch_copy_db(d->path, copy);
    assert_int_equal(rows_in(copy), 1);
}

/* Linux takes the pages for clean after a failed sync: they are lost although a sync follows. */
static void forgetting_syncs(void **state)
{
    disk *d = *state;
    atomic_store(&vfs_shim.lossy, 1);
    open_table(d);
    must(d, "INSERT INTO t VALUES (1)");
    atomic_store(&vfs_shim.sync_forgets, 1);
    vfs_fault_arm(&vfs_shim.sync, 1, 1);
    assert_int_equal(run(d, "INSERT INTO t VALUES (2)"), SQLITE_IOERR_FSYNC);
    must(d, "INSERT INTO t VALUES (3)");
    die(d);
    assert_int_equal(vfs_shim_lose(d->path, 0), 0);
    assert_int_equal(rows_in(d->path), 2);
}

static void full_until_there_is_room(void **state)
{
    disk *d = *state;
    open_table(d);
    atomic_store(&vfs_shim.budget, 5000);
    assert_int_equal(run(d, "INSERT INTO t VALUES (randomblob(20000))"), SQLITE_FULL);
    assert_true(atomic_load(&vfs_shim.refused_full) > 0);
    assert_int_equal(run(d, "INSERT INTO t VALUES (1)"), SQLITE_FULL);
    atomic_store(&vfs_shim.budget, -1);
    must(d, "INSERT INTO t VALUES (2)");
    die(d);
    assert_int_equal(rows_in(d->path), 1);
}

static void the_nth_read_and_write(void **state)
{
    disk *d = *state;
    open_table(d);
    vfs_fault_arm(&vfs_shim.write, 2, 1);
    assert_int_equal(run(d, "INSERT INTO t VALUES (1)"), SQLITE_IOERR_WRITE);
    assert_int_equal(atomic_load(&vfs_shim.write.fired), 1);
    assert_int_equal(atomic_load(&vfs_shim.write.seen), 2);
    must(d, "INSERT INTO t VALUES (2)");
    die(d);
    open_disk(d);
    vfs_fault_arm(&vfs_shim.read, 1, 1);
    assert_int_equal(run(d, "SELECT * FROM t"), SQLITE_IOERR_READ);
    must(d, "SELECT * FROM t");
    assert_int_equal(atomic_load(&vfs_shim.read.fired), 1);
}

static void read_only(void **state)
{
    disk *d = *state;
    open_table(d);
    must(d, "INSERT INTO t VALUES (1)");
    die(d);
    atomic_store(&vfs_shim.read_only, 1);
    open_disk(d);
    assert_int_equal(sqlite3_db_readonly(d->db, "main"), 1);
    assert_int_equal(run(d, "INSERT INTO t VALUES (2)"), SQLITE_READONLY);
    must(d, "SELECT * FROM t");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(keeps_what_was_synced),
        TEST(loses_what_was_not_synced),
        TEST(keeps_through_checkpoints),
        TEST(seeds_keep_some),
        TEST(a_file_never_synced_is_empty),
        TEST(a_file_never_lossy_is_left_alone),
        TEST(connections_share_their_file),
        TEST(counts_and_dirt),
        TEST(a_failed_sync_leaves_the_frames),
        TEST(forgetting_syncs),
        TEST(full_until_there_is_room),
        TEST(the_nth_read_and_write),
        TEST(read_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
