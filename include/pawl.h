/* pawl: durable execution in C.
 *
 * Programs that survive crashes, restarts and deploys, and go on from their last recorded step.
 * This header is the manual. It holds so far what the ground of the engine needs: the table of
 * codes, the limits, opening and closing, and the questions one asks after an error.
 *
 * THREADS.   A handle may be used by any number of threads at once, except pawl_close().
 * FORK.      A handle does not survive fork(): in the child it may only be forgotten, and its
 *            database cannot be opened there (PAWL_MISUSE). Open after fork(), or exec().
 * OUTPUT.    The library never writes to stdout or stderr, never exits, installs no handlers.
 */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION "0.1.0"
#define PAWL_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#else
#define PAWL_API
#endif

/* ---- Codes ------------------------------------------------------------------------------------
 *
 * Every fallible call returns one of these. One table, from which the enum, pawl_code_name(),
 * pawl_code_text() and pawl_code_retryable() are made:
 *
 *   name, number (never changes), retryable, HTTP status, exit code of the tool, text
 *
 * Retryable means: the same call may succeed later without anything being changed in it.
 */
#define PAWL_CODES(X)                                                                              \
    X(OK, 0, 0, 200, 0, "done")                                                                    \
    X(INVALID, 1, 0, 400, 2, "an argument is not what the call takes")                             \
    X(MISUSE, 2, 0, 500, 2, "this call is not allowed here")                                       \
    X(NOMEM, 3, 1, 503, 75, "out of memory")                                                       \
    X(LIMIT, 4, 0, 413, 2, "larger than the limits table allows")                                  \
    X(BUSY, 5, 1, 503, 75, "too much to do, or locked by somebody else")                           \
    X(TIMEOUT, 6, 1, 504, 75, "it was not there in time")                                          \
    X(UNSUPPORTED, 7, 0, 501, 69, "not built into this library")                                   \
    X(REFUSED, 8, 0, 409, 1, "a condition that was asked for does not hold")                       \
    X(UNDECIDED, 9, 0, 503, 75, "the storage has not said yet whether it is durable")              \
    X(CLOSED, 10, 0, 503, 69, "the engine is closing")                                             \
    X(INTERNAL, 11, 0, 500, 70, "a fault of pawl itself")                                          \
    X(CANTOPEN, 20, 1, 503, 66, "the database cannot be opened")                                   \
    X(NOTADB, 21, 0, 500, 65, "the file is not a database")                                        \
    X(FOREIGN, 22, 0, 500, 65, "the database has pawl tables that are not pawl's")                 \
    X(NEWER, 23, 0, 500, 65, "the database was written by a newer pawl")                           \
    X(NOTWAL, 24, 0, 500, 78, "the database is not in WAL mode")                                   \
    X(NETWORKFS, 25, 0, 500, 78, "the database is on a network file system")                       \
    X(READONLY, 26, 1, 503, 77, "the database cannot be written")                                  \
    X(FULL, 27, 1, 507, 74, "the disk is full")                                                    \
    X(IO, 28, 1, 503, 74, "reading or writing the disk failed")                                    \
    X(CORRUPT, 29, 0, 500, 65, "the database is damaged")                                          \
    X(NOTDURABLE, 30, 0, 500, 78, "the database would not keep what it acknowledges")              \
    X(STORAGE, 31, 1, 503, 74, "the database answered with an error")                              \
    X(DATA, 32, 0, 500, 65, "a row breaks a rule of the database")

typedef enum pawl_code {
#define PAWL_CODE_ENUM(name, number, retry, http, exit_code, text) PAWL_##name = number,
    PAWL_CODES(PAWL_CODE_ENUM)
#undef PAWL_CODE_ENUM
} pawl_code;

/* "PAWL_BUSY"; "PAWL_?" for a number that is no code. Static text. */
PAWL_API const char *pawl_code_name(pawl_code code);

/* One sentence from the table above. Static text. */
PAWL_API const char *pawl_code_text(pawl_code code);

/* 1 if the same call may succeed later unchanged. */
PAWL_API int pawl_code_retryable(pawl_code code);

/* Version of the library at run time, as PAWL_VERSION was when it was compiled. Static text. */
PAWL_API const char *pawl_version(void);

/* ---- Limits -----------------------------------------------------------------------------------
 * What comes from outside is checked at the edge; beyond these the answer is PAWL_LIMIT. */
#define PAWL_MAX_PAYLOAD (16 * 1024 * 1024) /* one value, in bytes */
#define PAWL_MAX_NAME 256                   /* a name: workflow, work, mailbox, queue … */
#define PAWL_MAX_ID 512                     /* the id of a run, an idempotency key */
#define PAWL_MAX_URL 4096                   /* a database URL */
#define PAWL_MAX_DEPTH 128                  /* nesting of a JSON value */

/* ---- Opening --------------------------------------------------------------------------------- */

typedef struct pawl pawl; /* the engine: one handle on one database */

typedef struct pawl_options {
    size_t size; /* sizeof(pawl_options); the macro PAWL_OPTIONS() fills it in */

    /* Called for every connection that pawl makes, before it is used: `native` is a `sqlite3 *`.
     * Return 0 to go on; anything else refuses the connection with PAWL_CANTOPEN. The connection's
     * wal_hook is pawl's. NULL: nothing. */
    int (*on_connect)(void *native, void *arg);
    void *on_connect_arg;

    /* One call per event: level 0 debug, 1 info, 2 warning, 3 error; `event` a short name;
     * `fields` a list "key=value key=value", values quoted where they need it. May be called
     * from any thread that pawl uses; must not call pawl. NULL: nothing is logged. */
    void (*log)(void *arg, int level, const char *event, const char *fields);
    void *log_arg;

    /* 1: an existing database that is not in WAL mode is switched to it for good.
     * 0: such a database is refused with PAWL_NOTWAL, because other users of the file would
     * notice. A file that pawl creates is always in WAL mode. */
    int64_t switch_to_wal;

    /* Size in bytes at which the write-ahead log is copied back into the file and begun anew.
     * 0: 64 MiB. */
    int64_t wal_bytes;

    /* How long a start or a message may wait for room in a full queue, or for a locked
     * database, before it is answered PAWL_BUSY. 0: 5000. */
    int64_t busy_ms;
} pawl_options;

#ifndef __cplusplus
#define PAWL_OPTIONS(...) (&(pawl_options){.size = sizeof(pawl_options), __VA_ARGS__})
#endif

/* Open the engine on a database.
 *
 *   url       "app.db" or "sqlite:app.db"     a SQLite file, made if it is not there
 *             "sqlite:app.db?durability=relaxed"  may lose the last commits at a power failure
 *             "memory:"                        gone with the handle
 *             "postgres://…"                   not built in yet: PAWL_UNSUPPORTED
 *   options   NULL for the defaults; borrowed for the call
 *   out       always gets a handle, even on failure (to be asked and then closed); NULL only
 *             when memory is out
 *
 * pawl lives beside an application's own tables: all of its tables are called pawl_…, and it
 * leaves user_version and application_id alone.
 *
 * Errors: INVALID, LIMIT, MISUSE, UNSUPPORTED, CANTOPEN, NOTADB, FOREIGN, NEWER, NOTWAL, NETWORKFS,
 * READONLY, FULL, IO, CORRUPT, STORAGE, NOTDURABLE, BUSY, NOMEM.
 * Durable at return: the tables.  Blocks: on the disk; up to busy_ms on a locked database. */
PAWL_API pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options);

/* Close the engine and free the handle. NULL is allowed. No other thread may be using it. */
PAWL_API void pawl_close(pawl *p);

/* ---- Errors -----------------------------------------------------------------------------------
 * The last error of the calling thread on this handle: what happened; the specifics (a path, a
 * number, what was found); what to do next. Never NULL, "" when there is nothing to say. The
 * text is good until the same thread's next failing call on this handle, or pawl_close(). */
PAWL_API pawl_code pawl_errcode(pawl *p);
PAWL_API const char *pawl_errmsg(pawl *p);
PAWL_API const char *pawl_errdetail(pawl *p);
PAWL_API const char *pawl_errhint(pawl *p);

#ifdef __cplusplus
}
#endif
#endif
