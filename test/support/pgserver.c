/* Starting servers for tests. Making a cluster (the data of a server) takes more than a second. So
 * it is made once per checkout, beside the builds, and copied for each server. The first process
 * that needs it makes it; if several do, rename(2) lets one of them win. */
#define _GNU_SOURCE
#include "support/pgserver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/daemon.h"

enum { DEFAULT_PORT = 5432, ARGUMENTS = 64, VARIABLES = 8, PROCESSES = 256 };

struct pgserver {
    daemon_place place;
    char programs[TMP_PATH]; /* the folder of the server's programs */
    char data[TMP_PATH];
    char log[TMP_PATH];
    char sockets[TMP_PATH + 32]; /* the settings that name the server's folder */
    char port_setting[32];
    const char *settings[ARGUMENTS / 2]; /* copies of the settings that the test has given */
    const char *environment[VARIABLES];  /* the same */
    int port;
    int tcp;
    pid_t pid; /* 0: does not run */
    atomic_int databases;
};

/* ---- Where the programs are ---- */

static int has_programs(const char *dir)
{
    char server[TMP_PATH];
    char maker[TMP_PATH];
    tmp_path(server, dir, "postgres");
    tmp_path(maker, dir, "initdb");
    return access(server, X_OK) == 0 && access(maker, X_OK) == 0;
}

/* Finds the newest version on Debian, which keeps each version in a folder that is not in PATH. */
static int find_newest(char out[TMP_PATH])
{
    static const char BEFORE[] = "/usr/lib/postgresql/";
    glob_t found;
    double best = -1;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            double version = strtod(found.gl_pathv[i] + sizeof BEFORE - 1, NULL);
            if (version > best && has_programs(found.gl_pathv[i])) {
                best = version;
                snprintf(out, TMP_PATH, "%s", found.gl_pathv[i]);
            }
        }
        globfree(&found);
    }
    return best >= 0;
}

static int find_in_path(char out[TMP_PATH])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        if (size > 0 && size < TMP_PATH - 16) {
            snprintf(out, TMP_PATH, "%.*s", (int)size, at);
            if (has_programs(out))
                return 1;
        }
        at += size + (at[size] == ':');
    }
    return 0;
}

static int find_programs(char out[TMP_PATH])
{
    return find_newest(out) || find_in_path(out);
}

int pgserver_available(void)
{
    char dir[TMP_PATH];
    return find_programs(dir);
}

void pgserver_need(void)
{
    if (pgserver_available())
        return;
    const char *needed = getenv("PAWL_TEST_NEED_PG");
    if (needed && strcmp(needed, "1") == 0)
        fail_msg("PAWL_TEST_NEED_PG is set, and no PostgreSQL server is installed");
    skip();
}

/* ---- The template ---- */

/* "postgres (PostgreSQL) 15.4 (…)" → "15.4" */
static void ask_version(const pgserver *s, char out[32])
{
    char command[TMP_PATH + 32];
    snprintf(command, sizeof command, "'%s/postgres' -V", s->programs);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    int got = fscanf(f, "postgres (PostgreSQL) %31[^ \n]", out);
    while (fgetc(f) != EOF)
        continue;
    pclose(f);
    assert_int_equal(got, 1);
}

/* Writes where the template of a cluster is kept. Returns 0 if the test program is not
 * build/MODE/test/TIER/NAME, and so has no such place. */
static int template_path(const pgserver *s, char out[TMP_PATH])
{
    char path[TMP_PATH];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return 0;
    path[size] = '\0';
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return 0;
        *slash = '\0';
    }
    const char *last = strrchr(path, '/');
    if (!last || strcmp(last, "/build") != 0)
        return 0;
    char name[64];
    char version[32];
    ask_version(s, version);
    snprintf(name, sizeof name, "pg-template-%s", version);
    tmp_path(out, path, name);
    return 1;
}

static void make_cluster(const pgserver *s)
{
    char program[TMP_PATH];
    tmp_path(program, s->programs, "initdb");
    const char *const argv[] = {program,      "-N", "-A",   "trust", "-E",    "UTF8",
                                "--locale=C", "-U", "pawl", "-D",    s->data, NULL};
    daemon_run(argv, s->log);
}

/* Keeps a copy of a cluster that has never run as the template. If another process has been
 * quicker, its copy is as good. */
static void keep_template(const pgserver *s, const char *template)
{
    char name[TMP_PATH];
    int n = snprintf(name, sizeof name, "%s.%ld", template, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof name)
        return;
    if (!daemon_copy(s->data, name, geteuid(), getegid()) || rename(name, template) != 0)
        tmp_dir_remove(name);
}

static void make_data(const pgserver *s)
{
    uid_t uid;
    gid_t gid;
    daemon_user(&uid, &gid);
    char template[TMP_PATH];
    int kept = template_path(s, template);
    if (kept && access(template, F_OK) == 0) {
        if (daemon_copy(template, s->data, uid, gid))
            return;
        kept = 0; /* perhaps another process's */
        tmp_dir_remove(s->data);
    }
    make_cluster(s);
    if (kept)
        keep_template(s, template);
}

/* ---- Starting ---- */

/* Returns a port of 127.0.0.1 that no process listens on now. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* Copies a list that ends with NULL, so that the copy ends with NULL too. */
static void keep_list(const char **out, size_t room, const char *const *list)
{
    for (size_t i = 0; list && list[i]; i++) {
        assert_true(i < room - 1);
        out[i] = strdup(list[i]);
        assert_non_null(out[i]);
    }
}

static void free_list(const char **list)
{
    for (size_t i = 0; list[i]; i++)
        free((void *)(uintptr_t)list[i]);
}

static void keep_settings(pgserver *s, const pgserver_options *options)
{
    s->tcp = options && options->tcp;
    s->port = s->tcp ? free_port() : DEFAULT_PORT;
    snprintf(s->port_setting, sizeof s->port_setting, "port=%d", s->port);
    snprintf(s->sockets, sizeof s->sockets, "unix_socket_directories=%s", s->place.dir);
    if (!options)
        return;
    keep_list(s->settings, sizeof s->settings / sizeof *s->settings, options->settings);
    keep_list(s->environment, VARIABLES, options->environment);
}

static void launch_server(pgserver *s)
{
    static const char *const USUAL[] = {
        "fsync=on",
        "shared_buffers=16MB",
        "min_wal_size=32MB",
        "max_wal_size=128MB",
        "max_connections=60",
        "logging_collector=off",
        "log_line_prefix=%m [%p] %q%d ",
        "dynamic_shared_memory_type=mmap",
    };
    char program[TMP_PATH];
    tmp_path(program, s->programs, "postgres");
    const char *argv[ARGUMENTS * 3] = {program, "-D", s->data};
    size_t n = 3;
    for (size_t i = 0; i < sizeof USUAL / sizeof *USUAL; i++) {
        argv[n++] = "-c";
        argv[n++] = USUAL[i];
    }
    const char *const here[] = {s->sockets, s->port_setting,
                                s->tcp ? "listen_addresses=127.0.0.1" : "listen_addresses="};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        argv[n++] = "-c";
        argv[n++] = here[i];
    }
    for (size_t i = 0; s->settings[i]; i++) {
        argv[n++] = "-c";
        argv[n++] = s->settings[i];
    }
    s->pid = daemon_spawn_with(argv, s->environment, s->log, SIGQUIT);
}

static void write_url(const pgserver *s, const char *database, char *out, size_t size)
{
    int n = snprintf(out, size, "postgres:///%s?host=%s&user=pawl&port=%d", database, s->place.dir,
                     s->port);
    assert_in_range(n, 1, size - 1);
}

/* Returns 1 if the server accepts connections. Fails the test if it has ended. */
static int server_answers(pgserver *s)
{
    int status = 0;
    if (daemon_ended(s->pid, &status)) {
        s->pid = 0;
        daemon_log_show(s->log);
        fail_msg("the server ended with status %#x", (unsigned)status);
    }
    char url[PGSERVER_URL];
    write_url(s, "postgres", url, sizeof url);
    return PQping(url) == PQPING_OK;
}

pgserver *pgserver_start(const pgserver_options *options)
{
    pgserver *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_true(find_programs(s->programs));
    daemon_place_make(&s->place, "pg");
    tmp_path(s->data, s->place.dir, "data");
    tmp_path(s->log, s->place.dir, "log");
    make_data(s);
    keep_settings(s, options);
    launch_server(s);
    TMP_AWAIT(server_answers(s));
    return s;
}

/* Copies the data of a running server, with everything that is needed to start a server on the
 * copy. */
static void base_backup(const pgserver *of, const char *to, int follows)
{
    char program[TMP_PATH], port[16];
    tmp_path(program, of->programs, "pg_basebackup");
    snprintf(port, sizeof port, "%d", of->port);
    const char *const argv[] = {
        program, "-D",     to,   "-h",   of->place.dir,         "-p", port, "-U", "pawl",
        "-X",    "stream", "-c", "fast", follows ? "-R" : NULL, NULL};
    daemon_run(argv, of->log);
}

pgserver *pgserver_follow(pgserver *primary)
{
    pgserver *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_true(find_programs(s->programs));
    daemon_place_make(&s->place, "pg");
    tmp_path(s->data, s->place.dir, "data");
    tmp_path(s->log, s->place.dir, "log");
    base_backup(primary, s->data, 1);
    keep_settings(s, NULL);
    launch_server(s);
    TMP_AWAIT(server_answers(s));
    return s;
}

void pgserver_backup(pgserver *s)
{
    char path[TMP_PATH];
    tmp_path(path, s->place.dir, "backup");
    if (access(path, F_OK) == 0)
        tmp_dir_remove(path);
    base_backup(s, path, 0);
}

/* ---- Stopping ---- */

/* Returns the id of the shared memory that all processes of the server use, from line 7 of
 * postmaster.pid; -1: there is none. */
static int shared_memory(const pgserver *s)
{
    char path[TMP_PATH];
    tmp_path(path, s->data, "postmaster.pid");
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    char line[TMP_PATH];
    int id = -1;
    for (int i = 1; fgets(line, sizeof line, f); i++)
        if (i == 7 && sscanf(line, "%*s %d", &id) != 1)
            id = -1;
    fclose(f);
    return id;
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    fclose(f);
    return parent;
}

static size_t children_of(pid_t parent, pid_t out[PROCESSES])
{
    size_t count = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && parent_of(pid) == parent) {
            assert_true(count < PROCESSES);
            out[count++] = pid;
        }
    }
    closedir(dir);
    return count;
}

/* Returns 1 if no process uses the shared memory any more, or it does not exist. */
static int is_forsaken(int memory)
{
    struct shmid_ds info;
    return memory < 0 || shmctl(memory, IPC_STAT, &info) != 0 || info.shm_nattch == 0;
}

/* Kills all processes of the server. The first process is stopped before the others are listed, so
 * that it cannot make further ones. The shared memory of killed processes stays, and is removed
 * here. */
static void kill_all(pgserver *s)
{
    pid_t children[PROCESSES];
    int memory = shared_memory(s);
    int status = 0;
    assert_int_equal(kill(s->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(s->pid, &status, WUNTRACED), s->pid);
    assert_true(WIFSTOPPED(status));
    size_t count = children_of(s->pid, children);
    for (size_t i = 0; i < count; i++)
        kill(children[i], SIGKILL);
    assert_int_equal(kill(s->pid, SIGKILL), 0);
    daemon_wait(s->pid);
    TMP_AWAIT(is_forsaken(memory));
    if (memory >= 0)
        shmctl(memory, IPC_RMID, NULL);
}

void pgserver_stop(pgserver *s, pgserver_end how)
{
    if (s->pid == 0)
        return;
    if (how == PGSERVER_KILL) {
        kill_all(s);
    } else {
        assert_int_equal(kill(s->pid, how == PGSERVER_FAST ? SIGINT : SIGQUIT), 0);
        daemon_wait(s->pid);
    }
    s->pid = 0;
}

void pgserver_restart(pgserver *s)
{
    pgserver_stop(s, PGSERVER_FAST);
    launch_server(s);
    TMP_AWAIT(server_answers(s));
}

void pgserver_restore(pgserver *s)
{
    char path[TMP_PATH];
    tmp_path(path, s->place.dir, "backup");
    pgserver_stop(s, PGSERVER_KILL);
    tmp_dir_remove(s->data);
    assert_int_equal(rename(path, s->data), 0);
    launch_server(s);
    TMP_AWAIT(server_answers(s));
}

void pgserver_free(pgserver *s)
{
    if (!s)
        return;
    pgserver_stop(s, PGSERVER_IMMEDIATE);
    daemon_place_remove(&s->place);
    free_list(s->settings);
    free_list(s->environment);
    free(s);
}

/* ---- Asking ---- */

const char *pgserver_dir(const pgserver *s)
{
    return s->place.dir;
}

int pgserver_port(const pgserver *s)
{
    return s->port;
}

pid_t pgserver_pid(const pgserver *s)
{
    return s->pid;
}

void pgserver_url(const pgserver *s, const char *database, char out[PGSERVER_URL])
{
    write_url(s, database, out, PGSERVER_URL);
}

/* Runs SQL, and returns the result. The caller clears the result and closes the connection. Fails
 * the test with the server's message. */
static PGresult *run_sql(pgserver *s, const char *database, const char *sql, PGconn **out)
{
    char url[PGSERVER_URL];
    pgserver_url(s, database ? database : "postgres", url);
    PGconn *c = PQconnectdb(url);
    PGresult *r = PQstatus(c) == CONNECTION_OK ? PQexec(c, sql) : NULL;
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", PQerrorMessage(c));
        PQclear(r);
        PQfinish(c);
        fail_msg("%s: %s", sql, why);
    }
    *out = c;
    return r;
}

void pgserver_exec(pgserver *s, const char *database, const char *sql)
{
    PGconn *c = NULL;
    PQclear(run_sql(s, database, sql, &c));
    PQfinish(c);
}

int64_t pgserver_number(pgserver *s, const char *database, const char *sql)
{
    PGconn *c = NULL;
    PGresult *r = run_sql(s, database, sql, &c);
    int there = PQntuples(r) > 0 && PQnfields(r) > 0 && !PQgetisnull(r, 0, 0);
    int64_t number = there ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : 0;
    PQclear(r);
    PQfinish(c);
    if (!there)
        fail_msg("%s: gives no number", sql);
    return number;
}

/* From PostgreSQL 15 on the new database is copied by way of the log, which takes 45 ms instead of
 * the 180 ms of two checkpoints. There it is the default; older servers do not have the option for
 * it. */
void pgserver_database(pgserver *s, char name[PGSERVER_NAME])
{
    char sql[PGSERVER_NAME + 64];
    snprintf(name, PGSERVER_NAME, "test_%d", atomic_fetch_add(&s->databases, 1) + 1);
    snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE template0", name);
    pgserver_exec(s, NULL, sql);
}

void pgserver_drop(pgserver *s, const char *name)
{
    char sql[PGSERVER_NAME + 64];
    snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", name);
    pgserver_exec(s, NULL, sql);
}

int pgserver_log_has(const pgserver *s, const char *text)
{
    return daemon_log_has(s->log, text);
}
