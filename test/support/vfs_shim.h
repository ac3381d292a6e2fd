/* A disk that can be told to fail: a SQLite VFS between the library and the system's own VFS (fault
 * injection).
 *
 * Killing a process proves nothing about syncs, because what it has written stays in the page
 * cache. So this VFS keeps beside each file F a shadow file F.synced, with what a power cut would
 * have left of it. It also fails reads, writes and syncs when it is told to, since a test cannot
 * wait for a disk to do that.
 *
 * Until it is told something, everything goes through unchanged. The instructions are atomics in
 * one struct: any thread may change them at any time, without a lock.
 *
 * After vfs_shim_register() the VFS is selected by the name VFS_SHIM_NAME. A lossy file may be
 * opened by one process at a time (by any number of its connections), since the syncs of another
 * process are not seen. */
#ifndef SUPPORT_VFS_SHIM_H
#define SUPPORT_VFS_SHIM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define VFS_SHIM_NAME "pawl-test-shim"
#define VFS_SHIM_BLOCK 4096 /* size of the blocks that the disk keeps or loses as a whole */

/* A kind of call that fails: from its n-th call on, a number of times. Armed by vfs_fault_arm(). */
typedef struct vfs_fault {
    _Atomic int64_t first; /* number of the first call that fails, counted from 1 since the
                              arming; 0: none fails */
    _Atomic int64_t times;
    _Atomic int64_t seen;  /* number of calls since the arming */
    _Atomic int64_t fired; /* number of calls since the arming that failed */
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
    /* These two are read when a file is opened. */
    atomic_int lossy;     /* keep shadows */
    atomic_int read_only; /* files are opened for reading only, as on a disk that is mounted
                             read-only */

    /* Syncs are counted, noted and failed as told, but the real disk is not asked for any. For
     * tests that do not depend on real syncs, and only would take longer with them. */
    atomic_int quick;

    /* Faults happen only on files whose names end like this; NULL: on every file, temporary ones
     * too. */
    _Atomic(const char *) suffix;
    vfs_fault read;              /* SQLITE_IOERR_READ */
    vfs_fault write;             /* SQLITE_IOERR_WRITE, nothing is written */
    vfs_fault sync;              /* SQLITE_IOERR_FSYNC; what was written stays written */
    _Atomic int64_t sync_each;   /* every n-th sync fails too; 0: none does */
    _Atomic int64_t syncs_asked; /* number of syncs so far, for sync_each */

    /* At such a call the process dies by SIGKILL, before anything of it is done. Calls are counted
     * that write, cut, sync or remove a file. */
    vfs_fault death;

    /* 1: after a failed sync the system takes the pages for clean, as Linux does, so that a later
     * sync does not make them durable. The next sync of each other handle of the file fails too. */
    atomic_int sync_forgets;

    /* Number of bytes that may still be written before SQLITE_FULL; the write that exceeds it is
     * done in part, as on a real disk. Negative: no bound. Only files with the suffix above
     * count. */
    _Atomic int64_t budget;

    /* Files do not grow beyond this size, as on a disk that has no free block left; bytes within it
     * can be written again. Negative: no bound. For files with the suffix above. */
    _Atomic int64_t size_max;
    _Atomic int64_t refused_full; /* writes answered SQLITE_FULL */

    /* What was counted. */
    _Atomic int64_t reads[VFS_FILE_KINDS];
    _Atomic int64_t writes[VFS_FILE_KINDS];
    _Atomic int64_t syncs[VFS_FILE_KINDS]; /* those that succeeded */
} vfs_shim_control;

extern vfs_shim_control vfs_shim;

/* Makes the VFS known to SQLite, not as the default. May be repeated. Returns 0, or -1. */
int vfs_shim_register(void);

/* Resets all instructions: no faults, not lossy, writable, all counts 0. Shadows of files that are
 * open stay; those of closed files are forgotten, but their shadow files stay on the disk. */
void vfs_shim_reset(void);

/* Lets `times` calls fail, from the call number `first` after this moment on. first 0: none
 * fails. */
void vfs_fault_arm(vfs_fault *f, int64_t first, int64_t times);

/* Returns 1 if a write-ahead log has writes that no sync has followed. */
int vfs_shim_wal_dirty(void);

/* Cuts the power: what was not synced is removed from the database `db` and its log, and the file
 * of the shared memory and the shadow files are deleted. With a seed other than 0 it is random for
 * each unsynced block whether it survives. The files must not be open, and the process that has
 * written them must have ended. Returns 0, or -1 with errno; ENOENT: the database was never opened
 * with `lossy`. */
int vfs_shim_lose(const char *db, uint64_t seed);

#endif
