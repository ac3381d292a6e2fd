/* The fixture for examples (type `story`): runs an example on the test kit, first undisturbed, then
 * with no run kept in memory, then with a crash at each of its writes.
 *
 * What an example prints stands for its side effects, which no crash undoes: its printf() is
 * replaced (STORY_PRINTS), so that the test can check the lines. */
#ifndef SUPPORT_EXAMPLE_FIXTURE_H
#define SUPPORT_EXAMPLE_FIXTURE_H

#include <stdio.h>
#include <pawl.h>
#include <pawl_test.h>

enum { STORY_SAID = 64 * 1024 };

typedef struct story {
    pawl *p;
    pawl_test *t;
    int crashes; /* 1: at some write */
    char said[STORY_SAID];
} story;

/* Register, start, finish, and look at what has come out. */
typedef void story_fn(story *s);

/* Run it in all three ways, with a crash at each `every`th write. */
void story_tell(story_fn *fn, int every);

/* Once, without accidents. */
void story_tell_once(story_fn *fn);

/* In the place of printf(3) and puts(3). */
int story_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lines that begin with this. */
int story_count(const story *s, const char *begin);

/* There is one such line, and after a crash perhaps a second; or none at all. */
void story_has(const story *s, const char *begin);
void story_has_not(const story *s, const char *begin);

/* All lines that begin with `first` come before all that begin with `second`. */
void story_in_order(const story *s, const char *first, const char *second);

/* Must work. */
#define STORY_OK(s, call) story_code((s), (call), PAWL_OK, __LINE__)
void story_code(const story *s, pawl_code got, pawl_code wanted, int line);

/* Finish the run: done with this value, or failed with this name. */
void story_done(story *s, const char *id, const char *value);
void story_failed(story *s, const char *id, const char *name);

#endif
