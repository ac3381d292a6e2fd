/* Code that does not follow the journal of a run: the run is held, with words that name the
 * place, what is recorded and what was asked for; nothing of it is executed or written; others
 * go on, and so does the run itself under code that fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/engine_fixture.h"

/* A program as a line of text, in the input of its registration: what a letter does. */
typedef struct program {
    const char *letters;
    engine_fixture *fixture;
} program;

/* a … f: a step of that name; s: sleep; n: now; u: uuid; F: fail; p: a patch. */
static const char *following(pawl_run *run, const char *input)
{
    const program *g = pawl_arg(run);
    for (const char *at = g->letters; *at; at++) {
        char name[2] = {*at, '\0'};
        if (*at >= 'a' && *at <= 'f')
            pawl_step(run, name, fixture_echo, "1", PAWL_CALL(.arg = g->fixture));
        else if (*at == 's')
            pawl_sleep(run, 1000);
        else if (*at == 'n')
            pawl_now(run);
        else if (*at == 'u')
            pawl_uuid(run);
        else if (*at == 'p')
            pawl_patch(run, "p");
        else
            return pawl_fail(run, "failed", "as the program says");
    }
    return input;
}

static pawl *open_with(program *g, const char *build)
{
    engine_fixture *s = g->fixture;
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = build));
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "flow", following, PAWL_WORKFLOW(.arg = g)),
                 PAWL_OK);
    return p;
}

typedef struct change {
    const char *before; /* … and sleeps at its end */
    const char *after;
    const char *words; /* NULL: it goes on, by the journal that follows */
    const char *history;
} change;

static const change CHANGES[] = {
    {"abs", "axs", "position 3: the journal has step \"b\", the code comes to the failure", NULL},
    {"abs", "acs", "position 3: the journal has step \"b\", the code asks for step \"c\"", NULL},
    {"abs", "bs", "position 2: the journal has step \"a\", the code asks for step \"b\"", NULL},
    {"abs", "abbs", "position 4: the journal has sleep, the code asks for step \"b\"", NULL},
    {"abs", "ass", "position 3: the journal has step \"b\", the code asks for sleep", NULL},
    {"abs", "ans", "position 3: the journal has step \"b\", the code asks for now", NULL},
    {"nus", "uns", "position 2: the journal has now, the code asks for uuid", NULL},
    {"pas", "as", "position 2: the journal has patch \"p\", the code asks for step \"a\"", NULL},
    {"abs", "ab", "position 4: the journal has sleep, the code comes to the end", NULL},
    {"abs", "", "position 2: the journal has step \"a\", the code comes to the end", NULL},
    {"abs", "abF", "position 4: the journal has sleep, the code comes to the failure", NULL},
    {"abs", "absc", NULL, "step:a step:b sleep woken step:c"},
    {"abs", "abs", NULL, "step:a step:b sleep woken"},
    {"abs", "apbs", NULL, "step:a step:b sleep woken"},
    {"abs", "absp", NULL, "step:a step:b sleep woken patch:p"},
    {"abs", "absF", NULL, "step:a step:b sleep woken"},
};

enum { COUNT = sizeof CHANGES / sizeof *CHANGES };

/* All changes in one go: each workflow has its own program, first the old ones, then the new
 * ones. */
static pawl *open_all(engine_fixture *s, program *all, int news, const char *build)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = build));
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "flow-%d", i);
        all[i] = (program){news ? CHANGES[i].after : CHANGES[i].before, s};
        FIXTURE_CODE(s, p,
                     pawl_register_workflow(p, name, following, PAWL_WORKFLOW(.arg = &all[i])),
                     PAWL_OK);
    }
    return p;
}

static void each_change_is_told_by_name(conf *c)
{
    program all[COUNT];
    engine_fixture *s = fixture_new(c);
    pawl *p = open_all(s, all, 0, "old");
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "flow-%d", i);
        fixture_start(s, p, name, name, "1");
    }
    fixture_poll(s, p);
    pawl_close(p);
    fixture_advance(s, 1000);
    fixture_clear_notes(s);
    p = open_all(s, all, 1, "new");
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "flow-%d", i);
        if (CHANGES[i].words)
            fixture_held(s, p, name, CHANGES[i].words, i);
        else if (strchr(CHANGES[i].after, 'F'))
            fixture_failed(s, p, name, "failed", "as the program says", i);
        else
            fixture_done(s, p, name, "1", i);
        if (CHANGES[i].history)
            fixture_history(s, p, name, CHANGES[i].history, i);
    }
    FIXTURE_NOTES(s, "c"); /* of the one that goes on with it */
    pawl_close(p);
    fixture_free(s);
}

/* Held by one build, gone on with by the next, which is the first one again. */
static void the_code_that_fits_goes_on(conf *c)
{
    engine_fixture *s = fixture_new(c);
    program old = {"absc", s}, changed = {"abdsc", s};
    pawl *p = open_with(&old, "one");
    fixture_start(s, p, "flow", "run", "1");
    fixture_poll(s, p);
    pawl_close(p);
    fixture_advance(s, 1000);
    p = open_with(&changed, "two");
    FIXTURE_HELD(s, p, "run", "position 4");
    FIXTURE_HISTORY(s, p, "run", "step:a step:b sleep");
    fixture_advance(s, PAWL_HOURS(1));
    fixture_poll(s, p);
    FIXTURE_HELD(s, p, "run", "position 4");
    fixture_start(s, p, "flow", "other", "1"); /* a new one goes the new way */
    FIXTURE_DONE(s, p, "other", "1");
    FIXTURE_HISTORY(s, p, "other", "step:a step:b step:d sleep woken step:c");
    pawl_close(p);
    fixture_clear_notes(s);
    p = open_with(&old, "one");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    FIXTURE_HISTORY(s, p, "run", "step:a step:b sleep woken step:c");
    FIXTURE_NOTES(s, "c");
    pawl_close(p);
    fixture_free(s);
}

/* ---- In processes ---- */

/* Each starts the run, which is harmless for the second one, and drives what is there. */
static void drive_body(engine_fixture *s, void *arg)
{
    program *g = arg;
    pawl *p = open_with(g, g->letters);
    fixture_start(s, p, "flow", "run", "1");
    fixture_poll(s, p);
    fixture_send_and_await(s, 'd');
}

static void one_process_after_the_other(conf *c)
{
    engine_fixture *s = fixture_new(c);
    program programs[] = {{"abs", s}, {"acs", s}};
    for (int i = 0; i < 2; i++) {
        tmp_child child = fixture_fork(s, drive_body, &programs[i]);
        tmp_expect(&child, 'd');
        tmp_kill(&child);
        fixture_advance(s, PAWL_MINUTES(1)); /* until no node takes it for alive any more */
    }
    pawl *p = fixture_open(s, NULL);
    FIXTURE_HELD(s, p, "run", "the code asks for step \"c\"");
    FIXTURE_NOTES(s, "a b");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Journals that are damaged ---- */

/* What is done to the rows of a run that sleeps for the second time: 2 step a, 3 sleep, 4 woken,
 * 5 step b, 6 sleep. */
typedef struct damage {
    db_sql sql;
    const char *words; /* NULL: nothing of it is looked at */
} damage;

#define ROW(number) " WHERE run = (SELECT run FROM {runs} WHERE id = $1) AND seq = " #number

static const damage DAMAGES[] = {
    {{"DELETE FROM {journal}" ROW(3), "t"}, "position 3: missing"},
    {{"UPDATE {journal} SET op = 99" ROW(4), "t"}, "woken is about position 99"},
    {{"UPDATE {journal} SET op = 2" ROW(4), "t"}, "position 2, which is not open"},
    {{"UPDATE {journal} SET kind = 40" ROW(4), "t"}, "done is about position 3, which is sleep"},
    {{"UPDATE {journal} SET kind = 42, op = 3" ROW(5), "t"}, "position 3, which is not open"},
    {{"UPDATE {journal} SET kind = 999" ROW(5), "t"}, "kind 999 are not known here"},
    {{"UPDATE {journal} SET kind = -1" ROW(5), "t"}, "there is no kind -1"},
    {{"UPDATE {journal} SET kind = 1" ROW(2), "t"}, "begins a second time"},
    {{"INSERT INTO {journal} (run, generation, seq, kind, op, name, at)"
      " SELECT run, 2, 7, 42, 6, '', 0 FROM {runs} WHERE id = $1",
      "t"},
     NULL},
};

static void damage_them(conf *c)
{
    db *d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof DAMAGES / sizeof *DAMAGES; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%zu", i);
        conf_do(d, &DAMAGES[i].sql, (db_value[]){db_text(slice_of(id))}, 1);
    }
    db_close(d);
}

/* Held, with the place and what is wrong there; nothing is executed, and what is whole goes on. */
static void a_damaged_journal_holds_its_run(conf *c)
{
    enum { RUNS = sizeof DAMAGES / sizeof *DAMAGES };
    engine_fixture *s = fixture_new(c);
    program g = {"asbsc", s};
    pawl *p = open_with(&g, "one");
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "flow", id, "1");
    }
    fixture_poll(s, p);
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    pawl_close(p);
    assert_int_equal(fixture_count(s, "b"), RUNS);
    damage_them(c);
    fixture_advance(s, 1000);
    fixture_clear_notes(s);
    p = open_with(&g, "two");
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        if (DAMAGES[i].words)
            fixture_held(s, p, id, DAMAGES[i].words, i);
        else
            fixture_done(s, p, id, "1", i);
    }
    FIXTURE_NOTES(s, "c");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What is not looked at ---- */

static const char *asks_with(pawl_run *run, const char *input)
{
    const program *g = pawl_arg(run);
    (void)input;
    const char *first = pawl_step(run, "a", fixture_echo, g->letters, PAWL_CALL(.arg = g->fixture));
    pawl_sleep(run, 1000);
    return first;
}

/* A step with another input has the result that is recorded. */
static void another_input_changes_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    program old = {"\"old\"", s}, changed = {"\"new\"", s};
    program *both[] = {&old, &changed};
    pawl *p = NULL;
    for (int i = 0; i < 2; i++) {
        p = fixture_open(s, NULL);
        FIXTURE_CODE(s, p,
                     pawl_register_workflow(p, "flow", asks_with, PAWL_WORKFLOW(.arg = both[i])),
                     PAWL_OK);
        fixture_start(s, p, "flow", "run", "1");
        fixture_poll(s, p);
        if (i == 0)
            pawl_close(p);
    }
    FIXTURE_DONE(s, p, "run", "\"old\"");
    FIXTURE_NOTES(s, "a");
    pawl_close(p);
    fixture_free(s);
}

/* Long names are cut, and the message still names both sides. */
static const char *long_names(pawl_run *run, const char *input)
{
    char name[PAWL_MAX_NAME + 1];
    const program *g = pawl_arg(run);
    memset(name, g->letters[0], sizeof name);
    name[sizeof name - 1] = '\0';
    pawl_step(run, name, fixture_echo, "1", PAWL_CALL(.arg = g->fixture));
    pawl_sleep(run, 1000);
    return input;
}

static void long_names_are_told_too(conf *c)
{
    engine_fixture *s = fixture_new(c);
    program old = {"x", s}, changed = {"y", s};
    pawl *p = fixture_open(s, NULL);
    pawl_outcome *end = NULL;
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "flow", long_names, PAWL_WORKFLOW(.arg = &old)),
                 PAWL_OK);
    fixture_start(s, p, "flow", "run", "1");
    fixture_poll(s, p);
    pawl_close(p);
    fixture_advance(s, 1000);
    p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p,
                 pawl_register_workflow(p, "flow", long_names, PAWL_WORKFLOW(.arg = &changed)),
                 PAWL_OK);
    FIXTURE_HELD(s, p, "run", "position 2: the journal has step \"xxxxxxxxxx");
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, &end), PAWL_HELD);
    assert_non_null(strstr(pawl_outcome_message(end), "asks for step \"yyyyyyyy"));
    pawl_outcome_free(end);
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-nondeterminism ys-Y51 each change is told by name", each_change_is_told_by_name,
     DB_DURABLE},
    {"dx-nondeterminism the code that fits goes on", the_code_that_fits_goes_on, DB_DURABLE},
    {"dx-nondeterminism one process after the other", one_process_after_the_other,
     DB_DURABLE | DB_SHARED},
    {"dx-nondeterminism a damaged journal holds its run", a_damaged_journal_holds_its_run,
     DB_DURABLE},
    {"dx-nondeterminism another input changes nothing", another_input_changes_nothing, DB_DURABLE},
    {"dx-nondeterminism long names are told too", long_names_are_told_too, DB_DURABLE},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
