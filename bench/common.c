/* What every benchmark needs: clocks, figures, folders, children and JSON lines. Each measurement
 * runs in a child of its own, so that the memory of one is not counted for the next. */
#include "common.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_check(pawl_code code, const error *err, const char *doing)
{
    if (code == PAWL_OK)
        return;
    bench_die("%s: %s: %s; %s; %s", doing, pawl_code_name(code), err->message, err->detail,
              err->hint);
}

/* ---- Time and figures ---- */

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t bench_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t bench_wall_ms(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000000;
}

int64_t bench_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_sleep_ns(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

int64_t bench_rss(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    char line[128] = "";
    char *text = fgets(line, sizeof line, f);
    fclose(f);
    if (!text)
        return 0;
    (void)strtoll(text, &text, 10); /* the address space comes first */
    return strtoll(text, NULL, 10) * sysconf(_SC_PAGESIZE);
}

int64_t bench_rss_max(void)
{
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? (int64_t)used.ru_maxrss * 1024 : 0;
}

int64_t bench_file_size(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *values, int count)
{
    double sorted[64];
    if (count < 1 || count > 64)
        return 0;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Bucket of a duration: below 32 ns one each, then 32 per doubling. */
static int hist_bucket(int64_t ns)
{
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    int shift = 0;
    while (v >= 2 * BENCH_HIST_STEPS) {
        v >>= 1;
        shift++;
    }
    int bucket = shift * BENCH_HIST_STEPS + (int)v;
    return bucket < BENCH_HIST_SIZE ? bucket : BENCH_HIST_SIZE - 1;
}

static int64_t hist_value(int bucket)
{
    if (bucket < 2 * BENCH_HIST_STEPS)
        return bucket;
    int shift = bucket / BENCH_HIST_STEPS - 1;
    return (int64_t)(bucket - shift * BENCH_HIST_STEPS) << shift;
}

void bench_hist_add(bench_hist *h, int64_t ns)
{
    h->count++;
    if (ns > h->max)
        h->max = ns;
    h->at[hist_bucket(ns)]++;
}

void bench_hist_merge(bench_hist *into, const bench_hist *h)
{
    into->count += h->count;
    if (h->max > into->max)
        into->max = h->max;
    for (int i = 0; i < BENCH_HIST_SIZE; i++)
        into->at[i] += h->at[i];
}

int64_t bench_hist_at(const bench_hist *h, double share)
{
    int64_t rank = (int64_t)(share * (double)h->count);
    int64_t seen = 0;
    for (int i = 0; i < BENCH_HIST_SIZE; i++) {
        seen += h->at[i];
        if (seen > rank)
            return hist_value(i);
    }
    return h->max;
}

/* ---- Where the databases are ---- */

static char place[900];
static pid_t place_owner;

/* Nothing but unlink() and rmdir() of names below the folder; links are not followed. */
static void folder_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char name[4096];
        struct stat s;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int size = snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (size < 0 || (size_t)size >= sizeof name || lstat(name, &s) != 0)
            continue;
        if (S_ISDIR(s.st_mode))
            folder_remove(name);
        else
            unlink(name);
    }
    closedir(dir);
    rmdir(path);
}

/* Called at exit, also in children, which leave it alone. */
static void place_remove(void)
{
    if (place[0] == '\0' || getpid() != place_owner)
        return;
    folder_remove(place);
    place[0] = '\0';
}

/* The handler only remembers: the parent looks when it waits for its children (read_all). */
static volatile sig_atomic_t stopping;

static void place_stop(int sig)
{
    stopping = sig;
}

static void place_watch(int sig)
{
    struct sigaction action = {.sa_handler = place_stop}; /* no SA_RESTART: reads must end */
    sigemptyset(&action.sa_mask);
    sigaction(sig, &action, NULL);
}

static void place_warn(const char *path)
{
#ifdef __linux__
    struct statfs fs;
    if (statfs(path, &fs) == 0 && (fs.f_type == 0x01021994 || fs.f_type == (long)0x858458f6))
        fprintf(stderr,
                "bench: warning: %s is in memory, its syncs cost nothing; set TMPDIR to a "
                "folder on a disk\n",
                path);
#else
    (void)path;
#endif
}

void bench_place_make(void)
{
    const char *base = getenv("TMPDIR");
    char name[sizeof place];
    int size = snprintf(name, sizeof name, "%s/pawl-bench-XXXXXX", base && *base ? base : ".");
    if (size < 0 || (size_t)size >= sizeof name)
        bench_die("TMPDIR is too long");
    if (!mkdtemp(name))
        bench_die("cannot make %s: %s", name, strerror(errno));
    memcpy(place, name, sizeof place);
    place_owner = getpid();
    atexit(place_remove);
    place_watch(SIGINT);
    place_watch(SIGTERM);
    place_warn(place);
}

const char *bench_place(void)
{
    return place;
}

/* ---- Children ---- */

enum { CHILDREN_MAX = 16 };
static pid_t children[CHILDREN_MAX];
static int children_count;

static int gate_ready = -1; /* a child says here that it is there … */
static int gate_go = -1;    /* … and waits here for the end of the pipe */

static void write_all(int fd, const void *from, size_t size)
{
    const char *at = from;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            bench_die("a result cannot be handed on: %s", strerror(errno));
        at += n;
        size -= (size_t)n;
    }
}

static void stop_if_told(void)
{
    if (!stopping)
        return;
    for (int i = 0; i < children_count; i++)
        kill(children[i], SIGKILL);
    for (int i = 0; i < children_count; i++)
        while (waitpid(children[i], NULL, 0) < 0 && errno == EINTR)
            ;
    exit(128 + stopping);
}

static int read_all(int fd, void *to, size_t size)
{
    char *at = to;
    while (size > 0) {
        stop_if_told();
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

void bench_child_gate(void)
{
    char byte = 1;
    write_all(gate_ready, &byte, 1);
    close(gate_ready);
    gate_ready = -1;
    (void)read_all(gate_go, &byte, 1); /* ends when all have come */
}

static void child_run(bench_child fn, const void *arg, int number, int out, size_t size)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &usual, NULL);
    sigaction(SIGTERM, &usual, NULL);
    children_count = 0;
    void *result = calloc(1, size);
    if (!result)
        bench_die("out of memory");
    fn(arg, number, result);
    if (gate_ready >= 0)
        close(gate_ready); /* it needed no gate: the parent does not wait for it there */
    write_all(out, result, size);
    exit(0);
}

/* Let the children through the gate: when each has come, or ended without needing it. */
static void gate_open(int ready[2], int go[2])
{
    char byte;
    close(ready[1]);
    close(go[0]);
    while (read_all(ready[0], &byte, 1) == 0)
        ;
    close(ready[0]);
    close(go[1]);
}

void bench_children(int count, bench_child fn, const void *arg, void *results, size_t size)
{
    int ready[2], go[2], out[CHILDREN_MAX];
    if (count > CHILDREN_MAX || pipe(ready) != 0 || pipe(go) != 0)
        bench_die("cannot make children");
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < count; i++) {
        int fds[2];
        pid_t pid = pipe(fds) == 0 ? fork() : -1;
        if (pid < 0)
            bench_die("cannot make a child: %s", strerror(errno));
        if (pid == 0) {
            close(ready[0]);
            close(go[1]);
            close(fds[0]);
            gate_ready = ready[1];
            gate_go = go[0];
            child_run(fn, arg, i, fds[1], size);
        }
        close(fds[1]);
        out[i] = fds[0];
        children[children_count++] = pid;
    }
    gate_open(ready, go);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        int status = 0;
        failed |= read_all(out[i], (char *)results + (size_t)i * size, size) != 0;
        close(out[i]);
        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
            ;
        failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        if (WIFSIGNALED(status))
            fprintf(stderr, "bench: a child died of signal %d\n", WTERMSIG(status));
    }
    children_count = 0;
    if (failed)
        bench_die("a measurement failed");
}

/* ---- Results ---- */

void bench_json_text(buf *b, const char *key, const char *plain)
{
    buf_printf(b, ",\"%s\":\"%s\"", key, plain);
}

void bench_json_begin(buf *b, const char *bench, const char *name, const char *backend)
{
    buf_init(b, 4096);
    buf_printf(b, "{\"bench\":\"%s\"", bench);
    bench_json_text(b, "case", name);
    bench_json_text(b, "backend", backend);
}

void bench_json_number(buf *b, const char *key, double value, int digits)
{
    buf_printf(b, ",\"%s\":%.*f", key, digits, value);
}

void bench_json_numbers(buf *b, const char *key, const double *values, int count, int digits)
{
    buf_printf(b, ",\"%s\":[", key);
    for (int i = 0; i < count; i++)
        buf_printf(b, "%s%.*f", i ? "," : "", digits, values[i]);
    buf_char(b, ']');
}

void bench_json_end(buf *b)
{
    buf_char(b, '}');
    if (b->failed)
        bench_die("a result is too long");
    puts(buf_str(b));
    fflush(stdout);
    buf_free(b);
}
