/* The memory of the lossy disk: which blocks of a file have been written and not synced yet.
 *
 * Part of the VFS shim (vfs_shim.h). Connections of one process to one file share one `shadow`,
 * found by path. It also answers, lossy or not, whether a file has writes without a sync.
 *
 * The live file is read only through SQLite's own handle of it: a descriptor of ours would, when
 * closed, drop the locks that SQLite holds on the file for the whole process. */
#ifndef SUPPORT_SHADOW_H
#define SUPPORT_SHADOW_H

#include <sqlite3.h>
#include <stdint.h>

typedef struct shadow shadow;

/* What a sync under way has taken upon itself. */
typedef struct shadow_sync {
    unsigned char *blocks; /* a bit for each */
    int64_t count;
    int64_t size;
    int64_t written;
} shadow_sync;

/* The shadow of a file that `real` has just opened. What is in the file when the first lossy
 * handle comes counts as durable, unless a shadow lies there already: then all of it counts as
 * unsynced. NULL when that failed. */
shadow *shadow_open(const char *path, sqlite3_file *real, int lossy, int log);
void shadow_close(shadow *s);

/* To be called after the bytes were written, and after a file of `before` bytes was cut. */
void shadow_wrote(shadow *s, int64_t offset, int64_t amount);
void shadow_cut(shadow *s, int64_t before, int64_t after);

/* The file was unlinked; durable or, if not `durable`, only with the next sync of a new file. */
void shadow_deleted(const char *path, int durable);

/* Around a sync of `real`: what was written before the begin is durable after the end, if `ok`.
 * Otherwise it stays unsynced or, with `forget`, is never made durable by a later sync either. */
int shadow_sync_begin(shadow *s, sqlite3_file *real, shadow_sync *out);
int shadow_sync_end(shadow *s, sqlite3_file *real, shadow_sync *sync, int ok, int forgets);

/* How many syncs of the file have failed and forgotten. Every handle that was open then hears of
 * it once, from its own next sync, as on Linux: it may be its pages that are gone. */
int64_t shadow_errors(shadow *s);

/* Forget all files that are not open. */
void shadow_forget_closed(void);

/* 1 if a log that is known here has unsynced writes. */
int shadow_log_dirty(void);

/* Put the shadow in the place of its file; see vfs_shim_lose(). */
int shadow_lose(const char *path, uint64_t seed);

#endif
