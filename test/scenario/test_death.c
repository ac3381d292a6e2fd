/* Ways to die: a step ends its process, in one way or another, each time. After so many processes
 * its run is held, whichever engine drives it, and the next process goes on without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "sched/quarantine.h"
#include "support/engine_fixture.h"

static const char *honest(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "honest", fixture_echo, input);
}

static const char *dies(pawl_work *work, const char *input)
{
    volatile int *volatile wild = (volatile int *)64;
    fixture_note(pawl_work_arg(work), "dies");
    switch (pawl_get_int(input, "", 0)) {
    case 0:
        *wild = 1;
        break;
    case 1:
        abort();
    case 2:
        _exit(3);
    default:
        raise(SIGKILL);
    }
    return input;
}

/* More than the stack of a workflow function has, also where a sanitizer makes it larger. */
static int fill_the_stack(int depth)
{
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth == 0 ? frame[0] : fill_the_stack(depth - 1) + frame[0];
}

static const char *deadly(pawl_run *run, const char *input)
{
    if (pawl_get_int(input, "", 0) == 4) {
        fixture_note(pawl_arg(run), "dies");
        pawl_log(run, 0, "%d", fill_the_stack(1000000));
    }
    return FIXTURE_STEP(run, "dies", dies, input);
}

/* In a child: until both runs have come to something, or it dies. */
static void live(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, deadly);
    FIXTURE_REGISTER(s, p, honest);
    FIXTURE_UNTIL(s, p,
                  fixture_phase(s, p, "deadly") != PAWL_RUN_LIVE &&
                      fixture_phase(s, p, "beside") != PAWL_RUN_LIVE);
    pawl_close(p);
}

/* Whatever the way: so many processes, and it is held; the next one has peace. */
static void die_so_often(conf *c, const char *way)
{
    int status = -1, deaths = 0;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "deadly", "deadly", way);
    fixture_start(s, p, "honest", "beside", "1");
    pawl_close(p);
    while (status != 0) {
        tmp_child child = fixture_fork(s, live, NULL);
        status = tmp_reap(&child);
        deaths += status != 0;
        assert_true(deaths <= 2 * POISON_DEATHS);
    }
    assert_int_equal(deaths, POISON_DEATHS);
    assert_int_equal(fixture_count(s, "dies"), POISON_DEATHS);
    p = fixture_open(s, NULL);
    FIXTURE_HELD(s, p, "deadly",
                 "5 times in a row the process died while it executed this run, in");
    FIXTURE_HELD(s, p, "deadly",
                 "in the workflow function deadly or in work that it calls: a crash");
    FIXTURE_HELD(s, p, "deadly", "overflow of the stack (256 KiB of a workflow function)");
    FIXTURE_DONE(s, p, "beside", "1");
    pawl_close(p);
    fixture_free(s);
}

static void a_process_that_dies_by_a_wild_pointer(conf *c)
{
    die_so_often(c, "0");
}

static void a_process_that_dies_by_abort(conf *c)
{
    die_so_often(c, "1");
}

static void a_process_that_dies_by_exit(conf *c)
{
    die_so_often(c, "2");
}

static void a_process_that_dies_by_a_stack_that_is_too_small(conf *c)
{
    die_so_often(c, "4");
}

enum { CLAIM_MS = 100000 };

/* The program of ten lines, which drives its run alone. */
static void ten_lines(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, PAWL_OPTIONS(.claim_ms = CLAIM_MS));
    FIXTURE_REGISTER(s, p, deadly);
    fixture_start(s, p, "deadly", "deadly", "9");
    FIXTURE_CODE(s, p, pawl_finish(p, "deadly", PAWL_FOREVER, NULL), PAWL_HELD);
    pawl_close(p);
}

static void a_program_of_ten_lines_dies(conf *c)
{
    int status = -1, deaths = 0;
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    while (status != 0) {
        tmp_child child = fixture_fork(s, ten_lines, NULL);
        status = tmp_reap(&child);
        deaths += status != 0;
        assert_true(deaths <= 2 * POISON_DEATHS);
        fixture_advance(s, CLAIM_MS + 1000);
    }
    assert_int_equal(deaths, POISON_DEATHS);
    assert_int_equal(fixture_count(s, "dies"), POISON_DEATHS);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-poison a process that dies by a wild pointer", a_process_that_dies_by_a_wild_pointer,
         DB_SHARED},
        {"dx-poison a process that dies by abort", a_process_that_dies_by_abort, DB_SHARED},
        {"dx-poison a process that dies by exit", a_process_that_dies_by_exit, DB_SHARED},
        {"dx-poison a process that dies by a stack that is too small",
         a_process_that_dies_by_a_stack_that_is_too_small, DB_SHARED},
        {"dx-poison a program of ten lines", a_program_of_ten_lines_dies, DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
