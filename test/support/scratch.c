/* Plain implementations. A test that cannot write its files says nothing about the library, so
 * every failure here ends the program. */
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const DB_FILES[] = {"", "-wal", ".synced", "-wal.synced"};
#define DB_FILE_COUNT (sizeof DB_FILES / sizeof *DB_FILES)

_Noreturn void scratch_die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(99);
}

void scratch_suffix(char out[TMP_PATH], const char *path, const char *suffix)
{
    int n = snprintf(out, TMP_PATH, "%s%s", path, suffix);
    if (n < 0 || n >= TMP_PATH) {
        errno = ENAMETOOLONG;
        scratch_die(path);
    }
}

/* ---- Copies ---- */

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 && errno == ENOENT)
        return;
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0)
        scratch_die(from);
    ssize_t n;
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)n) != n)
            scratch_die(to);
    if (n < 0)
        scratch_die(from);
    close(in);
    close(out);
}

void scratch_copy_db(const char *from, const char *to)
{
    scratch_remove_db(to);
    pid_t pid = fork();
    if (pid < 0)
        scratch_die("fork");
    if (pid == 0) {
        for (size_t i = 0; i < DB_FILE_COUNT; i++) {
            char a[TMP_PATH];
            char b[TMP_PATH];
            scratch_suffix(a, from, DB_FILES[i]);
            scratch_suffix(b, to, DB_FILES[i]);
            copy_file(a, b);
        }
        _exit(0);
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        scratch_die("copying a database");
}

void scratch_remove_db(const char *db)
{
    static const char *const MORE[] = {"-shm", "-journal", "-nodes", "-journal.synced"};
    for (size_t i = 0; i < DB_FILE_COUNT + sizeof MORE / sizeof *MORE; i++) {
        char name[TMP_PATH];
        scratch_suffix(name, db, i < DB_FILE_COUNT ? DB_FILES[i] : MORE[i - DB_FILE_COUNT]);
        if (unlink(name) != 0 && errno != ENOENT)
            scratch_die(name);
    }
}

/* ---- Chance ---- */

int64_t scratch_number(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    if (!text || !text[0])
        return otherwise;
    char *end = NULL;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    return errno == 0 && *end == 0 ? (int64_t)n : otherwise;
}

uint64_t scratch_seed(void)
{
    uint64_t seed = 0;
    if (random_system()->fill(random_system(), &seed, sizeof seed) != 0)
        scratch_die("randomness");
    /* a short number, which can be typed again */
    return (uint64_t)scratch_number("PAWL_TEST_SEED", (int64_t)(seed % 1000000000) + 1);
}

int64_t scratch_between(random_seeded *r, int64_t low, int64_t high)
{
    uint64_t bits = 0;
    r->source.fill(&r->source, &bits, sizeof bits);
    return low + (int64_t)(bits % (uint64_t)(high - low + 1));
}
