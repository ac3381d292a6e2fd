/* The file `<db>-nodes`: liveness of nodes, and the turnstile, by byte locks.
 *
 * On SQLite a node is alive as long as it holds the lock on its own byte of this file (byte = node
 * id). The lock belongs to the open file description: the kernel frees it when the process dies,
 * however it dies and in whichever container, and no heartbeat is needed. Bytes 0 and 1 are the
 * turnstile (turnstile.h).
 *
 * One descriptor per engine. A child made by fork() closes its copy at once (it never unlocks: the
 * lock is the parent's too). A stopped process keeps its locks. */
#ifndef DB_LIVENESS_FILE_H
#define DB_LIVENESS_FILE_H

#include <stdint.h>

#include "base/error.h"

typedef struct liveness_file liveness_file;

/* Open (or make) the file beside a database. PAWL_UNSUPPORTED where such locks do not work. */
pawl_code liveness_file_open(liveness_file **out, const char *db_path, error *err);
void liveness_file_close(liveness_file *f); /* frees all locks taken through it */

/* Open the file to ask about the locks of others, and for nothing else: it is not made, and need
 * not be writable. Where it is missing no node is alive; where it cannot be read, that cannot be
 * known. */
pawl_code liveness_file_look(liveness_file **out, const char *db_path, error *err);

/* 1 if any node is alive, or that cannot be known. */
int liveness_file_any_alive(liveness_file *f);

/* 1 in a child of fork() whose parent had this very file open. */
int liveness_file_is_inherited(const liveness_file *f);

/* Take the lock of a node (id 2 and above). PAWL_BUSY: another process, or another engine of
 * this one, has it. The lock comes first, then the node's row. */
pawl_code liveness_file_hold(liveness_file *f, int64_t node, error *err);
void liveness_file_release(liveness_file *f, int64_t node);

/* 1 alive, 0 dead, -1 cannot be known (then it counts as alive). A node asks about others only:
 * its own locks do not show. */
int liveness_file_alive(liveness_file *f, int64_t node);

/* A descriptor that becomes readable when some process closes the file, that is, perhaps dies;
 * -1 where the system has no such thing. liveness_file_drain() empties it. A hint: look at the
 * locks then, and once a second anyway. */
int liveness_file_watch(liveness_file *f);
void liveness_file_drain(liveness_file *f);

/* Where it is; good as long as the file. Other files beside the database are named after it. */
const char *liveness_file_path(const liveness_file *f);

/* The raw lock on one byte, for the turnstile. `wait` 1: block until it is there (a cancellation
 * point). 0 done, -1 held by another open file (or interrupted). */
int liveness_file_lock(liveness_file *f, int64_t byte, int wait);
void liveness_file_unlock(liveness_file *f, int64_t byte);

#endif
