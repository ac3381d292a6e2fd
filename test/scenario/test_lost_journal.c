/* The journal of a run in memory gets shorter, or goes on elsewhere: the run was deleted by force,
 * the database was restored, another node has claimed the run. A run whose fiber was dropped is
 * replayed from what is left, and must not begin anew with that.
 *
 * It happens while a later step is being executed. A second execution of the workflow, by an empty
 * journal, would give the op of that step to a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "handle/handle.h"
#include "support/backup.h"
#include "support/served_fixture.h"

/* The test's own, for work functions and logs: one case runs at a time. */
typedef struct lost_fixture {
    const conf *conf;
    engine_fixture *fixture;
    void (*meanwhile)(const char *id); /* what the first execution of "beside" does */
    int backs_up;    /* 1: the second execution of the first step takes a backup */
    atomic_int lost; /* how often the log said so of the run */
    atomic_int dropped;
    pawl *p;
    pawl *other; /* stands for another process */
} lost_fixture;

static lost_fixture test;

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)arg;
    if (strcmp(event, "turn-lost") == 0 && !strchr(fields, '/')) /* its child may be lost too */
        atomic_fetch_add(&test.lost, 1);
    if (strcmp(event, "results-dropped") == 0)
        atomic_fetch_add(&test.dropped, 1);
}

/* ---- Work ---- */

static const char *first(pawl_work *work, const char *input)
{
    fixture_note(test.fixture, "first");
    int times = fixture_count(test.fixture, "first");
    if (times == 1) /* so that the ops behind it have other numbers than without this failure */
        return pawl_work_fail(work, PAWL_TRANSIENT, "once", "try again");
    if (times == 2 && test.backs_up)
        backup_take(test.conf);
    return input;
}

static const char *beside(pawl_work *work, const char *input)
{
    fixture_note(test.fixture, "beside");
    if (fixture_count(test.fixture, "beside") == 1)
        test.meanwhile(pawl_work_run_id(work));
    return input;
}

static const char *last(pawl_work *work, const char *input)
{
    (void)work;
    fixture_note(test.fixture, "last");
    return input;
}

static const char *forever(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_FOREVER);
    return input;
}

static const char *walk(pawl_run *run, const char *input)
{
    pawl_step(run, "first", first, input, PAWL_CALL(.backoff_ms = 10));
    pawl_future *later = pawl_step_later(run, "beside", beside, input, NULL);
    pawl_child_later(run, "forever", input, NULL);
    pawl_await(run, later);
    return pawl_step(run, "last", last, input, NULL);
}

static const char *second_time(pawl_work *work, const char *input)
{
    if (pawl_work_attempt(work) > 1)
        return beside(work, input);
    fixture_note(test.fixture, "first");
    return pawl_work_fail(work, PAWL_TRANSIENT, "once", "try again");
}

static const char *try_again(pawl_run *run, const char *input)
{
    return pawl_step(run, "step", second_time, input, PAWL_CALL(.backoff_ms = 1000));
}

/* ---- What happens meanwhile ---- */

static void delete_this_run(const char *id)
{
    FIXTURE_CODE(test.fixture, test.other, pawl_delete(test.other, id, 1), PAWL_OK);
}

static void delete_other_run(const char *id)
{
    delete_this_run(strcmp(id, "one") == 0 ? "two" : "one");
}

static void restore(const char *id)
{
    (void)id;
    backup_restore(test.conf);
}

/* As a claim of another node does. */
static void raise_fence(const char *id)
{
    (void)id;
    conf_script(handle_db(test.other), "UPDATE {runs} SET fence = fence + 1 WHERE id = 'run'");
}

/* ---- Cases ---- */

static int64_t rows(void)
{
    static const db_sql sql = {
        "SELECT (SELECT count(*) FROM {runs}) + (SELECT count(*) FROM {journal})", ""};
    return conf_number(handle_db(test.other), &sql, NULL, 0);
}

/* No fiber is kept that waits. */
static pawl *open_cold(engine_fixture *s, int64_t threads)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = threads, .warm_bytes = 1, .log = note_log));
    FIXTURE_REGISTER(s, p, walk);
    FIXTURE_REGISTER(s, p, forever);
    FIXTURE_REGISTER(s, p, try_again);
    return p;
}

static engine_fixture *begin(conf *c, void (*meanwhile)(const char *id))
{
    engine_fixture *s = fixture_new(c);
    test = (lost_fixture){.conf = c, .fixture = s, .meanwhile = meanwhile};
    test.p = open_cold(s, -1);
    test.other = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    return s;
}

static void end(void)
{
    pawl_close(test.other);
    pawl_close(test.p);
    fixture_free(test.fixture);
}

static void a_run_that_is_deleted_by_force(conf *c)
{
    engine_fixture *s = begin(c, delete_this_run);
    fixture_start(s, test.p, "walk", "run", "1");
    FIXTURE_UNTIL(s, test.p, atomic_load(&test.lost) == 1 && rows() == 0);
    FIXTURE_NOTES(s, "first first beside");
    assert_int_equal(test.dropped, 0);
    end();
}

static void a_run_that_is_deleted_under_threads(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    test = (lost_fixture){.conf = c, .fixture = v.fixture, .meanwhile = delete_this_run};
    fixture_run_clock(v.fixture);
    v.p = open_cold(v.fixture, 2);
    test.other = fixture_open(v.fixture, PAWL_OPTIONS(.threads = 1));
    served_begin(&v);
    fixture_start(v.fixture, test.other, "walk", "run", "1");
    TMP_AWAIT(atomic_load(&test.lost) == 1 && rows() == 0);
    FIXTURE_NOTES(v.fixture, "first first beside");
    pawl_close(test.other);
    served_end(&v);
}

static void a_restore_to_before_the_claim(conf *c)
{
    engine_fixture *s = begin(c, restore);
    fixture_start(s, test.other, "walk", "run", "1");
    backup_take(c);
    FIXTURE_DONE(s, test.p, "run", "1");
    FIXTURE_NOTES(s, "first first beside first beside last");
    end();
}

/* The run has the same owner and fence as before the restore. */
static void a_restore_to_after_the_claim(conf *c)
{
    engine_fixture *s = begin(c, restore);
    test.backs_up = 1;
    fixture_start(s, test.other, "walk", "run", "1");
    FIXTURE_DONE(s, test.p, "run", "1");
    FIXTURE_NOTES(s, "first first beside first beside last");
    end();
}

/* Nothing is missing in its journal. */
static void a_claim_by_another_node(conf *c)
{
    engine_fixture *s = begin(c, raise_fence);
    fixture_start(s, test.p, "walk", "run", "1");
    FIXTURE_UNTIL(s, test.p, atomic_load(&test.lost) == 1);
    FIXTURE_NOTES(s, "first first beside");
    end();
}

/* Its new node has not read its journal yet: the other run comes first, and deletes it. */
static void a_run_that_is_deleted_before_it_is_read(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = begin(c, delete_other_run);
    fixture_start(s, test.p, "try_again", "one", "1");
    fixture_start(s, test.p, "try_again", "two", "1");
    FIXTURE_UNTIL(s, test.p, fixture_count(s, "first") == 2);
    pawl_close(test.p);
    fixture_advance(s, 1000);
    test.p = open_cold(s, -1);
    FIXTURE_UNTIL(s, test.p, atomic_load(&test.lost) == 1);
    FIXTURE_NOTES(s, "first first beside");
    end();
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a run that is deleted by force", a_run_that_is_deleted_by_force, DB_SHARED},
        {"a run that is deleted under threads", a_run_that_is_deleted_under_threads, DB_SHARED},
        {"a restore to before the claim", a_restore_to_before_the_claim, DB_SHARED},
        {"a restore to after the claim", a_restore_to_after_the_claim, DB_SHARED},
        {"a claim by another node", a_claim_by_another_node, DB_SHARED},
        {"a run that is deleted before it is read", a_run_that_is_deleted_before_it_is_read,
         DB_SHARED},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
