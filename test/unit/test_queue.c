/* The committer's queue: order, shares of the classes (backpressure), deadlines, and taking units
 * out of the middle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/queue.h"

enum { UNITS = 6 };

static unit units[UNITS];

/* Units of ten bytes without a deadline; the odd ones are of a client. */
static void fill(queue *q)
{
    *q = (queue){0};
    for (int i = 0; i < UNITS; i++) {
        units[i] = (unit){
            .bytes = 10, .deadline_ns = INT64_MAX, .class = i % 2 ? UNIT_OF_CLIENT : UNIT_OF_RUN};
        queue_add(q, &units[i]);
    }
}

static int number_of(const unit *u)
{
    return u ? (int)(u - units) : -1;
}

/* The queue has these, in this order, and the last one can still be appended to. */
static void expect(queue *q, const char *digits)
{
    const unit *u = q->head, *last = NULL;
    for (; *digits; digits++, last = u, u = u->next) {
        assert_non_null(u);
        assert_int_equal(number_of(u), *digits - '0');
    }
    assert_null(u);
    assert_ptr_equal(q->tail, last);
}

static void units_are_taken_in_order(void **state)
{
    (void)state;
    queue q;
    unit *out[UNITS];
    fill(&q);
    expect(&q, "012345");
    assert_int_equal(queue_take(&q, out, 2, 1000), 2);
    assert_int_equal(number_of(out[0]), 0);
    assert_int_equal(number_of(out[1]), 1);
    expect(&q, "2345");
    queue_put_back(&q, out, 2);
    expect(&q, "012345");
    assert_int_equal(queue_take(&q, out, UNITS, 25), 2); /* a third would be too much */
    assert_int_equal(queue_take(&q, out, UNITS, 5), 1);  /* but one always goes */
    expect(&q, "345");
    assert_int_equal(queue_take(&q, out, UNITS, 1000), 3);
    expect(&q, "");
    queue_put_back(&q, out, 1); /* into an empty queue */
    expect(&q, "3");
    queue_append(&q, &units[0]);
    expect(&q, "30");
}

static void each_class_has_its_share(void **state)
{
    (void)state;
    queue q;
    fill(&q);
    unit run = {.bytes = 10, .class = UNIT_OF_RUN}, large = {.bytes = 1000};
    assert_true(queue_has_room(&q, &run, 4, 40));
    assert_false(queue_has_room(&q, &run, 3, 40));
    assert_false(queue_has_room(&q, &run, 4, 39));
    for (int i = 1; i < UNITS; i += 2)
        queue_settle(&q, &units[i]); /* the client's make no room for the run's */
    assert_false(queue_has_room(&q, &run, 3, 40));
    large.class = UNIT_OF_CLIENT;
    assert_true(queue_has_room(&q, &large, 1, 1)); /* the only one of its class */
}

static void a_unit_is_taken_out_of_the_middle(void **state)
{
    (void)state;
    queue q;
    fill(&q);
    assert_int_equal(queue_withdraw(&q, &units[2]), 1);
    assert_int_equal(queue_withdraw(&q, &units[2]), 0);
    assert_int_equal(queue_withdraw(&q, &units[0]), 1);
    assert_int_equal(queue_withdraw(&q, &units[5]), 1);
    expect(&q, "134");
    queue_append(&q, &units[5]);
    unit *clients = queue_take_class(&q, UNIT_OF_CLIENT);
    assert_int_equal(number_of(clients), 1);
    assert_int_equal(number_of(clients->next), 3);
    assert_int_equal(number_of(clients->next->next), 5);
    expect(&q, "4");
    assert_int_equal(number_of(queue_take_all(&q)), 4);
    expect(&q, "");
}

static void late_units_are_taken_out(void **state)
{
    (void)state;
    queue q = {0};
    fill(&q);
    assert_null(queue_take_late(&q, INT64_MAX - 1));
    q = (queue){0};
    for (int i = 0; i < UNITS; i++) {
        units[i].deadline_ns = i % 2 ? 100 - i : INT64_MAX;
        units[i].commit.counted = 0; /* by the queue before */
        queue_add(&q, &units[i]);
    }
    assert_null(queue_take_late(&q, 94));
    assert_int_equal(number_of(queue_take_late(&q, 95)), 5);
    expect(&q, "01234");
    unit *late = queue_take_late(&q, 1000);
    assert_int_equal(number_of(late), 1);
    assert_int_equal(number_of(late->next), 3);
    expect(&q, "024");
    assert_null(queue_take_late(&q, INT64_MAX - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_taken_in_order),
        cmocka_unit_test(each_class_has_its_share),
        cmocka_unit_test(a_unit_is_taken_out_of_the_middle),
        cmocka_unit_test(late_units_are_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
