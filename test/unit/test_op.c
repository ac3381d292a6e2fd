/* Kinds of journal rows: their numbers, which are in databases, and which arrival answers which
 * op. All kinds of the table are looked at, so that a new one is not forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "journal/op.h"

static const op_kind ALL[] = {
#define OP_LIST(name, number, shape, word) OP_##name,
    OP_KINDS(OP_LIST)
#undef OP_LIST
};
enum { KINDS = sizeof ALL / sizeof *ALL };

static void each_kind_is_found_by_its_number(void **state)
{
    (void)state;
    int found = 0;
    for (int64_t number = -5; number < 1000; number++) {
        const op_info *info = op_find(number);
        if (!info)
            continue;
        found++;
        assert_true(info->kind == (op_kind)number);
        assert_true(strlen(info->word) > 0);
    }
    assert_int_equal(found, KINDS);
    assert_null(op_find(0));
    assert_null(op_find(INT64_MAX));
    assert_null(op_find(INT64_MIN));
}

/* Databases have these numbers: they stay. */
static void numbers_stay(void **state)
{
    (void)state;
    assert_int_equal(OP_STARTED, 1);
    assert_int_equal(OP_STEP, 2);
    assert_int_equal(OP_CHILD, 17);
    assert_int_equal(OP_RECEIVE, 23);
    assert_int_equal(OP_DONE, 40);
    assert_int_equal(OP_CANCEL, 51);
    assert_int_equal(OP_ENDED, 60);
}

/* An arrival is about an op that is open, or about the run; and an open op can be answered. */
static void arrivals_fit_open_ops(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        const op_info *op = op_find(ALL[i]);
        int answers = 0;
        for (int j = 0; j < KINDS; j++) {
            const op_info *arrival = op_find(ALL[j]);
            int fits = op_fits(arrival->kind, op->kind);
            assert_true(!fits || (op_arrives(arrival->shape) && op->shape == OP_SHAPE_OPEN));
            answers += fits && arrival->shape == OP_SHAPE_ANSWER;
        }
        assert_int_equal(answers > 0, op->shape == OP_SHAPE_OPEN);
    }
    assert_true(op_fits(OP_CANCEL, OP_NONE));
    assert_false(op_fits(OP_DONE, OP_NONE));
    assert_false(op_fits(OP_MESSAGE, OP_SLEEP));
    assert_false(op_fits(OP_FIRED, OP_CHILD));
}

/* The code asks for a step before it is known how the step goes. */
static void how_a_step_went_is_asked_for_as_a_step(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        op_kind asked = op_asked_as(ALL[i]);
        assert_true(asked == op_asked_as(asked));
        int is_step = ALL[i] == OP_STEP || ALL[i] == OP_STEP_FAILED || ALL[i] == OP_STEP_AGAIN;
        int is_transact =
            ALL[i] == OP_TRANSACT || ALL[i] == OP_TRANSACT_FAILED || ALL[i] == OP_TRANSACT_AGAIN;
        assert_true(asked == (is_step ? OP_STEP : is_transact ? OP_TRANSACT : ALL[i]));
    }
}

/* Attempts are of ops that call work functions, and of no others. */
static void attempts_are_of_work(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++)
        assert_int_equal(op_fits(OP_ATTEMPT, ALL[i]), op_is_work(ALL[i]));
    assert_true(op_is_deed(OP_STEP) && op_is_deed(OP_DONE) && op_is_deed(OP_UNDO));
    assert_false(op_is_deed(OP_SLEEP) || op_is_deed(OP_NOW) || op_is_deed(OP_CHILD));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_found_by_its_number),
        cmocka_unit_test(numbers_stay),
        cmocka_unit_test(arrivals_fit_open_ops),
        cmocka_unit_test(how_a_step_went_is_asked_for_as_a_step),
        cmocka_unit_test(attempts_are_of_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
