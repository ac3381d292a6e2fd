/* The power goes: what was acknowledged had been synced before.
 *
 * On the lossy disk (support/vfs_shim.h) a process is killed and everything is taken away that it
 * had written but not synced: all of it, or some blocks by chance. The same tests with syncs
 * switched off must find the loss; otherwise they would prove nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/crash_fixture.h"
#include "support/disk_fixture.h"
#include "support/writers.h"

#define SEEDS 4 /* beside the one where nothing survives */

static writers_plan lossy_plan(const crash_fixture *s)
{
    writers_plan plan = {.threads = 2,
                         .first_run = 1,
                         .runs = 8,
                         .wal_bytes = 128 * 1024,
                         .payload = 300,
                         .shim = 1,
                         .lossy = 1,
                         .seed = s->seed};
    memcpy(plan.path, s->path, sizeof plan.path);
    return plan;
}

static void judge(crash_fixture *s, uint64_t seed, const char *path)
{
    ledger_verdict v;
    if (ledger_check(&s->ledger, path, &v) != 0)
        fail_msg("PAWL_TEST_SEED=%llu, lost with seed %llu: lost %lld, ghosts %lld, twice %lld, "
                 "holes %lld, torn %lld, broken %lld; first: %s",
                 (unsigned long long)s->seed, (unsigned long long)seed, (long long)v.lost,
                 (long long)v.ghosts, (long long)v.twice, (long long)v.holes, (long long)v.torn,
                 (long long)v.broken, v.first);
}

/* Cut the power on copies of what the dead process left, in several ways, and then on the
 * database itself, with which the next process goes on. */
static void cut_and_judge(crash_fixture *s)
{
    char copy[TMP_PATH];
    tmp_path(copy, s->folder, "cut.db");
    for (int i = 0; i < SEEDS; i++) {
        uint64_t seed = (uint64_t)scratch_between(&s->random, 1, 1000000);
        scratch_copy_db(s->path, copy);
        assert_int_equal(vfs_shim_lose(copy, seed), 0);
        judge(s, seed, copy);
        scratch_remove_db(copy);
    }
    assert_int_equal(vfs_shim_lose(s->path, 0), 0);
    judge(s, 0, s->path);
}

static void run_and_cut(crash_fixture *s, const writers_plan *plan, int64_t most)
{
    writers w;
    writers_start(&w, plan, ++s->births);
    if (writers_await(&w, 1, 0, scratch_between(&s->random, 1, most), &s->ledger) != 0)
        fail_msg("PAWL_TEST_SEED=%llu: the writers are stuck or dead", (unsigned long long)s->seed);
    assert_int_equal(writers_kill(&w, &s->ledger), 0);
    cut_and_judge(s);
}

static void what_was_acknowledged_is_there(void **state)
{
    crash_fixture *s = *state;
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    writers_plan plan = lossy_plan(s);
    assert_int_equal(writers_set_up(&plan), 0);
    assert_int_equal(vfs_shim_lose(s->path, 0), 0); /* the tables are durable at return */
    for (int64_t i = 0; i < kills; i++)
        run_and_cut(s, &plan, 3000);
}

/* Syncs that fail now and then, and take what was written with them. */
static void with_failing_syncs(void **state)
{
    crash_fixture *s = *state;
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    writers_plan plan = lossy_plan(s);
    plan.sync_fails_each = 13;
    assert_int_equal(writers_set_up(&plan), 0);
    for (int64_t i = 0; i < kills; i++)
        run_and_cut(s, &plan, 1000);
    assert_true(ledger_count(&s->ledger, UNIT_UNDECIDED) > 0);
}

/* durability=relaxed may lose the last commits, and nothing else: no hole, no damage. That it
 * does lose them shows that the lossy disk would have told. */
static void relaxed_loses_only_the_end(void **state)
{
    crash_fixture *s = *state;
    ledger_verdict v;
    writers_plan plan = lossy_plan(s);
    plan.relaxed = 1;
    plan.wal_bytes = 8 * 1024 * 1024; /* no sync by way of a checkpoint */
    assert_int_equal(writers_set_up(&plan), 0);
    writers w;
    writers_start(&w, &plan, ++s->births);
    assert_int_equal(writers_await(&w, 1, 0, 500, &s->ledger), 0);
    assert_int_equal(writers_kill(&w, &s->ledger), 0);
    assert_int_equal(ledger_check(&s->ledger, s->path, &v), 0);
    char copy[TMP_PATH];
    tmp_path(copy, s->folder, "cut.db");
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        scratch_copy_db(s->path, copy);
        assert_int_equal(vfs_shim_lose(copy, seed), 0);
        if (ledger_check_order(&s->ledger, copy, &v) != 0)
            fail_msg("lost with seed %llu: %s", (unsigned long long)seed, v.first);
        if (seed == 0)
            assert_true(v.lost > 0);
        scratch_remove_db(copy);
    }
}

/* ---- Syncs switched off ---- */

static int switch_syncs_off(void *native, void *arg)
{
    (void)arg;
    return sqlite3_exec(native, "PRAGMA synchronous = OFF", NULL, NULL, NULL) == SQLITE_OK ? 0 : 1;
}

/* The application cannot do it by accident: its setting is overruled, or opening fails. */
static void a_hook_cannot_switch_syncs_off(void **state)
{
    crash_fixture *s = *state;
    static disk_fixture r;
    char url[TMP_PATH + 16];
    snprintf(url, sizeof url, "sqlite:%s", s->path);
    disk_init(&r, s->path);
    db_options options = {.url = url, .on_connect = switch_syncs_off, .vfs = VFS_SHIM_NAME};
    error err = {0};
    pawl_code rc = db_open(&r.db, &options, &err);
    if (rc == PAWL_OK)
        rc = committer_open(&r.committer, r.db, &(committer_options){.by_hand = 1}, &err);
    if (rc != PAWL_OK) {
        assert_int_equal(rc, PAWL_NOTDURABLE);
        assert_true(err.hint[0] != 0);
    } else {
        submitter owner = {0};
        assert_int_equal(disk_make_runs(&r, 1), PAWL_OK);
        disk_step *one = disk_submit(&r, &owner, 1, 1, 100);
        committer_flush(r.committer);
        assert_int_equal(one->answer, UNIT_COMMITTED);
        assert_int_equal(one->dirty, 0);
    }
    disk_free(&r);
}

/* Commit a few steps on the lossy disk, tell of them, and die. */
static void write_and_die(int in, int out, void *arg)
{
    static disk_fixture r;
    const char *path = arg;
    submitter owner = {0};
    int off = tmp_hear(in) == 'x';
    disk_init(&r, path);
    atomic_store(&vfs_shim.lossy, 1);
    TMP_CHECK(disk_open(&r) == PAWL_OK);
    TMP_CHECK(disk_make_runs(&r, 1) == PAWL_OK);
    if (off)
        switch_syncs_off(r.native, NULL); /* behind its back */
    for (int seq = 1; seq <= 20; seq++)
        disk_submit(&r, &owner, 1, seq, 500);
    TMP_CHECK(disk_drive_on(&r, 10));
    TMP_CHECK(r.ledger.count == 20);
    for (size_t i = 0; i < r.ledger.count; i++)
        TMP_CHECK(write(out, &r.ledger.entries[i], sizeof(ledger_entry)) == sizeof(ledger_entry));
    raise(SIGKILL);
}

static void read_ledger(int fd, ledger *l)
{
    ledger_entry e;
    while (read(fd, &e, sizeof e) == sizeof e)
        ledger_add(l, &e);
}

static int64_t lost_with(crash_fixture *s, char order, ledger_verdict *v)
{
    scratch_remove_db(s->path);
    tmp_child c = tmp_fork(write_and_die, s->path);
    tmp_tell(c.to, order);
    read_ledger(c.from, &s->ledger);
    int status = 0;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(c.to);
    close(c.from);
    assert_int_equal(ledger_count(&s->ledger, UNIT_COMMITTED), 20);
    assert_int_equal(ledger_check(&s->ledger, s->path, v), 0); /* a kill alone shows nothing */
    assert_int_equal(vfs_shim_lose(s->path, 0), 0);
    ledger_check(&s->ledger, s->path, v);
    ledger_free(&s->ledger);
    return v->lost;
}

/* The counter-proof: the same procedure finds nothing missing with syncs, and all without. */
static void without_syncs_the_loss_is_found(void **state)
{
    crash_fixture *s = *state;
    ledger_verdict v;
    assert_int_equal(lost_with(s, 'o', &v), 0);
    assert_int_equal(v.rows, 20);
    assert_int_equal(lost_with(s, 'x', &v), 20);
    assert_int_equal(v.broken, 0);
}

/* ---- A sync lies between the last write to the log and the answer ---- */

static void look_at_each_answer(disk_fixture *r, int wanted)
{
    submitter owner = {0};
    int64_t seq = 0;
    int first = r->count;
    for (int batch = 1; batch <= 8; batch++) {
        for (int i = 0; i < batch; i++)
            disk_submit(r, &owner, 1, ++seq, 200);
        assert_true(disk_drive_on(r, 10));
    }
    for (int i = first; i < r->count; i++) {
        assert_int_equal(r->steps[i].answer, UNIT_COMMITTED);
        assert_int_equal(r->steps[i].dirty, wanted);
    }
}

static void answers_come_after_the_sync(void **state)
{
    crash_fixture *s = *state;
    static disk_fixture r;
    disk_init(&r, s->path);
    assert_int_equal(disk_open(&r), PAWL_OK);
    assert_int_equal(disk_make_runs(&r, 1), PAWL_OK);
    int64_t syncs = atomic_load(&vfs_shim.syncs[VFS_FILE_WAL]);
    look_at_each_answer(&r, 0);
    assert_true(atomic_load(&vfs_shim.syncs[VFS_FILE_WAL]) >= syncs + 8);
    disk_free(&r);
}

static void without_syncs_the_answers_tell(void **state)
{
    crash_fixture *s = *state;
    static disk_fixture r;
    disk_init(&r, s->path);
    assert_int_equal(disk_open(&r), PAWL_OK);
    assert_int_equal(disk_make_runs(&r, 1), PAWL_OK);
    switch_syncs_off(r.native, NULL); /* behind its back */
    look_at_each_answer(&r, 1);
    disk_free(&r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, crash_set_up, crash_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(answers_come_after_the_sync),     TEST(without_syncs_the_answers_tell),
        TEST(without_syncs_the_loss_is_found), TEST(a_hook_cannot_switch_syncs_off),
        TEST(what_was_acknowledged_is_there),  TEST(with_failing_syncs),
        TEST(relaxed_loses_only_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
