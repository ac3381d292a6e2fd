/* Jobs among runs: work that is done beside a workflow function has its turns also while there are
 * always runs that could go on. One thread drives, and there is one committer, so that all runs do
 * a step, are committed together, and are ready together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "support/engine_fixture.h"

/* So many runs are ready at once, with so many steps each; every eighth turn is for a job. */
enum { RUNS = 60, STEPS = 6, TURNS = 8 };
enum { DONE, JOB_AT };

static const char *step(pawl_work *work, const char *input)
{
    atomic_fetch_add(fixture_number(pawl_work_arg(work), DONE), 1);
    return input;
}

static const char *busy(pawl_run *run, const char *input)
{
    for (int i = 0; i < STEPS; i++)
        FIXTURE_STEP(run, "step", step, input);
    return input;
}

static const char *job(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    atomic_store(fixture_number(s, JOB_AT), atomic_load(fixture_number(s, DONE)) + 1);
    return input;
}

static const char *beside(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_step_later(run, "job", job, input, PAWL_CALL(.arg = pawl_arg(run)));
    return pawl_await(run, f);
}

static void a_job_is_not_kept_waiting(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .poll_ms = -1));
    FIXTURE_REGISTER(s, p, busy);
    FIXTURE_REGISTER(s, p, beside);
    fixture_start(s, p, "beside", "beside", "1");
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "busy-%d", i);
        fixture_start(s, p, "busy", id, "1");
    }
    fixture_poll(s, p);
    int64_t at = atomic_load(fixture_number(s, JOB_AT)) - 1;
    assert_int_equal(atomic_load(fixture_number(s, DONE)), RUNS * STEPS);
    assert_true(at <= RUNS + TURNS); /* after a round of steps at the latest, not behind the next */
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"a job is not kept waiting", a_job_is_not_kept_waiting, DB_TURNS},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
