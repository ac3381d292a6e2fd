/* A PostgreSQL server of a test's own, in a folder of its own.
 *
 * It listens on a Unix socket of its own, runs as an unprivileged user when the test is root, and
 * ends with the test, however that ends. It syncs as any server does: what a test sees to be
 * committed has to be there after pgserver_stop() by force. All of this uses cmocka's assertions,
 * and the thread that starts a server has to outlive it. */
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
    PGSERVER_FAST,      /* open transactions are rolled back, a checkpoint is written */
    PGSERVER_IMMEDIATE, /* as after a crash, but told */
    PGSERVER_KILL,      /* SIGKILL to the server and all of its processes at once */
} pgserver_end;

typedef struct pgserver_options {
    const char *const *settings;    /* "name=value", ends with NULL; stronger than the usual ones */
    const char *const *environment; /* "NAME=value" more, ends with NULL; NULL: nothing */
    int tcp;                        /* listen on a free port of 127.0.0.1 as well */
} pgserver_options;

/* 1: there is a server to start. 0: none is installed here; the test that asks is then skipped
 * (see pgserver_need), or, if PAWL_TEST_NEED_PG=1 says that there has to be one, fails. */
int pgserver_available(void);

/* Skip, or fail, the test that runs, unless there is a server to start. */
void pgserver_need(void);

/* A new server that answers. `options` NULL: the usual ones. */
pgserver *pgserver_start(const pgserver_options *options);

/* A standby of a server that runs: it follows that one, and only reads. */
pgserver *pgserver_follow(pgserver *primary);

/* Keep the data of a server that runs, as pg_basebackup does; an older backup is forgotten. Then:
 * it is killed, and starts again on what was kept. */
void pgserver_backup(pgserver *s);
void pgserver_restore(pgserver *s);

/* Stop it; its data stay. Then start it again on them; one that runs is stopped (fast) first. */
void pgserver_stop(pgserver *s, pgserver_end how);
void pgserver_restart(pgserver *s);

/* The end of it and of its data. */
void pgserver_free(pgserver *s); /* NULL is allowed */

/* Where it listens, and its first process; 0: it does not run. */
const char *pgserver_dir(const pgserver *s);
int pgserver_port(const pgserver *s);
pid_t pgserver_pid(const pgserver *s);

/* The URL of a database, by Unix socket. */
void pgserver_url(const pgserver *s, const char *database, char out[PGSERVER_URL]);

/* Make an empty database with a name that no other has, and drop one with all its sessions. */
void pgserver_database(pgserver *s, char name[PGSERVER_NAME]);
void pgserver_drop(pgserver *s, const char *name);

/* SQL without parameters on a connection of its own, which must work: several statements, or one
 * that gives a number in the first column of its first row. `database` NULL: "postgres". */
void pgserver_exec(pgserver *s, const char *database, const char *sql);
int64_t pgserver_number(pgserver *s, const char *database, const char *sql);

/* 1 if the server's log has this text. */
int pgserver_log_has(const pgserver *s, const char *text);

#endif
