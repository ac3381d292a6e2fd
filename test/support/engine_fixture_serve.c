/* A list of engines, each with the thread that is in its pawl_serve(). A child of fork() has its
 * parent's list and none of its threads: entries are known by their process. */
#include "support/engine_fixture_serve.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/engine_test.h"
#include "support/engine_fixture.h"

typedef struct entry {
    struct entry *next;
    pawl *p;
    pid_t pid;
    int serves;
    pthread_t thread;
} entry;

static entry *all;

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

static entry **find(pawl *p)
{
    entry **at = &all;
    while (*at && ((*at)->p != p || (*at)->pid != getpid()))
        at = &(*at)->next;
    return at;
}

/* Two rounds of the node loop are awaited, each of which begins when it is asked for: one that was
 * under way may have begun before there was something to see. What they find is done when the
 * engine is idle again, and is followed by two others. None is under way when the test goes on. */
static void await_idle(pawl *p)
{
    int64_t first, now, until = tmp_deadline();
    int quiet = 0;
    engine_test_is_idle(p, 1, &first);
    for (;; tmp_pause(until, "the engine is idle", __FILE__, __LINE__)) {
        int idle = engine_test_is_idle(p, 0, &now);
        if (idle == 2 && now >= first + 2 + first % 2) {
            if (++quiet == 2)
                return;
            engine_test_is_idle(p, 1, &first);
        } else if (!idle) {
            quiet = 0;
        }
    }
}

int serves_until_idle(pawl *p)
{
    entry *e = *find(p);
    if (!e)
        return 0;
    if (!e->serves) {
        TMP_CHECK(pthread_create(&e->thread, NULL, fixture_serve, p) == 0);
        e->serves = 1;
    }
    await_idle(p);
    return 1;
}

void serves_end(pawl *p)
{
    entry **at = find(p), *e = *at;
    void *failed = NULL;
    if (!e)
        return;
    if (e->serves) {
        pawl_stop(p);
        TMP_CHECK(pthread_join(e->thread, &failed) == 0);
        TMP_CHECK(!failed);
    }
    *at = e->next;
    free(e);
}
