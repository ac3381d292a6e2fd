/* A list of engines, each with the thread that is in its pawl_serve(). A child of fork() has a copy
 * of its parent's list and none of its threads: so an entry counts only in the process that made
 * it. */
#include "support/engine_fixture_serve.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/engine_test.h"
#include "base/clock.h"

typedef struct entry {
    struct entry *next;
    pawl *p;
    pid_t pid;
    int serves;
    atomic_int failed; /* the code of pawl_serve(), if it has returned with an error */
    pthread_t thread;
} entry;

static entry *all;

static const int64_t SECOND_NS = 1000000000, LONG_NS = INT64_C(15000000000);
enum { RETRY_MS = 20 };

static int64_t mono_ns(void)
{
    return clock_system()->mono_ns(clock_system());
}

int fixture_serves(void)
{
    const char *driver = getenv("PAWL_TEST_DRIVER");
    return driver && strcmp(driver, "serve") == 0;
}

void serves_add(pawl *p)
{
    entry *e = calloc(1, sizeof *e);
    TMP_CHECK(e);
    *e = (entry){.next = all, .p = p, .pid = getpid()};
    all = e;
}

static entry **find_entry(pawl *p)
{
    entry **at = &all;
    while (*at && ((*at)->p != p || (*at)->pid != getpid()))
        at = &(*at)->next;
    return at;
}

/* Waits until the engine is idle and two rounds of its node loop in a row have found nothing. Each
 * round is asked for here, and has to begin after that: a round that was under way already may have
 * begun before there was something to see. No round is under way when the test goes on. */
static void await_idle(engine_fixture *s, entry *e)
{
    pawl *p = e->p;
    int64_t first, now, until = tmp_deadline(), retry_ns = mono_ns() + LONG_NS;
    int quiet = 0;
    engine_test_is_idle(p, 1, &first);
    for (;; tmp_pause(until, "the engine is idle", __FILE__, __LINE__)) {
        TMP_CHECK(atomic_load(&e->failed) == PAWL_OK);
        int idle = engine_test_is_idle(p, 0, &now);
        if (idle == 2 && now >= first + 2 + first % 2) {
            if (++quiet == 2)
                return;
            engine_test_is_idle(p, 1, &first);
        } else if (!idle) {
            quiet = 0;
        }
        if (mono_ns() > retry_ns) {
            retry_ns = mono_ns() + SECOND_NS;
            fixture_advance(s, RETRY_MS);
        }
    }
}

/* The body of an engine's thread. It serves again after a retryable error, as an application
 * would. */
static void *serve_engine(void *arg)
{
    entry *e = arg;
    pawl_code rc;
    do
        rc = pawl_serve(e->p);
    while (pawl_code_retryable(rc));
    if (rc != PAWL_OK)
        fprintf(stderr, "pawl_serve: %s: %s\n", pawl_code_name(rc), pawl_errtext(e->p));
    atomic_store(&e->failed, (int)rc);
    return NULL;
}

int serves_until_idle(engine_fixture *s, pawl *p)
{
    entry *e = *find_entry(p);
    if (!e)
        return 0;
    if (!e->serves) {
        TMP_CHECK(pthread_create(&e->thread, NULL, serve_engine, e) == 0);
        e->serves = 1;
    }
    await_idle(s, e);
    return 1;
}

void serves_end(pawl *p)
{
    entry **at = find_entry(p), *e = *at;
    if (!e)
        return;
    if (e->serves) {
        pawl_stop(p);
        TMP_CHECK(pthread_join(e->thread, NULL) == 0);
        TMP_CHECK(atomic_load(&e->failed) == PAWL_OK);
    }
    *at = e->next;
    free(e);
}
