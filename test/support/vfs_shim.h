/* A disk that can be told to fail: a SQLite VFS between the library and the system's own.
 *
 * A killed process proves nothing about syncs, because the page cache outlives it. So this VFS
 * keeps beside each file F a shadow F.synced, with what a power cut would have left of it; and it
 * fails reads, writes and syncs when told to, since a test cannot wait for a disk to do that.
 *
 * Without an instruction everything goes through unchanged. Instructions are atomics in one
 * struct: any thread may change them at any time, without a lock.
 *
 * Select it with the name VFS_SHIM_NAME after vfs_shim_register(). A lossy file belongs to one
 * process at a time (and to any number of its connections): another process' syncs are not seen. */
#ifndef SUPPORT_VFS_SHIM_H
#define SUPPORT_VFS_SHIM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define VFS_SHIM_NAME "pawl-test-shim"
#define VFS_SHIM_BLOCK 4096 /* what a disk keeps or loses as a whole */

/* A kind of call that fails from its n-th on, so many times. Arm it with vfs_fault_arm(). */
typedef struct vfs_fault {
    _Atomic int64_t first; /* from 1, counted from the arming; 0: never */
    _Atomic int64_t times;
    _Atomic int64_t seen;  /* calls since the arming */
    _Atomic int64_t fired; /* calls that failed since the arming */
} vfs_fault;

#define VFS_FAULT_FOREVER INT64_MAX

typedef enum {
    VFS_FILE_DB,
    VFS_FILE_WAL,
    VFS_FILE_JOURNAL,
    VFS_FILE_OTHER, /* temporary files */
    VFS_FILE_KINDS,
} vfs_file_kind;

typedef struct vfs_shim_control {
    /* Looked at when a file is opened. */
    atomic_int lossy;     /* keep shadows */
    atomic_int read_only; /* files open for reading only, as on a disk mounted so */

    /* Syncs are counted, remembered and fail, but the real disk is not asked to do any: for tests
     * in which nothing depends on it but their time. */
    atomic_int quick;

    /* Faults hit only files whose names end like this; NULL: every file, temporary ones too. */
    _Atomic(const char *) suffix;
    vfs_fault read;              /* SQLITE_IOERR_READ */
    vfs_fault write;             /* SQLITE_IOERR_WRITE, nothing is written */
    vfs_fault sync;              /* SQLITE_IOERR_FSYNC; what was written stays written */
    _Atomic int64_t sync_each;   /* every n-th sync fails as well; 0: none */
    _Atomic int64_t syncs_asked; /* for that */

    /* The process dies by SIGKILL at such a call, before anything of it is done: any write, cut,
     * sync or removal of a file. */
    vfs_fault death;

    /* After a failed sync the system takes the pages for clean, as Linux does: a later sync does
     * not make them durable. Other handles on the file are told by their next sync. */
    atomic_int sync_forgets;

    /* Bytes that may still be written before SQLITE_FULL; the write that does not fit is done in
     * part, as on a real disk. Negative: no bound. Counts files with the suffix above. */
    _Atomic int64_t budget;

    /* Files do not grow beyond this size, as when the disk has no free block left: what was
     * written once can be written again. Negative: no bound. For files with the suffix above. */
    _Atomic int64_t size_max;
    _Atomic int64_t refused_full; /* writes answered SQLITE_FULL */

    /* What was counted. */
    _Atomic int64_t reads[VFS_FILE_KINDS];
    _Atomic int64_t writes[VFS_FILE_KINDS];
    _Atomic int64_t syncs[VFS_FILE_KINDS]; /* those that succeeded */
} vfs_shim_control;

extern vfs_shim_control vfs_shim;

/* Make the VFS known to SQLite, not as the default. May be called again. 0, or -1. */
int vfs_shim_register(void);

/* No faults, not lossy, writable, all counts zero. Open files stay as they are; those that are
 * closed are forgotten, but not their shadows on the disk. */
void vfs_shim_reset(void);

/* From the `first`-th call after this one on, `times` calls fail. first 0: none does. */
void vfs_fault_arm(vfs_fault *f, int64_t first, int64_t times);

/* 1 if some write-ahead log has writes that no sync has followed. */
int vfs_shim_wal_dirty(void);

/* Cut the power: what was not synced is gone from the database `db` and its log, the shared memory
 * file too, and the shadows with it. With a seed other than 0 each unsynced block survives or not
 * by the toss of a coin. For files that are not open, when the process that wrote them is dead. 0,
 * or -1 with errno; ENOENT: it was never opened lossy. */
int vfs_shim_lose(const char *db, uint64_t seed);

#endif
