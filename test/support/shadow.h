/* The memory of the lossy disk: which blocks of a file were written and not synced since.
 *
 * Part of the VFS shim (vfs_shim.h). The connections of one process to one file share one `shadow`,
 * which is found by the path. Whether a file has writes without a sync is known of files that are
 * not lossy, too.
 *
 * The live file is read only through SQLite's own handle of it: closing another descriptor of the
 * file would release all locks that SQLite holds on it in this process. */
#ifndef SUPPORT_SHADOW_H
#define SUPPORT_SHADOW_H

#include <sqlite3.h>
#include <stdint.h>

typedef struct shadow shadow;

/* A sync under way: the blocks that it will make durable. */
typedef struct shadow_sync {
    unsigned char *blocks; /* a bit for each block that is to be copied */
    int64_t count;
    int64_t size;
    int64_t written;
} shadow_sync;

/* Returns the shadow of a file that `real` has just opened. What is in the file when its first
 * lossy handle is opened counts as durable. But if a shadow file is there already, all other bytes
 * count as unsynced. NULL: that has failed. */
shadow *shadow_open(const char *path, sqlite3_file *real, int lossy, int log);
void shadow_close(shadow *s);

/* shadow_wrote() is called after bytes were written, shadow_cut() after a file of `before` bytes
 * was cut to `after`. */
void shadow_wrote(shadow *s, int64_t offset, int64_t amount);
void shadow_cut(shadow *s, int64_t before, int64_t after);

/* The file was unlinked. With `durable` 1 that survives a power cut at once, with 0 only after the
 * next sync of a new file. */
void shadow_deleted(const char *path, int durable);

/* Called before and after a sync of `real`. If it has succeeded (`ok` 1), what was written before
 * shadow_sync_begin() is durable after shadow_sync_end(). If not, it stays unsynced; with `forgets`
 * no later sync makes it durable either. */
int shadow_sync_begin(shadow *s, sqlite3_file *real, shadow_sync *out);
int shadow_sync_end(shadow *s, sqlite3_file *real, shadow_sync *sync, int ok, int forgets);

/* Returns how many syncs of the file have failed and forgotten what was written. The next sync of
 * each handle that was open then fails once, as on Linux, since the lost pages may be those of that
 * handle. */
int64_t shadow_errors(shadow *s);

/* Forgets all files that are not open. */
void shadow_forget_closed(void);

/* Returns 1 if a write-ahead log has writes that no sync has followed. */
int shadow_log_dirty(void);

/* Replaces the file by its shadow file, as a power cut would; see vfs_shim_lose(). */
int shadow_lose(const char *path, uint64_t seed);

#endif
