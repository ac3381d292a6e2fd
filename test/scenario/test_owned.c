/* A node becomes the owner of a run only if it has the memory to drive it: a run that is claimed,
 * started or born without is left without an owner, and goes on when there is some again, here or
 * on another node. The C library's strndup(), with which a run comes into memory, is this program's
 * own, and fails as often as a case says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

/* Numbers of the fixture: lines of the log when memory is out for claims, and there again. */
enum { OUT, AGAIN };

/* tidy: shared, the library's call has no argument for it. How often there is no memory yet. */
static atomic_int lacking;

/* For everything that is linked into this program. */
char *strndup(const char *text, size_t size)
{
    int left = atomic_load(&lacking);
    while (left > 0 && !atomic_compare_exchange_weak(&lacking, &left, left - 1))
        continue;
    size_t length = strnlen(text, size);
    char *copy = left > 0 ? NULL : malloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "memory-out") == 0)
        atomic_fetch_add(fixture_number(arg, OUT), 1);
    if (strcmp(event, "memory-again") == 0) {
        atomic_fetch_add(fixture_number(arg, AGAIN), 1);
        FIXTURE_CHECK(arg, strcmp(fields, "run=a") == 0 || strcmp(fields, "run=b") == 0);
    }
}

static const char *plain(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "step", input);
}

/* Memory is out while the child is made, and when this node looks for it. */
static const char *parent(pawl_run *run, const char *input)
{
    atomic_store(&lacking, 2);
    return pawl_child(run, "plain", input, PAWL_CHILD(.id = "child"));
}

static pawl *open_engine(engine_fixture *s)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = s));
    FIXTURE_REGISTER(s, p, plain);
    FIXTURE_REGISTER(s, p, parent);
    return p;
}

static void end(engine_fixture *s, pawl *p)
{
    pawl_close(p);
    atomic_store(&lacking, 0);
    fixture_free(s);
}

/* The engine is no node yet when the runs are started: it claims them. */
static void a_claim_without_memory(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_engine(s);
    fixture_start(s, p, "plain", "a", "1");
    fixture_start(s, p, "plain", "b", "2");
    atomic_store(&lacking, 5);
    FIXTURE_DONE(s, p, "a", "1");
    FIXTURE_DONE(s, p, "b", "2");
    FIXTURE_NOTES(s, "step step");
    assert_int_equal(atomic_load(&lacking), 0);
    assert_true(atomic_load(fixture_number(s, OUT)) >= 1);
    assert_int_equal(atomic_load(fixture_number(s, OUT)), atomic_load(fixture_number(s, AGAIN)));
    end(s, p);
}

/* A start would stay with the engine, which is a node: without memory it is as any other. */
static void a_start_without_memory(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_engine(s);
    fixture_poll(s, p);
    atomic_store(&lacking, 2);
    fixture_start(s, p, "plain", "run", "1");
    assert_true(atomic_load(&lacking) < 2);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "step");
    assert_int_equal(atomic_load(&lacking), 0);
    end(s, p);
}

static void a_child_without_memory(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_engine(s);
    fixture_poll(s, p);
    fixture_start(s, p, "parent", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "step");
    end(s, p);
}

/* What cannot be claimed for lack of memory is not owned by the node that lacks it. */
static void another_node_claims_a_run_for_which_memory_was_out(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_engine(s), *other = open_engine(s);
    fixture_start(s, other, "plain", "run", "1");
    atomic_store(&lacking, 1000);
    for (int i = 0; i < 3; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, p);
    }
    atomic_store(&lacking, 0);
    FIXTURE_DONE(s, other, "run", "1");
    FIXTURE_NOTES(s, "step");
    pawl_close(other);
    end(s, p);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a claim without memory", a_claim_without_memory, 0},
        {"a start without memory", a_start_without_memory, 0},
        {"a child without memory", a_child_without_memory, 0},
        {"another node claims a run for which memory was out",
         another_node_claims_a_run_for_which_memory_was_out, DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
