/* A page of words, mapped. The whole page is written once before it is mapped, so that its room on
 * the disk is there: a full disk is found here, where it is an error, and not by touching the
 * memory later, where it would be the death of the process. */
#define _GNU_SOURCE
#include "core/running.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "db/nodes_file.h"

enum { PATH_BYTES = 4096, PAGE_BYTES = 4096 };

#define NODES "-nodes"
static const int64_t MARK = INT64_C(0x31676e6e75722e70); /* "p.runng1": a list, of this kind */

typedef struct page {
    int64_t mark;
    _Atomic int64_t blamed;
    _Atomic int64_t at[RUNNING_THREADS];
} page;

struct running {
    page *page;
    char path[PATH_BYTES];
};

static int path_of(const struct nodes_file *f, int64_t node, char out[PATH_BYTES])
{
    slice nodes = slice_of(nodes_file_path(f));
    buf b;
    buf_init_fixed(&b, out, PATH_BYTES);
    buf_add(&b, (slice){nodes.at, nodes.size - (sizeof NODES - 1)});
    buf_printf(&b, "-running-%lld", (long long)node);
    return !b.failed;
}

/* Whoever may use the file of locks may read this one. What is there under its name is from another
 * life of the database. */
static int make_file(const struct nodes_file *f, const char *path)
{
    static const char EMPTY[PAGE_BYTES];
    struct stat st;
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (stat(nodes_file_path(f), &st) == 0) {
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

running *running_open(struct nodes_file *f, int64_t node)
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

void running_close(running *r)
{
    if (!r)
        return;
    (void)unlink(r->path);
    munmap(r->page, PAGE_BYTES);
    free(r);
}

void running_set(running *r, int thread, int64_t run)
{
    if (r && thread >= 0 && thread < RUNNING_THREADS)
        atomic_store_explicit(&r->page->at[thread], run, memory_order_relaxed);
}

void running_blame(running *r, int64_t run)
{
    if (r)
        atomic_store_explicit(&r->page->blamed, run, memory_order_relaxed);
}

/* ---- After its death ---- */

void running_read(struct nodes_file *f, int64_t node, running_list *out)
{
    char path[PATH_BYTES];
    int64_t words[2 + RUNNING_THREADS];
    *out = (running_list){0};
    int fd = f && path_of(f, node, path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    out->known = pread(fd, words, sizeof words, 0) == (ssize_t)sizeof words && words[0] == MARK;
    close(fd);
    if (!out->known)
        return;
    out->blamed = words[1];
    memcpy(out->at, words + 2, sizeof out->at);
}

int running_has(const running_list *list, int64_t run)
{
    if (list->blamed)
        return list->blamed == run;
    for (int i = 0; i < RUNNING_THREADS; i++)
        if (list->at[i] == run)
            return 1;
    return 0;
}

void running_remove(struct nodes_file *f, int64_t node)
{
    char path[PATH_BYTES];
    if (f && path_of(f, node, path))
        (void)unlink(path);
}
