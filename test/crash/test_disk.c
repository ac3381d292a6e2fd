/* The disk is full, read-only, or answers with errors: nothing crashes, every answer says what
 * is the matter, and when the cause is gone work goes on.
 *
 * Whatever happens, the ledger must hold: what was acknowledged is there, what was refused or has
 * failed is not. Every answer that is not "committed" has a code of its own and words. */
#define _GNU_SOURCE /* setgroups() */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/disk_fixture.h"

#define RUNS 6

static void check(disk_fixture *r, const char *when)
{
    ledger_verdict v;
    if (ledger_check(&r->ledger, r->path, &v) != 0)
        fail_msg("%s: %s", when, v.first);
}

/* An error that came out of opening: a code of its own, what happened, and what to do. */
static void expect_error(const error *err, pawl_code code)
{
    if (err->code != code)
        fail_msg("%s instead of %s: %s (%s)", pawl_code_name(err->code), pawl_code_name(code),
                 err->message, err->detail);
    assert_true(err->message[0] != 0);
    assert_true(err->detail[0] != 0);
    assert_true(err->hint[0] != 0);
}

static void expect_failed(const disk_step *s, pawl_code code)
{
    assert_int_equal(s->finals, 1);
    assert_int_equal(s->answer, UNIT_FAILED);
    if (s->code != code)
        fail_msg("%s instead of %s: %s", pawl_code_name(s->code), pawl_code_name(code), s->message);
    assert_true(s->message[0] != 0);
}

/* A step of a run that has had none, or only failures, by a new submitter. */
static disk_step *commit_one(disk_fixture *r, int64_t run, int64_t seq)
{
    static submitter owners[DISK_STEPS];
    submitter *owner = &owners[r->count];
    *owner = (submitter){0};
    disk_step *s = disk_submit(r, owner, run, seq, 100);
    assert_true(disk_drive_on(r, 1000));
    assert_int_equal(s->finals, 1);
    return s;
}

static void work_goes_on(disk_fixture *r, int64_t run, int64_t seq)
{
    disk_step *s = commit_one(r, run, seq);
    if (s->answer != UNIT_COMMITTED)
        fail_msg("the cause is gone, and still: %s %s", pawl_code_name(s->code), s->message);
}

/* ---- Full ---- */

static void full_at_the_commit(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, RUNS);
    submitter owner = {0};
    atomic_store(&vfs_shim.budget, 100);
    disk_step *lost = disk_submit(r, &owner, 1, 1, 100);
    disk_drive_on(r, 20);
    assert_true(atomic_load(&vfs_shim.refused_full) > 0);
    assert_int_equal(lost->finals, 0); /* there is no room to find out */
    assert_int_equal(lost->undecided, 1);
    atomic_store(&vfs_shim.budget, -1);
    assert_true(disk_drive_on(r, 1000));
    expect_failed(lost, PAWL_FULL);
    work_goes_on(r, 1, 1);
    check(r, "full at the commit");
}

/* No room for more than this in the log, beside what it has already. */
static void bound_the_log(const disk_fixture *r, int64_t more)
{
    char log[TMP_PATH];
    scratch_suffix(log, r->path, "-wal");
    atomic_store(&vfs_shim.suffix, "-wal");
    atomic_store(&vfs_shim.size_max, tmp_size(log) + more);
}

static void lift(void)
{
    atomic_store(&vfs_shim.budget, -1);
    atomic_store(&vfs_shim.size_max, -1);
    vfs_fault_arm(&vfs_shim.read, 0, 0);
    vfs_fault_arm(&vfs_shim.write, 0, 0);
    vfs_fault_arm(&vfs_shim.sync, 0, 0);
    atomic_store(&vfs_shim.suffix, NULL);
}

/* A value larger than the page cache goes to the log before the commit, and SQLite throws the
 * whole transaction away when that fails. Its neighbours do not suffer: there is room for them. */
static void full_in_a_statement(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, RUNS);
    submitter owners[4] = {{0}};
    bound_the_log(r, 1024 * 1024);
    disk_step *before = disk_submit(r, &owners[0], 1, 1, 100);
    disk_step *large = disk_submit(r, &owners[1], 2, 1, 8 * 1024 * 1024);
    disk_step *large_next = disk_submit(r, &owners[1], 2, 2, 100);
    disk_step *after = disk_submit(r, &owners[2], 3, 1, 100);
    assert_true(disk_drive_on(r, 20));
    assert_true(atomic_load(&vfs_shim.refused_full) > 0);
    expect_failed(large, PAWL_FULL);
    assert_int_equal(large->undecided, 0); /* it never came to a commit */
    assert_int_equal(large_next->answer, UNIT_REFUSED);
    assert_string_equal(large_next->refused, "prefix");
    assert_int_equal(before->answer, UNIT_COMMITTED);
    assert_int_equal(after->answer, UNIT_COMMITTED);
    lift();
    work_goes_on(r, 2, 1);
    check(r, "full in a statement");
}

/* One engine's trouble is not another's: its turn to write ends with its transaction, also when
 * SQLite has ended that by itself. */
static void full_keeps_no_other_engine_out(void **state)
{
    disk_folder *s = *state;
    static disk_fixture other;
    disk_fixture *r = disk_open_with_runs(s, RUNS);
    submitter owners[3] = {{0}};
    disk_init(&other, s->path);
    assert_int_equal(disk_open(&other), PAWL_OK);
    other.marks = 1000;
    for (int64_t seq = 1; seq <= 3; seq++) {
        size_t bytes = seq == 2 ? 8 * 1024 * 1024 : 100;
        bound_the_log(r, 1024 * 1024);
        disk_step *ours = disk_submit(r, &owners[seq - 1], 1, seq < 3 ? seq : 2, bytes);
        disk_drive(r);
        if (seq == 2)
            expect_failed(ours, PAWL_FULL);
        else
            assert_int_equal(ours->answer, UNIT_COMMITTED);
        lift();
        submitter another = {0};
        disk_step *theirs = disk_submit(&other, &another, 2, seq, 100);
        disk_drive(&other); /* its clock stands still: no patience can run out */
        if (theirs->answer != UNIT_COMMITTED)
            fail_msg("the other is kept out in round %d", (int)seq);
    }
    check(r, "full beside another");
    check(&other, "beside one with a full disk");
    disk_free(&other);
}

static void full_when_it_is_made(void **state)
{
    disk_folder *s = *state;
    for (int64_t budget = 0; budget < 200000; budget = budget * 2 + 1000) {
        atomic_store(&vfs_shim.budget, budget);
        pawl_code rc = disk_open(&s->disk);
        if (rc != PAWL_OK)
            expect_error(&s->disk.err, PAWL_FULL);
        else
            disk_close(&s->disk);
        if (budget == 0)
            assert_int_not_equal(rc, PAWL_OK);
        atomic_store(&vfs_shim.budget, -1);
        disk_fixture *r = disk_open_with_runs(s, RUNS);
        work_goes_on(r, 1, 1);
        check(r, "full when it was made");
        disk_close(r);
        scratch_remove_db(s->path);
        ledger_free(&r->ledger);
    }
}

/* ---- A limit on the size of files, set by the system ---- */

static void set_limit(rlim_t bytes)
{
    struct rlimit limit;
    TMP_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    TMP_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void write_under_a_limit(int in, int out, void *arg)
{
    static disk_fixture r;
    static submitter owners[40];
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    char log[TMP_PATH];
    (void)in;
    (void)out;
    sigaction(SIGXFSZ, &ignore, NULL);
    disk_init(&r, arg);
    TMP_CHECK(disk_open(&r) == PAWL_OK);
    TMP_CHECK(disk_make_runs(&r, 40) == PAWL_OK);
    scratch_suffix(log, r.path, "-wal");
    set_limit((rlim_t)tmp_size(log) + 100000);
    for (int i = 0; i < 40; i++) {
        disk_submit(&r, &owners[i], i + 1, 1, 10000);
        disk_drive_on(&r, 3);
    }
    TMP_CHECK(ledger_count(&r.ledger, UNIT_COMMITTED) > 0);
    TMP_CHECK(disk_count_open(&r) > 0);
    set_limit(RLIM_INFINITY);
    TMP_CHECK(disk_drive_on(&r, 10000));
    TMP_CHECK(disk_count_open(&r) == 0);
    int failed = 0;
    for (int i = 0; i < r.count; i++) {
        failed += r.steps[i].answer == UNIT_FAILED;
        /* SQLite does not always tell that the reason was the size. */
        if (r.steps[i].answer == UNIT_FAILED && r.steps[i].code != PAWL_IO)
            TMP_CHECK(r.steps[i].code == PAWL_FULL);
        TMP_CHECK(r.steps[i].answer != UNIT_FAILED || r.steps[i].message[0]);
    }
    TMP_CHECK(failed > 0);
    submitter last = {0};
    disk_step *next = disk_submit(&r, &last, 40, r.steps[39].answer == UNIT_COMMITTED ? 2 : 1, 10);
    TMP_CHECK(disk_drive_on(&r, 100) && next->answer == UNIT_COMMITTED);
    ledger_verdict v;
    TMP_CHECK(ledger_check(&r.ledger, r.path, &v) == 0);
    disk_free(&r);
}

static void a_limit_on_files(void **state)
{
    disk_folder *s = *state;
    tmp_child c = tmp_fork(write_under_a_limit, s->path);
    tmp_join(&c);
}

/* ---- Read-only ---- */

static void a_disk_mounted_read_only(void **state)
{
    disk_folder *s = *state;
    disk_fixture *r = disk_open_with_runs(s, RUNS);
    work_goes_on(r, 1, 1);
    disk_close(r);
    atomic_store(&vfs_shim.read_only, 1);
    assert_int_not_equal(disk_open(r), PAWL_OK);
    expect_error(&r->err, PAWL_READONLY);
    atomic_store(&vfs_shim.read_only, 0);
    assert_int_equal(disk_open(r), PAWL_OK);
    work_goes_on(r, 1, 2);
    check(r, "after read-only");
}

/* As a user with the right to read all of it and to write none. */
static void open_without_rights(int in, int out, void *arg)
{
    static disk_fixture r;
    (void)in;
    struct passwd *nobody = getpwnam("nobody");
    if (getuid() == 0) {
        TMP_CHECK(nobody && setgroups(0, NULL) == 0);
        TMP_CHECK(setgid(nobody->pw_gid) == 0 && setuid(nobody->pw_uid) == 0);
    }
    disk_init(&r, arg);
    pawl_code rc = disk_open(&r);
    TMP_CHECK(rc != PAWL_OK);
    TMP_CHECK(write(out, &r.err, sizeof r.err) == sizeof r.err);
    disk_free(&r);
}

/* $TMPDIR may lie where another user cannot even look; the system's own lies open. */
static void move_to_open_folder(disk_folder *s)
{
    disk_free(&s->disk);
    tmp_dir_remove(s->folder);
    snprintf(s->folder, sizeof s->folder, "/tmp/pawl-test-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    tmp_path(s->path, s->folder, "app.db");
    disk_init(&s->disk, s->path);
}

static void set_modes(const disk_folder *s, mode_t file, mode_t folder)
{
    static const char *const NAMES[] = {"", "-wal", "-shm", "-nodes"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char name[TMP_PATH];
        scratch_suffix(name, s->path, NAMES[i]);
        if (tmp_size(name) >= 0)
            assert_int_equal(chmod(name, file), 0);
    }
    assert_int_equal(chmod(s->folder, folder), 0);
}

static void expect_read_only(disk_folder *s, const char *path)
{
    error err = {0};
    set_modes(s, 0444, 0555);
    tmp_child c = tmp_fork(open_without_rights, (void *)(uintptr_t)path);
    ssize_t n = read(c.from, &err, sizeof err);
    tmp_join(&c);
    set_modes(s, 0644, 0755);
    assert_int_equal(n, sizeof err);
    expect_error(&err, PAWL_READONLY);
}

static void a_user_without_rights(void **state)
{
    disk_folder *s = *state;
    char name[TMP_PATH];
    move_to_open_folder(s);
    disk_fixture *r = disk_open_with_runs(s, RUNS);
    work_goes_on(r, 1, 1);
    expect_read_only(s, s->path); /* while another connection works with it */
    disk_close(r);
    expect_read_only(s, s->path);
    scratch_suffix(name, s->path, "-shm");
    unlink(name); /* it has to be made anew, where nothing can be made */
    expect_read_only(s, s->path);
    scratch_suffix(name, s->path, "-wal");
    unlink(name);
    expect_read_only(s, s->path);
    tmp_path(name, s->folder, "new.db");
    expect_read_only(s, name); /* nor can one be made there */
    assert_int_equal(disk_open(r), PAWL_OK);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, disk_set_up, disk_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(full_at_the_commit),
        TEST(full_in_a_statement),
        TEST(full_keeps_no_other_engine_out),
        TEST(full_when_it_is_made),
        TEST(a_limit_on_files),
        TEST(a_disk_mounted_read_only),
        TEST(a_user_without_rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
