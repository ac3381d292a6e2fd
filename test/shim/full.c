/* A disk that is full, for a server that is not ours: a library that is loaded before all others.
 *
 * A real full disk takes a file system of its own, which a test may not make. So the few calls
 * with which PostgreSQL makes its files grow, or writes its log, answer "no space left on device"
 * while a file says so, in the folder that PAWL_TEST_FULL names:
 *     tables     files of tables and indexes do not grow; what is there can be written again
 *     wal        nothing is written to the log
 *     wal-once   the next write to the log fails, and the file goes
 * Everything else goes through unchanged. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

enum { NAME = 4096 };

/* ---- What is full ---- */

static int told(const char *dir, const char *what, int once)
{
    char path[NAME];
    snprintf(path, sizeof path, "%s/%s", dir, what);
    return once ? unlink(path) == 0 : access(path, F_OK) == 0;
}

static int grows(int fd, off_t end)
{
    struct stat info;
    return fstat(fd, &info) == 0 && end > info.st_size;
}

/* Is there no room for what ends at `end`? Leaves errno alone unless it is so. */
static int is_full(int fd, off_t end)
{
    const char *dir = getenv("PAWL_TEST_FULL");
    char link[64];
    char path[NAME];
    int before = errno;
    int full = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = dir ? readlink(link, path, sizeof path - 1) : -1;
    if (size > 0) {
        path[size] = '\0';
        if (strstr(path, "/pg_wal/"))
            full = told(dir, "wal", 0) || told(dir, "wal-once", 1);
        else if (strstr(path, "/base/"))
            full = told(dir, "tables", 0) && grows(fd, end);
    }
    errno = full ? ENOSPC : before;
    return full;
}

/* ---- The calls ---- */

typedef ssize_t write_at(int fd, const void *bytes, size_t size, off_t at);
typedef ssize_t write_all_at(int fd, const struct iovec *parts, int count, off_t at);
typedef int allocate(int fd, off_t at, off_t size);

/* Only POSIX lets an object pointer be one of a function. */
#define REAL(type, name) (*(type **)&(void *){dlsym(RTLD_NEXT, name)})

static off_t size_of(const struct iovec *parts, int count)
{
    off_t size = 0;
    for (int i = 0; i < count; i++)
        size += (off_t)parts[i].iov_len;
    return size;
}

SHOWN ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return is_full(fd, at + (off_t)size) ? -1 : REAL(write_at, "pwrite")(fd, bytes, size, at);
}

SHOWN ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return is_full(fd, at + size_of(parts, count))
               ? -1
               : REAL(write_all_at, "pwritev")(fd, parts, count, at);
}

SHOWN int posix_fallocate(int fd, off_t at, off_t size)
{
    return is_full(fd, at + size) ? ENOSPC : REAL(allocate, "posix_fallocate")(fd, at, size);
}
