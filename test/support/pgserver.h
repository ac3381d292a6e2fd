/* A PostgreSQL server that a test starts for itself, in a folder of its own.
 *
 * The server listens on a Unix socket in that folder, runs as an unprivileged user when the test is
 * root, and ends with the test, however that ends. It syncs as any server does: what a test sees to
 * be committed must be there after pgserver_stop() by force. All of this uses cmocka's assertions.
 * The thread that starts a server must outlive it. */
#ifndef SUPPORT_PGSERVER_H
#define SUPPORT_PGSERVER_H

#include <stdint.h>
#include <sys/types.h>

#include "support/tmp.h"

#define PGSERVER_NAME 64
#define PGSERVER_URL (TMP_PATH + 16) /* as large as conf.url */

typedef struct pgserver pgserver;

/* How a server stops. */
typedef enum {
    PGSERVER_FAST,      /* open transactions are rolled back, and a checkpoint is written */
    PGSERVER_IMMEDIATE, /* the processes end at once, as in a crash, but on a signal of
                           PostgreSQL's own */
    PGSERVER_KILL,      /* SIGKILL to the server and all of its processes at once */
} pgserver_end;

typedef struct pgserver_options {
    const char *const *settings;    /* a list of "name=value" that ends with NULL; these override
                                       the settings that servers of tests have otherwise */
    const char *const *environment; /* further variables, a list of "NAME=value" that ends with
                                       NULL; NULL: none */
    int tcp;                        /* 1: the server listens on a free port of 127.0.0.1 too */
} pgserver_options;

/* Returns 1 if PostgreSQL is installed. 0: it is not, and tests that call pgserver_need() are
 * skipped. If it is not installed although PAWL_TEST_NEED_PG=1 says that it has to be, the test
 * fails. */
int pgserver_available(void);

/* Skips the test that is running unless PostgreSQL is installed (pgserver_available()). */
void pgserver_need(void);

/* Starts a new server, and returns it when it accepts connections. `options` NULL: no settings but
 * those that servers of tests have anyway. */
pgserver *pgserver_start(const pgserver_options *options);

/* Starts a standby of a running server: it follows that server, and is read-only. */
pgserver *pgserver_follow(pgserver *primary);

/* pgserver_backup() keeps the data of a running server, as pg_basebackup does, and replaces an
 * older backup. pgserver_restore() kills the server, and starts it again on the data of the
 * backup. */
void pgserver_backup(pgserver *s);
void pgserver_restore(pgserver *s);

/* pgserver_stop() stops the server and leaves its data. pgserver_restart() starts it again on them;
 * if the server is running, it is stopped first (fast). */
void pgserver_stop(pgserver *s, pgserver_end how);
void pgserver_restart(pgserver *s);

/* Stops the server, and removes its data. */
void pgserver_free(pgserver *s); /* NULL is allowed */

/* Return the folder of the server's Unix socket, its port, and its first process; 0: the server is
 * not running. */
const char *pgserver_dir(const pgserver *s);
int pgserver_port(const pgserver *s);
pid_t pgserver_pid(const pgserver *s);

/* Writes the URL of a database of the server, by its Unix socket. */
void pgserver_url(const pgserver *s, const char *database, char out[PGSERVER_URL]);

/* pgserver_database() makes an empty database with a name that no other one has. pgserver_drop()
 * drops a database and ends its sessions. */
void pgserver_database(pgserver *s, char name[PGSERVER_NAME]);
void pgserver_drop(pgserver *s, const char *name);

/* Run SQL without parameters on a connection of its own, and fail the test if it fails.
 * pgserver_exec() takes several statements. pgserver_number() takes one, and returns the number in
 * the first column of its first row. `database` NULL: "postgres". */
void pgserver_exec(pgserver *s, const char *database, const char *sql);
int64_t pgserver_number(pgserver *s, const char *database, const char *sql);

/* Returns 1 if the server's log has this text. */
int pgserver_log_has(const pgserver *s, const char *text);

#endif
