/* A page of words, mapped. The whole page is written once before it is mapped, so that its room on
 * the disk is there: a full disk is found here, where it is an error, and not by touching the
 * memory later, where it would be the death of the process. */
#define _GNU_SOURCE
#include "db/inflight_file.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "db/liveness_file.h"

enum { PATH_BYTES = 4096, PAGE_BYTES = 4096 };

#define NODES "-nodes"
static const int64_t MARK = INT64_C(0x32676e6e75722e70); /* "p.runng2": identifies the file, and its
                                                            format */

typedef struct page {
    int64_t mark;
    _Atomic int64_t moved_ms;
    _Atomic int64_t at[INFLIGHT_THREADS];
} page;

struct running {
    page *page;
    char path[PATH_BYTES];
};

static int path_of(const struct liveness_file *f, int64_t node, char out[PATH_BYTES])
{
    slice nodes = slice_of(liveness_file_path(f));
    buf b;
    buf_init_fixed(&b, out, PATH_BYTES);
    buf_add(&b, (slice){nodes.at, nodes.size - (sizeof NODES - 1)});
    buf_printf(&b, "-running-%lld", (long long)node);
    return !b.failed;
}

/* The file gets the mode and owner of the liveness file. An older file of this name is left over
 * from a database that was restored, and is replaced. */
static int make_file(const struct liveness_file *f, const char *path)
{
    static const char EMPTY[PAGE_BYTES];
    struct stat st;
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (stat(liveness_file_path(f), &st) == 0) {
        (void)!fchmod(fd, st.st_mode & 0666);
        if (geteuid() == 0)
            (void)!fchown(fd, st.st_uid, st.st_gid);
    }
    if (pwrite(fd, EMPTY, sizeof EMPTY, 0) == (ssize_t)sizeof EMPTY)
        return fd;
    close(fd);
    (void)unlink(path);
    return -1;
}

running *inflight_open(struct liveness_file *f, int64_t node)
{
    running *r = f ? calloc(1, sizeof *r) : NULL;
    if (!r || !path_of(f, node, r->path)) {
        free(r);
        return NULL;
    }
    int fd = make_file(f, r->path);
    void *at =
        fd < 0 ? MAP_FAILED : mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED) {
        if (fd >= 0)
            (void)unlink(r->path);
        free(r);
        return NULL;
    }
    r->page = at;
    r->page->mark = MARK;
    return r;
}

void inflight_close(running *r)
{
    if (!r)
        return;
    (void)unlink(r->path);
    munmap(r->page, PAGE_BYTES);
    free(r);
}

void inflight_set(running *r, int thread, int64_t run)
{
    if (r && thread >= 0 && thread < INFLIGHT_THREADS)
        atomic_store_explicit(&r->page->at[thread], run, memory_order_relaxed);
}

void inflight_moved(running *r, int64_t now_ms)
{
    if (r)
        atomic_store_explicit(&r->page->moved_ms, now_ms, memory_order_relaxed);
}

void inflight_clear(running *r, int64_t run)
{
    for (int i = 0; r && i < INFLIGHT_THREADS; i++) {
        int64_t found = run;
        atomic_compare_exchange_strong(&r->page->at[i], &found, 0);
    }
}

/* ---- After its death ---- */

void inflight_read(struct liveness_file *f, int64_t node, inflight_list *out)
{
    char path[PATH_BYTES];
    int64_t words[2 + INFLIGHT_THREADS];
    *out = (inflight_list){0};
    int fd = f && path_of(f, node, path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    out->known = pread(fd, words, sizeof words, 0) == (ssize_t)sizeof words && words[0] == MARK;
    close(fd);
    if (!out->known)
        return;
    out->moved_ms = words[1];
    memcpy(out->at, words + 2, sizeof out->at);
}

int inflight_has(const inflight_list *list, int64_t run)
{
    for (int i = 0; i < INFLIGHT_THREADS; i++)
        if (list->at[i] == run)
            return 1;
    return 0;
}

void inflight_remove(struct liveness_file *f, int64_t node)
{
    char path[PATH_BYTES];
    if (f && path_of(f, node, path))
        (void)unlink(path);
}
