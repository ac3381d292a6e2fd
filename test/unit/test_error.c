/* Errors: texts cut to the byte and never inside a character, errors that quote others, and a last
 * error for each thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* ---- one error ---- */

static void an_error_has_three_texts(void **state)
{
    (void)state;
    error err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(error_set(&err, PAWL_FULL, "no room for %d pages", 7), PAWL_FULL);
    assert_int_equal(err.code, PAWL_FULL);
    assert_string_equal(err.message, "no room for 7 pages");
    assert_string_equal(err.detail, "");
    assert_string_equal(err.hint, "");

    error_detail(&err, "%s", "/tmp/app.db");
    error_hint(&err, "free %d MiB", 5);
    assert_string_equal(err.message, "no room for 7 pages");
    assert_string_equal(err.detail, "/tmp/app.db");
    assert_string_equal(err.hint, "free 5 MiB");
    error_detail(&err, "%s", "b");
    assert_string_equal(err.detail, "b");

    assert_int_equal(error_set(&err, PAWL_IO, "gone"), PAWL_IO);
    assert_string_equal(err.detail, "");
    assert_string_equal(err.hint, "");
}

static void an_error_may_be_left_out(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, PAWL_BUSY, "x %d", 1), PAWL_BUSY);
    error_detail(NULL, "x %d", 1);
    error_hint(NULL, "x %d", 1);
}

static void an_error_may_quote_itself(void **state)
{
    (void)state;
    error err;
    error_set(&err, PAWL_IO, "cannot read");
    error_detail(&err, "sector 5");
    error_set(&err, PAWL_STORAGE, "while opening: %s (%s)", err.message, err.detail);
    assert_string_equal(err.message, "while opening: cannot read (sector 5)");
}

/* `fill` characters of ASCII and then three wide ones, each of which fits or is left out whole. */
static void check_cut(const char *wide, size_t room, size_t fill, const char *text)
{
    size_t expected = fill < room ? fill : room - 1;
    for (int i = 0; i < 3 && expected >= fill && expected + strlen(wide) < room; i++)
        expected += strlen(wide);
    assert_int_equal(strlen(text), expected);
    for (size_t i = 0; i < expected && i < fill; i++)
        assert_int_equal(text[i], 'a');
    assert_true(text_is_utf8(slice_of(text)));
}

static void texts_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const wide[] = {"b", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    char filler[600], made[700];
    memset(filler, 'a', sizeof filler);
    for (size_t i = 0; i < 4; i++) {
        for (size_t fill = 0; fill < sizeof filler; fill++) {
            snprintf(made, sizeof made, "%.*s%s%s%s", (int)fill, filler, wide[i], wide[i], wide[i]);
            error err;
            error_set(&err, PAWL_IO, "%s", made);
            error_detail(&err, "%s", made);
            error_hint(&err, "%s", made);
            check_cut(wide[i], sizeof err.message, fill, err.message);
            check_cut(wide[i], sizeof err.detail, fill, err.detail);
            check_cut(wide[i], sizeof err.hint, fill, err.hint);
        }
    }
}

/* Paths are bytes; the cut must cope with those that are no characters. */
static void texts_of_stray_bytes_are_cut_too(void **state)
{
    (void)state;
    char made[600];
    memset(made, 0x80, sizeof made - 1);
    made[sizeof made - 1] = '\0';
    error err;
    error_set(&err, PAWL_IO, "%s", made);
    assert_in_range(strlen(err.message), sizeof err.message - 5, sizeof err.message - 1);
}

/* ---- Texts of parts ---- */

static void expect_no_joint_of_nothing(const char *text)
{
    size_t size = strlen(text);
    if (strstr(text, ": :") || text[0] == ':' || text[0] == ' ' ||
        (size >= 2 && strcmp(text + size - 2, ": ") == 0))
        fail_msg("\"%s\" has an empty part", text);
}

/* One error, whose texts are made of parts that may be empty, in each way in which such texts are
 * made in the library. */
static void check_parts(error_store *s, pawl_code code, const char *const part[4])
{
    error err;
    error_set(&err, code, "%s: %s", part[0], part[1]);
    expect_no_joint_of_nothing(err.message);
    error_detail(&err, "%s: %s: %s", part[1], part[2], part[3]);
    expect_no_joint_of_nothing(err.detail);
    error_hint(&err, "%s", part[3]);
    error_store_put(s, &err);
    expect_no_joint_of_nothing(error_store_text(s));
    error_set(&err, code, "%s", part[0]);
    error_detail(&err, "%s", part[1]);
    error_hint(&err, "%s", part[2]);
    error_store_put(s, &err);
    expect_no_joint_of_nothing(error_store_text(s));
}

static void an_empty_part_leaves_no_joint(void **state)
{
    (void)state;
#define TEXT(name, number, retry, exit_code, text) PAWL_##name,
    static const pawl_code CODES[] = {PAWL_CODES(TEXT)};
#undef TEXT
    error_store *s = error_store_new();
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        for (int set = 0; set < 16; set++) {
            const char *part[4];
            for (int k = 0; k < 4; k++)
                part[k] = set >> k & 1 ? pawl_code_text(CODES[i]) : "";
            check_parts(s, CODES[i], part);
        }
        expect_no_joint_of_nothing(pawl_code_text(CODES[i]));
    }
    error_store_free(s);
}

static void what_is_no_joint_stays(void **state)
{
    (void)state;
    static const char *const texts[] = {"::1", "a:b", "a: ::1: refused", "a:", "C:", "12:30: noon"};
    error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        error_set(&err, PAWL_IO, "%s", texts[i]);
        assert_string_equal(err.message, texts[i]);
    }
}

/* ---- errors per thread ---- */

static void a_thread_without_error_has_none(void **state)
{
    (void)state;
    error_store *s = error_store_new();
    const error *err = error_store_get(s);
    assert_int_equal(err->code, PAWL_OK);
    assert_string_equal(err->message, "");
    assert_string_equal(err->detail, "");
    assert_string_equal(err->hint, "");
    error_store_free(s);
    error_store_free(NULL);
}

static void stores_do_not_mix(void **state)
{
    (void)state;
    error_store *one = error_store_new();
    error_store *two = error_store_new();
    error err;
    error_set(&err, PAWL_FULL, "one");
    assert_int_equal(error_store_put(one, &err), PAWL_FULL);
    error_set(&err, PAWL_BUSY, "two");
    error_hint(&err, "wait");
    assert_int_equal(error_store_put(two, &err), PAWL_BUSY);
    assert_string_equal(error_store_get(one)->message, "one");
    assert_string_equal(error_store_get(two)->message, "two");
    assert_string_equal(error_store_get(two)->hint, "wait");

    error_set(&err, PAWL_IO, "three");
    error_store_put(one, &err);
    assert_int_equal(error_store_get(one)->code, PAWL_IO);
    assert_string_equal(error_store_get(one)->message, "three");
    assert_string_equal(error_store_get(two)->message, "two");
    error_store_free(one);
    error_store_free(two);
}

enum { THREADS = 40, ROUNDS = 200 };

typedef struct failing {
    pthread_t thread;
    error_store *store;
    pthread_barrier_t *all;
    int number;
    int wrong;
} failing;

static void *fail_often(void *arg)
{
    failing *f = arg;
    f->wrong += error_store_get(f->store)->code != PAWL_OK;
    pthread_barrier_wait(f->all); /* all alive at once: no two have the same id */
    const error *mine = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        error err;
        char expected[64];
        pawl_code code = round % 2 ? PAWL_IO : PAWL_FULL;
        snprintf(expected, sizeof expected, "%d of thread %d", round, f->number);
        error_set(&err, code, "%s", expected);
        f->wrong += error_store_put(f->store, &err) != code;
        const error *got = error_store_get(f->store);
        f->wrong += got->code != code || strcmp(got->message, expected) != 0;
        f->wrong += mine && got != mine; /* a record does not move */
        mine = got;
    }
    pthread_barrier_wait(f->all);
    return NULL;
}

static void threads_have_errors_of_their_own(void **state)
{
    (void)state;
    static failing threads[THREADS];
    pthread_barrier_t all;
    assert_int_equal(pthread_barrier_init(&all, NULL, THREADS), 0);
    error_store *s = error_store_new();
    error err;
    error_set(&err, PAWL_CORRUPT, "mine");
    error_store_put(s, &err);
    const error *mine = error_store_get(s);

    for (int i = 0; i < THREADS; i++) {
        threads[i] = (failing){.store = s, .all = &all, .number = i};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, fail_often, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
        assert_int_equal(threads[i].wrong, 0);
    }
    assert_ptr_equal(error_store_get(s), mine);
    assert_string_equal(mine->message, "mine");
    error_store_free(s);
    pthread_barrier_destroy(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_has_three_texts),
        cmocka_unit_test(an_error_may_be_left_out),
        cmocka_unit_test(an_error_may_quote_itself),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(texts_of_stray_bytes_are_cut_too),
        cmocka_unit_test(an_empty_part_leaves_no_joint),
        cmocka_unit_test(what_is_no_joint_stays),
        cmocka_unit_test(a_thread_without_error_has_none),
        cmocka_unit_test(stores_do_not_mix),
        cmocka_unit_test(threads_have_errors_of_their_own),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
