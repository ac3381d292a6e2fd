/* Buffers: the bound to the byte, for allocated and for fixed ones; and that a failed buffer stays
 * exactly as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <wchar.h>

#include "base/buf.h"

static void check_is(const buf *b, const char *text)
{
    assert_string_equal(buf_str(b), text);
    assert_int_equal(b->size, strlen(text));
}

static void an_empty_buffer_is_an_empty_string(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 10);
    check_is(&b, "");
    buf_add(&b, (slice){NULL, 0});
    buf_text(&b, "");
    buf_text(&b, NULL);
    buf_printf(&b, "%s", "");
    check_is(&b, "");
    assert_null(b.at);
    assert_false(b.failed);
    buf_free(&b);
}

static void pieces_follow_each_other(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1000);
    buf_text(&b, "one");
    buf_char(&b, ' ');
    buf_add(&b, (slice){"twofold", 3});
    buf_printf(&b, " %d%%", 3);
    check_is(&b, "one two 3%");
    assert_false(b.failed);
    buf_free(&b);
    check_is(&b, "");
}

static void bytes_may_hold_nuls(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 10);
    buf_add(&b, (slice){"a\0b", 3});
    buf_char(&b, '\0');
    assert_int_equal(b.size, 4);
    assert_memory_equal(buf_str(&b), "a\0b\0", 5);
    buf_free(&b);
}

typedef enum { BY_ADD, BY_CHAR, BY_PRINTF, WAYS } way;

static void put(buf *b, way how, const char *text)
{
    if (how == BY_ADD)
        buf_text(b, text);
    else if (how == BY_PRINTF)
        buf_printf(b, "%s", text);
    else
        for (; *text; text++)
            buf_char(b, *text);
}

static void the_bound_is_exact(void **state)
{
    (void)state;
    for (way how = BY_ADD; how < WAYS; how++) {
        for (int fixed = 0; fixed < 2; fixed++) {
            char room[6];
            buf b;
            if (fixed)
                buf_init_fixed(&b, room, sizeof room);
            else
                buf_init(&b, 5);
            put(&b, how, "abcde");
            check_is(&b, "abcde");
            assert_false(b.failed);
            put(&b, how, "f");
            check_is(&b, "abcde");
            assert_true(b.failed);
            buf_free(&b);
        }
    }
}

static void a_piece_that_does_not_fit_is_dropped_whole(void **state)
{
    (void)state;
    static const way whole_pieces[] = {BY_ADD, BY_PRINTF};
    for (size_t i = 0; i < 2; i++) {
        for (int fixed = 0; fixed < 2; fixed++) {
            char room[6];
            buf b;
            if (fixed)
                buf_init_fixed(&b, room, sizeof room);
            else
                buf_init(&b, 5);
            put(&b, whole_pieces[i], "ab");
            put(&b, whole_pieces[i], "cdef");
            check_is(&b, "ab");
            assert_true(b.failed);
            put(&b, BY_ADD, "c");
            put(&b, BY_CHAR, "c");
            put(&b, BY_PRINTF, "c");
            check_is(&b, "ab");
            buf_free(&b);
        }
    }
}

static void a_first_piece_that_does_not_fit_leaves_nothing(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 3);
    buf_printf(&b, "%s", "abcd");
    check_is(&b, "");
    assert_true(b.failed);
    buf_free(&b);

    buf_init(&b, 0);
    buf_char(&b, 'a');
    check_is(&b, "");
    assert_true(b.failed);
    buf_free(&b);
}

static void free_makes_it_usable_again(void **state)
{
    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        char room[4];
        buf b;
        if (fixed)
            buf_init_fixed(&b, room, sizeof room);
        else
            buf_init(&b, 3);
        buf_text(&b, "abcd");
        buf_free(&b);
        assert_false(b.failed);
        check_is(&b, "");
        buf_text(&b, "xyz");
        check_is(&b, "xyz");
        buf_text(&b, "!");
        assert_true(b.failed);
        buf_free(&b);
        check_is(&b, "");
    }
}

static void a_fixed_buffer_stays_within_its_room(void **state)
{
    (void)state;
    char memory[8];
    memset(memory, '#', sizeof memory);
    buf b;
    buf_init_fixed(&b, memory, 4);
    assert_int_equal(memory[0], '\0');
    buf_printf(&b, "%s", "abc");
    buf_printf(&b, "%s", "defgh");
    assert_ptr_equal(buf_str(&b), memory);
    assert_memory_equal(memory, "abc\0####", 8);

    buf_init_fixed(&b, memory, 1);
    buf_char(&b, 'x');
    assert_true(b.failed);
    assert_memory_equal(memory, "\0bc\0####", 8);
}

static void it_grows_but_not_past_its_bound(void **state)
{
    (void)state;
    enum { MAX = 5000 };
    static char expected[MAX + 1];
    buf b;
    buf_init(&b, MAX);
    for (size_t i = 0; b.size + 7 <= MAX; i++) {
        char piece[8];
        memset(piece, (int)('a' + i % 26), 7);
        piece[7] = '\0';
        memcpy(expected + b.size, piece, 8);
        put(&b, i % 2 ? BY_ADD : BY_PRINTF, piece);
        assert_false(b.failed);
        assert_true(b.room <= MAX + 1);
    }
    check_is(&b, expected);
    while (b.size < MAX)
        buf_char(&b, '.');
    assert_false(b.failed);
    assert_int_equal(b.room, MAX + 1);
    buf_free(&b);
}

/* Among them those that fill the room to the last byte, or pass it by one. */
static void pieces_of_every_size_stay_whole(void **state)
{
    (void)state;
    char text[301] = "";
    for (size_t size = 1; size < sizeof text; size++) {
        text[size - 1] = (char)('a' + size % 26);
        text[size] = '\0';
        for (way how = BY_ADD; how < WAYS; how++) {
            buf b;
            buf_init(&b, 1000);
            buf_char(&b, '<');
            put(&b, how, text);
            assert_int_equal(b.size, size + 1);
            assert_string_equal(buf_str(&b) + 1, text);
            buf_free(&b);
        }
    }
}

static void a_piece_larger_than_all_before_it(void **state)
{
    (void)state;
    static char text[3001];
    memset(text, 'x', 3000);
    for (way how = BY_ADD; how < WAYS; how++) {
        buf b;
        buf_init(&b, SIZE_MAX);
        buf_char(&b, '<');
        put(&b, how, text);
        buf_char(&b, '>');
        assert_int_equal(b.size, 3002);
        assert_memory_equal(b.at + 1, text, 3000);
        assert_string_equal(b.at + 3001, ">");
        buf_free(&b);
    }
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 2, SIZE_MAX - 64, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        buf b;
        buf_init(&b, SIZE_MAX);
        buf_add(&b, (slice){"", sizes[i]});
        assert_true(b.failed);
        buf_free(&b);

        buf_text(&b, "ab");
        buf_add(&b, (slice){"", sizes[i]});
        assert_true(b.failed);
        check_is(&b, "ab");
        buf_free(&b);
    }
}

/* There is no such character in the C locale, so printf itself fails. */
static void a_failing_format_fails_the_buffer(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 100);
    buf_text(&b, "ab");
    buf_printf(&b, "cd%lc", (wint_t)0xD800);
    check_is(&b, "ab");
    assert_true(b.failed);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_is_an_empty_string),
        cmocka_unit_test(pieces_follow_each_other),
        cmocka_unit_test(bytes_may_hold_nuls),
        cmocka_unit_test(the_bound_is_exact),
        cmocka_unit_test(a_piece_that_does_not_fit_is_dropped_whole),
        cmocka_unit_test(a_first_piece_that_does_not_fit_leaves_nothing),
        cmocka_unit_test(free_makes_it_usable_again),
        cmocka_unit_test(a_fixed_buffer_stays_within_its_room),
        cmocka_unit_test(it_grows_but_not_past_its_bound),
        cmocka_unit_test(pieces_of_every_size_stay_whole),
        cmocka_unit_test(a_piece_larger_than_all_before_it),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(a_failing_format_fails_the_buffer),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
