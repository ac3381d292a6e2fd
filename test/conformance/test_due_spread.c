/* Where a look for runs without an owner begins (sched/due_spread.h): nodes that look at the same
 * time begin with different pages of a long list, a node alone with the first, and no node leaves
 * the first page out for long. Of the scheduler only what these functions ask for is set up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "sched/row_reads.h"
#include "sched/sched_internal.h"
#include "support/conf.h"

enum { OWN = 7, OTHER = 8, PAGE = ROW_READS_PAGE, BEFORE_ALL = -1 };

typedef struct fixture {
    db *d;
    db_clock clock;
    sched *s;
    uint64_t number; /* what the source of random numbers gives */
    int64_t ms, run; /* the position of the last look */
} fixture;

static fixture *the_fixture; /* tidy: shared, a source of random numbers has no argument */

static uint64_t give_number(const run_host *h)
{
    (void)h;
    return the_fixture->number;
}

/* Runs 1, 2, 3 … that are due, each a millisecond later than the one before. */
static void add_due(fixture *f, int from, int count)
{
    char text[600];
    snprintf(text, sizeof text,
             "INSERT INTO {runs} (run, tenant, id, workflow, version, owner, wake_at, created_at,"
             " updated_at) WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n"
             " WHERE i < %d) SELECT i, '', 'run-' || i, 'flow', '1', 0, 1000 + i, 0, 0 FROM n",
             from, from + count - 1);
    conf_script(f->d, text);
}

static void set_up(fixture *f, conf *c, int pages)
{
    error err = {0};
    *f = (fixture){.d = conf_open(c, NULL), .s = calloc(1, sizeof *f->s)};
    assert_non_null(f->s);
    the_fixture = f;
    db_clock_init(&f->clock, f->d);
    f->s->looks = conf_connect(f->d, DB_READER);
    CONF_OK(db_clock_measure(&f->clock, f->s->looks, &err), &err);
    f->s->options.clock = &f->clock;
    f->s->node.id = OWN;
    f->s->run_host.chance = give_number;
    if (pages > 0)
        add_due(f, 1, pages * PAGE);
    conf_script(f->d, "INSERT INTO {nodes} (node, slot, since) VALUES (7, 1, 0), (7, 2, 0)");
}

static void add_other(fixture *f)
{
    conf_script(f->d, "INSERT INTO {nodes} (node, slot, since) VALUES (8, 1, 0), (8, 2, 0)");
}

static void tear_down(fixture *f)
{
    db_disconnect(f->s->looks);
    db_clock_free(&f->clock);
    db_close(f->d);
    free(f->s);
}

/* A look that begins, and ends with a full page, or not. Gives the key of the run before the page
 * that it begins with. */
static int64_t look_page(fixture *f, uint64_t number, size_t rows)
{
    f->number = number;
    f->ms = f->run = BEFORE_ALL;
    int left_out = due_spread_begin(f->s, &f->ms, &f->run);
    assert_int_equal(left_out, f->run != BEFORE_ALL);
    due_spread_end(f->s, rows, left_out);
    return f->run;
}

static void nodes_begin_with_different_pages(conf *c)
{
    fixture f;
    set_up(&f, c, 4);
    add_other(&f);
    assert_int_equal(look_page(&f, 1, PAGE), BEFORE_ALL); /* it is not known that there are more */
    assert_int_equal(look_page(&f, 1, PAGE), PAGE);
    assert_int_equal(f.ms, 1000 + PAGE);
    assert_int_equal(look_page(&f, 3, PAGE), 3 * PAGE);
    assert_int_equal(look_page(&f, 18, PAGE), 2 * PAGE);
    assert_int_equal(look_page(&f, 16, PAGE), BEFORE_ALL);
    assert_int_equal(look_page(&f, 2, 5),
                     2 * PAGE); /* the end of the list, but not of its first pages */
    assert_int_equal(look_page(&f, 3, PAGE), 3 * PAGE);
    assert_int_equal(look_page(&f, 0, PAGE - 1), BEFORE_ALL);
    assert_int_equal(look_page(&f, 1, PAGE), BEFORE_ALL); /* the first page was not full */
    tear_down(&f);
}

static void a_node_alone_begins_with_the_first(conf *c)
{
    fixture f;
    set_up(&f, c, 3);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(look_page(&f, 1, PAGE), BEFORE_ALL);
    add_other(&f);
    for (uint64_t i = 0; i < 2; i++)
        look_page(&f, 1, PAGE);
    assert_int_equal(look_page(&f, 1, PAGE), PAGE);
    conf_script(f.d, "UPDATE {nodes} SET closed = 1 WHERE node = 8");
    assert_int_equal(look_page(&f, 1, PAGE), BEFORE_ALL);
    tear_down(&f);
}

/* With three pages, page 13 is asked for once, then 5 of 8, 1 of 4. */
static void pages_that_do_not_exist(conf *c)
{
    fixture f;
    set_up(&f, c, 3);
    add_other(&f);
    look_page(&f, 13, PAGE);
    assert_int_equal(look_page(&f, 13, PAGE), BEFORE_ALL);
    assert_int_equal(look_page(&f, 13, PAGE), BEFORE_ALL);
    assert_int_equal(look_page(&f, 13, PAGE), PAGE);
    assert_int_equal(look_page(&f, 13, PAGE), BEFORE_ALL); /* it chooses among eight again */
    assert_int_equal(look_page(&f, 13, PAGE), PAGE);
    tear_down(&f);
}

static void the_first_page_is_not_left_out_for_long(conf *c)
{
    fixture f;
    int left_out = 0, most = 0;
    set_up(&f, c, 2);
    add_other(&f);
    for (int i = 0; i < 5 * DUE_SPREAD_PAGES; i++) {
        left_out = look_page(&f, 1, PAGE) == BEFORE_ALL ? 0 : left_out + 1;
        most = left_out > most ? left_out : most;
    }
    assert_int_equal(most, DUE_SPREAD_PAGES - 1);
    tear_down(&f);
}

/* pawl_finish() drives one run, and does not look for others. */
static void finish_begins_with_the_first(conf *c)
{
    fixture f;
    set_up(&f, c, 2);
    add_other(&f);
    f.s->only = "run-1";
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_page(&f, 1, PAGE), BEFORE_ALL);
    tear_down(&f);
}

static void an_empty_list(conf *c)
{
    fixture f;
    set_up(&f, c, 0);
    add_other(&f);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look_page(&f, 1, i == 0 ? PAGE : 0), BEFORE_ALL);
    assert_int_equal(f.s->due_spread.pages, 0);
    tear_down(&f);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"nodes begin with different pages", nodes_begin_with_different_pages, 0},
        {"a node alone begins with the first", a_node_alone_begins_with_the_first, 0},
        {"pages that do not exist", pages_that_do_not_exist, 0},
        {"the first page is not left out for long", the_first_page_is_not_left_out_for_long, 0},
        {"finish begins with the first", finish_begins_with_the_first, 0},
        {"an empty list", an_empty_list, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
