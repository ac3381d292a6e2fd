/* Choosing cases by words. A word that means nothing ends the program before anything is measured:
 * a benchmark takes minutes, and a typing error should not. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is the case, on this backend, what the word means? NULL: any word. */
static int is_meant(const bench_case *c, const backend *on, const char *word)
{
    const char *mark = word ? strchr(word, ':') : NULL;
    if (on->turns && c->no_turns)
        return 0;
    if (!word)
        return 1;
    if (!mark)
        return strcmp(word, c->name) == 0;
    size_t size = (size_t)(mark - word);
    return strlen(on->name) == size && memcmp(on->name, word, size) == 0 &&
           strcmp(mark + 1, c->name) == 0;
}

static int is_chosen(const bench_case *c, const backend *on, char **words, int count)
{
    for (int i = 0; i < count; i++)
        if (is_meant(c, on, words[i]))
            return 1;
    return count == 0 && is_meant(c, on, NULL);
}

_Noreturn static void usage(const bench_group *g, const char *word)
{
    fprintf(stderr, "%s: no case \"%s\"; there are:", g->name, word);
    for (const backend *const *b = BACKENDS; *b; b++)
        for (int i = 0; i < g->count; i++)
            if (is_meant(&g->cases[i], *b, NULL))
                fprintf(stderr, " %s:%s", (*b)->name, g->cases[i].name);
    fputs("\nwithout \"BACKEND:\" a case is run on all\n", stderr);
    exit(2);
}

static void words_check(const bench_group *g, char **words, int count)
{
    for (int i = 0; i < count; i++) {
        int known = 0;
        for (const backend *const *b = BACKENDS; *b; b++)
            for (int k = 0; k < g->count; k++)
                known |= is_meant(&g->cases[k], *b, words[i]);
        if (!known)
            usage(g, words[i]);
    }
}

static void child_explain(const void *arg, int number, void *result)
{
    const backend *on = arg;
    (void)number;
    (void)result;
    bench_db fresh = on->named("floor");
    on->fresh(&fresh);
    on->floor->explain(&fresh);
    on->remove(&fresh);
}

static int cases_run(const bench_group *g, const backend *on, char **words, int count)
{
    int chosen = 0;
    char nothing = 0;
    for (int i = 0; i < g->count; i++)
        chosen += is_chosen(&g->cases[i], on, words, count);
    if (chosen == 0 || !on->start())
        return 0;
    bench_children(1, child_explain, on, &nothing, 1);
    if (g->head)
        g->head();
    for (int i = 0; i < g->count; i++)
        if (is_chosen(&g->cases[i], on, words, count))
            g->cases[i].run(&g->cases[i], on);
    return chosen;
}

int cases_main(const bench_group *g, int argc, char **argv)
{
    int done = 0;
    words_check(g, argv + 1, argc - 1);
    bench_place_make();
    for (const backend *const *b = BACKENDS; *b; b++)
        done += cases_run(g, *b, argv + 1, argc - 1);
    return done ? 0 : 1;
}
