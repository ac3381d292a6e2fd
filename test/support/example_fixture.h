/* The fixture for examples: runs an example on the test kit, first undisturbed, then
 * with no run kept in memory, then with a crash at each of its writes.
 *
 * What an example prints stands for its side effects, which no crash undoes: its printf() is
 * replaced (EXAMPLE_PRINTS), so that the test can check the lines. */
#ifndef SUPPORT_EXAMPLE_FIXTURE_H
#define SUPPORT_EXAMPLE_FIXTURE_H

#include <stdio.h>
#include <pawl.h>
#include <pawl_test.h>

enum { EXAMPLE_PRINTED = 64 * 1024 };

typedef struct example_fixture {
    pawl *p;
    pawl_test *t;
    int crashes; /* 1: at some write */
    char printed[EXAMPLE_PRINTED];
} example_fixture;

/* Registers the workflows of the example, starts and finishes its runs, and checks the result. */
typedef void example_fn(example_fixture *s);

/* Run it in all three ways, with a crash at each n-th write of `every`. */
void example_run(example_fn *fn, int every);

/* Run it once, undisturbed. */
void example_run_once(example_fn *fn);

/* Replaces printf(3) and puts(3). */
int example_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number of lines that begin with this. */
int example_count(const example_fixture *s, const char *begin);

/* There must be one such line, and after a crash perhaps a second; or none at all. */
void example_has(const example_fixture *s, const char *begin);
void example_has_not(const example_fixture *s, const char *begin);

/* All lines that begin with `first` must come before all that begin with `second`. */
void example_in_order(const example_fixture *s, const char *first, const char *second);

/* The call must give PAWL_OK. */
#define EXAMPLE_OK(s, call) example_code((s), (call), PAWL_OK, __LINE__)
void example_code(const example_fixture *s, pawl_code got, pawl_code wanted, int line);

/* Finish the run: it must be done with this value, or failed with this name. */
void example_done(example_fixture *s, const char *id, const char *value);
void example_failed(example_fixture *s, const char *id, const char *name);

#endif
