/* A commit whose sync failed has no answer yet.
 *
 * SQLite says "I/O error" and has forgotten the transaction, but its frames are in the log: a crash
 * at that moment brings the rows back. To answer "failed" at once would be wrong, to try again
 * would write twice. So the unit is undecided until a later commit has overwritten the frames; only
 * then has it failed, for good.
 *
 * The committer is driven by hand, on a clock that stands still: back-off takes no time, and "not
 * yet" can be seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/disk_fixture.h"
#include "support/writers.h"

static void fail_syncs(int64_t first, int64_t times)
{
    atomic_store(&vfs_shim.suffix, "-wal");
    vfs_fault_arm(&vfs_shim.sync, first, times);
}

static void lift(void)
{
    vfs_fault_arm(&vfs_shim.sync, 0, 0);
}

static void check(disk_fixture *r)
{
    ledger_verdict v;
    if (ledger_check(&r->ledger, r->path, &v) != 0)
        fail_msg("%s", v.first);
}

static void expect_final(const disk_step *s, unit_answer answer, pawl_code code)
{
    assert_int_equal(s->finals, 1);
    assert_int_equal(s->answer, answer);
    assert_int_equal(s->code, code);
}

static void expect_undecided(const disk_step *s)
{
    assert_int_equal(s->undecided, 1);
    assert_int_equal(s->finals, 0);
    assert_int_equal(s->answer, UNIT_UNDECIDED);
    assert_int_equal(s->code, PAWL_UNDECIDED);
}

/* ---- The rule itself ---- */

/* At the moment of the answer, before anything else is tried. */
static void recover_when_undecided(disk_step *s, void *arg)
{
    if (s->answer == UNIT_UNDECIDED)
        *(int *)arg = disk_recovered(s->disk, s);
}

static void an_undecided_unit_that_was_lost(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 2);
    submitter owner = {0};
    int recovered = -1;
    disk_step *one = disk_submit(r, &owner, 1, 1, 100);
    disk_drive(r);
    expect_final(one, UNIT_COMMITTED, PAWL_OK);

    r->on_answer = recover_when_undecided;
    r->on_answer_arg = &recovered;
    fail_syncs(1, 1);
    disk_step *two = disk_submit(r, &owner, 1, 2, 100);
    disk_drive(r);
    expect_undecided(two);
    assert_int_equal(atomic_load(&vfs_shim.sync.fired), 1);
    assert_int_equal(recovered, 1); /* why it is not "failed" */

    assert_true(disk_drive_on(r, 100));
    expect_final(two, UNIT_FAILED, PAWL_IO);
    assert_true(two->message[0] != 0);
    assert_int_equal(two->undecided, 1);
    assert_int_equal(disk_recovered(r, two), 0); /* why it is now */
    assert_int_equal(disk_recovered(r, one), 1);
    check(r);
}

/* Rows of all sizes: the frames of the failed commit reach far beyond those that overwrite it. */
static void an_undecided_long_unit_that_was_lost(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 8);
    for (int64_t run = 1; run <= 8; run++) {
        submitter owner = {0};
        fail_syncs(1, 1);
        disk_step *one = disk_submit(r, &owner, run, 1, (size_t)1 << (2 * run + 2));
        disk_drive(r);
        expect_undecided(one);
        assert_true(disk_drive_on(r, 100));
        expect_final(one, UNIT_FAILED, PAWL_IO);
        assert_int_equal(disk_recovered(r, one), 0);
    }
    check(r);
}

/* What overwrites the frames is a change of one row. It has to be one also when that row was
 * removed. */
static void an_undecided_unit_without_its_ring_row(void **state)
{
    static const db_sql CLEAR = {"DELETE FROM {meta} WHERE name = 'settled'", ""};
    disk_fixture *r = disk_open_with_runs(*state, 2);
    arena *a = arena_new(0);
    assert_non_null(a);
    unit *clear = unit_new(a);
    unit_write(clear, &CLEAR, unit_key("meta", 1), NULL, 0);
    for (int64_t run = 1; run <= 2; run++) { /* the second time it is there again */
        submitter owner = {0};
        if (run == 1)
            assert_int_equal(committer_commit(r->committer, clear), PAWL_OK);
        fail_syncs(1, 1);
        disk_step *lost = disk_submit(r, &owner, run, 1, 100);
        disk_drive(r);
        expect_undecided(lost);
        assert_true(disk_drive_on(r, 100));
        expect_final(lost, UNIT_FAILED, PAWL_IO);
        assert_int_equal(disk_recovered(r, lost), 0);
    }
    check(r);
    arena_free(a);
}

static void later_units_of_the_submitter_are_refused(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 2);
    submitter first = {0};
    submitter second = {0};
    fail_syncs(1, 1);
    disk_step *lost = disk_submit(r, &first, 1, 1, 100);
    disk_drive(r);
    expect_undecided(lost);
    disk_step *later = disk_submit(r, &first, 1, 2, 100);
    disk_step *other = disk_submit(r, &second, 2, 1, 100);
    assert_true(disk_drive_on(r, 100));
    expect_final(lost, UNIT_FAILED, PAWL_IO);
    expect_final(later, UNIT_REFUSED, PAWL_REFUSED);
    assert_string_equal(later->refused, "prefix");
    expect_final(other, UNIT_COMMITTED, PAWL_OK);

    submitter again = {0};
    disk_step *retry = disk_submit(r, &again, 1, 1, 100);
    assert_true(disk_drive_on(r, 100));
    expect_final(retry, UNIT_COMMITTED, PAWL_OK);
    check(r);
}

/* A batch shares its fate: good units, and one that failed on the strength of a neighbour that
 * turned out not to be there. */
static void an_undecided_batch(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 6);
    submitter owners[6] = {{0}};
    disk_step *steps[6];
    fail_syncs(1, 1);
    for (int i = 0; i < 5; i++)
        steps[i] = disk_submit(r, &owners[i], i + 1, 1, 100);
    steps[5] = disk_submit(r, &owners[5], 1, 1, 100); /* run 1 has seq 1 by now */
    disk_drive(r);
    for (int i = 0; i < 5; i++)
        expect_undecided(steps[i]);
    assert_int_equal(steps[5]->finals, 0); /* it waits for what it would rest on */
    assert_true(disk_drive_on(r, 100));
    expect_final(steps[5], UNIT_COMMITTED, PAWL_OK); /* and that was never there */
    assert_int_equal(disk_recovered(r, steps[5]), 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(steps[i]->finals, 1);
        assert_int_not_equal(steps[i]->answer, UNIT_COMMITTED);
        assert_int_equal(disk_recovered(r, steps[i]), 0);
    }
    check(r);
}

static void a_unit_is_undecided_while_syncs_fail(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 3);
    submitter first = {0};
    submitter second = {0};
    fail_syncs(1, VFS_FAULT_FOREVER);
    disk_step *lost = disk_submit(r, &first, 1, 1, 100);
    disk_step *other = NULL;
    disk_drive(r);
    for (int i = 0; i < 50; i++) {
        expect_undecided(lost);
        if (i == 10)
            other = disk_submit(r, &second, 2, 1, 100);
        if (other)
            assert_int_equal(other->finals, 0);
        disk_drive_on(r, 1);
    }
    assert_true(atomic_load(&vfs_shim.sync.fired) > 5);
    lift();
    assert_true(disk_drive_on(r, 1000));
    expect_final(lost, UNIT_FAILED, PAWL_IO);
    expect_final(other, other->answer, other->answer == UNIT_COMMITTED ? PAWL_OK : PAWL_IO);
    assert_int_equal(disk_recovered(r, lost), 0);
    submitter third = {0};
    disk_step *next = disk_submit(r, &third, 3, 1, 100);
    assert_true(disk_drive_on(r, 100));
    expect_final(next, UNIT_COMMITTED, PAWL_OK);
    check(r);
}

/* The back-off: while the clock stands still nothing is tried again and again. */
static void attempts_wait_for_the_clock(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 1);
    submitter owner = {0};
    fail_syncs(1, VFS_FAULT_FOREVER);
    disk_step *lost = disk_submit(r, &owner, 1, 1, 100);
    disk_drive(r);
    int64_t tried = atomic_load(&vfs_shim.sync.seen);
    for (int i = 0; i < 100; i++)
        assert_int_equal(committer_drive(r->committer), 0);
    assert_int_equal(atomic_load(&vfs_shim.sync.seen), tried);
    assert_true(committer_next_ns(r->committer) != INT64_MAX);
    lift();
    assert_true(disk_drive_on(r, 100));
    expect_final(lost, UNIT_FAILED, PAWL_IO);
}

/* ---- Closing and dying while it is undecided ---- */

static void closing_tells_that_the_outcome_is_unknown(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 2);
    submitter first = {0};
    submitter second = {0};
    fail_syncs(1, VFS_FAULT_FOREVER);
    disk_step *lost = disk_submit(r, &first, 1, 1, 100);
    disk_drive(r);
    disk_step *queued = disk_submit(r, &second, 2, 1, 100);
    disk_close(r);
    assert_int_equal(lost->finals, 1);
    assert_int_equal(queued->finals, 1);
    assert_int_not_equal(lost->answer, UNIT_COMMITTED);
    assert_int_equal(lost->code, PAWL_UNDECIDED); /* not a failure that may be tried again */
    assert_int_not_equal(queued->answer, UNIT_COMMITTED);
    lift();
    check(r);
}

static void closing_settles_if_it_can(void **state)
{
    disk_fixture *r = disk_open_with_runs(*state, 1);
    submitter owner = {0};
    fail_syncs(1, 1);
    disk_step *lost = disk_submit(r, &owner, 1, 1, 100);
    disk_drive(r);
    expect_undecided(lost);
    disk_close(r);
    assert_int_equal(lost->finals, 1);
    assert_int_not_equal(lost->answer, UNIT_COMMITTED);
    check(r);
}

/* Five units of five runs in one batch, whose sync fails; then the process is gone. */
static void die_with_undecided_units(int in, int out, void *arg)
{
    static disk_fixture r;
    submitter owners[5] = {{0}};
    (void)in;
    disk_init(&r, arg);
    atomic_store(&vfs_shim.lossy, 1);
    TMP_CHECK(disk_open(&r) == PAWL_OK);
    TMP_CHECK(disk_make_runs(&r, 5) == PAWL_OK);
    fail_syncs(1, VFS_FAULT_FOREVER);
    for (int i = 0; i < 5; i++)
        disk_submit(&r, &owners[i], i + 1, 1, 3000);
    disk_drive(&r);
    TMP_CHECK(r.ledger.count == 5);
    for (size_t i = 0; i < r.ledger.count; i++)
        TMP_CHECK(r.ledger.entries[i].answer == UNIT_UNDECIDED);
    tmp_tell(out, 'u');
    raise(SIGKILL);
}

static int64_t rows_left(const char *path)
{
    ledger empty = {0};
    ledger_verdict v;
    if (ledger_check(&empty, path, &v) != 0)
        fail_msg("%s", v.first);
    return v.rows;
}

static void a_death_leaves_all_of_a_batch_or_nothing(void **state)
{
    disk_folder *s = *state;
    char copy[TMP_PATH];
    int64_t rows;
    tmp_path(copy, s->folder, "cut.db");
    tmp_child c = tmp_fork(die_with_undecided_units, s->path);
    tmp_expect(&c, 'u');
    int status = 0;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(c.to);
    close(c.from);
    assert_int_equal(rows_left(s->path), 5); /* the page cache has it all */
    for (uint64_t seed = 0; seed < 20; seed++) {
        scratch_copy_db(s->path, copy);
        assert_int_equal(vfs_shim_lose(copy, seed), 0);
        rows = rows_left(copy);
        if (rows != 0 && rows != 5)
            fail_msg("seed %d: %d of 5 rows", (int)seed, (int)rows);
        if (seed == 0)
            assert_int_equal(rows, 0);
        scratch_remove_db(copy);
    }
    /* The next process goes on with whatever recovery has decided. */
    disk_fixture *r = disk_open_with_runs(s, 5);
    submitter owner = {0};
    disk_step *next = disk_submit(r, &owner, 1, 2, 100);
    disk_drive(r);
    expect_final(next, UNIT_COMMITTED, PAWL_OK);
    check(r);
}

/* ---- With threads, and a real clock ---- */

static void syncs_that_fail_at_random(void **state)
{
    disk_folder *s = *state;
    writers_plan plan = {.threads = 2,
                         .first_run = 1,
                         .runs = 8,
                         .turns = 200,
                         .wal_bytes = 128 * 1024,
                         .payload = 2000,
                         .sync_fails_each = 7,
                         .shim = 1,
                         .seed = scratch_seed()};
    ledger book = {0};
    ledger_verdict v;
    writers w;
    memcpy(plan.path, s->path, sizeof plan.path);
    assert_int_equal(writers_set_up(&plan), 0);
    writers_start(&w, &plan, 1);
    assert_int_equal(writers_join(&w, &book), 0);
    if (ledger_check(&book, s->path, &v) != 0)
        fail_msg("PAWL_TEST_SEED=%llu: %s", (unsigned long long)plan.seed, v.first);
    assert_true(ledger_count(&book, UNIT_UNDECIDED) > 0);
    assert_int_equal(v.rows, ledger_count(&book, UNIT_COMMITTED));
    ledger_free(&book);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, disk_set_up, disk_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_undecided_unit_that_was_lost),
        TEST(an_undecided_long_unit_that_was_lost),
        TEST(an_undecided_unit_without_its_ring_row),
        TEST(later_units_of_the_submitter_are_refused),
        TEST(an_undecided_batch),
        TEST(a_unit_is_undecided_while_syncs_fail),
        TEST(attempts_wait_for_the_clock),
        TEST(closing_tells_that_the_outcome_is_unknown),
        TEST(closing_settles_if_it_can),
        TEST(a_death_leaves_all_of_a_batch_or_nothing),
        TEST(syncs_that_fail_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
