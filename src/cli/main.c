/* pawl, the command-line client: inspects and changes runs from outside their programs.
 *
 * The tool opens the database, executes one command, prints the answer, and ends with the exit code
 * that PAWL_CODES in pawl.h has for the answer. It never makes a database: a misspelt file name is
 * an error here, although pawl_open() would make the file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <pawl.h>

#include "cli/commands.h"
#include "cli/out.h"

static int exit_code(pawl_code code)
{
    switch (code) {
#define EXIT_CODE(name, number, retry, exit_code, text)                                            \
    case PAWL_##name:                                                                              \
        return exit_code;
        PAWL_CODES(EXIT_CODE)
#undef EXIT_CODE
    case PAWL_CODE_LAST_:
        break;
    }
    return 70;
}

/* ---- Errors ---- */

static void put_error(const char *what, const char *detail, const char *hint)
{
    fflush(stdout);
    fputs("pawl: ", stderr);
    out_text(stderr, what, 0);
    fputc('\n', stderr);
    if (detail[0]) {
        fputs("  ", stderr);
        out_text(stderr, detail, 0);
        fputc('\n', stderr);
    }
    if (hint[0]) {
        fputs("  hint: ", stderr);
        out_text(stderr, hint, 0);
        fputc('\n', stderr);
    }
}

static int print_failure(pawl *p, pawl_code rc)
{
    if (p)
        put_error(pawl_errmsg(p), pawl_errdetail(p), pawl_errhint(p));
    else
        put_error(pawl_code_text(rc), "", "");
    return exit_code(rc);
}

/* ---- The database ---- */

/* The file that a URL names, without the parameters behind it; NULL: the URL names no file, or
 * memory is out. */
static char *file_of(const char *url)
{
    int named = strncmp(url, "sqlite:", 7) == 0;
    if (strcmp(url, "memory:") == 0 || strncmp(url, "postgres", 8) == 0 || strstr(url, "://") ||
        strstr(url, "password="))
        return NULL;
    const char *path = named ? url + 7 : url;
    size_t size = named ? strcspn(path, "?") : strlen(path);
    return size ? strndup(path, size) : NULL;
}

/* Tells whether the URL names a file that does not exist. A URL that begins with "postgres" is not
 * checked here: pawl_open() decides what it means. */
static int is_missing(const char *url)
{
    struct stat info;
    char *path = file_of(url);
    int missing = path && stat(path, &info) != 0 && errno == ENOENT;
    if (missing)
        put_error("there is no such database", path, "look at --db and PAWL_DB");
    free(path);
    return missing;
}

static int run_command(const arguments *a)
{
    pawl *p = NULL;
    if (is_missing(a->db))
        return exit_code(PAWL_CANTOPEN);
    pawl_code rc =
        pawl_open(&p, a->db, PAWL_OPTIONS(.tenant = a->tenant, .look_only = a->command->looks));
    if (rc == PAWL_OK)
        rc = a->command->run(p, a);
    int result = rc == PAWL_OK ? 0 : print_failure(p, rc);
    pawl_close(p);
    return result;
}

int main(int argc, char **argv)
{
    arguments a;
    int result = arguments_read(&a, argc, argv);
    if (result != 0)
        return result;
    if (a.version)
        printf("pawl %s\n", pawl_version());
    else if (a.help)
        arguments_help(&a);
    else
        result = run_command(&a);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        put_error("the output cannot be written", strerror(errno), "");
        return exit_code(PAWL_IO);
    }
    return result;
}
