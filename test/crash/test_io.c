/* Every single read, write and sync fails once, and once from there on until the cause is gone.
 *
 * The same steps are done in each round: open a database that a dead process has left behind,
 * commit a few batches (one of them larger than the page cache, and enough for the log to begin
 * anew), close. In the n-th round the n-th call of a kind fails. The last round is the one in which
 * nothing was left to fail. Whatever fails, the answers are right, say why, and work
 * goes on afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/disk_fixture.h"

#define RUNS 4
#define SEQ 3 /* what the template has of each run */

typedef struct fixture {
    char folder[TMP_PATH];
    char first[TMP_PATH]; /* the template */
    char path[TMP_PATH];
    const char *kind;
    int64_t n;
    int64_t times;
} fixture;

static disk_fixture disk;

/* A database with a log in it and no shared memory, as after a kill. */
static void make_template(fixture *s)
{
    disk_init(&disk, s->path);
    assert_int_equal(disk_open(&disk), PAWL_OK);
    assert_int_equal(disk_make_runs(&disk, RUNS), PAWL_OK);
    for (int64_t run = 1; run <= RUNS; run++) {
        submitter owner = {0};
        for (int64_t seq = 1; seq <= SEQ; seq++)
            disk_submit(&disk, &owner, run, seq, 1000);
        assert_true(disk_drive_on(&disk, 10));
    }
    scratch_copy_db(s->path, s->first);
    disk_free(&disk);
    scratch_remove_db(s->path);
}

static int set_up(void **state)
{
    static fixture s;
    s = (fixture){.n = 0};
    tmp_dir_make(s.folder);
    tmp_path(s.first, s.folder, "first.db");
    tmp_path(s.path, s.folder, "app.db");
    make_template(&s);
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    fixture *s = *state;
    tmp_dir_remove(s->folder);
    return 0;
}

#define FAIL(s, ...)                                                                               \
    do {                                                                                           \
        print_error("%s number %lld fails %s: ", (s)->kind, (long long)(s)->n,                     \
                    (s)->times == 1 ? "once" : "from then on");                                    \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static void lift(void)
{
    vfs_fault_arm(&vfs_shim.read, 0, 0);
    vfs_fault_arm(&vfs_shim.write, 0, 0);
    vfs_fault_arm(&vfs_shim.sync, 0, 0);
}

/* Opening may fail, with a reason, and then must not once the cause is gone. */
static void open_after_death(fixture *s)
{
    if (disk_open(&disk) == PAWL_OK)
        return;
    const error *e = &disk.err;
    if (e->code != PAWL_IO || !e->message[0] || !e->detail[0] || !e->hint[0])
        FAIL(s, "opening says %s: %s (%s) %s", pawl_code_name(e->code), e->message, e->detail,
             e->hint);
    lift();
    if (disk_open(&disk) != PAWL_OK)
        FAIL(s, "opening again says %s: %s (%s)", pawl_code_name(e->code), e->message, e->detail);
}

static void commit_batches(submitter *owners)
{
    for (int64_t run = 1; run <= RUNS; run++)
        disk_submit(&disk, &owners[run - 1], run, SEQ + 1, run == 2 ? 100000 : 100);
    disk_drive_on(&disk, 10);
    for (int64_t run = 1; run <= RUNS; run++) {
        disk_submit(&disk, &owners[run - 1], run, SEQ + 2, 100);
        disk_drive_on(&disk, 10);
    }
}

static void look_at_answers(fixture *s)
{
    for (int i = 0; i < disk.count; i++) {
        const disk_step *one = &disk.steps[i];
        if (one->finals != 1)
            FAIL(s, "unit %d has %d final answers", i, one->finals);
        int fine = one->answer == UNIT_COMMITTED;
        fine |= one->answer == UNIT_REFUSED && strcmp(one->refused, "prefix") == 0;
        fine |= one->answer == UNIT_FAILED && one->code == PAWL_IO && one->message[0];
        if (!fine)
            FAIL(s, "unit %d is answered %s: %s%s", i, pawl_code_name(one->code), one->message,
                 one->refused);
    }
}

/* How far a run has come, by its answers. */
static int64_t last_of(int64_t run)
{
    int64_t last = SEQ;
    for (int i = 0; i < disk.count; i++)
        if (disk.steps[i].step.run == run && disk.steps[i].answer == UNIT_COMMITTED)
            last = disk.steps[i].step.seq;
    return last;
}

static void work_goes_on(fixture *s)
{
    for (int64_t run = 1; run <= RUNS; run++) {
        submitter owner = {0};
        disk_step *next = disk_submit(&disk, &owner, run, last_of(run) + 1, 100);
        if (!disk_drive_on(&disk, 1000) || next->answer != UNIT_COMMITTED)
            FAIL(s, "the cause is gone, and still: %s %s", pawl_code_name(next->code),
                 next->message);
    }
}

/* One telling. 1 if there was something to fail. */
static int tell(fixture *s, vfs_fault *fault)
{
    submitter owners[RUNS] = {{0}};
    scratch_copy_db(s->first, s->path);
    disk_init(&disk, s->path);
    disk.marks = 1000000; /* not those of the template */
    disk.cache_pages = 10;
    disk.wal_bytes = 64 * 1024;
    vfs_fault_arm(fault, s->n, s->times);
    open_after_death(s);
    commit_batches(owners);
    /* Lifted already: it was opening that failed. */
    int fired = atomic_load(&fault->fired) > 0 || atomic_load(&fault->first) == 0;
    lift();
    if (!disk_drive_on(&disk, 1000))
        FAIL(s, "it never comes to an end");
    look_at_answers(s);
    work_goes_on(s);
    disk_close(&disk);
    ledger_verdict v;
    if (ledger_check(&disk.ledger, s->path, &v) != 0)
        FAIL(s, "%s", v.first);
    disk_free(&disk);
    scratch_remove_db(s->path);
    return fired;
}

static void each(fixture *s, const char *kind, vfs_fault *fault)
{
    s->kind = kind;
    for (int forever = 0; forever < 2; forever++) {
        s->times = forever ? VFS_FAULT_FOREVER : 1;
        for (s->n = 1; tell(s, fault); s->n++)
            continue;
        assert_true(s->n > 5); /* otherwise too little was done */
    }
}

static void each_read(void **state)
{
    each(*state, "read", &vfs_shim.read);
}

static void each_write(void **state)
{
    each(*state, "write", &vfs_shim.write);
}

static void each_sync(void **state)
{
    each(*state, "sync", &vfs_shim.sync);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_read),
        TEST(each_write),
        TEST(each_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
