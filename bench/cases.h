/* A benchmark's command line: which of its cases are meant, and on which backends.
 *
 * A group is a table of cases. A word is "CASE" or "BACKEND:CASE"; no word means all of them. Every
 * backend is started when the first case on it is chosen, and says on stderr with which settings
 * its floor is written. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "backend.h"

typedef struct bench_case {
    const char *name;
    void (*run)(const struct bench_case *c, const backend *on);
    const void *load; /* what it is given to do: of a type of the group's own, or NULL */
    int no_turns;     /* says nothing where writers take turns */
} bench_case;

typedef struct bench_group {
    const char *name;
    const bench_case *cases;
    int count;
    void (*head)(void); /* before the first case on a backend; or NULL */
} bench_group;

/* What main() is made of: runs the cases that the words mean; gives the exit code. */
int cases_main(const bench_group *group, int argc, char **argv);

#endif
