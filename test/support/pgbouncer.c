/* A pooler of a test's own. See pgbouncer.h. It is configured by a file in its folder, accepts
 * every client of its Unix socket, and forwards all databases under their own names. */
#include "support/pgbouncer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/daemon.h"

enum { PORT = 6432 };

struct pgbouncer {
    daemon_place place;
    char log[TMP_PATH];
    pid_t pid;
};

/* Finds the program, which is a server's, and often in a folder that is not in PATH. */
static const char *find_program(void)
{
    static const char *const PLACES[] = {"/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer",
                                         "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (access(PLACES[i], X_OK) == 0)
            return PLACES[i];
    return NULL;
}

void pgbouncer_need(void)
{
    pgserver_need();
    if (find_program())
        return;
    const char *needed = getenv("PAWL_TEST_NEED_PG");
    if (needed && strcmp(needed, "1") == 0)
        fail_msg("PAWL_TEST_NEED_PG is set, and pgbouncer is not installed");
    skip();
}

static void write_config(const pgbouncer *b, const char *path, const pgserver *s,
                         const char *const *settings)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "[databases]\n* = host=%s port=%d user=pawl\n", pgserver_dir(s), pgserver_port(s));
    fprintf(f,
            "[pgbouncer]\n"
            "listen_addr =\n"
            "listen_port = %d\n"
            "unix_socket_dir = %s\n"
            "auth_type = any\n"
            "pool_mode = transaction\n"
            "max_client_conn = 200\n"
            "default_pool_size = 20\n"
            "ignore_startup_parameters = extra_float_digits\n",
            PORT, b->place.dir);
    for (size_t i = 0; settings && settings[i]; i++)
        fprintf(f, "%s\n", settings[i]);
    assert_int_equal(fclose(f), 0);
}

/* Returns 1 if the pooler accepts connections. Fails the test if it has ended. */
static int pooler_answers(pgbouncer *b)
{
    int status = 0;
    if (daemon_ended(b->pid, &status)) {
        daemon_log_show(b->log);
        fail_msg("pgbouncer ended with status %#x", (unsigned)status);
    }
    char url[PGSERVER_URL];
    pgbouncer_url(b, "postgres", url);
    return PQping(url) == PQPING_OK;
}

pgbouncer *pgbouncer_start(const pgserver *s, const char *const *settings)
{
    const char *program = find_program();
    assert_non_null(program);
    pgbouncer *b = calloc(1, sizeof *b);
    assert_non_null(b);
    daemon_place_make(&b->place, "pb");
    tmp_path(b->log, b->place.dir, "log");
    char config[TMP_PATH];
    tmp_path(config, b->place.dir, "config");
    write_config(b, config, s, settings);
    const char *const argv[] = {program, config, NULL};
    b->pid = daemon_spawn(argv, b->log, SIGKILL);
    TMP_AWAIT(pooler_answers(b));
    return b;
}

void pgbouncer_free(pgbouncer *b)
{
    if (!b)
        return;
    kill(b->pid, SIGKILL);
    daemon_wait(b->pid);
    daemon_place_remove(&b->place);
    free(b);
}

void pgbouncer_url(const pgbouncer *b, const char *database, char out[PGSERVER_URL])
{
    int n = snprintf(out, PGSERVER_URL, "postgres:///%s?host=%s&user=pawl&port=%d", database,
                     b->place.dir, PORT);
    assert_in_range(n, 1, PGSERVER_URL - 1);
}

const char *pgbouncer_dir(const pgbouncer *b)
{
    return b->place.dir;
}

int pgbouncer_port(const pgbouncer *b)
{
    (void)b;
    return PORT;
}

int pgbouncer_log_has(const pgbouncer *b, const char *text)
{
    return daemon_log_has(b->log, text);
}
