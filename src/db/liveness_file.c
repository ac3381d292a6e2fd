/* Byte locks in `<db>-nodes`, by open file descriptions (F_OFD_*).
 *
 * These locks belong to the open description, not to the process, so that two engines of one
 * process exclude each other and closing some other descriptor of the file frees nothing. The
 * price: a fork() shares the description with the child, and the lock would outlive the parent.
 * So every open file is in one list of the process, and the child closes them all before it does
 * anything else. That list, and the variables of base/forks.c, are the only ones that all engines
 * of a process share. */
#define _GNU_SOURCE
#include "db/liveness_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "db/sidecar.h"

enum { PATH_BYTES = 4096, FIRST_NODE = 2 };

struct liveness_file {
    liveness_file *next;
    int fd;
    int watch;
    int inherited; /* the parent process has opened the file, and this child has closed its copy:
                      the entry remembers which file it was */
    int missing;   /* the file does not exist, and is not to be made */
    dev_t device;
    ino_t inode;
    char path[PATH_BYTES];
};

/* ---- fork ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* tidy: shared, for fork() */
static liveness_file *all;                                   /* tidy: shared, for fork() */
static pthread_once_t once = PTHREAD_ONCE_INIT;              /* tidy: shared, for fork() */

static void before_fork(void)
{
    pthread_mutex_lock(&all_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&all_lock);
}

static void after_fork_in_child(void)
{
    for (liveness_file *f = all; f; f = f->next) {
        close(f->fd);
        if (f->watch >= 0)
            close(f->watch);
        f->fd = f->watch = -1;
        f->inherited = 1;
    }
    pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
    /* RULE A10-a-child-does-not-keep-the-sign-of-life */
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- Opening ---- */

static int lock_command(liveness_file *f, int command, short type, int64_t byte, struct flock *out)
{
    *out = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(f->fd, command, out);
}

static pawl_code cannot_open(const liveness_file *f, error *err)
{
    return sidecar_error(f->path, "of node locks cannot be opened", err);
}

/* A file that cannot be read leaves the descriptor -1: then fcntl() fails, and every question about
 * a lock is answered "cannot be known". */
static pawl_code open_to_look(liveness_file *f, const char *db_path)
{
    struct stat st;
    f->fd = sidecar_look(f->path, db_path);
    f->missing = f->fd < 0 && errno == ENOENT;
    if (f->fd >= 0 && fstat(f->fd, &st) == 0) {
        f->device = st.st_dev;
        f->inode = st.st_ino;
    }
    return PAWL_OK;
}

static pawl_code open_descriptor(liveness_file *f, const char *db_path, error *err)
{
    struct stat st;
    f->fd = sidecar_open(f->path, db_path);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return cannot_open(f, err);
    f->device = st.st_dev;
    f->inode = st.st_ino;
    struct flock probe;
    if (lock_command(f, F_OFD_GETLK, F_WRLCK, 0, &probe) == 0)
        return PAWL_OK;
    error_set(err, PAWL_UNSUPPORTED, "the file system has no byte locks");
    error_detail(err, "%s: %s", f->path, strerror(errno));
    return PAWL_UNSUPPORTED;
}

static pawl_code open_file(liveness_file **out, const char *db_path, int looks, error *err)
{
    *out = NULL;
    pthread_once(&once, watch_forks);
    liveness_file *f = calloc(1, sizeof *f);
    if (!f)
        return error_nomem(err);
    f->fd = f->watch = -1;
    buf path;
    buf_init_fixed(&path, f->path, sizeof f->path);
    buf_text(&path, db_path);
    buf_text(&path, "-nodes");
    pthread_mutex_lock(&all_lock);
    pawl_code rc = path.failed ? error_set(err, PAWL_LIMIT, "the path of the database is too long")
                   : looks     ? open_to_look(f, db_path)
                               : open_descriptor(f, db_path, err);
    f->next = all;
    all = f;
    pthread_mutex_unlock(&all_lock);
    if (rc != PAWL_OK) {
        liveness_file_close(f);
        return rc;
    }
    *out = f;
    return PAWL_OK;
}

pawl_code liveness_file_open(liveness_file **out, const char *db_path, error *err)
{
    return open_file(out, db_path, 0, err);
}

pawl_code liveness_file_look(liveness_file **out, const char *db_path, error *err)
{
    return open_file(out, db_path, 1, err);
}

/* Under the lock: a child that is forked between leaving the list and close() would keep a copy. */
void liveness_file_close(liveness_file *f)
{
    if (!f || f->inherited)
        return;
    pthread_mutex_lock(&all_lock);
    for (liveness_file **at = &all; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    if (f->watch >= 0)
        close(f->watch);
    if (f->fd >= 0)
        close(f->fd);
    pthread_mutex_unlock(&all_lock);
    free(f);
}

const char *liveness_file_path(const liveness_file *f)
{
    return f->path;
}

int liveness_file_is_inherited(const liveness_file *which)
{
    int found = 0;
    pthread_mutex_lock(&all_lock);
    for (const liveness_file *f = all; f; f = f->next)
        found |= f->inherited && f->device == which->device && f->inode == which->inode;
    pthread_mutex_unlock(&all_lock);
    return found;
}

/* ---- Locks ---- */

int liveness_file_lock(liveness_file *f, int64_t byte, int wait)
{
    struct flock k;
    return lock_command(f, wait ? F_OFD_SETLKW : F_OFD_SETLK, F_WRLCK, byte, &k) == 0 ? 0 : -1;
}

void liveness_file_unlock(liveness_file *f, int64_t byte)
{
    struct flock k;
    (void)lock_command(f, F_OFD_SETLK, F_UNLCK, byte, &k);
}

pawl_code liveness_file_hold(liveness_file *f, int64_t node, error *err)
{
    if (node < FIRST_NODE)
        return error_set(err, PAWL_INVALID, "a node's number begins at %d", FIRST_NODE);
    if (liveness_file_lock(f, node, 0) == 0)
        return PAWL_OK;
    if (errno == EAGAIN || errno == EACCES)
        return error_set(err, PAWL_BUSY, "node %lld is alive elsewhere", (long long)node);
    error_set(err, PAWL_IO, "the heartbeat lock of node %lld cannot be taken", (long long)node);
    error_detail(err, "%s: %s", f->path, strerror(errno));
    return PAWL_IO;
}

void liveness_file_release(liveness_file *f, int64_t node)
{
    liveness_file_unlock(f, node);
}

int liveness_file_alive(liveness_file *f, int64_t node)
{
    struct flock k;
    if (f->missing)
        return 0;
    if (lock_command(f, F_OFD_GETLK, F_WRLCK, node, &k) != 0)
        return -1;
    return k.l_type != F_UNLCK;
}

/* One question about all bytes: the kernel names the first lock that stands in the way. */
int liveness_file_any_alive(liveness_file *f)
{
    struct flock all_bytes = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (f->missing)
        return 0;
    return fcntl(f->fd, F_OFD_GETLK, &all_bytes) != 0 || all_bytes.l_type != F_UNLCK;
}

/* ---- Watching for deaths ---- */

int liveness_file_watch(liveness_file *f)
{
    if (f->watch >= 0)
        return f->watch;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return -1;
    if (inotify_add_watch(fd, f->path, IN_CLOSE_WRITE) < 0) {
        close(fd);
        return -1;
    }
    pthread_mutex_lock(&all_lock);
    f->watch = fd;
    pthread_mutex_unlock(&all_lock);
    return fd;
}

void liveness_file_drain(liveness_file *f)
{
    char events[1024];
    if (f->watch < 0)
        return;
    while (read(f->watch, events, sizeof events) > 0)
        continue;
}
