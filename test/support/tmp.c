/* Folders, child processes and waiting, for tests. Waits use poll(2), so that the end of a child or
 * a byte from it is noticed at once, and no test depends on how fast the machine is. */
#include "support/tmp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fiber/watch.h"

/* Called by the address sanitizer, in builds that have it. Without alternate signal stacks: when a
 * thread is cancelled, the marks of its frames stay, and the sanitizer would report itself when it
 * frees that thread's signal stack. With allocator_may_return_null malloc() returns NULL where
 * memory is out, as without the sanitizer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "use_sigaltstack=0:allocator_may_return_null=1";
}

/* As __asan_default_options(), called by the thread sanitizer. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* ---- Folders and files ---- */

void tmp_path(char out[TMP_PATH], const char *dir, const char *name)
{
    int n = snprintf(out, TMP_PATH, "%s/%s", dir, name);
    assert_in_range(n, 1, TMP_PATH - 1);
}

void tmp_dir_make(char path[TMP_PATH])
{
    const char *base = getenv("TMPDIR");
    tmp_path(path, base && *base ? base : "/tmp", "pawl-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

void tmp_dir_make_open(char path[TMP_PATH])
{
    tmp_path(path, "/tmp", "pawl-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0755), 0);
}

void tmp_dir_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char inner[TMP_PATH];
        tmp_path(inner, path, entry->d_name);
        if (unlink(inner) != 0)
            tmp_dir_remove(inner);
    }
    closedir(dir);
    rmdir(path);
}

void tmp_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

int64_t tmp_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

/* ---- Awaiting ---- */

int tmp_patience(void)
{
    const char *given = getenv("PAWL_TEST_PATIENCE");
    long seconds = given ? strtol(given, NULL, 10) : 0;
    return seconds > 0 && seconds < 10000 ? (int)seconds : 90;
}

int64_t tmp_deadline(void)
{
    return clock_system()->mono_ns(clock_system()) + INT64_C(1000000000) * tmp_patience();
}

void tmp_pause(int64_t until, const char *condition, const char *file, int line)
{
    if (clock_system()->mono_ns(clock_system()) > until)
        fail_msg("%s:%d: never came: %s", file, line, condition);
    poll(NULL, 0, 1);
}

/* What a signal handler prints is in a variable, since a handler has no argument for it. */
static char watched[160];
static volatile pid_t born[64]; /* children that were not reaped; 0: a free entry */

void tmp_end_children(void)
{
    for (size_t i = 0; i < sizeof born / sizeof *born; i++) {
        if (born[i] > 0) {
            kill(born[i], SIGKILL);
            waitpid(born[i], NULL, 0);
        }
        born[i] = 0;
    }
}

static void on_alarm(int number)
{
    (void)number;
    static const char text[] = "hangs: ";
    tmp_end_children();
    if (write(STDERR_FILENO, text, sizeof text - 1) >= 0 &&
        write(STDERR_FILENO, watched, strlen(watched)) >= 0 && write(STDERR_FILENO, "\n", 1) >= 0)
        _exit(3);
    _exit(3);
}

void tmp_watchdog(const char *name)
{
    alarm(0);
    if (!name)
        return;
    snprintf(watched, sizeof watched, "%s", name);
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(2 * (unsigned)tmp_patience());
}

int tmp_under_valgrind(void)
{
    const char *loaded = getenv("LD_PRELOAD");
    return loaded && strstr(loaded, "vgpreload");
}

int tmp_under_tsan(void)
{
#if WATCH_THREAD
    return 1;
#else
    return 0;
#endif
}

/* ---- Other processes ---- */

void tmp_tell(int fd, char what)
{
    ssize_t n;
    do {
        n = write(fd, &what, 1);
    } while (n < 0 && errno == EINTR);
}

int tmp_hear(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&p, 1, tmp_patience() * 1000);
    } while (ready < 0 && errno == EINTR);
    char what;
    return ready == 1 && read(fd, &what, 1) == 1 ? (unsigned char)what : -1;
}

static void replace_born(pid_t old, pid_t now)
{
    for (size_t i = 0; i < sizeof born / sizeof *born; i++) {
        if (born[i] == old) {
            born[i] = now;
            return;
        }
    }
    fail_msg("more children than tmp.c can remember");
}

/* cmocka's handlers would jump back into the test, which is the parent's. */
static void forget_handlers(void)
{
    static const int SIGNALS[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaction(SIGNALS[i], &action, NULL);
}

tmp_child tmp_fork(void (*body)(int in, int out, void *arg), void *arg)
{
    int down[2];
    int up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        memset((void *)born, 0, sizeof born); /* these are children of the parent */
        forget_handlers();
        alarm(2 * (unsigned)tmp_patience());
        close(down[1]);
        close(up[0]);
        body(down[0], up[1], arg);
        _exit(0);
    }
    replace_born(0, pid);
    close(down[0]);
    close(up[1]);
    return (tmp_child){pid, down[1], up[0]};
}

void tmp_expect(const tmp_child *c, char what)
{
    int heard = tmp_hear(c->from);
    if (heard != what)
        fail_msg("expected '%c' of the child, got %d", what, heard);
}

int tmp_reap(tmp_child *c)
{
    int status = 0;
    pid_t got;
    do {
        got = waitpid(c->pid, &status, 0);
    } while (got < 0 && errno == EINTR);
    assert_int_equal(got, c->pid);
    replace_born(c->pid, 0);
    close(c->to);
    close(c->from);
    c->pid = 0;
    return status;
}

void tmp_join(tmp_child *c)
{
    /* the pipe is closed when the child ends; poll() in tmp_hear() limits the wait */
    while (tmp_hear(c->from) >= 0)
        continue;
    int status = tmp_reap(c);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with status %#x", (unsigned)status);
}

void tmp_kill(tmp_child *c)
{
    assert_int_equal(kill(c->pid, SIGKILL), 0);
    tmp_reap(c);
}

void tmp_await_stop(const tmp_child *c)
{
    int status = 0;
    assert_int_equal(waitpid(c->pid, &status, WUNTRACED), c->pid);
    assert_true(WIFSTOPPED(status));
}

_Noreturn void tmp_child_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: in a child: %s\n", file, line, what);
    fflush(stderr);
    _exit(99);
}

void *tmp_shared(size_t size)
{
    /* POSIX has no MAP_ANONYMOUS, so an unlinked file is mapped. */
    char path[TMP_PATH];
    const char *base = getenv("TMPDIR");
    tmp_path(path, base && *base ? base : "/tmp", "pawl-shared-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    return at;
}

void tmp_shared_free(void *at, size_t size)
{
    munmap(at, size);
}
