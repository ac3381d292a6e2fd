/* The tool is the one of the same build, build/…/pawl. Its outputs go into files, so that nothing
 * has to be read while it is running. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tool_fixture.h"

enum { WORDS = 16 };

tool_fixture *tool_set_up(void)
{
    tool_fixture *l = calloc(1, sizeof *l);
    assert_non_null(l);
    tmp_dir_make(l->dir);
    tmp_path(l->db, l->dir, "tool.db");
    ssize_t size = readlink("/proc/self/exe", l->tool, sizeof l->tool - 1);
    assert_true(size > 0);
    for (int up = 0; up < 3; up++) /* from build/…/test/cli/test_NAME to build/… */
        *strrchr(l->tool, '/') = '\0';
    snprintf(l->tool + strlen(l->tool), sizeof l->tool - strlen(l->tool), "/pawl");
    return l;
}

void tool_tear_down(tool_fixture *l)
{
    tmp_dir_remove(l->dir);
    free(l);
}

/* ---- Running it ---- */

static void read_file(const char *path, char out[TEXT])
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t size = fread(out, 1, TEXT - 1, f);
    out[size] = '\0';
    fclose(f);
}

/* In the child. */
static _Noreturn void become_tool(const tool_fixture *l, const char *to, const char *environment,
                                  const char **words)
{
    char err[TMP_PATH];
    tmp_path(err, l->dir, "err");
    int out_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int err_fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int in_fd = l->in ? open(l->in, O_RDONLY) : 0;
    if (in_fd < 0 || dup2(in_fd, 0) < 0 || out_fd < 0 || err_fd < 0 || dup2(out_fd, 1) < 0 ||
        dup2(err_fd, 2) < 0)
        _exit(98);
    if (environment)
        setenv("PAWL_DB", environment, 1);
    else
        unsetenv("PAWL_DB");
    execv(l->tool, (char *const *)(void *)words);
    _exit(97);
}

int tool_run_to(tool_fixture *l, const char *to, const char *environment, const char **words)
{
    char err[TMP_PATH];
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        become_tool(l, to, environment, words);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    tmp_path(err, l->dir, "err");
    read_file(err, l->err);
    return WEXITSTATUS(status);
}

/* Fails the test if the text has control characters that a terminal would obey. */
static void expect_harmless(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if ((*at < ' ' && *at != '\n') || *at == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0) ||
            strncmp((const char *)at, "\u202e", 3) == 0)
            fail_msg("a control character at byte %td of:\n%s", (const char *)at - text, text);
    }
}

int tool_run(tool_fixture *l, const char *environment, ...)
{
    const char *words[WORDS + 1] = {"pawl"};
    char out[TMP_PATH];
    va_list args;
    va_start(args, environment);
    for (int i = 1; i < WORDS && (words[i] = va_arg(args, const char *)); i++)
        ;
    va_end(args);
    tmp_path(out, l->dir, "out");
    int code = tool_run_to(l, out, environment, words);
    read_file(out, l->out);
    expect_harmless(l->out);
    expect_harmless(l->err);
    return code;
}

void tool_expect(const tool_fixture *l, int got, int wanted, int line)
{
    if (got != wanted)
        fail_msg("line %d: exit code %d, expected %d\n%s%s", line, got, wanted, l->out, l->err);
    assert_true(wanted == 0 || l->err[0]);
}

void tool_has(const char *text, const char *part, int line)
{
    if (!strstr(text, part))
        fail_msg("line %d: '%s' is not in\n%s", line, part, text);
}

const char *json_line(const char *text, int i, char out[TEXT])
{
    while (i-- > 0)
        text = strchr(text, '\n') + 1;
    size_t size = strcspn(text, "\n");
    memcpy(out, text, size);
    out[size] = '\0';
    if (pawl_json_check(out, NULL) != PAWL_OK)
        fail_msg("not JSON: %s", out);
    return out;
}

void tool_member(const char *json, const char *pointer, const char *wanted, int line)
{
    char got[TEXT];
    pawl_get_json(json, pointer, got, sizeof got);
    if (strcmp(got, wanted) != 0)
        fail_msg("line %d: %s is %s, expected %s, in\n%s", line, pointer, got, wanted, json);
}
