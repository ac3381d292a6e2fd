/* The turnstile alone: who waits goes before who comes back.
 *
 * SQLite and a single lock both let the one who has just written write again, because it is awake
 * and the others have to be woken (B2). Two locks do not: here one engine leaves its turn and
 * asks again at once, while another is known to be waiting. Locks belong to descriptions, so two
 * engines of one process are as good as two processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "db/turnstile.h"
#include "support/tmp.h"

enum { ROUNDS = 50, BYTE_T = 0 };

typedef struct guest {
    turnstile *turn;
    nodes_file *file;
    pthread_t thread;
    atomic_int inside;
    atomic_int may_leave;
} guest;

static void *visit(void *arg)
{
    guest *g = arg;
    int entered = turnstile_enter(g->turn);
    atomic_store(&g->inside, entered);
    TMP_AWAIT(atomic_load(&g->may_leave));
    turnstile_leave(g->turn);
    return NULL;
}

static nodes_file *open_file(const char *path)
{
    nodes_file *f = NULL;
    assert_int_equal(nodes_file_open(&f, path, NULL), PAWL_OK);
    return f;
}

static void one_round(turnstile *again, nodes_file *seen_by_first, guest *g)
{
    atomic_store(&g->inside, 0);
    atomic_store(&g->may_leave, 0);
    assert_int_equal(turnstile_enter(again), 1);
    /* In the first half of a turn the first lock is ours too: who has just left finds it taken. */
    assert_int_equal(nodes_file_alive(g->file, BYTE_T), 1);
    assert_int_equal(pthread_create(&g->thread, NULL, visit, g), 0);
    /* We let the next one step up. It waits for our turn to end once it has the first lock. */
    turnstile_pass(again);
    TMP_AWAIT(nodes_file_alive(seen_by_first, BYTE_T) == 1);
    assert_int_equal(atomic_load(&g->inside), 0);

    turnstile_leave(again);
    assert_int_equal(turnstile_enter(again), 0);
    TMP_AWAIT(atomic_load(&g->inside));
    assert_int_equal(turnstile_enter(again), 0);

    atomic_store(&g->may_leave, 1);
    pthread_join(g->thread, NULL);
    assert_int_equal(turnstile_given_up(g->turn), 0);
    assert_int_equal(turnstile_enter(again), 1);
    turnstile_leave(again);
}

static void who_waits_goes_before_who_comes_back(void **state)
{
    (void)state;
    if (tmp_under_valgrind())
        skip();
    char folder[TMP_PATH];
    char path[TMP_PATH];
    tmp_dir_make(folder);
    tmp_path(path, folder, "a.db");
    nodes_file *first = open_file(path);
    guest g = {.file = open_file(path)};
    /* By hand it never blocks, so that "not yet" can be seen; its patience is endless here. */
    turnstile *again = turnstile_new(first, clock_system(), 1, 1000000);
    g.turn = turnstile_new(g.file, clock_system(), 0, 1000000);
    for (int i = 0; i < ROUNDS; i++)
        one_round(again, first, &g);
    turnstile_free(again);
    turnstile_free(g.turn);
    nodes_file_close(first);
    nodes_file_close(g.file);
    tmp_dir_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_goes_before_who_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
