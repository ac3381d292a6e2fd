/* Real numbers as text: what is written reads back as the same double, is as short as people
 * write it, and does not change with the locale that the application has set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/number.h"

static const struct {
    double value;
    const char *text;
} NUMBERS[] = {
    {0, "0"},
    {-0.0, "-0"},
    {1, "1"},
    {-1, "-1"},
    {0.1, "0.1"},
    {0.3, "0.3"},
    {0.1 + 0.2, "0.30000000000000004"},
    {1.5, "1.5"},
    {-12.25, "-12.25"},
    {100000, "100000"},
    {1e15, "1e+15"},
    {123456789012345680.0, "1.2345678901234568e+17"},
    {1e100, "1e+100"},
    {1e-7, "1e-07"},
    {1.0 / 3, "0.3333333333333333"},
    {9007199254740993.0, "9007199254740992"},
    {DBL_MAX, "1.7976931348623157e+308"},
};

static void check_all(void)
{
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        char out[NUMBER_ROOM];
        double back = 77;
        assert_int_equal(number_write(NUMBERS[i].value, out), 0);
        assert_string_equal(out, NUMBERS[i].text);
        assert_int_equal(number_read(slice_of(out), &back), 0);
        assert_memory_equal(&back, &NUMBERS[i].value, sizeof back);
    }
}

static void numbers_are_short_and_exact(void **state)
{
    (void)state;
    check_all();
}

static void infinities_and_nan_are_refused(void **state)
{
    (void)state;
    char out[NUMBER_ROOM];
    assert_int_equal(number_write(INFINITY, out), -1);
    assert_int_equal(number_write(-INFINITY, out), -1);
    assert_int_equal(number_write(NAN, out), -1);
    double back = 77;
    assert_int_equal(number_read(SLICE_LIT("1e309"), &back), -1);
    assert_int_equal(number_read(SLICE_LIT("-1e309"), &back), -1);
    assert_true(back == 77);
}

/* Any bits that are a number, small ones and subnormal ones included. */
static void every_double_comes_back(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 1);
    for (int i = 0; i < 100000; i++) {
        double value, back;
        assert_int_equal(r.source.fill(&r.source, &value, sizeof value), 0);
        char out[NUMBER_ROOM];
        if (!isfinite(value)) {
            assert_int_equal(number_write(value, out), -1);
            continue;
        }
        assert_int_equal(number_write(value, out), 0);
        assert_int_equal(value_check(slice_of(out), NULL), PAWL_OK);
        assert_int_equal(number_read(slice_of(out), &back), 0);
        assert_memory_equal(&back, &value, sizeof back);
    }
}

static void errno_stays_as_it_was(void **state)
{
    (void)state;
    double back;
    errno = EDOM;
    assert_int_equal(number_read(SLICE_LIT("1e309"), &back), -1);
    assert_int_equal(number_read(SLICE_LIT("1e-400"), &back), 0);
    assert_int_equal(errno, EDOM);
}

static void the_threads_locale_stays_as_it_was(void **state)
{
    (void)state;
    char out[NUMBER_ROOM];
    double back;
    assert_true(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    assert_int_equal(number_write(0.5, out), 0);
    assert_true(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    assert_int_equal(number_read(SLICE_LIT("0.5"), &back), 0);
    assert_true(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const COMMAS[] = {"de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8", "es_ES.UTF-8",
                                         "it_IT.UTF-8", "pl_PL.UTF-8", "ru_RU.UTF-8", "de_DE"};
    int found = 0;
    for (size_t i = 0; i < sizeof COMMAS / sizeof *COMMAS && !found; i++)
        found = setlocale(LC_ALL, COMMAS[i]) != NULL;
    if (!found)
        skip(); /* this system knows of no comma */
    char comma[8];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    check_all();
    char again[8];
    snprintf(again, sizeof again, "%.1f", 0.5);
    setlocale(LC_ALL, "C");
    assert_string_equal(comma, "0,5");
    assert_string_equal(again, "0,5"); /* the application's locale is as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_short_and_exact),
        cmocka_unit_test(infinities_and_nan_are_refused),
        cmocka_unit_test(every_double_comes_back),
        cmocka_unit_test(errno_stays_as_it_was),
        cmocka_unit_test(the_threads_locale_stays_as_it_was),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
