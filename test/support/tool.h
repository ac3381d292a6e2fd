/* The tool `pawl` in a process of its own: run it, and look at what it prints and how it ends. All
 * of this uses cmocka's assertions. */
#ifndef SUPPORT_TOOL_H
#define SUPPORT_TOOL_H

#include <pawl.h>

#include "support/tmp.h"

enum { TEXT = 64 * 1024 };

typedef struct tool_fixture {
    char dir[TMP_PATH]; /* of the test's own */
    char db[TMP_PATH];  /* a name in it, of no file so far */
    char tool[TMP_PATH];
    const char *in; /* its stdin; NULL: ours */
    char out[TEXT]; /* what it has printed … */
    char err[TEXT]; /* … and what to stderr */
} tool_fixture;

tool_fixture *tool_set_up(void);
void tool_tear_down(tool_fixture *l);

/* Run the tool with these arguments, NULL at the end, and PAWL_DB in its environment (NULL: not
 * there). Gives its exit code. What it prints must have no control characters for a terminal. */
int tool_run(tool_fixture *l, const char *environment, ...);

/* The same with its stdout in the file `to`; the words begin with "pawl". */
int tool_run_to(tool_fixture *l, const char *to, const char *environment, const char **words);

/* On its own database, and it must end with this code; not 0: with words to stderr. */
#define RUN(l, code, ...) tool_expect(l, tool_run(l, (l)->db, __VA_ARGS__, NULL), code, __LINE__)
void tool_expect(const tool_fixture *l, int got, int wanted, int line);

#define HAS(text, part) tool_has(text, part, __LINE__)
void tool_has(const char *text, const char *part, int line);

/* The line number i of a text, as JSON that passes; and what it has at a pointer. */
const char *json_line(const char *text, int i, char out[TEXT]);
#define MEMBER(json, pointer, wanted) tool_member(json, pointer, wanted, __LINE__)
void tool_member(const char *json, const char *pointer, const char *wanted, int line);

#endif
