/* The file `<db>-nodes`: signs of life and the turnstile, by byte locks.
 *
 * On SQLite a node is alive as long as it holds the lock on its own byte of this file (byte =
 * node id). The lock belongs to the open file description: the kernel frees it when the process
 * dies, however it dies and in whichever container, and no heartbeat is needed. Bytes 0 and 1
 * are the turnstile (turnstile.h).
 *
 * One descriptor per engine. A child made by fork() closes its copy at once (it never unlocks:
 * the lock is the parent's too). A stopped process keeps its locks. */
#ifndef DB_NODES_FILE_H
#define DB_NODES_FILE_H

#include <stdint.h>

#include "base/error.h"

typedef struct nodes_file nodes_file;

/* Open (or make) the file beside a database. PAWL_UNSUPPORTED where such locks do not work. */
pawl_code nodes_file_open(nodes_file **out, const char *db_path, error *err);
void nodes_file_close(nodes_file *f); /* frees all locks taken through it */

/* 1 in a child of fork() whose parent had this very file open. */
int nodes_file_is_inherited(const nodes_file *f);

/* Take the lock of a node (id 2 and above). PAWL_BUSY: another process, or another engine of
 * this one, has it. The lock comes first, then the node's row. */
pawl_code nodes_file_hold(nodes_file *f, int64_t node, error *err);
void nodes_file_release(nodes_file *f, int64_t node);

/* 1 alive, 0 dead, -1 cannot be known (then it counts as alive). A node asks about others only:
 * its own locks do not show. */
int nodes_file_alive(nodes_file *f, int64_t node);

/* A descriptor that becomes readable when some process closes the file, that is, perhaps dies;
 * -1 where the system has no such thing. nodes_file_drain() empties it. A hint: look at the
 * locks then, and once a second anyway. */
int nodes_file_watch(nodes_file *f);
void nodes_file_drain(nodes_file *f);

/* Where it is; good as long as the file. Other files beside the database are named after it. */
const char *nodes_file_path(const nodes_file *f);

/* The raw lock on one byte, for the turnstile. `wait` 1: block until it is there (a cancellation
 * point). 0 done, -1 taken by somebody else (or interrupted). */
int nodes_file_lock(nodes_file *f, int64_t byte, int wait);
void nodes_file_unlock(nodes_file *f, int64_t byte);

#endif
