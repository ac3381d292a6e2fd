/* PostgreSQL for benchmarks: a private server in the benchmark's own folder, on its disk.
 *
 * One server for the whole program, made by initdb with what Debian sets and nothing else; it
 * syncs, and listens on a Unix socket in the same folder. Each measurement gets a database of its
 * own, which is dropped afterwards. The server is a child that gets a signal when this program
 * dies, however that happens. A server refuses to run as root; for root it runs as `postgres`, or
 * else as `nobody`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend.h"
#include "pq.h"

enum { PATH_SIZE = 1024, SOCKET_PLACE_MAX = 80, START_SECONDS = 60 };

/* The one server. Children inherit it and do not stop it. */
static struct {
    pid_t pid;
    pid_t owner;
    char programs[PATH_SIZE];
    char place[PATH_SIZE]; /* absolute */
    char data[PATH_SIZE + 8];
    char log[PATH_SIZE + 8];
} server;

/* ---- Processes of another user ---- */

static const struct passwd *server_user(void)
{
    if (geteuid() != 0)
        return NULL;
    const struct passwd *user = getpwnam("postgres");
    return user ? user : getpwnam("nobody");
}

/* The group is a new one: Ctrl-C is for the benchmark. The wish to hear of the parent's death is
 * lost when the user changes, so it comes after. */
_Noreturn static void become(char *const *argv, const struct passwd *user, pid_t parent)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    int log = open(server.log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int nothing = open("/dev/null", O_RDONLY);
    sigaction(SIGINT, &usual, NULL);
    sigaction(SIGTERM, &usual, NULL);
    setpgid(0, 0);
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (user && (initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
                 setuid(user->pw_uid) != 0))
        _exit(126);
    if (prctl(PR_SET_PDEATHSIG, SIGQUIT) != 0 || getppid() != parent)
        _exit(125);
    execv(argv[0], argv);
    _exit(127);
}

static pid_t spawn(char *const *argv)
{
    const struct passwd *user = server_user();
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        bench_die("cannot make a child: %s", strerror(errno));
    if (pid == 0)
        become(argv, user, parent);
    return pid;
}

/* Its end; 1: with exit code 0. */
static int ended_well(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- Starting and stopping ---- */

static int has_programs(const char *dir)
{
    char initdb[PATH_SIZE + 16], postgres[PATH_SIZE + 16];
    snprintf(initdb, sizeof initdb, "%s/initdb", dir);
    snprintf(postgres, sizeof postgres, "%s/postgres", dir);
    return access(initdb, X_OK) == 0 && access(postgres, X_OK) == 0;
}

/* Debian keeps each version in a folder of its own, outside of the path: the newest. */
static int find_programs(char out[PATH_SIZE])
{
    static const char before[] = "/usr/lib/postgresql/";
    glob_t found;
    double best = -1;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            double version = strtod(found.gl_pathv[i] + sizeof before - 1, NULL);
            if (version <= best || !has_programs(found.gl_pathv[i]))
                continue;
            best = version;
            snprintf(out, PATH_SIZE, "%s", found.gl_pathv[i]);
        }
        globfree(&found);
    }
    for (const char *at = getenv("PATH"); best < 0 && at && *at;) {
        int size = (int)strcspn(at, ":");
        snprintf(out, PATH_SIZE, "%.*s", size, at);
        if (size > 0 && has_programs(out))
            return 1;
        at += size + (at[size] == ':');
    }
    return best >= 0;
}

/* The place belongs to us; the server's user gets through it to a folder of its own. */
static int make_folders(void)
{
    char folder[PATH_SIZE + 8];
    const struct passwd *user = server_user();
    char *place = realpath(bench_place(), NULL);
    if (!place || strlen(place) > SOCKET_PLACE_MAX) {
        free(place);
        return 0;
    }
    snprintf(server.place, sizeof server.place, "%s/pg", place);
    snprintf(server.data, sizeof server.data, "%s/data", server.place);
    snprintf(server.log, sizeof server.log, "%s/log", server.place);
    snprintf(folder, sizeof folder, "%s", place);
    free(place);
    return chmod(folder, 0711) == 0 && mkdir(server.place, 0755) == 0 &&
           (!user || chown(server.place, user->pw_uid, user->pw_gid) == 0);
}

/* The options that Debian gives its clusters, but for the users that may connect. */
static int make_cluster(void)
{
    char program[PATH_SIZE + 16];
    snprintf(program, sizeof program, "%s/initdb", server.programs);
    char *argv[] = {program,      "-N", "-A",   "trust", "-E",        "UTF8",
                    "--locale=C", "-U", "pawl", "-D",    server.data, NULL};
    return ended_well(spawn(argv));
}

static void launch(void)
{
    char program[PATH_SIZE + 16], sockets[PATH_SIZE + 40];
    snprintf(program, sizeof program, "%s/postgres", server.programs);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", server.place);
    char *argv[] = {program, "-D",        server.data, "-c", sockets, "-c", "listen_addresses=",
                    "-c",    "port=5432", NULL};
    server.pid = spawn(argv);
}

static int is_plain(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("/-_.", c);
}

/* What a folder's name has may mean something else in an address. */
static void url_of(const char *database, char *out, size_t size)
{
    buf b;
    buf_init_fixed(&b, out, size);
    buf_printf(&b, "postgres:///%s?host=", database);
    for (const char *c = server.place; *c; c++) {
        if (is_plain(*c))
            buf_char(&b, *c);
        else
            buf_printf(&b, "%%%02X", (unsigned char)*c);
    }
    buf_text(&b, "&user=pawl&port=5432");
    if (b.failed)
        bench_die("the address of a database is too long");
}

static int answers(void)
{
    char url[1100];
    url_of("postgres", url, sizeof url);
    for (int i = 0; i < START_SECONDS * 20; i++) {
        if (PQping(url) == PQPING_OK)
            return 1;
        if (waitpid(server.pid, NULL, WNOHANG) == server.pid) {
            server.pid = 0;
            return 0;
        }
        bench_sleep_ns(50000000);
    }
    return 0;
}

/* At once: the data is not needed any more. */
static void stop(void)
{
    if (server.pid <= 0 || getpid() != server.owner)
        return;
    kill(server.pid, SIGQUIT);
    (void)ended_well(server.pid);
    server.pid = 0;
}

static void show_log(void)
{
    char line[512];
    FILE *f = fopen(server.log, "r");
    while (f && fgets(line, sizeof line, f))
        fprintf(stderr, "    %s", line);
    if (f)
        fclose(f);
}

static int start(void)
{
    if (server.pid > 0)
        return 1;
    if (!find_programs(server.programs)) {
        fputs("bench: no PostgreSQL server is installed: only SQLite is measured\n", stderr);
        return 0;
    }
    server.owner = getpid();
    atexit(stop);
    int made = make_folders() && make_cluster();
    if (made)
        launch();
    if (made && answers())
        return 1;
    fputs("bench: the PostgreSQL server does not start: only SQLite is measured; TMPDIR must be a "
          "folder with a short name that the server's user gets to\n",
          stderr);
    show_log();
    return 0;
}

/* ---- Databases ---- */

static PGconn *admin(void)
{
    char url[1100];
    url_of("postgres", url, sizeof url);
    return pq_open(url);
}

static bench_db named(const char *name)
{
    bench_db d = {.backend = &BACKEND_POSTGRES};
    snprintf(d.path, sizeof d.path, "%s", name);
    url_of(name, d.url, sizeof d.url);
    return d;
}

static void drop(PGconn *conn, const bench_db *d)
{
    char sql[1200];
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", d->path);
    pq_run(conn, sql);
}

static void remove_database(const bench_db *d)
{
    PGconn *conn = admin();
    drop(conn, d);
    pq_close(conn);
}

static void fresh(const bench_db *d)
{
    char sql[1200];
    PGconn *conn = admin();
    drop(conn, d);
    snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE template0", d->path);
    pq_run(conn, sql);
    pq_close(conn);
}

static void settle(const bench_db *d)
{
    (void)d; /* of all databases at once */
    PGconn *conn = admin();
    pq_run(conn, "CHECKPOINT");
    pq_close(conn);
}

/* What the scheduler has given it, in nanoseconds. */
static int64_t cpu_of(const char *pid)
{
    char path[64], line[64] = "";
    snprintf(path, sizeof path, "/proc/%.20s/schedstat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    char *text = fgets(line, sizeof line, f);
    fclose(f);
    return text ? strtoll(text, NULL, 10) : 0;
}

static int64_t server_cpu_ns(const bench_db *d)
{
    char sql[1200];
    int64_t sum = 0;
    PGconn *conn = admin();
    snprintf(sql, sizeof sql,
             "SELECT pid FROM pg_stat_activity WHERE datname = '%s'"
             " AND backend_type = 'client backend'",
             d->path);
    PGresult *result = pq_check(conn, PQexec(conn, sql), sql);
    for (int i = 0; i < PQntuples(result); i++)
        sum += cpu_of(PQgetvalue(result, i, 0));
    PQclear(result);
    pq_close(conn);
    return sum;
}

static int64_t log_bytes(const bench_db *d)
{
    (void)d;
    PGconn *conn = admin();
    int64_t bytes = pq_number(conn, "SELECT pg_current_wal_lsn() - '0/0'");
    pq_close(conn);
    return bytes;
}

const backend BACKEND_POSTGRES = {
    .name = "postgres",
    .floor = &FLOOR_POSTGRES,
    .turns = 0,
    .start = start,
    .named = named,
    .remove = remove_database,
    .fresh = fresh,
    .settle = settle,
    .server_cpu_ns = server_cpu_ns,
    .log_bytes = log_bytes,
};
