/* Checks that a writer's files are still the same: by stat(), never by open(), since a close()
 * would drop SQLite's locks of the whole process. That is three system calls per transaction.
 * SQLite makes the log and its index when it needs them, so each file is remembered when it is
 * first seen. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "db/sqlite_open.h"

static const char *const ENDS[] = {"", "-wal", "-shm"};

enum { FILES = 3 };

void sqlite_watch_init(sqlite_watch *w, const char *path)
{
    memset(w, 0, sizeof *w);
    for (int i = 0; i < FILES; i++) {
        buf b;
        buf_init(&b, strlen(path) + 8);
        buf_text(&b, path);
        buf_text(&b, ENDS[i]);
        w->path[i] = b.failed ? NULL : b.at; /* memory is out: this file is not checked */
    }
}

void sqlite_watch_free(sqlite_watch *w)
{
    for (int i = 0; i < FILES; i++)
        free(w->path[i]);
}

static pawl_code refuse_lost_file(const char *path, error *err)
{
    error_set(err, PAWL_IO, "a file of the database was moved, deleted or replaced");
    error_detail(err, "%s", path);
    error_hint(err, "put it back, or close the engine and open it again; nothing was written");
    return PAWL_IO;
}

pawl_code sqlite_watch_check(sqlite_watch *w, error *err)
{
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        if (!w->path[i])
            continue;
        int there = stat(w->path[i], &st) == 0;
        if (w->inode[i] == 0 && there) {
            w->device[i] = (uint64_t)st.st_dev;
            w->inode[i] = (uint64_t)st.st_ino;
        }
        if (w->inode[i] == 0)
            continue;
        if (!there || w->device[i] != (uint64_t)st.st_dev || w->inode[i] != (uint64_t)st.st_ino)
            return refuse_lost_file(w->path[i], err);
    }
    return PAWL_OK;
}
