/* Arenas: limits to the byte, sizes that overflow, and rewinds over chunks, blocks and clean-ups.
 * Contents are checked by filling all memory with patterns; the sanitizers see the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdalign.h>
#include <string.h>

#include "base/arena.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

/* Sizes at which an allocation goes from the first chunk to a later one to a block of its own. */
static const size_t SIZES[] = {1,    15,    16,    17,    1008,  1023,  1024,  1025,   2047,  2048,
                               2049, 16383, 16384, 16385, 65535, 65536, 65537, 200000, 32768, 3};
#define SIZE_COUNT (sizeof SIZES / sizeof *SIZES)

/* ---- clean-ups that leave a trace ---- */

typedef struct trace {
    char calls[16];
    size_t count;
} trace;

typedef struct step {
    trace *to;
    const char *name;
} step;

static void leave_trace(void *arg)
{
    step *s = arg;
    s->to->calls[s->to->count++] = *s->name;
}

static void defer(arena *a, trace *to, const char *name)
{
    step *s = arena_alloc(a, sizeof *s);
    assert_non_null(s);
    *s = (step){to, name};
    assert_int_equal(arena_defer(a, leave_trace, s), 0);
}

/* ---- allocation ---- */

static void memory_is_zeroed_even_when_used_before(void **state)
{
    (void)state;
    static const char zeroes[200000];
    arena *a = arena_new(0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZE_COUNT; i++) {
            char *at = arena_alloc(a, SIZES[i]);
            assert_non_null(at);
            assert_memory_equal(at, zeroes, SIZES[i]);
            memset(at, 0xEE, SIZES[i]);
        }
        arena_reset(a);
    }
    arena_free(a);
}

static void memory_is_aligned_for_anything(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        uintptr_t at = (uintptr_t)arena_alloc(a, SIZES[i]);
        assert_int_equal(at % alignof(max_align_t), 0);
        at = (uintptr_t)arena_copy(a, SLICE_LIT("ab"));
        assert_int_equal(at % alignof(max_align_t), 0);
    }
    arena_free(a);
}

static void allocations_do_not_overlap(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static unsigned char *at[COUNT];
    arena *a = arena_new(0);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 100 == 99 ? 20000 : (size_t)(i % 300);
        at[i] = arena_alloc(a, size);
        memset(at[i], i % 251, size);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 100 == 99 ? 20000 : (size_t)(i % 300);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(at[i][j], i % 251);
    }
    arena_free(a);
}

/* 191 KiB are rooms of 1, 2, 4, 8, 16, 32, 64 and again 64 KiB, each filled to its last byte. */
static void small_allocations_share_growing_chunks(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    char *last = arena_alloc(a, 16);
    int chunks = 1;
    for (int i = 1; i < 191 * 64; i++) {
        char *at = arena_alloc(a, 16);
        chunks += at != last + 16;
        last = at;
    }
    assert_int_equal(chunks, 8);
    arena_free(a);
}

static void empty_allocations_have_addresses_of_their_own(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    void *first = arena_alloc(a, 0);
    void *second = arena_alloc(a, 0);
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    arena_free(a);
}

static void copies_end_in_a_nul(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    memset(arena_alloc(a, 1024), 0xEE, 1024);
    arena_reset(a); /* so that the NUL is written, not found */
    assert_memory_equal(arena_copy(a, (slice){"a\0b!", 3}), "a\0b", 4);
    assert_string_equal(arena_copy(a, (slice){NULL, 0}), "");
    assert_string_equal(arena_copy(a, (slice){"xyz", 0}), "");
    arena_free(a);
}

/* ---- limits ---- */

static void the_limit_is_exact(void **state)
{
    (void)state;
    static const size_t limits[] = {1, 16, 100, 1024, 1025, 16384, 70000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        arena *a = arena_new(limits[i]);
        assert_null(arena_alloc(a, limits[i] + 1));
        assert_int_equal(arena_used(a), 0);
        assert_non_null(arena_alloc(a, limits[i]));
        assert_int_equal(arena_used(a), limits[i]);
        assert_null(arena_alloc(a, 1));
        assert_null(arena_alloc(a, 0));
        arena_reset(a);
        assert_non_null(arena_alloc(a, limits[i]));
        arena_free(a);
    }
}

static void the_limit_counts_gaps(void **state)
{
    (void)state;
    size_t gap = alignof(max_align_t);
    arena *a = arena_new(gap + 8);
    assert_non_null(arena_alloc(a, 1));
    assert_null(arena_alloc(a, 9));
    assert_non_null(arena_alloc(a, 8));
    assert_int_equal(arena_used(a), gap + 8);
    arena_free(a);
}

static void the_limit_counts_the_nul_of_a_copy(void **state)
{
    (void)state;
    arena *a = arena_new(5);
    assert_null(arena_copy(a, SLICE_LIT("hello")));
    assert_string_equal(arena_copy(a, SLICE_LIT("hell")), "hell");
    arena_free(a);
}

static void a_full_arena_takes_no_clean_up(void **state)
{
    (void)state;
    trace t = {{0}, 0};
    step s = {&t, "x"};
    arena *a = arena_new(16);
    assert_non_null(arena_alloc(a, 16));
    assert_int_equal(arena_defer(a, leave_trace, &s), -1);
    arena_free(a);
    assert_int_equal(t.count, 0);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const size_t limits[] = {0, 1000, PTRDIFF_MAX, SIZE_MAX};
    static const size_t sizes[] = {
        SIZE_MAX,      SIZE_MAX - 1,    SIZE_MAX - 15,          SIZE_MAX - 16,
        SIZE_MAX - 24, SIZE_MAX - 1024, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        arena *a = arena_new(limits[i]);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            assert_null(arena_alloc(a, sizes[j]));
            assert_null(arena_copy(a, (slice){"", sizes[j]}));
        }
        assert_int_equal(arena_used(a), 0);
        assert_non_null(arena_alloc(a, 7));
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            assert_null(arena_alloc(a, sizes[j]));
        assert_int_equal(arena_used(a), 7);
        arena_free(a);
    }
}

/* ---- reset and rewind ---- */

static void reset_keeps_the_first_chunk(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    void *first = arena_alloc(a, 10);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZE_COUNT; i++)
            assert_non_null(arena_alloc(a, SIZES[i]));
        arena_reset(a);
        assert_int_equal(arena_used(a), 0);
        assert_ptr_equal(arena_alloc(a, 10), first);
    }
    arena_free(a);
}

static void clean_ups_run_last_first_and_once(void **state)
{
    (void)state;
    trace t = {{0}, 0};
    arena *a = arena_new(0);
    defer(a, &t, "1");
    defer(a, &t, "2");
    arena_alloc(a, 5000);
    defer(a, &t, "3");
    arena_reset(a);
    assert_string_equal(t.calls, "321");
    arena_reset(a);
    assert_string_equal(t.calls, "321");
    defer(a, &t, "4");
    arena_free(a);
    assert_string_equal(t.calls, "3214");
}

typedef struct late {
    const char *text;
    char seen;
} late;

static void look_at_text(void *arg)
{
    late **l = arg;
    (*l)->seen = (*l)->text[0];
}

/* A list of things to close is registered when it is empty and filled later. */
static void clean_ups_run_before_any_memory_goes(void **state)
{
    (void)state;
    static const size_t sizes[] = {10, 5000, 50000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        late l = {NULL, 0};
        arena *a = arena_new(0);
        late **holder = arena_alloc(a, sizeof *holder);
        *holder = &l;
        assert_int_equal(arena_defer(a, look_at_text, holder), 0);
        char *text = arena_alloc(a, sizes[i]);
        text[0] = 'k';
        l.text = text;
        arena_free(a);
        assert_int_equal(l.seen, 'k');
    }
}

static void rewind_runs_only_later_clean_ups(void **state)
{
    (void)state;
    trace t = {{0}, 0};
    arena *a = arena_new(0);
    defer(a, &t, "1");
    arena_mark outer = arena_mark_now(a);
    defer(a, &t, "2");
    arena_mark inner = arena_mark_now(a);
    step direct = {&t, "3"};
    assert_int_equal(arena_defer(a, leave_trace, &direct), 0);

    arena_rewind(a, inner);
    assert_string_equal(t.calls, "3");
    arena_rewind(a, inner);
    assert_string_equal(t.calls, "3");
    defer(a, &t, "4");
    arena_rewind(a, outer);
    assert_string_equal(t.calls, "342");
    arena_free(a);
    assert_string_equal(t.calls, "3421");
}

/* Only a sanitizer can tell. */
static void check_is_freed(const void *at)
{
#if defined(__SANITIZE_ADDRESS__)
    assert_true(__asan_address_is_poisoned(at));
#endif
    (void)at;
}

static void rewind_frees_chunks_and_blocks(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    arena_alloc(a, 1024);
    char *kept_chunk = arena_alloc(a, 2048);
    char *kept_block = arena_alloc(a, 20000);
    arena_mark mark = arena_mark_now(a);
    const void *chunk = arena_alloc(a, 3000);
    const void *block = arena_alloc(a, 30000);
    arena_rewind(a, mark);
    check_is_freed(chunk);
    check_is_freed(block);
    kept_chunk[2047] = 1;
    kept_block[19999] = 1;
    arena_reset(a);
    check_is_freed(kept_chunk);
    check_is_freed(kept_block);
    arena_free(a);
}

/* Every pair of sizes, one before the mark and one after it: chunks and blocks in all orders. */
static void rewind_gives_back_what_came_after(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZE_COUNT * SIZE_COUNT; i++) {
        size_t before = SIZES[i / SIZE_COUNT], after = SIZES[i % SIZE_COUNT];
        trace t = {{0}, 0};
        arena *a = arena_new(0);
        char *kept = arena_alloc(a, before);
        memset(kept, 0x5A, before);
        defer(a, &t, "k");
        size_t used = arena_used(a);
        arena_mark mark = arena_mark_now(a);

        for (int round = 0; round < 2; round++) {
            memset(arena_alloc(a, after), 0xEE, after);
            defer(a, &t, "r");
            memset(arena_alloc(a, 3000), 0xEE, 3000);
            arena_rewind(a, mark);
            assert_int_equal(arena_used(a), used);
        }
        assert_string_equal(t.calls, "rr");
        for (size_t j = 0; j < before; j++)
            assert_int_equal(kept[j], 0x5A);
        arena_free(a);
        assert_string_equal(t.calls, "rrk");
    }
}

static void rewind_goes_back_to_the_same_place(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    arena_alloc(a, 100);
    arena_mark mark = arena_mark_now(a);
    void *at = arena_alloc(a, 40);
    for (size_t i = 0; i < SIZE_COUNT; i++)
        arena_alloc(a, SIZES[i]);
    arena_rewind(a, mark);
    assert_ptr_equal(arena_alloc(a, 40), at);
    arena_free(a);
}

static void the_limit_is_given_back_by_a_rewind(void **state)
{
    (void)state;
    arena *a = arena_new(50000);
    arena_mark mark = arena_mark_now(a);
    for (int round = 0; round < 3; round++) {
        assert_non_null(arena_alloc(a, 50000));
        assert_null(arena_alloc(a, 1));
        arena_rewind(a, mark);
    }
    arena_free(a);
}

static void free_takes_null(void **state)
{
    (void)state;
    arena_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_even_when_used_before),
        cmocka_unit_test(memory_is_aligned_for_anything),
        cmocka_unit_test(allocations_do_not_overlap),
        cmocka_unit_test(small_allocations_share_growing_chunks),
        cmocka_unit_test(empty_allocations_have_addresses_of_their_own),
        cmocka_unit_test(copies_end_in_a_nul),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(the_limit_counts_gaps),
        cmocka_unit_test(the_limit_counts_the_nul_of_a_copy),
        cmocka_unit_test(a_full_arena_takes_no_clean_up),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(reset_keeps_the_first_chunk),
        cmocka_unit_test(clean_ups_run_last_first_and_once),
        cmocka_unit_test(clean_ups_run_before_any_memory_goes),
        cmocka_unit_test(rewind_runs_only_later_clean_ups),
        cmocka_unit_test(rewind_frees_chunks_and_blocks),
        cmocka_unit_test(rewind_gives_back_what_came_after),
        cmocka_unit_test(rewind_goes_back_to_the_same_place),
        cmocka_unit_test(the_limit_is_given_back_by_a_rewind),
        cmocka_unit_test(free_takes_null),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
