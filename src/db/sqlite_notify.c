/* Notification by inotify. One byte serves all processes. Its value and its place never change:
 * inotify reports that the file was written, not what, and so the file never grows.
 *
 * A process hears its own writes as well. If it tried to discount them it would at times miss the
 * write of another process, since the system merges two events that were not read yet. Polling the
 * database once too often does no harm.
 *
 * A child made by fork() shares the watch with its parent, which would miss the events that the
 * child has read: so the child reads nothing. */
#define _GNU_SOURCE
#include "db/sqlite_notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "db/sidecar.h"

enum { PATH_BYTES = 4096 };

struct sqlite_notify {
    int fd;
    int watch; /* -1: the file is not watched */
    pid_t pid;
    char path[PATH_BYTES];
};

/* ---- Opening ---- */

static pawl_code file_error(const sqlite_notify *w, const char *what, error *err)
{
    return sidecar_error(w->path, what, err);
}

static pawl_code open_descriptor(sqlite_notify *w, const char *db_path, error *err)
{
    buf path;
    buf_init_fixed(&path, w->path, sizeof w->path);
    buf_text(&path, db_path);
    buf_text(&path, "-wake");
    if (path.failed)
        return error_set(err, PAWL_LIMIT, "the path of the database is too long");
    w->fd = sidecar_open(w->path, db_path);
    return w->fd >= 0 ? PAWL_OK : file_error(w, "that wakes others cannot be opened", err);
}

pawl_code sqlite_notify_open(sqlite_notify **out, const char *db_path, error *err)
{
    *out = NULL;
    sqlite_notify *w = calloc(1, sizeof *w);
    if (!w)
        return error_nomem(err);
    w->fd = w->watch = -1;
    w->pid = getpid();
    pawl_code rc = open_descriptor(w, db_path, err);
    if (rc != PAWL_OK) {
        sqlite_notify_close(w);
        return rc;
    }
    *out = w;
    return PAWL_OK;
}

void sqlite_notify_close(sqlite_notify *w)
{
    if (!w)
        return;
    if (w->watch >= 0)
        close(w->watch);
    if (w->fd >= 0)
        close(w->fd);
    free(w);
}

/* ---- Hearing ---- */

/* 1: the file that is open here still has its name. */
static int is_still_there(const sqlite_notify *w)
{
    struct stat here, there;
    return fstat(w->fd, &here) == 0 && lstat(w->path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static int watch_file(const sqlite_notify *w)
{
    /* A watched file that is deleted gives IN_ATTRIB, since its link count changes; IN_DELETE_SELF
     * would come only when it is closed here. */
    const uint32_t what = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DONT_FOLLOW;
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch >= 0 && inotify_add_watch(watch, w->path, what) < 0) {
        close(watch);
        return -1;
    }
    return watch;
}

/* A user has a limited number of inotify watches. Without a watch *fd is -1, and the database is
 * only polled. */
pawl_code sqlite_notify_listen(sqlite_notify *w, int *fd, error *err)
{
    if (w->watch < 0)
        w->watch = watch_file(w);
    *fd = w->watch;
    if (w->watch < 0 || is_still_there(w))
        return PAWL_OK;
    error_set(err, PAWL_BUSY, "the file that wakes others was replaced at this moment");
    error_detail(err, "%s", w->path);
    return PAWL_BUSY;
}

/* The masks of all inotify events in the buffer, combined. */
static uint32_t masks_of(const char *events, size_t size)
{
    uint32_t masks = 0;
    struct inotify_event e;
    for (size_t at = 0; at + sizeof e <= size; at += sizeof e + e.len) {
        memcpy(&e, events + at, sizeof e);
        masks |= e.mask;
    }
    return masks;
}

int sqlite_notify_heard(sqlite_notify *w)
{
    char events[1024];
    uint32_t masks = 0;
    ssize_t size;
    if (w->watch < 0 || w->pid != getpid())
        return 0;
    while ((size = read(w->watch, events, sizeof events)) > 0)
        masks |= masks_of(events, (size_t)size);
    if ((masks & ~(uint32_t)IN_MODIFY) != 0 && !is_still_there(w))
        return -1;
    return (masks & (IN_MODIFY | IN_Q_OVERFLOW)) != 0;
}

/* ---- Telling ---- */

pawl_code sqlite_notify_tell(sqlite_notify *w, error *err)
{
    static const char BYTE = '\n';
    ssize_t n;
    do {
        n = pwrite(w->fd, &BYTE, 1, 0);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? PAWL_OK : file_error(w, "that wakes others cannot be written", err);
}
