/* Checkpoints that keep the log short without stalling the writer.
 *
 * The size of the log is known from SQLite's hook after each commit, without a system call.
 *   1. The thread copies whenever the log has grown by a piece, a sixteenth of its bound.
 *   2. At the bound the writer restarts the log. It has to copy only the last piece, and what was
 *      written meanwhile.
 *   3. If the thread is copying at that moment the writer tries again after the next batch; from
 *      one and a half times the bound on it waits for the thread.
 *   4. A reader with an old snapshot makes the restart fail. It is tried again when the log has
 *      grown by another piece.
 *
 * A sync of a file that has become longer writes the size of the file and the places of its blocks
 * too, which doubles what the sync takes. So the log does not grow with each commit, but by zeroes
 * that are written behind its end, for many commits at once, up to its bound; the commits overwrite
 * them. To SQLite the log ends at the first frame without a valid checksum, as it does after the
 * log has begun anew in a longer file. */
#include "db/wal.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

enum {
    PIECES = 16,
    LOG_HEADER = 32,
    FRAME_HEADER = 24,
    RESTART_WAIT_MS = 10,
    GROW_FROM = 64 * 1024, /* a shorter log grows with each commit: few commits, a small file */
    GROW_BY = 1024 * 1024, /* at most, since the next sync writes the zeroes */
    ZEROES = 64 * 1024,
};

struct wal_checkpointer {
    sqlite3 *writer;
    sqlite3 *copier;
    clock_source *clock;
    int64_t bound;
    int64_t frame_bytes;
    int busy_ms;        /* the writer's own busy timeout, to restore */
    int64_t frames;     /* number of frames in the log, as the writer's last commit has told */
    int64_t not_before; /* size of the log, in bytes, from which on a restart is tried */
    int64_t file_bytes; /* size of the file when it was last asked for, or made longer */
    int grows;          /* 1: each commit is synced, so that the file is to grow ahead */

    pthread_mutex_t copying; /* held during a checkpoint, by the thread or the writer */
    pthread_mutex_t lock;    /* guards all below */
    pthread_cond_t wake;
    int64_t tried; /* `seen` when the thread last copied */
    int64_t seen;  /* `frames`, as the writer has passed it to the thread */
    int stop;
    int thread_runs;
    pthread_t thread;
    wal_stats stats;
};

static int on_commit(void *arg, sqlite3 *native, const char *schema, int frames)
{
    (void)native, (void)schema;
    ((wal_checkpointer *)arg)->frames = frames;
    return SQLITE_OK;
}

static int64_t ask_number(sqlite3 *native, const char *pragma)
{
    sqlite3_stmt *s;
    int64_t number = 0;
    if (sqlite3_prepare_v2(native, pragma, -1, &s, NULL) != SQLITE_OK)
        return 0;
    if (sqlite3_step(s) == SQLITE_ROW)
        number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return number;
}

static int64_t piece_bytes(const wal_checkpointer *k)
{
    return k->bound / PIECES > k->frame_bytes ? k->bound / PIECES : k->frame_bytes;
}

/* ---- The thread ---- */

/* Has the log grown by a piece since the thread last tried to copy? A try that could copy nothing
 * counts too: while a reader keeps an old snapshot, the next one would be in vain as well. */
static int enough_to_copy(const wal_checkpointer *k)
{
    return (k->seen - k->tried) * k->frame_bytes >= piece_bytes(k);
}

static void copy_some(wal_checkpointer *k)
{
    pthread_mutex_lock(&k->lock);
    k->tried = k->seen;
    pthread_mutex_unlock(&k->lock);
    pthread_mutex_lock(&k->copying);
    (void)sqlite3_wal_checkpoint_v2(k->copier, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    pthread_mutex_unlock(&k->copying);
}

static void *copy_all_the_time(void *arg)
{
    wal_checkpointer *k = arg;
    for (;;) {
        pthread_mutex_lock(&k->lock);
        while (!k->stop && !enough_to_copy(k))
            k->clock->wait(k->clock, &k->wake, &k->lock, INT64_MAX);
        int stop = k->stop;
        pthread_mutex_unlock(&k->lock);
        if (stop)
            return NULL;
        copy_some(k);
    }
}

wal_checkpointer *wal_checkpointer_new(sqlite3 *writer, sqlite3 *copier, int64_t bound,
                                       clock_source *clock)
{
    wal_checkpointer *k = calloc(1, sizeof *k);
    if (!k) {
        sqlite3_close(copier);
        return NULL;
    }
    k->writer = writer;
    k->copier = copier;
    k->clock = clock;
    k->bound = k->not_before = bound;
    k->frame_bytes = ask_number(writer, "PRAGMA page_size") + FRAME_HEADER;
    k->busy_ms = (int)ask_number(writer, "PRAGMA busy_timeout");
    k->grows = ask_number(writer, "PRAGMA synchronous") >= 2; /* FULL */
    pthread_mutex_init(&k->copying, NULL);
    pthread_mutex_init(&k->lock, NULL);
    clock_cond_init(&k->wake);
    sqlite3_wal_hook(writer, on_commit, k);
    if (copier)
        k->thread_runs = thread_start(&k->thread, copy_all_the_time, k);
    return k;
}

void wal_checkpointer_free(wal_checkpointer *k)
{
    if (!k)
        return;
    sqlite3_wal_hook(k->writer, NULL, NULL);
    pthread_mutex_lock(&k->lock);
    k->stop = 1;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    if (k->thread_runs)
        pthread_join(k->thread, NULL);
    sqlite3_close(k->copier);
    pthread_mutex_destroy(&k->copying);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->wake);
    free(k);
}

/* ---- The writer ---- */

int wal_checkpointer_due(wal_checkpointer *k)
{
    int64_t bytes = k->frames * k->frame_bytes;
    pthread_mutex_lock(&k->lock);
    k->seen = k->frames;
    if (k->tried > k->seen) /* the log has begun anew */
        k->tried = 0;
    if (bytes > k->stats.bytes_max)
        k->stats.bytes_max = bytes;
    if (k->thread_runs && enough_to_copy(k))
        pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    if (bytes < k->bound)
        k->not_before = k->bound;
    return bytes >= k->not_before; /* RULE B1-the-log-begins-anew-at-its-bound */
}

/* Writes zeroes behind the end of the file. If that fails, the file gets its old size back, since
 * the disk may be full. */
static int lengthen(sqlite3_file *file, int64_t from, int64_t to)
{
    static const char zeroes[ZEROES];
    int rc = SQLITE_OK;
    for (int64_t at = from; rc == SQLITE_OK && at < to; at += ZEROES)
        rc = file->pMethods->xWrite(file, zeroes, (int)(to - at < ZEROES ? to - at : ZEROES), at);
    if (rc != SQLITE_OK)
        /* RULE B1-a-log-that-could-not-grow-gets-its-size-back */
        (void)file->pMethods->xTruncate(file, from);
    return rc == SQLITE_OK;
}

/* The step by which a log of so many bytes grows: it doubles, as long as the steps are small. */
static int64_t step_bytes(const wal_checkpointer *k, int64_t bytes)
{
    int64_t most = piece_bytes(k) < GROW_BY ? piece_bytes(k) : GROW_BY;
    return bytes < GROW_FROM ? 0 : bytes < most ? bytes : most;
}

/* Only the connection in whose transaction this is called may append to the log now. Where others
 * have done so before, `frames` is too low, and the log grows with some of the commits. */
void wal_checkpointer_grow(wal_checkpointer *k)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    int64_t end = k ? LOG_HEADER + k->frames * k->frame_bytes : 0;
    int64_t step = k && k->grows ? step_bytes(k, end) : 0;
    if (step == 0 || k->file_bytes - end >= step / 4)
        return;
    if (sqlite3_file_control(k->writer, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK ||
        !file || !file->pMethods || file->pMethods->xFileSize(file, &size) != SQLITE_OK)
        return;
    k->file_bytes = size;
    /* RULE B1-the-log-does-not-grow-ahead-of-its-bound */
    int64_t to = size + step < k->bound ? size + step : k->bound;
    /* RULE B1-the-log-grows-ahead-of-its-frames */
    if (size < end || size - end >= step / 4 || to <= size)
        return;
    k->grows = lengthen(file, size, to);
    k->file_bytes = to;
}

static void record_restart(wal_checkpointer *k, int rc, int64_t began)
{
    int64_t took = k->clock->mono_ns(k->clock) - began;
    pthread_mutex_lock(&k->lock);
    if (took > k->stats.stall_ns_max)
        k->stats.stall_ns_max = took;
    if (rc == SQLITE_OK)
        k->stats.restarts++;
    else
        k->stats.blocked++;
    pthread_mutex_unlock(&k->lock);
}

void wal_checkpointer_restart(wal_checkpointer *k)
{
    int64_t began = k->clock->mono_ns(k->clock);
    int64_t bytes = k->frames * k->frame_bytes;
    if (pthread_mutex_trylock(&k->copying) != 0) {
        if (bytes < k->bound + k->bound / 2)
            return;
        pthread_mutex_lock(&k->copying);
    }
    sqlite3_busy_timeout(k->writer, k->busy_ms < RESTART_WAIT_MS ? k->busy_ms : RESTART_WAIT_MS);
    int rc = sqlite3_wal_checkpoint_v2(k->writer, "main", SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    sqlite3_busy_timeout(k->writer, k->busy_ms);
    pthread_mutex_unlock(&k->copying);
    record_restart(k, rc, began);
    if (rc == SQLITE_OK)
        k->frames = 0;
    else
        k->not_before = bytes + piece_bytes(k);
}

wal_stats wal_checkpointer_stats(wal_checkpointer *k)
{
    pthread_mutex_lock(&k->lock);
    wal_stats stats = k->stats;
    pthread_mutex_unlock(&k->lock);
    return stats;
}
