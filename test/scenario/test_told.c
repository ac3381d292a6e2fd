/* What a client is told about a run: why it was cancelled, and what it waits for. Each sentence of
 * pawl_why() must be true of the run it is asked about, and be written once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/engine_fixture.h"

static const char *sleeps(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_SECONDS(5));
    return input;
}

static const char *waits(pawl_run *run, const char *input)
{
    const char *message;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    (void)input;
    return message;
}

static const char *lacks(pawl_run *run, const char *input)
{
    return pawl_call(run, "nowhere", input, NULL);
}

static const char *parent(pawl_run *run, const char *input)
{
    const char *workflow = pawl_text(run, input, "", "sleeps");
    return pawl_child(run, workflow, "1", PAWL_CHILD(.id = "kid"));
}

static const char *fails(pawl_run *run, const char *input)
{
    (void)input;
    return pawl_fail(run, "declined", "say \"no\" to C:\\new");
}

static const char *grandparent(pawl_run *run, const char *input)
{
    return pawl_child(run, "parent", input, PAWL_CHILD(.id = "middle"));
}

static pawl *open_here(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, sleeps);
    FIXTURE_REGISTER(s, p, waits);
    FIXTURE_REGISTER(s, p, lacks);
    FIXTURE_REGISTER(s, p, parent);
    FIXTURE_REGISTER(s, p, grandparent);
    FIXTURE_REGISTER(s, p, fails);
    return p;
}

/* The sentences have these words, and never those. */
static void expect_why(engine_fixture *s, pawl *p, const char *id, const char *words,
                       const char *never, int line)
{
    char *text = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, id, &text), PAWL_OK);
    if (words && !strstr(text, words))
        fixture_fail(s, line, "'%s' is not in\n%s", words, text);
    if (never && strstr(text, never))
        fixture_fail(s, line, "'%s' is in\n%s", never, text);
    if (strstr(text, ": :") || strstr(text, ": ."))
        fixture_fail(s, line, "an empty place in\n%s", text);
    pawl_free(text);
}

#define WHY(id, words) expect_why(s, p, id, words, NULL, __LINE__)
#define WHY_NOT(id, never) expect_why(s, p, id, NULL, never, __LINE__)

/* ---- Cancels ---- */

static void expect_cancelled(engine_fixture *s, pawl *p, const char *id, const char *message)
{
    pawl_outcome *end = NULL;
    FIXTURE_UNTIL(s, p, pawl_wait(p, id, 0, NULL) == PAWL_CANCELLED);
    FIXTURE_CODE(s, p, pawl_wait(p, id, 0, &end), PAWL_CANCELLED);
    assert_string_equal(pawl_outcome_message(end), message);
    pawl_outcome_free(end);
}

/* Nothing is made up where no reason was given: of a run that is driven, that waits in the
 * database, and that is held. */
static void a_cancel_without_a_reason(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    static const char *const IDS[] = {"null", "empty", "fresh", "held"};
    for (int i = 0; i < 4; i++) {
        fixture_start(s, p, "sleeps", IDS[i], "1");
        if (i != 2)
            fixture_poll(s, p);
        if (i == 3)
            FIXTURE_CODE(s, p, pawl_hold(p, IDS[i], NULL), PAWL_OK);
        if (i == 3)
            fixture_poll(s, p);
        FIXTURE_CODE(s, p, pawl_cancel(p, IDS[i], i == 1 ? "" : NULL), PAWL_OK);
        expect_cancelled(s, p, IDS[i], "no reason was given");
        WHY(IDS[i], ": cancelled: no reason was given.\n");
    }
    fixture_start(s, p, "sleeps", "short", "1");
    FIXTURE_CODE(s, p, pawl_cancel(p, "short", "x"), PAWL_OK);
    expect_cancelled(s, p, "short", "x");
    pawl_close(p);
    fixture_free(s);
}

/* Between the call and the park at which the run hears of it. */
static void a_cancel_on_its_way(conf *c)
{
    FIXTURE_BY_HAND(); /* threads tell the run at once */
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "sleeps", "run", "1");
    fixture_poll(s, p);
    WHY_NOT("run", "asked to stop");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "too \"late\""), PAWL_OK);
    WHY("run", "It was asked to stop at ");
    WHY("run", ", because of \"too \\\"late\\\"\"; it is told at its next park");
    expect_cancelled(s, p, "run", "too \"late\"");
    WHY_NOT("run", "asked to stop");
    pawl_close(p);
    fixture_free(s);
}

/* It is cancelled at once, since no node has to be asked; but its clean-ups need one. */
static void a_cancel_of_a_held_run_is_told(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "sleeps", "run", "1");
    fixture_poll(s, p);
    WHY("run", "It sleeps (op 2) until ");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", NULL), PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "too \"late\""), PAWL_OK);
    WHY("run", "The run fails: its clean-ups will be carried out.\nIt was asked to stop at ");
    WHY("run", ", because of \"too \\\"late\\\"\".\n");
    WHY_NOT("run", "It sleeps");
    WHY_NOT("run", "its next park");
    WHY_NOT("run", "in its inbox");
    expect_cancelled(s, p, "run", "too \"late\"");
    WHY_NOT("run", "asked to stop");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Children ---- */

static void a_child_is_named(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "parent", "run", "\"sleeps\"");
    fixture_poll(s, p);
    WHY("run", "It waits for the child \"sleeps\" (op 2), the run \"kid\", which is live.\n");
    FIXTURE_CODE(s, p, pawl_hold(p, "kid", "look \"at\" it"), PAWL_OK);
    fixture_poll(s, p);
    WHY("run", "(op 2), the run \"kid\", which is held: look \"at\" it.\n");
    FIXTURE_CODE(s, p, pawl_release(p, "kid"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

static void a_child_in_trouble_says_why(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "parent", "run", "\"lacks\"");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "kid") == PAWL_RUN_HELD);
    WHY("run", "the run \"kid\", which is held: node ");
    WHY("run", " does not have the work function nowhere.\n");
    pawl_close(p);
    fixture_free(s);
}

/* The time at which a parent looks whether an answer was lost is none at which it goes on. */
static void a_parent_looks_again(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "parent", "run", "\"waits\"");
    fixture_start(s, p, "sleeps", "sleeper", "1");
    fixture_poll(s, p);
    WHY("run", "It looks again at ");
    WHY("run", ", and goes on when something arrives for it.\n");
    WHY_NOT("run", "It goes on at ");
    WHY("sleeper", "It goes on at ");
    WHY_NOT("sleeper", "It looks again at ");
    FIXTURE_CODE(s, p, pawl_send(p, "kid", "box", "1", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

/* A failure that came up through runs: what was said, once, and where it was said. */
static void a_failure_from_below(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "grandparent", "run", "\"fails\"");
    FIXTURE_FAILED(s, p, "run", "declined", "no");
    WHY("kid", ": declined: say \"no\" to C:\\new.\n");
    WHY("run", ": declined: say \"no\" to C:\\new, in \"middle: kid\".\n");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Times ---- */

static void a_delayed_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_CODE(s, p, pawl_start(p, "waits", "late", "1", PAWL_START(.delay_ms = 7200000)),
                 PAWL_OK);
    FIXTURE_CODE(s, p,
                 pawl_start(p, "waits", "never", "1",
                            PAWL_START(.delay_ms = 7200000, .deadline_ms = 3600000)),
                 PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "late", "box", "1", NULL), PAWL_OK);
    WHY("late", "1 arrival is in its inbox.\n");
    WHY("late", "(in 2 hours); what arrives before that waits in its inbox.\n");
    WHY_NOT("late", "or when something arrives");
    WHY("never", "Its deadline comes before it begins: ");
    WHY("never", "(in 1 hour); it is cancelled when it begins.\n");
    fixture_advance(s, 5400000);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "late"), PAWL_RUN_LIVE);
    WHY("never", "Its deadline has passed: ");
    WHY("never", "(30 minutes ago); it is cancelled when it begins.\n");
    FIXTURE_DONE(s, p, "late", "1");
    expect_cancelled(s, p, "never", "its deadline has passed");
    WHY_NOT("never", "; it is cancelled");
    pawl_close(p);
    fixture_free(s);
}

static void a_deadline(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_CODE(s, p, pawl_start(p, "waits", "run", "1", PAWL_START(.deadline_ms = 3600000)),
                 PAWL_OK);
    fixture_poll(s, p);
    WHY("run", "It is cancelled if it has not ended by ");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", NULL), PAWL_OK);
    fixture_poll(s, p);
    WHY("run", "The run is held");
    WHY("run", "It is cancelled if it has not ended by ");
    fixture_advance(s, 3600001);
    if (!fixture_serves()) { /* threads may have cancelled it already */
        WHY("run", "Its deadline has passed: ");
        WHY("run", "; a node cancels it.\n");
        WHY_NOT("run", "if it has not ended by");
    }
    expect_cancelled(s, p, "run", "its deadline has passed");
    WHY_NOT("run", "deadline comes");
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a cancel without a reason", a_cancel_without_a_reason, 0},
        {"a cancel on its way", a_cancel_on_its_way, 0},
        {"a cancel of a held run is told", a_cancel_of_a_held_run_is_told, 0},
        {"a parent looks again", a_parent_looks_again, 0},
        {"a child is named", a_child_is_named, 0},
        {"a child in trouble says why", a_child_in_trouble_says_why, 0},
        {"a failure from below", a_failure_from_below, 0},
        {"a delayed run", a_delayed_run, 0},
        {"a deadline", a_deadline, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
