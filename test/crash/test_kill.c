/* SIGKILL at any moment: what was acknowledged is there, what was refused is not, and the journal
 * of a run never has a hole.
 *
 * Writers in other processes are killed after a random number of acknowledgements and a random
 * bit of computing more. The next ones go on with the database as it was left. PAWL_TEST_KILLS
 * says how often (5), PAWL_TEST_SEED repeats a run as far as chance is ours.
 *
 * Chance rarely meets the short moments, such as those in which a file is made. So a process also
 * dies at its first write to the disk, at its second, and so on, until it lives.
 *
 * A kill says nothing about syncs, since the page cache survives it: test_lost_sync.c does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/crash_fixture.h"
#include "support/disk_fixture.h"
#include "support/writers.h"

#define PROCESSES_MAX 4

/* A small log, so that kills meet checkpoints and new beginnings of it too. */
static writers_plan plan_for(const crash_fixture *s, int process)
{
    writers_plan plan = {.threads = 2,
                         .first_run = 1 + process * 100,
                         .runs = 8,
                         .wal_bytes = 256 * 1024,
                         .payload = 300,
                         .seed = s->seed};
    memcpy(plan.path, s->path, sizeof plan.path);
    return plan;
}

static void check(crash_fixture *s, const char *when)
{
    ledger_verdict v;
    if (ledger_check(&s->ledger, s->path, &v) != 0)
        crash_fail(&v, when, s->seed);
}

static void await(crash_fixture *s, writers *all, int count, int which, int64_t acks)
{
    if (writers_await(all, count, which, acks, &s->ledger) != 0)
        fail_msg("PAWL_TEST_SEED=%llu: writer %d is stuck or dead after %lld acknowledgements",
                 (unsigned long long)s->seed, which, (long long)all[which].acks);
}

static void kill_again_and_again(void **state)
{
    crash_fixture *s = *state;
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    writers_plan plan = plan_for(s, 0);
    assert_int_equal(writers_set_up(&plan), 0);
    for (int64_t i = 0; i < kills; i++) {
        writers w;
        writers_start(&w, &plan, ++s->births);
        await(s, &w, 1, 0, scratch_between(&s->random, 1, 4000));
        crash_spin(&s->random, 2000000);
        assert_int_equal(writers_kill(&w, &s->ledger), 0);
        check(s, "after a kill");
    }
    /* Chance has brought some of each; without them the checks above say little. */
    assert_true(ledger_count(&s->ledger, UNIT_COMMITTED) > 0);
    assert_true(ledger_count(&s->ledger, UNIT_REFUSED) > 0);
    assert_true(ledger_count(&s->ledger, UNIT_FAILED) > 0);
}

/* Right after the start: while the file and the tables are made. */
static void kill_at_the_start(void **state)
{
    crash_fixture *s = *state;
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    writers_plan plan = plan_for(s, 0);
    for (int64_t i = 0; i < kills * 3; i++) {
        writers w;
        scratch_remove_db(s->path);
        writers_start(&w, &plan, ++s->births); /* without set-up: no runs, all is refused */
        crash_spin(&s->random, 40000000);
        assert_int_equal(writers_kill(&w, &s->ledger), 0);
        if (writers_set_up(&plan) != 0)
            fail_msg("PAWL_TEST_SEED=%llu: a file that was being made is of no use afterwards",
                     (unsigned long long)s->seed);
        check(s, "after a kill at the start");
    }
}

/* ---- At every single write ---- */

typedef struct death {
    char path[TMP_PATH];
    int64_t n;
    int lossy;
    int out;
} death;

static void tell(disk_step *one, void *arg)
{
    ledger_entry e = step_entry(&one->step, one->unit);
    TMP_CHECK(write(((death *)arg)->out, &e, sizeof e) == sizeof e);
}

/* Make a database, commit a few batches, let the log begin anew, close. Somewhere, die. */
static void write_until_killed(int in, int out, void *arg)
{
    static disk_fixture r;
    death *d = arg;
    submitter owners[2] = {{0}};
    (void)in;
    d->out = out;
    disk_init(&r, d->path);
    r.on_answer = tell;
    r.on_answer_arg = d;
    r.wal_bytes = 64 * 1024;
    atomic_store(&vfs_shim.lossy, d->lossy);
    vfs_fault_arm(&vfs_shim.death, d->n, 1);
    TMP_CHECK(disk_open(&r) == PAWL_OK);
    TMP_CHECK(disk_make_runs(&r, 2) == PAWL_OK);
    for (int64_t seq = 1; seq <= 6; seq++) {
        disk_submit(&r, &owners[0], 1, seq, 300);
        disk_submit(&r, &owners[1], 2, seq, 6000);
        disk_drive(&r);
    }
    disk_free(&r);
}

/* The next process opens what is left and writes; gives 0 once no process died any more. */
static int die_at(const death *d)
{
    static disk_fixture r;
    ledger_verdict v;
    ledger_entry e;
    submitter owner = {0};
    tmp_child c = tmp_fork(write_until_killed, (void *)(uintptr_t)d);
    disk_init(&r, d->path);
    r.marks = 1000;
    while (read(c.from, &e, sizeof e) == sizeof e)
        ledger_add(&r.ledger, &e);
    int status = tmp_reap(&c);
    if (d->lossy && tmp_size(d->path) >= 0)
        assert_int_equal(vfs_shim_lose(d->path, 0), 0);
    if (disk_open(&r) != PAWL_OK || disk_make_runs(&r, 3) != PAWL_OK)
        fail_msg("death at write %lld, %s: cannot go on: %s: %s (%s)", (long long)d->n,
                 d->lossy ? "and the power goes" : "the disk stays", pawl_code_name(r.err.code),
                 r.err.message, r.err.detail);
    disk_submit(&r, &owner, 3, 1, 100);
    assert_true(disk_drive_on(&r, 10));
    if (ledger_check(&r.ledger, d->path, &v) != 0)
        fail_msg("death at write %lld: %s", (long long)d->n, v.first);
    disk_free(&r);
    if (!WIFSIGNALED(status))
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

static void die_at_each_write(crash_fixture *s, int lossy)
{
    death d = {.n = 1, .lossy = lossy};
    memcpy(d.path, s->path, sizeof d.path);
    while (die_at(&d)) {
        scratch_remove_db(s->path);
        d.n++;
    }
    assert_true(d.n > 50); /* otherwise it has not lived */
}

static void death_at_each_write(void **state)
{
    die_at_each_write(*state, 0);
}

static void power_cut_at_each_write(void **state)
{
    die_at_each_write(*state, 1);
}

/* ---- Several processes ---- */

/* Several processes on one file; one after the other is killed, and the rest must go on: what a
 * dead process had locked, its turn among the writers too, is free. */
static void kill_one_of(crash_fixture *s, int count)
{
    writers all[PROCESSES_MAX];
    memset(all, 0, sizeof all);
    for (int i = 0; i < count; i++) {
        writers_plan plan = plan_for(s, i);
        assert_int_equal(writers_set_up(&plan), 0);
    }
    for (int i = 0; i < count; i++) {
        writers_plan plan = plan_for(s, i);
        writers_start(&all[i], &plan, ++s->births);
    }
    for (int i = 0; i < count; i++)
        await(s, all, count, i, 50);
    for (int dead = 0; dead + 1 < count; dead++) {
        await(s, all, count, dead, all[dead].acks + scratch_between(&s->random, 1, 500));
        crash_spin(&s->random, 2000000);
        assert_int_equal(writers_kill(&all[dead], &s->ledger), 0);
        for (int i = dead + 1; i < count; i++)
            await(s, all, count, i, all[i].acks + 200);
    }
    assert_int_equal(writers_kill(&all[count - 1], &s->ledger), 0);
    check(s, "after kills among several");
}

static void kill_one_of_two(void **state)
{
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    for (int64_t i = 0; i < (kills + 4) / 5; i++)
        kill_one_of(*state, 2);
}

static void kill_one_of_four(void **state)
{
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    for (int64_t i = 0; i < (kills + 4) / 5; i++)
        kill_one_of(*state, 4);
}

/* No kill at all: everything that was handed in has one answer, and all answers are right. */
static void an_orderly_end(void **state)
{
    crash_fixture *s = *state;
    writers_plan plan = plan_for(s, 0);
    plan.turns = 500;
    assert_int_equal(writers_set_up(&plan), 0);
    writers w;
    writers_start(&w, &plan, ++s->births);
    assert_int_equal(writers_join(&w, &s->ledger), 0);
    check(s, "after an orderly end");
    ledger_verdict v;
    ledger_check(&s->ledger, s->path, &v);
    assert_int_equal(v.rows, ledger_count(&s->ledger, UNIT_COMMITTED));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, crash_set_up, crash_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(death_at_each_write),  TEST(power_cut_at_each_write), TEST(an_orderly_end),
        TEST(kill_again_and_again), TEST(kill_at_the_start),       TEST(kill_one_of_two),
        TEST(kill_one_of_four),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
