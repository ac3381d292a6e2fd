/* One example runs at a time, and its printf() has no argument for the fixture: so the fixture of
 * that example is kept in `telling`. */
#include "support/example_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static example_fixture *telling;

int example_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t used = strlen(telling->printed);
    int size = vsnprintf(telling->printed + used, sizeof telling->printed - used, format, args);
    va_end(args);
    assert_true(size >= 0 && (size_t)size < sizeof telling->printed - used);
    return size;
}

void example_code(const example_fixture *s, pawl_code got, pawl_code wanted, int line)
{
    if (got != wanted)
        fail_msg("line %d: expected %s, got %s (%s)", line, pawl_code_name(wanted),
                 pawl_code_name(got), pawl_errtext(s->p));
}

/* ---- Running ---- */

/* Runs the example once. crash_at: the write at which it crashes, 0: none. Gives the number of its
 * writes. */
static int64_t run_story(example_fn *fn, int always_replay, int64_t crash_at)
{
    static example_fixture s;
    memset(&s, 0, sizeof s);
    telling = &s;
    assert_int_equal(pawl_test_open(&s.p, &s.t), PAWL_OK);
    s.crashes = crash_at > 0;
    EXAMPLE_OK(&s, pawl_test_always_replay(s.t, always_replay));
    EXAMPLE_OK(&s, pawl_test_crash_at(s.t, crash_at));
    fn(&s);
    int64_t writes = pawl_test_writes(s.t);
    pawl_test_close(s.t);
    pawl_close(s.p);
    telling = NULL;
    return writes;
}

void example_run_once(example_fn *fn)
{
    run_story(fn, 0, 0);
}

void example_run(example_fn *fn, int every)
{
    int64_t writes = run_story(fn, 0, 0);
    run_story(fn, 1, 0);
    assert_true(writes > 0);
    for (int64_t n = 1; n <= writes; n += every)
        run_story(fn, 0, n);
}

/* ---- What was printed ---- */

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

static int begins_with(const char *line, const char *begin)
{
    return strncmp(line, begin, strlen(begin)) == 0;
}

int example_count(const example_fixture *s, const char *begin)
{
    int count = 0;
    for (const char *line = s->printed; *line; line = next_line(line))
        count += begins_with(line, begin);
    return count;
}

void example_has(const example_fixture *s, const char *begin)
{
    int count = example_count(s, begin);
    if (count < 1 || count > 1 + s->crashes)
        fail_msg("%d times '%s' in:\n%s", count, begin, s->printed);
}

void example_has_not(const example_fixture *s, const char *begin)
{
    if (example_count(s, begin) > 0)
        fail_msg("'%s' in:\n%s", begin, s->printed);
}

void example_in_order(const example_fixture *s, const char *first, const char *second)
{
    int late = 0;
    for (const char *line = s->printed; *line; line = next_line(line)) {
        late |= begins_with(line, second);
        if (late && begins_with(line, first))
            fail_msg("'%s' after '%s' in:\n%s", first, second, s->printed);
    }
}

/* ---- Ends ---- */

void example_done(example_fixture *s, const char *id, const char *value)
{
    pawl_outcome *end = NULL;
    EXAMPLE_OK(s, pawl_test_finish(s->p, id, &end));
    assert_string_equal(pawl_outcome_value(end), value);
    pawl_outcome_free(end);
}

void example_failed(example_fixture *s, const char *id, const char *name)
{
    pawl_outcome *end = NULL;
    example_code(s, pawl_test_finish(s->p, id, &end), PAWL_FAILED, __LINE__);
    assert_string_equal(pawl_outcome_name(end), name);
    pawl_outcome_free(end);
}
