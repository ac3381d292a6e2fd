/* One list of all files of the process; for each file a bit per unsynced block, and a shadow file.
 *
 * At a sync whole blocks are copied. That is exact although writes need not begin and end with
 * blocks: the other bytes of such a block are the same in both files. A block is marked after it
 * was written, so that a sync at the same time cannot forget it. Syncs of one file wait for each
 * other, so that an older one cannot undo what a newer one has made durable. */
#include "support/shadow.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/vfs_shim.h"

#define BLOCK VFS_SHIM_BLOCK

struct shadow {
    shadow *next;
    char *path;
    int handles;
    int fd;      /* descriptor of the shadow file; -1: the file is not lossy */
    int log;     /* 1: the file is a write-ahead log */
    int fresh;   /* 1: the file was empty when it was opened, so that its first sync makes the
                    directory durable too */
    int deleted; /* 1: the file was unlinked, and the directory is not durable yet */
    unsigned char *blocks;
    int64_t count; /* number of blocks that have a bit */
    int64_t written;
    int64_t synced;
    int64_t errors;
    pthread_mutex_t syncing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and all that is in it */
static shadow *list;

static void shadow_name(const char *path, char *out, size_t room)
{
    int n = snprintf(out, room, "%s.synced", path);
    if (n < 0 || (size_t)n >= room)
        abort();
}

/* ---- Marks ---- */

static void mark_dirty(shadow *s, int64_t from, int64_t to)
{
    if (s->fd < 0 || to <= from)
        return;
    int64_t last = (to - 1) / BLOCK;
    if (last >= s->count) {
        int64_t count = (last + 1) * 2;
        unsigned char *more = realloc(s->blocks, (size_t)(count / 8 + 1));
        if (!more)
            abort();
        size_t used = s->count ? (size_t)(s->count / 8 + 1) : 0;
        memset(more + used, 0, (size_t)(count / 8 + 1) - used);
        s->blocks = more;
        s->count = count;
    }
    for (int64_t b = from / BLOCK; b <= last; b++)
        s->blocks[b / 8] |= (unsigned char)(1u << (b % 8));
}

void shadow_wrote(shadow *s, int64_t offset, int64_t amount)
{
    pthread_mutex_lock(&lock);
    s->written++;
    mark_dirty(s, offset, offset + amount);
    pthread_mutex_unlock(&lock);
}

void shadow_cut(shadow *s, int64_t before, int64_t after)
{
    pthread_mutex_lock(&lock);
    s->written++;
    mark_dirty(s, after, before); /* these blocks read as zeroes if the file grows again */
    pthread_mutex_unlock(&lock);
}

/* ---- Copying live bytes to the shadow file ---- */

static int copy_block(shadow *s, sqlite3_file *real, int64_t block, int64_t size)
{
    char bytes[BLOCK];
    int64_t at = block * BLOCK;
    if (at >= size)
        return 0;
    int amount = (int)(size - at < BLOCK ? size - at : BLOCK);
    int rc = real->pMethods->xRead(real, bytes, amount, at);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        return -1;
    return pwrite(s->fd, bytes, (size_t)amount, (off_t)at) == amount ? 0 : -1;
}

static int open_shadow_file(shadow *s, sqlite3_file *real)
{
    char name[4096];
    shadow_name(s->path, name, sizeof name);
    int64_t size = 0;
    if (real->pMethods->xFileSize(real, (sqlite3_int64 *)&size) != SQLITE_OK)
        return -1;
    s->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd < 0 && errno == EEXIST) {
        s->fd = open(name, O_RDWR | O_CLOEXEC);
        if (s->fd >= 0)
            mark_dirty(s, 0, size);
        return s->fd < 0 ? -1 : 0;
    }
    if (s->fd < 0)
        return -1;
    s->fresh = size == 0;
    for (int64_t b = 0; b * BLOCK < size; b++)
        if (copy_block(s, real, b, size) != 0)
            return -1;
    return 0;
}

/* ---- The list ---- */

static shadow *find_shadow(const char *path)
{
    for (shadow *s = list; s; s = s->next)
        if (strcmp(s->path, path) == 0)
            return s;
    return NULL;
}

static shadow *add_shadow(const char *path, int log)
{
    shadow *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->path = strdup(path);
    if (!s->path || pthread_mutex_init(&s->syncing, NULL) != 0) {
        free(s->path);
        free(s);
        return NULL;
    }
    s->log = log;
    s->fd = -1;
    s->next = list;
    list = s;
    return s;
}

static void forget_shadow(const char *path)
{
    for (shadow **at = &list; *at; at = &(*at)->next) {
        shadow *s = *at;
        if (strcmp(s->path, path) != 0 || s->handles > 0)
            continue;
        *at = s->next;
        if (s->fd >= 0)
            close(s->fd);
        pthread_mutex_destroy(&s->syncing);
        free(s->path);
        free(s->blocks);
        free(s);
        return;
    }
}

shadow *shadow_open(const char *path, sqlite3_file *real, int lossy, int log)
{
    pthread_mutex_lock(&lock);
    shadow *s = find_shadow(path);
    if (!s)
        s = add_shadow(path, log);
    if (s && lossy && s->fd < 0 && open_shadow_file(s, real) != 0)
        s = NULL;
    if (s)
        s->handles++;
    pthread_mutex_unlock(&lock);
    return s;
}

/* The marks of a lossy file stay, since closing a file does not sync it. */
void shadow_close(shadow *s)
{
    pthread_mutex_lock(&lock);
    s->handles--;
    if (s->fd < 0 && s->handles == 0)
        forget_shadow(s->path);
    pthread_mutex_unlock(&lock);
}

static void unlink_shadow(const char *path)
{
    char name[4096];
    shadow_name(path, name, sizeof name);
    unlink(name);
}

/* Called when the directory has become durable, and with it the unlinking of files in it. */
static void settle_deleted(void)
{
    for (shadow *s = list, *next; s; s = next) {
        next = s->next;
        if (!s->deleted)
            continue;
        unlink_shadow(s->path);
        forget_shadow(s->path);
    }
}

void shadow_deleted(const char *path, int durable)
{
    pthread_mutex_lock(&lock);
    shadow *s = find_shadow(path);
    if (s && s->fd >= 0) {
        s->deleted = s->fresh = 1;
        s->written = s->synced;
        free(s->blocks);
        s->blocks = NULL;
        s->count = 0;
        if (durable)
            settle_deleted();
    }
    pthread_mutex_unlock(&lock);
}

void shadow_forget_closed(void)
{
    pthread_mutex_lock(&lock);
    for (shadow *s = list, *next; s; s = next) {
        next = s->next;
        forget_shadow(s->path);
    }
    pthread_mutex_unlock(&lock);
}

int shadow_log_dirty(void)
{
    int dirty = 0;
    pthread_mutex_lock(&lock);
    for (shadow *s = list; s; s = s->next)
        dirty |= s->log && s->written != s->synced;
    pthread_mutex_unlock(&lock);
    return dirty;
}

/* ---- Syncs ---- */

int shadow_sync_begin(shadow *s, sqlite3_file *real, shadow_sync *out)
{
    pthread_mutex_lock(&s->syncing);
    pthread_mutex_lock(&lock);
    *out = (shadow_sync){s->blocks, s->count, 0, s->written};
    s->blocks = NULL;
    s->count = 0;
    int rc = real->pMethods->xFileSize(real, (sqlite3_int64 *)&out->size);
    pthread_mutex_unlock(&lock);
    return rc;
}

static int sync_blocks(shadow *s, sqlite3_file *real, const shadow_sync *sync)
{
    for (int64_t b = 0; b < sync->count; b++)
        if (sync->blocks[b / 8] & (1u << (b % 8)) && copy_block(s, real, b, sync->size) != 0)
            return -1;
    return ftruncate(s->fd, (off_t)sync->size);
}

int shadow_sync_end(shadow *s, sqlite3_file *real, shadow_sync *sync, int ok, int forgets)
{
    int rc = ok && s->fd >= 0 ? sync_blocks(s, real, sync) : 0;
    pthread_mutex_lock(&lock);
    if (ok) {
        s->synced = sync->written;
        s->deleted = 0;
        if (s->fresh)
            settle_deleted();
        s->fresh = 0;
    } else if (forgets) {
        s->errors++;
    } else {
        for (int64_t b = 0; b < sync->count; b++)
            if (sync->blocks[b / 8] & (1u << (b % 8)))
                mark_dirty(s, b * BLOCK, (b + 1) * BLOCK);
    }
    pthread_mutex_unlock(&lock);
    free(sync->blocks);
    pthread_mutex_unlock(&s->syncing);
    return rc;
}

int64_t shadow_errors(shadow *s)
{
    pthread_mutex_lock(&lock);
    int64_t errors = s->errors;
    pthread_mutex_unlock(&lock);
    return errors;
}

/* ---- Losing ---- */

static int toss_coin(random_seeded *r)
{
    unsigned char byte = 0;
    r->source.fill(&r->source, &byte, 1);
    return byte & 1;
}

/* Chooses at random, for each block in which the live file differs, whether the block survives. */
static int merge_blocks(int live, int kept, uint64_t seed)
{
    struct stat now, then;
    if (fstat(live, &now) != 0 || fstat(kept, &then) != 0)
        return -1;
    random_seeded r;
    random_seeded_init(&r, seed);
    if (now.st_size < then.st_size && toss_coin(&r) && ftruncate(kept, now.st_size) != 0)
        return -1;
    for (off_t at = 0; at < now.st_size; at += BLOCK) {
        char a[BLOCK], b[BLOCK];
        ssize_t have = pread(live, a, BLOCK, at);
        ssize_t had = pread(kept, b, BLOCK, at);
        if (have < 0 || had < 0)
            return -1;
        if (have == had && memcmp(a, b, (size_t)have) == 0)
            continue;
        if (toss_coin(&r) && pwrite(kept, a, (size_t)have, at) != have)
            return -1;
    }
    return 0;
}

int shadow_lose(const char *path, uint64_t seed)
{
    char name[4096];
    shadow_name(path, name, sizeof name);
    pthread_mutex_lock(&lock);
    forget_shadow(path);
    pthread_mutex_unlock(&lock);
    int live = open(path, O_RDONLY | O_CLOEXEC);
    int kept = open(name, O_RDWR | O_CLOEXEC);
    int rc = kept < 0 ? -1 : 0;
    if (rc == 0 && live >= 0 && seed != 0)
        rc = merge_blocks(live, kept, seed);
    int why = errno;
    if (live >= 0)
        close(live);
    if (kept >= 0)
        close(kept);
    errno = why;
    return rc == 0 ? rename(name, path) : -1;
}
