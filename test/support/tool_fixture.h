/* The command-line tool `pawl`, executed in a process of its own, and what it prints and how it
 * ends. All of this uses cmocka's assertions. */
#ifndef SUPPORT_TOOL_FIXTURE_H
#define SUPPORT_TOOL_FIXTURE_H

#include <pawl.h>

#include "support/tmp.h"

enum { TEXT = 64 * 1024 };

typedef struct tool_fixture {
    char dir[TMP_PATH]; /* a folder of the test's own */
    char db[TMP_PATH];  /* the path of the database in that folder; the file does not exist at
                           first */
    char tool[TMP_PATH];
    const char *in; /* what the tool reads from stdin; NULL: the stdin of the test */
    char out[TEXT]; /* what the last run has printed to stdout */
    char err[TEXT]; /* what it has printed to stderr */
} tool_fixture;

tool_fixture *tool_set_up(void);
void tool_tear_down(tool_fixture *l);

/* Executes the tool with these arguments, NULL at the end, and with PAWL_DB in its environment
 * (NULL: without). Returns its exit code. Fails the test if the tool prints control characters,
 * which a terminal would obey. */
int tool_run(tool_fixture *l, const char *environment, ...);

/* As tool_run(), with stdout in the file `to`. The first of the words is "pawl". */
int tool_run_to(tool_fixture *l, const char *to, const char *environment, const char **words);

/* Executes the tool on the fixture's database, and expects this exit code. If that is not 0, the
 * tool must have printed to stderr. */
#define RUN(l, code, ...) tool_expect(l, tool_run(l, (l)->db, __VA_ARGS__, NULL), code, __LINE__)
void tool_expect(const tool_fixture *l, int got, int wanted, int line);

#define HAS(text, part) tool_has(text, part, __LINE__)
void tool_has(const char *text, const char *part, int line);

/* json_line() returns line number i of a text, which must be JSON. MEMBER() expects that the JSON
 * has this value at the pointer. */
const char *json_line(const char *text, int i, char out[TEXT]);
#define MEMBER(json, pointer, wanted) tool_member(json, pointer, wanted, __LINE__)
void tool_member(const char *json, const char *pointer, const char *wanted, int line);

#endif
