/* The list of runs and single runs, as clients see them: every filter, keyset pagination while the
 * list changes, and hostile input. Rows are made by SQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "support/rows_fixture.h"

static void expect_code(pawl *p, pawl_code got, pawl_code wanted, int line)
{
    if (got != wanted)
        fail_msg("line %d: expected %s, got %s (%s)", line, pawl_code_name(wanted),
                 pawl_code_name(got), pawl_errtext(p));
    if (wanted == PAWL_OK || !p)
        return;
    assert_int_equal(pawl_errcode(p), wanted);
    assert_true(pawl_errmsg(p)[0]);
}

#define CODE(got, wanted) expect_code(p, (got), (wanted), __LINE__)

/* The list of this filter is these ids. */
static void expect_list(pawl *p, const pawl_filter *f, const char *ids, int line)
{
    runs_told told = {0};
    pawl_code rc = pawl_list(p, f, runs_tell, &told);
    if (rc != PAWL_OK || strcmp(told.text, ids) != 0)
        fail_msg("line %d: expected '%s', got '%s' (%s)", line, ids, told.text,
                 rc == PAWL_OK ? "" : pawl_errtext(p));
}

#define ALL(ids) expect_list(p, NULL, ids, __LINE__)
#define LIST(ids, ...) expect_list(p, PAWL_FILTER(__VA_ARGS__), ids, __LINE__)

/* ---- One run ---- */

static void an_inspected_run_has_the_values_of_its_row(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 7, .id = "parent");
    RUNS_ADD(p, .run = 8, .id = "run \"8\"", .workflow = "flöw", .version = "v2", .generation = 3,
             .wake_at = 99, .parent = 7, .by = "me", .created_at = 10, .updated_at = 20,
             .finished_at = 30, .status = "{\"step\":1}", .status_seq = 4);
    pawl_info *i = NULL;
    CODE(pawl_inspect(p, "run \"8\"", &i), PAWL_OK);
    pawl_close(p); /* it does not need the handle */
    assert_string_equal(pawl_info_id(i), "run \"8\"");
    assert_string_equal(pawl_info_workflow(i), "flöw");
    assert_string_equal(pawl_info_version(i), "v2");
    assert_int_equal(pawl_info_phase(i), PAWL_RUN_LIVE);
    assert_int_equal(pawl_info_generation(i), 3);
    assert_string_equal(pawl_info_status(i), "{\"step\":1}");
    assert_int_equal(pawl_info_status_seq(i), 4);
    assert_string_equal(pawl_info_held(i), "");
    assert_string_equal(pawl_info_parent(i), "parent");
    assert_int_equal(pawl_info_depth(i), 0);
    assert_string_equal(pawl_info_by(i), "me");
    assert_int_equal(pawl_info_created_ms(i), 10);
    assert_int_equal(pawl_info_updated_ms(i), 20);
    assert_int_equal(pawl_info_finished_ms(i), 30);
    assert_int_equal(pawl_info_wake_ms(i), 99);
    pawl_info_free(i);
}

static void a_missing_value_has_a_default_text(conf *c)
{
    pawl *p = runs_open(c, NULL);
    pawl_info *i = NULL;
    RUNS_ADD(p, .run = 1, .id = "", .workflow = "", .version = "");
    CODE(pawl_inspect(p, "", &i), PAWL_OK);
    assert_string_equal(pawl_info_id(i), "");
    assert_string_equal(pawl_info_status(i), "null");
    assert_string_equal(pawl_info_parent(i), "");
    assert_int_equal(pawl_info_finished_ms(i), 0);
    assert_int_equal(pawl_info_wake_ms(i), 0);
    pawl_info_free(i);
    pawl_close(p);
}

static void expect_phase(pawl *p, const char *id, pawl_phase phase, const char *held)
{
    pawl_info *i = NULL;
    CODE(pawl_inspect(p, id, &i), PAWL_OK);
    assert_int_equal(pawl_info_phase(i), phase);
    assert_string_equal(pawl_info_held(i), held);
    pawl_info_free(i);
}

/* To be held is a phase of runs that have not ended; the words may be missing. */
static void a_held_run_is_shown_in_the_phase_held(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .held = 4, .held_reason = "look at it");
    RUNS_ADD(p, .run = 2, .held = 2, .phase = 4);
    RUNS_ADD(p, .run = 3, .held = 3, .phase = 2, .held_reason = "old");
    RUNS_ADD(p, .run = 4, .held = 99);
    expect_phase(p, "run-1", PAWL_RUN_HELD, "look at it");
    expect_phase(p, "run-2", PAWL_RUN_HELD, "its code does not fit its journal");
    expect_phase(p, "run-3", PAWL_RUN_FAILED, "");
    expect_phase(p, "run-4", PAWL_RUN_HELD, "for a reason that this version does not know");
    pawl_close(p);
}

/* ---- Filters ---- */

static void the_newest_come_first(conf *c)
{
    pawl *p = runs_open(c, NULL);
    ALL("");
    RUNS_ADD(p, .run = 3);
    RUNS_ADD(p, .run = 1);
    RUNS_ADD(p, .run = 2000000);
    ALL("run-2000000 run-3 run-1 ");
    LIST("run-1 run-3 run-2000000 ", .oldest_first = 1);
    LIST("run-2000000 run-3 run-1 ", .oldest_first = 2);
    LIST("run-2000000 ", .limit = 1);
    LIST("run-1 run-3 ", .limit = 2, .oldest_first = 1);
    LIST("run-3 run-1 ", .limit = INT64_MAX, .after_id = "run-2000000");
    LIST("run-2000000 ", .after_id = "run-3", .oldest_first = 1);
    LIST("", .after_id = "run-1");
    pawl_close(p);
}

static void names_and_times_are_filters(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .workflow = "a", .created_at = 100, .finished_at = 150, .phase = 1);
    RUNS_ADD(p, .run = 2, .workflow = "b", .created_at = 200, .finished_at = 400, .phase = 1);
    RUNS_ADD(p, .run = 3, .workflow = "a", .created_at = 300);
    RUNS_ADD(p, .run = 4, .workflow = "A%_'", .created_at = 400, .finished_at = 500, .phase = 1);
    LIST("run-3 run-1 ", .workflow = "a");
    LIST("run-4 ", .workflow = "A%_'");
    LIST("", .workflow = "%");
    LIST("", .workflow = "");
    LIST("run-4 run-3 ", .created_after_ms = 200);
    LIST("run-1 ", .created_before_ms = 200);
    LIST("run-2 ", .created_after_ms = 100, .created_before_ms = 300);
    LIST("run-2 run-1 ", .finished_before_ms = 500);
    LIST("run-1 ", .finished_before_ms = 500, .workflow = "a");
    LIST("", .finished_before_ms = 1);
    pawl_close(p);
}

static void phases_are_a_filter(conf *c)
{
    static const struct {
        int64_t phases;
        const char *ids;
    } CASES[] = {
        {1 << PAWL_RUN_LIVE, "run-1 "},
        {1 << PAWL_RUN_DONE, "run-2 "},
        {1 << PAWL_RUN_FAILED, "run-8 run-3 "},
        {1 << PAWL_RUN_CANCELLED, "run-4 "},
        {1 << PAWL_RUN_FAILING, "run-5 "},
        {1 << PAWL_RUN_HELD, "run-7 run-6 "},
        {1 << PAWL_RUN_HELD | 1 << PAWL_RUN_CANCELLED, "run-7 run-6 run-4 "},
        {1 << PAWL_RUN_HELD | 1 << PAWL_RUN_LIVE, "run-7 run-6 run-1 "},
        {63, "run-8 run-7 run-6 run-5 run-4 run-3 run-2 run-1 "},
    };
    pawl *p = runs_open(c, NULL);
    for (int64_t phase = 0; phase < 5; phase++)
        RUNS_ADD(p, .run = 1 + phase, .phase = phase);
    RUNS_ADD(p, .run = 6, .held = 1);
    RUNS_ADD(p, .run = 7, .held = 3, .phase = 4);
    RUNS_ADD(p, .run = 8, .held = 3, .phase = 2);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        LIST(CASES[i].ids, .phases = CASES[i].phases);
    LIST("run-6 run-7 ", .phases = 1 << PAWL_RUN_HELD, .oldest_first = 1);
    LIST("run-6 ", .phases = 1 << PAWL_RUN_HELD, .after_id = "run-7");
    pawl_close(p);
}

/* A prefix is text, not a pattern, and its range ends where no id with it can be. */
static void prefixes_are_a_filter(conf *c)
{
    static const char *const IDS[] = {
        "a",           "ab",
        "abc",         "a\x7f",
        "b",           "A",
        "a%b",         "a_b",
        "a\U0010ffff", "a\U0010ffff\U0010ffff",
        "\U0010ffff",  "\U0010ffff\U0010ffff",
        "z\uD7FF",     "z\uD7FFx",
        "z\uE000",     "ä",
        "äx",
    };
    static const char *const PREFIXES[] = {"a",  "ab", "a%", "a_",    "a\U0010ffff", "\U0010ffff",
                                           "zz", "z",  "ä",  "a\x7f", "z\uD7FF",     "abcd"};
    pawl *p = runs_open(c, NULL);
    size_t count = sizeof IDS / sizeof *IDS;
    for (size_t i = 0; i < count; i++)
        RUNS_ADD(p, .run = 1 + (int64_t)i, .id = IDS[i]);
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        char ids[512] = "";
        for (size_t k = 0; k < count; k++)
            if (strncmp(IDS[k], PREFIXES[i], strlen(PREFIXES[i])) == 0)
                snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s ", IDS[k]);
        LIST(ids, .id_prefix = PREFIXES[i], .oldest_first = 1);
    }
    LIST("abc ab ", .id_prefix = "ab");
    LIST("ab ", .id_prefix = "ab", .after_id = "abc");
    LIST("abc ", .id_prefix = "ab", .limit = 1);
    runs_told told = {0};
    CODE(pawl_list(p, PAWL_FILTER(.id_prefix = ""), runs_tell, &told), PAWL_OK);
    assert_int_equal(told.count, count);
    pawl_close(p);
}

static void attributes_are_a_filter(conf *c)
{
    pawl *p = runs_open(c, NULL);
    for (int64_t run = 1; run <= 6; run++)
        RUNS_ADD(p, .run = run, .workflow = run == 2 ? "b" : "a");
    runs_attribute(p, 1, "colour", 1, "'red'");
    runs_attribute(p, 2, "colour", 1, "'red'");
    runs_attribute(p, 3, "colour", 1, "'Red'");
    runs_attribute(p, 1, "size", 2, "1.0");
    runs_attribute(p, 4, "size", 2, "1.5");
    runs_attribute(p, 5, "size", 3, "1");
    runs_attribute(p, 6, "size", 1, "'1'");
    LIST("run-2 run-1 ", .attribute = "colour", .attribute_value = "\"red\"");
    LIST("run-1 run-2 ", .attribute = "colour", .attribute_value = "\"r\\u0065d\"",
         .oldest_first = 1);
    LIST("run-1 ", .attribute = "colour", .attribute_value = "\"red\"", .workflow = "a");
    LIST("run-1 ", .attribute = "colour", .attribute_value = "\"red\"", .after_id = "run-2");
    LIST("run-2 ", .attribute = "colour", .attribute_value = "\"red\"", .limit = 1);
    LIST("run-1 ", .attribute = "size", .attribute_value = "1");
    LIST("run-1 ", .attribute = "size", .attribute_value = " 10e-1 ");
    LIST("run-4 ", .attribute = "size", .attribute_value = "1.5");
    LIST("run-5 ", .attribute = "size", .attribute_value = "true");
    LIST("", .attribute = "size", .attribute_value = "false");
    LIST("run-6 ", .attribute = "size", .attribute_value = "\"1\"");
    LIST("", .attribute = "taste", .attribute_value = "1");
    pawl_close(p);
}

/* ---- Pages ---- */

static void make_plain(runs_row *row, size_t i, void *arg)
{
    row->run = *(int64_t *)arg + (int64_t)i;
}

/* Whatever is added behind or before the page, everything that was there is told once, in order. */
static void a_list_goes_on_although_runs_are_added_and_deleted(conf *c)
{
    pawl *p = runs_open(c, NULL);
    int64_t first = 1000, added = 5000;
    char after[PAWL_MAX_ID + 1] = "run-1500";
    int64_t before = 1500;
    size_t told_old = 0;
    runs_add_many(p, 500, make_plain, &first);
    RUNS_ADD(p, .run = 1500);
    for (int pages = 0; pages < 100; pages++) {
        runs_told told = {0};
        CODE(pawl_list(p, PAWL_FILTER(.after_id = after, .limit = 7), runs_tell, &told), PAWL_OK);
        if (told.count == 0)
            break;
        told_old += told.count;
        int64_t run = strtoll(told.last + strlen("run-"), NULL, 10);
        assert_int_equal(run, before - (int64_t)told.count);
        before = run;
        snprintf(after, sizeof after, "%s", told.last);
        RUNS_ADD(p, .run = added++); /* newer ones come before the first page */
        runs_remove(p, run + 1);     /* and what was told may go */
    }
    assert_int_equal(told_old, 500);
    pawl_close(p);
}

/* Rows that come in while a list is told: those before the place where it is are not told. */
typedef struct meddler {
    pawl *p;
    int64_t next;
    size_t count;
} meddler;

static int meddle(const pawl_info *info, void *arg)
{
    meddler *m = arg;
    pawl_info *again = NULL;
    assert_true(pawl_info_created_ms(info) < 100000000);
    if (m->count++ % 100 == 0)
        RUNS_ADD(m->p, .run = m->next++); /* no snapshot and no lock is held meanwhile */
    if (m->count % 100 == 1) {
        assert_int_equal(pawl_inspect(m->p, pawl_info_id(info), &again), PAWL_OK);
        assert_string_equal(pawl_info_id(again), pawl_info_id(info));
        pawl_info_free(again);
    }
    return 0;
}

static void the_function_may_call_pawl(conf *c)
{
    pawl *p = runs_open(c, NULL);
    int64_t first = 1;
    meddler m = {.p = p, .next = 100000};
    runs_add_many(p, 700, make_plain, &first);
    CODE(pawl_list(p, PAWL_FILTER(.limit = 10000), meddle, &m), PAWL_OK);
    assert_int_equal(m.count, 700);
    pawl_close(p);
}

static void make_rare(runs_row *row, size_t i, void *arg)
{
    int64_t newest = *(int64_t *)arg;
    row->run = 3 * (int64_t)i + 1; /* keys have gaps */
    row->phase = 1;
    row->workflow = i % 4000 == 17 ? "rare" : "often";
    if (i % 4000 == 18)
        row->phase = 2;
    if (i == 19)
        row->held = 1, row->phase = 0;
    if (i == 20)
        row->id = "needle-1";
    if (row->run == newest)
        row->id = "needle-2";
}

static void many_runs(conf *c)
{
    enum { MANY = 10000 };
    pawl *p = runs_open(c, NULL);
    int64_t newest = 3 * (MANY - 1) + 1;
    runs_told told = {0};
    runs_add_many(p, MANY, make_rare, &newest);
    CODE(pawl_list(p, NULL, runs_tell, &told), PAWL_OK);
    assert_int_equal(told.count, 100);
    told = (runs_told){0};
    CODE(pawl_list(p, PAWL_FILTER(.limit = MANY + 1), runs_tell, &told), PAWL_OK);
    assert_int_equal(told.count, MANY);
    assert_string_equal(told.last, "run-1");
    told = (runs_told){.most = 300};
    CODE(pawl_list(p, PAWL_FILTER(.limit = MANY, .oldest_first = 1), runs_tell, &told), PAWL_OK);
    assert_int_equal(told.count, 300);
    LIST("run-24052 run-12052 run-52 ", .workflow = "rare");
    LIST("run-52 run-12052 ", .workflow = "rare", .oldest_first = 1, .limit = 2);
    LIST("run-24055 run-12055 run-55 ", .phases = 1 << PAWL_RUN_FAILED);
    LIST("run-58 ", .phases = 1 << PAWL_RUN_HELD);
    LIST("", .phases = 1 << PAWL_RUN_LIVE);
    LIST("needle-2 needle-1 ", .id_prefix = "needle");
    LIST("run-24052 run-12052 run-52 ", .id_prefix = "run-", .workflow = "rare");
    LIST("run-52 ", .created_before_ms = 60000, .workflow = "rare");
    pawl_close(p);
}

/* ---- Name spaces ---- */

static void tenants_do_not_see_each_other_s_runs(conf *c)
{
    pawl *p = runs_open(c, "ours");
    pawl_info *i = NULL;
    char *why = NULL;
    RUNS_ADD(p, .run = 1, .tenant = "ours", .id = "x");
    RUNS_ADD(p, .run = 2, .tenant = "theirs", .id = "x", .workflow = "secret");
    RUNS_ADD(p, .run = 3, .tenant = "theirs", .id = "y", .held = 1);
    RUNS_ADD(p, .run = 4, .id = "y");
    runs_attribute(p, 2, "a", 2, "1");
    ALL("x ");
    LIST("x ", .id_prefix = "x");
    LIST("", .phases = 1 << PAWL_RUN_HELD);
    LIST("", .attribute = "a", .attribute_value = "1");
    CODE(pawl_list(p, PAWL_FILTER(.after_id = "y"), runs_tell, NULL), PAWL_NOTFOUND);
    CODE(pawl_inspect(p, "y", &i), PAWL_NOTFOUND);
    CODE(pawl_why(p, "y", &why), PAWL_NOTFOUND);
    CODE(pawl_inspect(p, "x", &i), PAWL_OK);
    assert_string_equal(pawl_info_workflow(i), "flow");
    pawl_info_free(i);
    pawl_close(p);
}

/* ---- Input that means no good ---- */

static int no_info(const pawl_info *info, void *arg)
{
    (void)arg;
    fail_msg("told of %s", pawl_info_id(info));
    return 0;
}

#define REFUSED(code, ...) CODE(pawl_list(p, PAWL_FILTER(__VA_ARGS__), no_info, NULL), code)

static void bad_filters_are_refused(conf *c)
{
    pawl *p = runs_open(c, NULL);
    char longer[PAWL_MAX_ID + 2];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    RUNS_ADD(p, .run = 1);
    REFUSED(PAWL_INVALID, .limit = -1);
    REFUSED(PAWL_INVALID, .limit = INT64_MIN);
    REFUSED(PAWL_INVALID, .phases = 64);
    REFUSED(PAWL_INVALID, .phases = -1);
    REFUSED(PAWL_INVALID, .phases = INT64_MIN);
    REFUSED(PAWL_INVALID, .created_after_ms = -1);
    REFUSED(PAWL_INVALID, .created_before_ms = -1);
    REFUSED(PAWL_INVALID, .finished_before_ms = -1);
    REFUSED(PAWL_INVALID, .workflow = "\xff");
    REFUSED(PAWL_INVALID, .id_prefix = "\xc3");
    REFUSED(PAWL_INVALID, .after_id = "\xed\xa0\x80");
    REFUSED(PAWL_LIMIT, .workflow = longer);
    REFUSED(PAWL_LIMIT, .id_prefix = longer);
    REFUSED(PAWL_LIMIT, .after_id = longer);
    REFUSED(PAWL_LIMIT, .attribute = longer, .attribute_value = "1");
    REFUSED(PAWL_INVALID, .attribute = "a");
    REFUSED(PAWL_INVALID, .attribute_value = "1");
    REFUSED(PAWL_INVALID, .attribute = "a", .attribute_value = "null");
    REFUSED(PAWL_INVALID, .attribute = "a", .attribute_value = "[1]");
    REFUSED(PAWL_INVALID, .attribute = "a", .attribute_value = "red");
    REFUSED(PAWL_INVALID, .attribute = "a", .attribute_value = "1e999");
    REFUSED(PAWL_NOTFOUND, .after_id = "nobody");
    REFUSED(PAWL_NOTFOUND, .after_id = "");
    CODE(pawl_list(p, NULL, NULL, NULL), PAWL_INVALID);
    CODE(pawl_list(p, &(pawl_filter){.size = 3}, no_info, NULL), PAWL_INVALID);
    CODE(pawl_list(NULL, NULL, no_info, NULL), PAWL_INVALID);
    pawl_close(p);
}

static void bad_ids_are_refused(conf *c)
{
    char longer[PAWL_MAX_ID + 2];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    const struct {
        const char *id;
        pawl_code code;
    } cases[] = {{NULL, PAWL_INVALID},      {"\xff", PAWL_INVALID}, {longer, PAWL_LIMIT},
                 {"nobody", PAWL_NOTFOUND}, {"", PAWL_NOTFOUND},    {"' OR 1=1 --", PAWL_NOTFOUND}};
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pawl_info *info = (pawl_info *)longer;
        char *text = longer;
        CODE(pawl_inspect(p, cases[i].id, &info), cases[i].code);
        assert_null(info);
        CODE(pawl_tree(p, cases[i].id, no_info, NULL), cases[i].code);
        CODE(pawl_why(p, cases[i].id, &text), cases[i].code);
        assert_null(text);
    }
    CODE(pawl_inspect(p, "run-1", NULL), PAWL_INVALID);
    CODE(pawl_why(p, "run-1", NULL), PAWL_INVALID);
    CODE(pawl_tree(p, "run-1", NULL, NULL), PAWL_INVALID);
    CODE(pawl_nodes(p, NULL, NULL), PAWL_INVALID);
    pawl_close(p);
}

static void a_handle_that_is_not_open_says_so(conf *c)
{
    pawl *p = NULL;
    pawl_info *info = NULL;
    (void)c;
    assert_int_equal(pawl_open(&p, "", NULL), PAWL_INVALID);
    CODE(pawl_inspect(p, "id", &info), PAWL_MISUSE);
    CODE(pawl_list(p, NULL, no_info, NULL), PAWL_MISUSE);
    assert_true(pawl_errhint(p)[0]);
    pawl_close(p);
    assert_int_equal(pawl_inspect(NULL, "id", &info), PAWL_INVALID);
    assert_int_equal(pawl_nodes(NULL, NULL, NULL), PAWL_INVALID);
}

/* ---- Many threads ---- */

static void *look_often(void *arg)
{
    pawl *p = arg;
    for (int i = 0; i < 50; i++) {
        runs_told told = {0};
        pawl_info *info = NULL;
        if (pawl_list(p, PAWL_FILTER(.limit = 10), runs_tell, &told) != PAWL_OK ||
            told.count != 10 || pawl_inspect(p, "run-30", &info) != PAWL_OK)
            return p;
        pawl_info_free(info);
    }
    return NULL;
}

/* More of them than there are connections. */
static void threads_share_connections(conf *c)
{
    enum { THREADS = 20 };
    pawl *p = runs_open(c, NULL);
    pthread_t threads[THREADS];
    int64_t first = 1;
    runs_add_many(p, 50, make_plain, &first);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_often, p), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = p;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    pawl_close(p);
}

static const conf_case CASES[] = {
    {"an inspected run has the values of its row", an_inspected_run_has_the_values_of_its_row, 0},
    {"a missing value has a default text", a_missing_value_has_a_default_text, 0},
    {"a held run is shown in the phase held", a_held_run_is_shown_in_the_phase_held, 0},
    {"the newest come first", the_newest_come_first, 0},
    {"names and times are filters", names_and_times_are_filters, 0},
    {"phases are a filter", phases_are_a_filter, 0},
    {"prefixes are a filter", prefixes_are_a_filter, 0},
    {"attributes are a filter", attributes_are_a_filter, 0},
    {"a list goes on although runs are added and deleted",
     a_list_goes_on_although_runs_are_added_and_deleted, 0},
    {"the function may call pawl", the_function_may_call_pawl, 0},
    {"many runs", many_runs, 0},
    {"tenants do not see each other's runs", tenants_do_not_see_each_other_s_runs, 0},
    {"bad filters are refused", bad_filters_are_refused, 0},
    {"bad ids are refused", bad_ids_are_refused, 0},
    {"a handle that is not open says so", a_handle_that_is_not_open_says_so, 0},
    {"threads share connections", threads_share_connections, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
