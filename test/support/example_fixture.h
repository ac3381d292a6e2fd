/* The fixture for examples: runs an example on the test kit, first undisturbed, then with no run
 * kept in memory, then with a crash at each of its writes.
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
    int crashes; /* 1: this time the example is interrupted by a crash */
    char printed[EXAMPLE_PRINTED];
} example_fixture;

/* Registers the workflows of the example, starts and finishes its runs, and checks the result. */
typedef void example_fn(example_fixture *s);

/* Run the example in all three ways; the crashes are at its first write and at every `every`-th
 * write after that (1: at each). */
void example_run(example_fn *fn, int every);

/* Run the example once, undisturbed. */
void example_run_once(example_fn *fn);

/* Replaces printf(3) and puts(3) in examples: the text goes into `printed`. */
int example_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number of printed lines that begin with this text. */
int example_count(const example_fixture *s, const char *begin);

/* example_has() expects one line that begins with this text, or two after a crash;
 * example_has_not() expects none. */
void example_has(const example_fixture *s, const char *begin);
void example_has_not(const example_fixture *s, const char *begin);

/* All lines that begin with `first` must come before all that begin with `second`. */
void example_in_order(const example_fixture *s, const char *first, const char *second);

/* The call must give PAWL_OK. */
#define EXAMPLE_OK(s, call) example_code((s), (call), PAWL_OK, __LINE__)
void example_code(const example_fixture *s, pawl_code got, pawl_code wanted, int line);

/* Finish the run. Then example_done() expects that it is done with this value, example_failed()
 * that it has failed with this name. */
void example_done(example_fixture *s, const char *id, const char *value);
void example_failed(example_fixture *s, const char *id, const char *name);

#endif
