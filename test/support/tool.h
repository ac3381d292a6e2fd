/* The tool `pawl` in a process of its own: run it, and look at what it prints and how it ends. All
 * of this uses cmocka's assertions. */
#ifndef SUPPORT_TOOL_H
#define SUPPORT_TOOL_H

#include <pawl.h>

#include "support/tmp.h"

enum { TEXT = 64 * 1024 };

typedef struct place {
    char dir[TMP_PATH]; /* of the test's own */
    char db[TMP_PATH];  /* a name in it, of no file so far */
    char tool[TMP_PATH];
    const char *in; /* its stdin; NULL: ours */
    char out[TEXT]; /* what it has printed … */
    char err[TEXT]; /* … and what to stderr */
} place;

place *tool_set_up(void);
void tool_tear_down(place *l);

/* Run it with these words, NULL at the end, and PAWL_DB in its environment (NULL: not there). Gives
 * its exit code. Whatever it prints, nothing of it is what a terminal obeys. */
int tool_run(place *l, const char *environment, ...);

/* The same with its stdout in the file `to`; the words begin with "pawl". */
int tool_run_to(place *l, const char *to, const char *environment, const char **words);

/* On its own database, and it must end with this code; not 0: with words to stderr. */
#define RUN(l, code, ...) tool_expect(l, tool_run(l, (l)->db, __VA_ARGS__, NULL), code, __LINE__)
void tool_expect(const place *l, int got, int wanted, int line);

#define HAS(text, part) tool_has(text, part, __LINE__)
void tool_has(const char *text, const char *part, int line);

/* The line number i of a text, as JSON that passes; and what it has at a pointer. */
const char *json_line(const char *text, int i, char out[TEXT]);
#define MEMBER(json, pointer, wanted) tool_member(json, pointer, wanted, __LINE__)
void tool_member(const char *json, const char *pointer, const char *wanted, int line);

#endif
