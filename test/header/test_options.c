/* Options structs across versions: a program that was compiled with an older or a newer pawl.h
 * works with this library, or hears that it does not.
 *
 * The members are listed here a second time, on purpose: their order and places are in programs
 * that are not compiled again. A member that is added belongs at the end of its list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <pawl.h>

#include "handle/hooks.h"

typedef struct member {
    size_t offset;
    size_t size;
    const char *name;
} member;

#define MEMBER(type, name)                                                                         \
    {                                                                                              \
        offsetof(type, name), sizeof(((type *)NULL)->name), #name                                  \
    }

static const member OPTIONS[] = {
    MEMBER(pawl_options, size),           MEMBER(pawl_options, on_connect),
    MEMBER(pawl_options, on_connect_arg), MEMBER(pawl_options, log),
    MEMBER(pawl_options, log_arg),        MEMBER(pawl_options, switch_to_wal),
    MEMBER(pawl_options, wal_bytes),      MEMBER(pawl_options, busy_ms),
    MEMBER(pawl_options, tenant),         MEMBER(pawl_options, name),
    MEMBER(pawl_options, build),          MEMBER(pawl_options, threads),
    MEMBER(pawl_options, threads_max),    MEMBER(pawl_options, warm_bytes),
    MEMBER(pawl_options, tags),           MEMBER(pawl_options, claim_ms),
    MEMBER(pawl_options, drain_ms),       MEMBER(pawl_options, keep_ms),
    MEMBER(pawl_options, hooks),          MEMBER(pawl_options, look_only),
    MEMBER(pawl_options, poll_ms),        MEMBER(pawl_options, work_threads),
    MEMBER(pawl_options, at_risk_max),    MEMBER(pawl_options, at_risk_ms),
};

static const member HOOKS[] = {
    MEMBER(pawl_hooks, size),   MEMBER(pawl_hooks, now_ms), MEMBER(pawl_hooks, mono_ns),
    MEMBER(pawl_hooks, random), MEMBER(pawl_hooks, arg),
};

static const member WORKFLOW_OPTIONS[] = {
    MEMBER(pawl_workflow_options, size),
    MEMBER(pawl_workflow_options, version),
    MEMBER(pawl_workflow_options, arg),
    MEMBER(pawl_workflow_options, returns_errors),
};

static const member WORK_OPTIONS[] = {
    MEMBER(pawl_work_options, size),
    MEMBER(pawl_work_options, arg),
    MEMBER(pawl_work_options, at_most),
    MEMBER(pawl_work_options, no_tasks),
};

static const member START_OPTIONS[] = {
    MEMBER(pawl_start_options, size),        MEMBER(pawl_start_options, version),
    MEMBER(pawl_start_options, attributes),  MEMBER(pawl_start_options, delay_ms),
    MEMBER(pawl_start_options, deadline_ms), MEMBER(pawl_start_options, created),
};

static const member SEND_OPTIONS[] = {
    MEMBER(pawl_send_options, size),          MEMBER(pawl_send_options, key),
    MEMBER(pawl_send_options, start),         MEMBER(pawl_send_options, start_input),
    MEMBER(pawl_send_options, start_options), MEMBER(pawl_send_options, seq),
};

static const member CALL_OPTIONS[] = {
    MEMBER(pawl_call_options, size),         MEMBER(pawl_call_options, attempts),
    MEMBER(pawl_call_options, backoff_ms),   MEMBER(pawl_call_options, backoff_max_ms),
    MEMBER(pawl_call_options, backoff_kind), MEMBER(pawl_call_options, no_jitter),
    MEMBER(pawl_call_options, attempt_ms),   MEMBER(pawl_call_options, overall_ms),
    MEMBER(pawl_call_options, undo),         MEMBER(pawl_call_options, queue),
    MEMBER(pawl_call_options, tag),          MEMBER(pawl_call_options, affinity),
    MEMBER(pawl_call_options, fair_key),     MEMBER(pawl_call_options, priority),
    MEMBER(pawl_call_options, arg),
};

static const member CHILD_OPTIONS[] = {
    MEMBER(pawl_child_options, size),
    MEMBER(pawl_child_options, id),
    MEMBER(pawl_child_options, version),
    MEMBER(pawl_child_options, detached),
};

static const member FILTER[] = {
    MEMBER(pawl_filter, size),
    MEMBER(pawl_filter, workflow),
    MEMBER(pawl_filter, id_prefix),
    MEMBER(pawl_filter, attribute),
    MEMBER(pawl_filter, attribute_value),
    MEMBER(pawl_filter, phases),
    MEMBER(pawl_filter, created_after_ms),
    MEMBER(pawl_filter, created_before_ms),
    MEMBER(pawl_filter, finished_before_ms),
    MEMBER(pawl_filter, after_id),
    MEMBER(pawl_filter, oldest_first),
    MEMBER(pawl_filter, limit),
};

static const member REDRIVE_OPTIONS[] = {
    MEMBER(pawl_redrive_options, size),    MEMBER(pawl_redrive_options, key),
    MEMBER(pawl_redrive_options, from),    MEMBER(pawl_redrive_options, whole),
    MEMBER(pawl_redrive_options, version),
};

static const member QUEUE_OPTIONS[] = {
    MEMBER(pawl_queue_options, size),        MEMBER(pawl_queue_options, paused),
    MEMBER(pawl_queue_options, running_max), MEMBER(pawl_queue_options, per_key_max),
    MEMBER(pawl_queue_options, rate),        MEMBER(pawl_queue_options, rate_ms),
};

static const struct {
    const char *name;
    size_t size;
    const member *members;
    size_t count;
} STRUCTS[] = {
#define STRUCT(type, list)                                                                         \
    {                                                                                              \
#type, sizeof(type), list, sizeof list / sizeof *list                                      \
    }
    STRUCT(pawl_options, OPTIONS),
    STRUCT(pawl_hooks, HOOKS),
    STRUCT(pawl_workflow_options, WORKFLOW_OPTIONS),
    STRUCT(pawl_work_options, WORK_OPTIONS),
    STRUCT(pawl_start_options, START_OPTIONS),
    STRUCT(pawl_send_options, SEND_OPTIONS),
    STRUCT(pawl_call_options, CALL_OPTIONS),
    STRUCT(pawl_child_options, CHILD_OPTIONS),
    STRUCT(pawl_filter, FILTER),
    STRUCT(pawl_redrive_options, REDRIVE_OPTIONS),
    STRUCT(pawl_queue_options, QUEUE_OPTIONS),
#undef STRUCT
};

/* Padding has no value that a caller could set, so bytes there could never be told from options. */
static void structs_have_no_padding(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        skip(); /* with 32-bit pointers, int64_t members make gaps that size still accounts for */
    for (size_t s = 0; s < sizeof STRUCTS / sizeof *STRUCTS; s++) {
        size_t end = 0;
        for (size_t i = 0; i < STRUCTS[s].count; i++) {
            const member *m = &STRUCTS[s].members[i];
            if (m->offset != end)
                fail_msg("%s.%s is at %zu, not %zu", STRUCTS[s].name, m->name, m->offset, end);
            end += m->size;
        }
        if (end != STRUCTS[s].size)
            fail_msg("%s has %zu bytes, its listed members %zu", STRUCTS[s].name, STRUCTS[s].size,
                     end);
    }
}

static void macros_fill_in_the_size(void **state)
{
    (void)state;
    assert_int_equal(PAWL_OPTIONS(.busy_ms = 1)->size, sizeof(pawl_options));
    assert_int_equal(PAWL_WORKFLOW(.version = "2")->size, sizeof(pawl_workflow_options));
    assert_int_equal(PAWL_WORK(.at_most = 1)->size, sizeof(pawl_work_options));
    assert_int_equal(PAWL_START(.delay_ms = 1)->size, sizeof(pawl_start_options));
    assert_int_equal(PAWL_SEND(.key = "k")->size, sizeof(pawl_send_options));
    assert_int_equal(PAWL_CALL(.attempts = 1)->size, sizeof(pawl_call_options));
    assert_int_equal(PAWL_CHILD(.id = "c")->size, sizeof(pawl_child_options));
    assert_int_equal(PAWL_FILTER(.limit = 1)->size, sizeof(pawl_filter));
    assert_int_equal(PAWL_REDRIVE(.whole = 1)->size, sizeof(pawl_redrive_options));
    assert_int_equal(PAWL_QUEUE(.paused = 1)->size, sizeof(pawl_queue_options));
    assert_int_equal(PAWL_CALL(.attempts = 5)->attempts, 5);
    assert_null(PAWL_CALL(.attempts = 5)->queue);
}

/* ---- Opening with them ---- */

static void expect(const void *options, pawl_code code, const char *mention)
{
    pawl *p = NULL;
    pawl_code got = pawl_open(&p, "memory:", options);
    assert_non_null(p);
    if (got != code)
        fail_msg("expected %s, got %s: %s", pawl_code_name(code), pawl_code_name(got),
                 pawl_errmsg(p));
    if (code != PAWL_OK && (!pawl_errmsg(p)[0] || !pawl_errhint(p)[0]))
        fail_msg("%s without a message or a hint", pawl_code_name(code));
    if (mention && !strstr(pawl_errmsg(p), mention))
        fail_msg("'%s' does not name %s", pawl_errmsg(p), mention);
    pawl_close(p);
}

/* The first pawl_options there was, with something else of the program's behind it. */
static void an_old_program_works(void **state)
{
    (void)state;
    struct old_options {
        size_t size;
        int (*on_connect)(void *native, void *arg);
        void *on_connect_arg;
        void (*log)(int level, const char *event, const char *fields, void *arg);
        void *log_arg;
        int64_t switch_to_wal;
        int64_t wal_bytes;
        int64_t busy_ms;
    };
    struct old_options *old = malloc(sizeof(pawl_options));
    assert_non_null(old);
    memset(old, 0xFF, sizeof(pawl_options));
    *old = (struct old_options){.size = sizeof *old};
    old->busy_ms = 100;
    expect(old, PAWL_OK, NULL);
    old->busy_ms = -1; /* and what it says is heard */
    expect(old, PAWL_INVALID, "busy_ms");
    free(old);
}

/* In memory of exactly its size, so that the sanitizer sees a byte that is read behind it. */
static void every_shorter_struct_works(void **state)
{
    (void)state;
    for (size_t size = sizeof(size_t); size <= sizeof(pawl_options); size += sizeof(void *)) {
        size_t *options = calloc(1, size);
        assert_non_null(options);
        *options = size;
        expect(options, PAWL_OK, NULL);
        free(options);
    }
}

static void a_newer_program_works_as_long_as_it_asks_nothing_new(void **state)
{
    (void)state;
    struct {
        pawl_options known;
        int64_t more[4];
    } newer = {.known = {.size = sizeof newer, .busy_ms = 100}};
    expect(&newer, PAWL_OK, NULL);
    for (size_t i = 0; i < sizeof newer.more; i++) {
        ((unsigned char *)newer.more)[i] = 1;
        expect(&newer, PAWL_INVALID, "does not know");
        ((unsigned char *)newer.more)[i] = 0;
    }
    newer.more[3] = 1;
    newer.known.size = sizeof newer - sizeof *newer.more; /* what is behind the size is not ours */
    expect(&newer, PAWL_OK, NULL);
}

static void sizes_that_no_struct_has_are_refused(void **state)
{
    (void)state;
    static const size_t SIZES[] = {0, 1, sizeof(size_t) - 1, sizeof(size_t) + 1, 100000, SIZE_MAX};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        pawl_options o = {.size = SIZES[i]};
        expect(&o, PAWL_INVALID, "size");
    }
}

static void numbers_are_checked(void **state)
{
    (void)state;
    expect(PAWL_OPTIONS(.wal_bytes = -1), PAWL_INVALID, "wal_bytes");
    expect(PAWL_OPTIONS(.threads_max = -1), PAWL_INVALID, "threads_max");
    expect(PAWL_OPTIONS(.warm_bytes = -1), PAWL_INVALID, "warm_bytes");
    expect(PAWL_OPTIONS(.claim_ms = -1), PAWL_INVALID, "claim_ms");
    expect(PAWL_OPTIONS(.drain_ms = -1), PAWL_INVALID, "drain_ms");
    expect(PAWL_OPTIONS(.poll_ms = -2), PAWL_INVALID, "poll_ms");
    expect(PAWL_OPTIONS(.work_threads = -1), PAWL_INVALID, "work_threads");
    expect(PAWL_OPTIONS(.work_threads = INT64_MAX), PAWL_OK, NULL);
    expect(PAWL_OPTIONS(.at_risk_max = -1), PAWL_INVALID, "at_risk_max");
    expect(PAWL_OPTIONS(.at_risk_ms = -1), PAWL_INVALID, "at_risk_ms");
    expect(PAWL_OPTIONS(.at_risk_max = INT64_MAX, .at_risk_ms = INT64_MAX), PAWL_OK, NULL);
    expect(PAWL_OPTIONS(.keep_ms = INT64_MIN), PAWL_INVALID, "keep_ms");
    expect(PAWL_OPTIONS(.threads = -1), PAWL_OK, NULL); /* the caller drives */
    expect(PAWL_OPTIONS(.threads = -2), PAWL_INVALID, "threads");
    expect(PAWL_OPTIONS(.threads = 4, .threads_max = 4), PAWL_OK, NULL);
    expect(PAWL_OPTIONS(.threads = 4, .threads_max = 3), PAWL_INVALID, "threads_max");
    expect(PAWL_OPTIONS(.threads = -1, .threads_max = 3), PAWL_OK, NULL);
    expect(PAWL_OPTIONS(.threads = INT64_MAX), PAWL_OK, NULL);
}

static void texts_are_checked(void **state)
{
    (void)state;
    char longest[PAWL_MAX_NAME + 2];
    memset(longest, 'a', sizeof longest);
    longest[PAWL_MAX_NAME + 1] = '\0';
    expect(PAWL_OPTIONS(.tenant = longest), PAWL_LIMIT, "tenant");
    expect(PAWL_OPTIONS(.name = longest), PAWL_LIMIT, "name");
    expect(PAWL_OPTIONS(.build = longest), PAWL_LIMIT, "build");
    expect(PAWL_OPTIONS(.tags = longest), PAWL_LIMIT, "tags");
    longest[PAWL_MAX_NAME] = '\0';
    expect(PAWL_OPTIONS(.tenant = longest, .name = longest, .build = longest), PAWL_OK, NULL);
    expect(PAWL_OPTIONS(.tenant = "\xff"), PAWL_INVALID, "tenant");
    expect(PAWL_OPTIONS(.name = "a\xc0\xaf"), PAWL_INVALID, "name");
    expect(PAWL_OPTIONS(.build = "\xed\xa0\x80"), PAWL_INVALID, "build");
    expect(PAWL_OPTIONS(.tags = "gpu,\xff"), PAWL_INVALID, "tags");
    expect(PAWL_OPTIONS(.tenant = "", .name = "", .build = ""), PAWL_OK, NULL);
}

/* An option that nothing carries out is refused: a program that relied on it would be wrong. */
static void what_is_not_built_is_refused(void **state)
{
    (void)state;
    expect(PAWL_OPTIONS(.keep_ms = 1), PAWL_UNSUPPORTED, "keep_ms");
    expect(PAWL_OPTIONS(.keep_ms = INT64_MAX), PAWL_UNSUPPORTED, "keep_ms");
    expect(PAWL_OPTIONS(.tags = "*"), PAWL_UNSUPPORTED, "tags");
    expect(PAWL_OPTIONS(.tags = "gpu,eu"), PAWL_UNSUPPORTED, "tags");
}

static void tags_are_names_with_commas_between(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"", ",", "gpu,", ",gpu", "gpu,,eu"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        expect(PAWL_OPTIONS(.tags = WRONG[i]), PAWL_INVALID, "tags");
    char many[8192];
    memset(many, ',', sizeof many);
    for (size_t i = 0; i < sizeof many; i += 2)
        many[i] = 'a';
    many[sizeof many - 1] = '\0';
    expect(PAWL_OPTIONS(.tags = many), PAWL_LIMIT, "tags");
}

/* ---- Hooks ---- */

typedef struct outside {
    int64_t ns;
    int asked_now;
    int asked_mono;
} outside;

static int64_t outside_now_ms(void *arg)
{
    ((outside *)arg)->asked_now++;
    return INT64_C(1000000000000);
}

/* Each look at this clock is two seconds later: what waits by it is soon done. */
static int64_t outside_mono_ns(void *arg)
{
    outside *o = arg;
    o->asked_mono++;
    return o->ns += INT64_C(2000000000);
}

static void time_comes_from_the_hooks(void **state)
{
    (void)state;
    outside o = {0};
    pawl_hooks given = {
        .size = sizeof given, .now_ms = outside_now_ms, .mono_ns = outside_mono_ns, .arg = &o};
    expect(PAWL_OPTIONS(.hooks = &given), PAWL_OK, NULL);
    assert_true(o.asked_now > 0); /* the migration has its time from there */
}

/* Such a clock does not tell when it was moved: a waiting thread has to look by itself. */
static void who_waits_sees_that_the_clock_was_moved(void **state)
{
    (void)state;
    outside o = {0};
    pawl_hooks given = {.size = sizeof given, .mono_ns = outside_mono_ns, .arg = &o};
    hooks h;
    error err;
    assert_int_equal(hooks_read(&h, &given, &err), PAWL_OK);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    assert_int_equal(clock_cond_init(&cond), 0);
    pthread_mutex_lock(&mutex);
    int64_t deadline = INT64_C(9000000000);
    assert_int_equal(h.clock.wait(&h.clock, &cond, &mutex, deadline), 0); /* two looks: 4 s */
    assert_int_equal(h.clock.wait(&h.clock, &cond, &mutex, deadline), 0);
    assert_int_equal(h.clock.wait(&h.clock, &cond, &mutex, deadline), 1);
    assert_int_equal(o.asked_mono, 5);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
}

static int no_randomness(void *bytes, size_t count, void *arg)
{
    (void)arg;
    memset(bytes, 7, count);
    return -1;
}

static void what_is_left_out_is_the_systems(void **state)
{
    (void)state;
    pawl_hooks given = {.size = sizeof given, .random = no_randomness};
    hooks h;
    error err;
    char bytes[4] = {0};
    assert_int_equal(hooks_read(&h, &given, &err), PAWL_OK);
    assert_int_equal(h.random.fill(&h.random, bytes, sizeof bytes), -1);
    assert_int_equal(bytes[3], 7);
    assert_true(h.clock.now_ms(&h.clock) > INT64_C(1600000000000));
    assert_true(h.clock.mono_ns(&h.clock) <= clock_system()->mono_ns(clock_system()));
    assert_int_equal(hooks_read(&h, NULL, &err), PAWL_OK);
    assert_int_equal(h.random.fill(&h.random, bytes, sizeof bytes), 0);
}

static void hooks_are_options_too(void **state)
{
    (void)state;
    pawl_hooks given = {.size = 0};
    expect(PAWL_OPTIONS(.hooks = &given), PAWL_INVALID, "size");
    given.size = sizeof given.size; /* none of them: the system's */
    expect(PAWL_OPTIONS(.hooks = &given), PAWL_OK, NULL);
    struct {
        pawl_hooks known;
        int64_t more;
    } newer = {.known = {.size = sizeof newer}, .more = 1};
    expect(PAWL_OPTIONS(.hooks = &newer.known), PAWL_INVALID, "does not know");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_have_no_padding),
        cmocka_unit_test(macros_fill_in_the_size),
        cmocka_unit_test(an_old_program_works),
        cmocka_unit_test(every_shorter_struct_works),
        cmocka_unit_test(a_newer_program_works_as_long_as_it_asks_nothing_new),
        cmocka_unit_test(sizes_that_no_struct_has_are_refused),
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(texts_are_checked),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(tags_are_names_with_commas_between),
        cmocka_unit_test(time_comes_from_the_hooks),
        cmocka_unit_test(who_waits_sees_that_the_clock_was_moved),
        cmocka_unit_test(what_is_left_out_is_the_systems),
        cmocka_unit_test(hooks_are_options_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
