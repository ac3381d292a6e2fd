/* The VFS itself: every method consults the control struct (vfs_shim), and then calls the method of
 * the system's VFS.
 *
 * A file struct is followed in memory by that of the real file. Memory-mapped pages are never given
 * to SQLite, which then reads the file instead, so that faults apply to all reads. */
#include "support/vfs_shim.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/shadow.h"

typedef struct shim_file {
    sqlite3_file base;
    sqlite3_file *real;
    const char *name; /* the name, in SQLite's memory; NULL for a temporary file */
    vfs_file_kind kind;
    shadow *shadow; /* NULL for a temporary file */
    int64_t errors; /* the last shadow_errors() that this handle has seen */
} shim_file;

vfs_shim_control vfs_shim = {.budget = -1, .size_max = -1};

static sqlite3_vfs *under; /* the system's */

/* ---- Control ---- */

void vfs_fault_arm(vfs_fault *f, int64_t first, int64_t times)
{
    atomic_store(&f->first, 0);
    atomic_store(&f->seen, 0);
    atomic_store(&f->fired, 0);
    atomic_store(&f->times, times);
    atomic_store(&f->first, first);
}

void vfs_shim_reset(void)
{
    atomic_store(&vfs_shim.lossy, 0);
    atomic_store(&vfs_shim.read_only, 0);
    atomic_store(&vfs_shim.quick, 0);
    atomic_store(&vfs_shim.suffix, NULL);
    atomic_store(&vfs_shim.sync_forgets, 0);
    atomic_store(&vfs_shim.sync_each, 0);
    atomic_store(&vfs_shim.syncs_asked, 0);
    atomic_store(&vfs_shim.budget, -1);
    atomic_store(&vfs_shim.size_max, -1);
    atomic_store(&vfs_shim.refused_full, 0);
    vfs_fault_arm(&vfs_shim.read, 0, 0);
    vfs_fault_arm(&vfs_shim.write, 0, 0);
    vfs_fault_arm(&vfs_shim.sync, 0, 0);
    vfs_fault_arm(&vfs_shim.death, 0, 0);
    for (int i = 0; i < VFS_FILE_KINDS; i++) {
        atomic_store(&vfs_shim.reads[i], 0);
        atomic_store(&vfs_shim.writes[i], 0);
        atomic_store(&vfs_shim.syncs[i], 0);
    }
    shadow_forget_closed();
}

static int is_meant(const char *name)
{
    const char *suffix = atomic_load(&vfs_shim.suffix);
    if (!suffix)
        return 1;
    if (!name)
        return 0;
    size_t size = strlen(name);
    size_t tail = strlen(suffix);
    return size >= tail && memcmp(name + size - tail, suffix, tail) == 0;
}

static int fault_fires(vfs_fault *fault, const char *name)
{
    if (!is_meant(name))
        return 0;
    int64_t number = atomic_fetch_add(&fault->seen, 1) + 1;
    int64_t first = atomic_load(&fault->first);
    if (first == 0 || number < first || number - first >= atomic_load(&fault->times))
        return 0;
    atomic_fetch_add(&fault->fired, 1);
    return 1;
}

/* Called before everything that changes something on the disk: kills the process if `death` says
 * so. */
static void perhaps_die(const char *name)
{
    if (fault_fires(&vfs_shim.death, name))
        raise(SIGKILL);
}

static int sync_fires(const shim_file *f)
{
    int64_t each = atomic_load(&vfs_shim.sync_each);
    if (each > 0 && is_meant(f->name) &&
        (atomic_fetch_add(&vfs_shim.syncs_asked, 1) + 1) % each == 0)
        return 1;
    return fault_fires(&vfs_shim.sync, f->name);
}

/* Returns how many of `amount` bytes the budget still allows, and takes them from it. */
static int take_budget(const shim_file *f, int amount)
{
    int64_t left = atomic_load(&vfs_shim.budget);
    int64_t got;
    do {
        if (left < 0 || !is_meant(f->name))
            return amount;
        got = left < amount ? left : amount;
    } while (!atomic_compare_exchange_weak(&vfs_shim.budget, &left, left - got));
    return (int)got;
}

/* Returns how many of `amount` bytes at `offset` the disk has room for. */
static int room_for(const shim_file *f, int amount, int64_t offset)
{
    int64_t most = atomic_load(&vfs_shim.size_max);
    if (most < 0 || offset + amount <= most || !is_meant(f->name))
        return take_budget(f, amount);
    return offset < most ? take_budget(f, (int)(most - offset)) : 0;
}

/* ---- Methods of a file ---- */

static shim_file *shim_of(sqlite3_file *file)
{
    return (shim_file *)(void *)file;
}

static int shim_close(sqlite3_file *file)
{
    shim_file *f = shim_of(file);
    int rc = f->real->pMethods->xClose(f->real);
    if (f->shadow)
        shadow_close(f->shadow);
    f->shadow = NULL;
    return rc;
}

static int shim_read(sqlite3_file *file, void *at, int amount, sqlite3_int64 offset)
{
    shim_file *f = shim_of(file);
    atomic_fetch_add(&vfs_shim.reads[f->kind], 1);
    if (fault_fires(&vfs_shim.read, f->name))
        return SQLITE_IOERR_READ;
    return f->real->pMethods->xRead(f->real, at, amount, offset);
}

static int shim_write(sqlite3_file *file, const void *at, int amount, sqlite3_int64 offset)
{
    shim_file *f = shim_of(file);
    perhaps_die(f->name);
    if (fault_fires(&vfs_shim.write, f->name))
        return SQLITE_IOERR_WRITE;
    int allowed = room_for(f, amount, offset);
    int rc = SQLITE_OK;
    if (allowed > 0)
        rc = f->real->pMethods->xWrite(f->real, at, allowed, offset);
    if (allowed > 0 && f->shadow)
        shadow_wrote(f->shadow, offset, allowed);
    atomic_fetch_add(&vfs_shim.writes[f->kind], allowed > 0);
    if (rc == SQLITE_OK && allowed < amount) {
        atomic_fetch_add(&vfs_shim.refused_full, 1);
        rc = SQLITE_FULL;
    }
    return rc;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    shim_file *f = shim_of(file);
    sqlite3_int64 before = 0;
    perhaps_die(f->name);
    int rc = f->real->pMethods->xFileSize(f->real, &before);
    if (rc == SQLITE_OK)
        rc = f->real->pMethods->xTruncate(f->real, size);
    if (rc == SQLITE_OK && f->shadow)
        shadow_cut(f->shadow, before, size);
    return rc;
}

static int real_sync(shim_file *f, int flags)
{
    return atomic_load(&vfs_shim.quick) ? SQLITE_OK : f->real->pMethods->xSync(f->real, flags);
}

/* Returns 1 if a sync of another handle has failed and lost pages since this was asked last. */
static int missed_error(shim_file *f)
{
    int64_t errors = shadow_errors(f->shadow);
    int missed = errors != f->errors;
    f->errors = errors;
    return missed;
}

static int sync_shadowed(shim_file *f, int flags, int fails)
{
    shadow_sync sync;
    int rc = shadow_sync_begin(f->shadow, f->real, &sync);
    int missed = missed_error(f);
    if (rc == SQLITE_OK && fails)
        rc = SQLITE_IOERR_FSYNC;
    if (rc == SQLITE_OK)
        rc = real_sync(f, flags);
    int forgets = atomic_load(&vfs_shim.sync_forgets);
    f->errors += rc != SQLITE_OK && forgets;
    if (shadow_sync_end(f->shadow, f->real, &sync, rc == SQLITE_OK, forgets) != 0 || missed)
        rc = SQLITE_IOERR_FSYNC;
    return rc;
}

static int shim_sync(sqlite3_file *file, int flags)
{
    shim_file *f = shim_of(file);
    perhaps_die(f->name);
    int fails = sync_fires(f);
    int rc;
    if (f->shadow)
        rc = sync_shadowed(f, flags, fails);
    else
        rc = fails ? SQLITE_IOERR_FSYNC : real_sync(f, flags);
    atomic_fetch_add(&vfs_shim.syncs[f->kind], rc == SQLITE_OK);
    return rc;
}

static int shim_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xFileSize(f->real, size);
}

static int shim_lock(sqlite3_file *file, int level)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xLock(f->real, level);
}

static int shim_unlock(sqlite3_file *file, int level)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xUnlock(f->real, level);
}

static int shim_check_reserved_lock(sqlite3_file *file, int *out)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xCheckReservedLock(f->real, out);
}

static int shim_file_control(sqlite3_file *file, int op, void *arg)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xFileControl(f->real, op, arg);
}

static int shim_sector_size(sqlite3_file *file)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xSectorSize(f->real);
}

static int shim_device_characteristics(sqlite3_file *file)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xDeviceCharacteristics(f->real);
}

static int shim_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xShmMap(f->real, page, size, extend, out);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xShmLock(f->real, offset, n, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
    shim_file *f = shim_of(file);
    f->real->pMethods->xShmBarrier(f->real);
}

static int shim_shm_unmap(sqlite3_file *file, int remove_file)
{
    shim_file *f = shim_of(file);
    return f->real->pMethods->xShmUnmap(f->real, remove_file);
}

static int shim_fetch(sqlite3_file *file, sqlite3_int64 offset, int amount, void **out)
{
    (void)file;
    (void)offset;
    (void)amount;
    *out = NULL;
    return SQLITE_OK;
}

static int shim_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *at)
{
    (void)file;
    (void)offset;
    (void)at;
    return SQLITE_OK;
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 3,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_file_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_reserved_lock,
    .xFileControl = shim_file_control,
    .xSectorSize = shim_sector_size,
    .xDeviceCharacteristics = shim_device_characteristics,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
    .xFetch = shim_fetch,
    .xUnfetch = shim_unfetch,
};

/* ---- Methods of the VFS ---- */

static vfs_file_kind kind_of(int flags)
{
    if (flags & SQLITE_OPEN_MAIN_DB)
        return VFS_FILE_DB;
    if (flags & SQLITE_OPEN_WAL)
        return VFS_FILE_WAL;
    return flags & SQLITE_OPEN_MAIN_JOURNAL ? VFS_FILE_JOURNAL : VFS_FILE_OTHER;
}

static int open_flags(int flags, vfs_file_kind kind)
{
    if (kind == VFS_FILE_OTHER || !atomic_load(&vfs_shim.read_only))
        return flags;
    int writing = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE;
    return (flags & ~writing) | SQLITE_OPEN_READONLY;
}

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags)
{
    (void)vfs;
    shim_file *f = shim_of(file);
    *f = (shim_file){.name = name, .kind = kind_of(flags)};
    f->real = (sqlite3_file *)(void *)(f + 1);
    int lossy = atomic_load(&vfs_shim.lossy);
    int got = 0;
    int rc = under->xOpen(under, name, f->real, open_flags(flags, f->kind), &got);
    if (rc == SQLITE_OK && name && f->kind != VFS_FILE_OTHER) {
        f->shadow = shadow_open(name, f->real, lossy, f->kind == VFS_FILE_WAL);
        if (!f->shadow) {
            f->real->pMethods->xClose(f->real);
            return SQLITE_CANTOPEN;
        }
        f->errors = shadow_errors(f->shadow);
    }
    if (out_flags)
        *out_flags = got;
    if (f->real->pMethods)
        f->base.pMethods = &METHODS;
    return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
    (void)vfs;
    perhaps_die(name);
    int rc = under->xDelete(under, name, sync_directory);
    if (rc == SQLITE_OK)
        shadow_deleted(name, sync_directory);
    return rc;
}

static int shim_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    return under->xAccess(under, name, flags, out);
}

static int shim_full_pathname(sqlite3_vfs *vfs, const char *name, int room, char *out)
{
    (void)vfs;
    return under->xFullPathname(under, name, room, out);
}

static int shim_randomness(sqlite3_vfs *vfs, int size, char *out)
{
    (void)vfs;
    return under->xRandomness(under, size, out);
}

static int shim_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return under->xSleep(under, us);
}

static int shim_current_time(sqlite3_vfs *vfs, double *out)
{
    (void)vfs;
    return under->xCurrentTime(under, out);
}

static int shim_get_last_error(sqlite3_vfs *vfs, int room, char *out)
{
    (void)vfs;
    return under->xGetLastError(under, room, out);
}

static int shim_current_time_int64(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    (void)vfs;
    return under->xCurrentTimeInt64(under, out);
}

/* ---- What tests call ---- */

static sqlite3_vfs shim = {
    .iVersion = 2,
    .zName = VFS_SHIM_NAME,
    .xOpen = shim_open,
    .xDelete = shim_delete,
    .xAccess = shim_access,
    .xFullPathname = shim_full_pathname,
    .xRandomness = shim_randomness,
    .xSleep = shim_sleep,
    .xCurrentTime = shim_current_time,
    .xGetLastError = shim_get_last_error,
    .xCurrentTimeInt64 = shim_current_time_int64,
};

int vfs_shim_register(void)
{
    if (sqlite3_initialize() != SQLITE_OK)
        return -1;
    if (sqlite3_vfs_find(VFS_SHIM_NAME))
        return 0;
    under = sqlite3_vfs_find(NULL);
    if (!under)
        return -1;
    shim.szOsFile = (int)sizeof(shim_file) + under->szOsFile;
    shim.mxPathname = under->mxPathname;
    return sqlite3_vfs_register(&shim, 0) == SQLITE_OK ? 0 : -1;
}

int vfs_shim_wal_dirty(void)
{
    return shadow_log_dirty();
}

int vfs_shim_lose(const char *db, uint64_t seed)
{
    static const char *const SUFFIXES[] = {"", "-wal", "-journal"};
    char name[4096];
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof *SUFFIXES; i++) {
        int n = snprintf(name, sizeof name, "%s%s", db, SUFFIXES[i]);
        if (n < 0 || (size_t)n >= sizeof name) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (shadow_lose(name, seed ? seed + i : 0) != 0 && (errno != ENOENT || i == 0))
            return -1;
    }
    snprintf(name, sizeof name, "%s-shm", db);
    return unlink(name) == 0 || errno == ENOENT ? 0 : -1;
}
