/* Opening a database of a PostgreSQL server: whatever is wrong gets its own code, a message that
 * names the cause, and a hint; and when the cause is gone, the same open works.
 *
 * Everything here goes through pawl_open(), as an application would. Every URL may hold a password,
 * so that none of its words may ever be repeated: the password of these tests is looked for in
 * everything that is said, the log included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pawl.h>

#include "support/conf.h"
#include "support/proxy.h"

#define SECRET "hunter2secret"

enum { URL = 2 * PGSERVER_URL, SQL = 1024, SAID = 16 * 1024 };

/* ---- Helpers ---- */

/* All that an open has said, in one text. */
typedef struct said {
    pawl_code code;
    size_t size;
    char text[SAID];
} said;

static void note(said *s, const char *what)
{
    int n = snprintf(s->text + s->size, sizeof s->text - s->size, "%s\n", what);
    s->size += n > 0 ? (size_t)n : 0;
    assert_true(s->size < sizeof s->text);
}

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    note(arg, event);
    note(arg, fields);
}

/* Open and close. A silent server is waited for less long than a claim lives, hence the short one;
 * one that answers is given the usual time. */
static void try_open(said *s, const char *url, int64_t claim_ms)
{
    memset(s, 0, sizeof *s);
    pawl *p = NULL;
    pawl_options o = {.size = sizeof o, .log = note_log, .log_arg = s, .claim_ms = claim_ms};
    s->code = pawl_open(&p, url, &o);
    assert_non_null(p);
    assert_int_equal(pawl_errcode(p), s->code);
    if (s->code != PAWL_OK && (!pawl_errmsg(p)[0] || !pawl_errhint(p)[0]))
        fail_msg("%s without a message or a hint", pawl_code_name(s->code));
    note(s, pawl_errmsg(p));
    note(s, pawl_errdetail(p));
    note(s, pawl_errhint(p));
    note(s, pawl_errtext(p));
    pawl_close(p);
    if (strstr(s->text, SECRET))
        fail_msg("the secret is told: %s", s->text);
}

/* Refused with this code, in words that name `mention` (NULL: anything). */
static void expect_refused(const char *url, pawl_code code, const char *mention)
{
    said s;
    try_open(&s, url, 0);
    if (s.code != code)
        fail_msg("%.200s: expected %s, got %s (%s)", url, pawl_code_name(code),
                 pawl_code_name(s.code), s.text);
    if (mention && !strstr(s.text, mention))
        fail_msg("%.200s: not named: '%s' (%s)", url, mention, s.text);
}

static void expect_open(const char *url)
{
    said s;
    try_open(&s, url, 0);
    if (s.code != PAWL_OK)
        fail_msg("%.200s: %s (%s)", url, pawl_code_name(s.code), s.text);
}

/* The URL of the test's own database for a user, "user" or "user:password", with more behind. */
static void url_for(const conf *c, const char *who, const char *more, char out[URL])
{
    int n = snprintf(out, URL, "postgres://%s@/%s?host=%s&port=%d%s", who, c->database,
                     pgserver_dir(c->server), pgserver_port(c->server), more);
    assert_in_range(n, 1, URL - 1);
}

/* SQL with %s for the name of the test's own database, in that database or in "postgres". */
static void sql_in(const conf *c, const char *database, const char *format, const char *name)
{
    char sql[SQL];
    const char *mark = strstr(format, "%s");
    assert_non_null(mark);
    int n = snprintf(sql, sizeof sql, "%.*s%s%s", (int)(mark - format), format, name, mark + 2);
    assert_in_range(n, 1, sizeof sql - 1);
    pgserver_exec(c->server, database, sql);
}

static void sql_about_database(const conf *c, const char *format)
{
    sql_in(c, NULL, format, c->database);
}

/* ---- Which users may connect ---- */

/* Rules of access for some users; the rest is let in as before. The server writes them itself. */
static void write_access(const conf *c)
{
    pgserver_exec(c->server, NULL,
                  "DO $$BEGIN EXECUTE format('COPY (SELECT unnest(ARRAY["
                  "''local all locked scram-sha-256'', ''local all banned reject'',"
                  " ''local all all trust''])) TO %L', current_setting('hba_file')); END$$;"
                  "SELECT pg_reload_conf()");
    TMP_AWAIT(pgserver_number(c->server, NULL,
                              "SELECT count(*) FROM pg_hba_file_rules"
                              " WHERE user_name = '{locked}' AND error IS NULL") == 1);
}

/* The server reads the rules at its own time: until then every user may connect. */
static int is_denied(const char *url)
{
    said s;
    try_open(&s, url, 0);
    return s.code == PAWL_DENIED;
}

static void a_user_without_the_right_to_connect_is_denied(conf *c)
{
    char url[URL];
    char good[URL];
    pgserver_exec(c->server, NULL,
                  "CREATE ROLE locked LOGIN PASSWORD 'open sesame'; CREATE ROLE banned LOGIN;"
                  "CREATE ROLE sleeping NOLOGIN; GRANT pawl TO locked; GRANT pawl TO banned");
    write_access(c);
    url_for(c, "locked:" SECRET, "", url);
    TMP_AWAIT(is_denied(url));
    expect_refused(url, PAWL_DENIED, "28P01");
    expect_refused(url, PAWL_DENIED, "password"); /* the hint names what to look at */
    url_for(c, "locked", "", url);                /* one is asked for, none is given */
    expect_refused(url, PAWL_DENIED, "password");
    url_for(c, "banned:" SECRET, "", url);
    expect_refused(url, PAWL_DENIED, "pg_hba.conf");
    url_for(c, "sleeping:" SECRET, "", url);
    expect_refused(url, PAWL_DENIED, "sleeping");
    url_for(c, "nobody-at-all:" SECRET, "", url);
    expect_refused(url, PAWL_DENIED, "nobody-at-all");
    url_for(c, "locked:open%20sesame", "", good);
    expect_open(good);
    url_for(c, "sleeping:" SECRET, "", url);
    pgserver_exec(c->server, NULL, "ALTER ROLE sleeping LOGIN; GRANT locked TO sleeping");
    expect_open(url);
}

/* A password may come in every way that libpq knows, and be wrong in every one. */
static void no_spelling_of_a_password_is_repeated(conf *c)
{
    static const char *const SPELLINGS[] = {
        "postgres://u:%s@127.0.0.1:1/db",
        "postgres://u:%s@no-such-host.invalid/db",
        "postgres://u:%s@[::1]:1/db",
        "postgres://u@127.0.0.1:1/db?password=%s",
        "postgres://u:a@%s@127.0.0.1:1/db",
        "postgres://u:%s/b@127.0.0.1:1/db",
        "postgres://u:%s?b@127.0.0.1:1/db",
        "postgres://u:%s%%zz@127.0.0.1:1/db",
        "postgres://u:%s#b@127.0.0.1:1/db",
        "postgres://u:%s@127.0.0.1:1/db?nonsense=1",
        "postgres://u:%s@127.0.0.1:one/db",
        "postgres://u:%s@127.0.0.1:1/db?pooler=%s",
        "postgres://u:%s@127.0.0.1:1/db?sslmode=",
        "postgres://u:%s@h1:1,h2:2,h3/db",
        "postgres:u:%s@127.0.0.1/db",
        "postgres:/u:%s@127.0.0.1/db",
        "POSTGRESQL://u:%s@127.0.0.1:1/db",
        "postgres://127.0.0.1:1/db?%s=1",
    };
    (void)c;
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++) {
        char url[URL];
        said s;
        size_t n = 0;
        for (const char *p = SPELLINGS[i]; *p; p++) {
            int secret = p[0] == '%' && p[1] == 's';
            n += (size_t)snprintf(url + n, sizeof url - n, secret ? "%s" : "%.1s",
                                  secret ? SECRET : p);
            p += secret || (p[0] == '%' && p[1] == '%');
        }
        try_open(&s, url, 0); /* says the secret nowhere */
        if (s.code != PAWL_INVALID && s.code != PAWL_UNREACHABLE)
            fail_msg("%s: %s (%s)", url, pawl_code_name(s.code), s.text);
    }
}

static void rights_that_are_missing_are_denied(conf *c)
{
    char url[URL];
    pgserver_exec(c->server, NULL, "CREATE ROLE guest LOGIN");
    url_for(c, "guest:" SECRET, "", url);
    sql_about_database(c, "REVOKE CONNECT ON DATABASE %s FROM public");
    expect_refused(url, PAWL_DENIED, NULL);
    sql_about_database(c, "GRANT CONNECT ON DATABASE %s TO guest");
    expect_refused(url, PAWL_DENIED, "GRANT CREATE ON DATABASE"); /* no schema, no right to one */
    sql_about_database(c, "GRANT CREATE ON DATABASE %s TO guest");
    expect_open(url);
    assert_int_equal(pgserver_number(c->server, c->database,
                                     "SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'"
                                     " AND nspowner = 'guest'::regrole"),
                     1);
}

/* An empty schema of another role; then one with tables of another role. */
static void tables_of_another_role_are_denied(conf *c)
{
    char url[URL];
    pgserver_exec(c->server, c->database, "CREATE ROLE tenant LOGIN; CREATE SCHEMA pawl");
    url_for(c, "tenant:" SECRET, "", url);
    expect_refused(url, PAWL_DENIED, "GRANT");
    pgserver_exec(c->server, c->database, "GRANT USAGE ON SCHEMA pawl TO tenant");
    expect_refused(url, PAWL_DENIED, "GRANT"); /* it sees an empty schema, and may add nothing */
    expect_open(c->url);
    pgserver_exec(c->server, c->database, "REVOKE USAGE ON SCHEMA pawl FROM tenant");
    expect_refused(url, PAWL_DENIED, "GRANT");
    pgserver_exec(c->server, c->database, "GRANT USAGE ON SCHEMA pawl TO tenant");
    expect_refused(url, PAWL_DENIED, "GRANT");
    pgserver_exec(c->server, c->database, "GRANT ALL ON ALL TABLES IN SCHEMA pawl TO tenant");
    expect_open(url);
}

/* ---- Where it is ---- */

static void what_is_not_there_has_no_database(conf *c)
{
    char url[URL];
    int n = snprintf(url, sizeof url, "postgres://pawl:" SECRET "@/not_made_yet?host=%s&port=%d",
                     pgserver_dir(c->server), pgserver_port(c->server));
    assert_in_range(n, 1, sizeof url - 1);
    expect_refused(url, PAWL_NODATABASE, "not_made_yet");
    expect_refused(url, PAWL_NODATABASE, "createdb");
    pgserver_exec(c->server, NULL, "CREATE DATABASE not_made_yet TEMPLATE template0");
    expect_open(url);
}

/* An address where no server listens, and one where a server accepts and never answers. */
static void a_server_that_is_not_there_is_unreachable(conf *c)
{
    char url[URL];
    char ours[TMP_PATH];
    char theirs[TMP_PATH + 64];
    expect_refused("postgres://u:" SECRET "@127.0.0.1:1/db", PAWL_UNREACHABLE, "server");
    expect_refused("postgres://u:" SECRET "@no-such-host.invalid/db", PAWL_UNREACHABLE, "invalid");
    expect_refused("postgres://u:" SECRET "@/db?host=/no/such/folder", PAWL_UNREACHABLE,
                   "/no/such");
    /* Words in the names of things are no reasons. */
    expect_refused("postgres:///db?host=/no/password", PAWL_UNREACHABLE, NULL);
    expect_refused("postgres:///db?host=/no/SSL/certificate", PAWL_UNREACHABLE, NULL);

    snprintf(url, sizeof url, "postgres://pawl:" SECRET "@/%s?host=%s&port=%d", c->database, c->dir,
             pgserver_port(c->server));
    expect_refused(url, PAWL_UNREACHABLE, c->dir);
    snprintf(theirs, sizeof theirs, "%s/.s.PGSQL.%d", pgserver_dir(c->server),
             pgserver_port(c->server));
    tmp_path(ours, c->dir, strrchr(theirs, '/') + 1);
    assert_int_equal(symlink(theirs, ours), 0);
    expect_open(url);
}

static void a_silent_server_is_unreachable(conf *c)
{
    char url[URL];
    said s;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.1", c->dir);
    assert_in_range(n, 1, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    snprintf(url, sizeof url, "postgres://u:" SECRET "@/db?host=%s&port=1", c->dir);
    try_open(&s, url, 200);
    assert_int_equal(s.code, PAWL_UNREACHABLE);
    assert_non_null(strstr(s.text, "in time"));
    close(fd);
}

static void a_server_without_room_is_unreachable(conf *c)
{
    char url[URL];
    pgserver_exec(c->server, NULL, "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0");
    sql_about_database(c, "GRANT CREATE ON DATABASE %s TO crowd");
    url_for(c, "crowd:" SECRET, "", url);
    expect_refused(url, PAWL_UNREACHABLE, "max_connections");
    pgserver_exec(c->server, NULL, "ALTER ROLE crowd CONNECTION LIMIT -1");
    expect_open(url);
}

static void a_server_that_comes_back_is_found(conf *c)
{
    char url[URL];
    (void)c;
    pgserver *s = pgserver_start(NULL);
    int n = snprintf(url, sizeof url, "postgres://pawl:" SECRET "@/postgres?host=%s&port=%d",
                     pgserver_dir(s), pgserver_port(s));
    assert_in_range(n, 1, sizeof url - 1);
    pgserver_stop(s, PGSERVER_FAST);
    expect_refused(url, PAWL_UNREACHABLE, "server");
    pgserver_restart(s);
    expect_open(url);
    pgserver_free(s);
}

/* ---- What it is ---- */

static void an_old_server_is_unsupported(conf *c)
{
    char url[PGSERVER_URL];
    proxy *p = proxy_start(c->server);
    proxy_url(p, c->database, url);
    proxy_age_version(p, 1);
    expect_refused(url, PAWL_UNSUPPORTED, "oldest");
    proxy_age_version(p, 0);
    expect_open(url);
    proxy_stop(p);
}

/* A server that is told to follow another one only reads, until it is told otherwise. */
static void a_standby_only_reads(conf *c)
{
    char url[PGSERVER_URL];
    (void)c;
    pgserver *s = pgserver_start(NULL);
    pgserver_url(s, "postgres", url);
    expect_open(url);
    pgserver_exec(s, NULL,
                  "DO $$BEGIN EXECUTE format('COPY (SELECT WHERE false) TO %L',"
                  " current_setting('data_directory') || '/standby.signal'); END$$");
    pgserver_restart(s);
    assert_int_equal(pgserver_number(s, NULL, "SELECT pg_is_in_recovery()::int"), 1);
    expect_refused(url, PAWL_READONLY, "primary");
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, url, PAWL_OPTIONS(.look_only = 1)), PAWL_OK);
    assert_int_equal(pawl_hold(p, "a", NULL), PAWL_READONLY);
    pawl_close(p);
    pgserver_exec(s, NULL, "SELECT pg_promote()");
    TMP_AWAIT(pgserver_number(s, NULL, "SELECT pg_is_in_recovery()::int") == 0);
    expect_open(url);
    pgserver_free(s);
}

static void other_encodings_are_unsupported(conf *c)
{
    static const char *const NAMES[] = {"SQL_ASCII", "LATIN1"};
    char url[PGSERVER_URL];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        sql_in(c, NULL,
               i ? "CREATE DATABASE other_%s ENCODING 'LATIN1' TEMPLATE template0"
                 : "CREATE DATABASE other_%s ENCODING 'SQL_ASCII' TEMPLATE template0",
               NAMES[i]);
        pgserver_url(c->server, i ? "other_latin1" : "other_sql_ascii", url);
        expect_refused(url, PAWL_UNSUPPORTED, NAMES[i]);
        expect_refused(url, PAWL_UNSUPPORTED, "UTF8");
        assert_int_equal(pgserver_number(c->server, i ? "other_latin1" : "other_sql_ascii",
                                         "SELECT count(*) FROM pg_namespace"
                                         " WHERE nspname = 'pawl'"),
                         0);
    }
}

/* ---- What is in it ---- */

static void tables_that_are_not_ours_are_foreign(conf *c)
{
    static const char VIEW[] = "CREATE SCHEMA pawl; CREATE VIEW pawl.meta AS"
                               " SELECT 'format' AS name, 1 AS number, 'pawl' AS value";
    static const char *const MADE[] = {
        "CREATE SCHEMA pawl; CREATE TABLE pawl.accounts (id int)",
        VIEW,
        "CREATE SCHEMA pawl; CREATE TABLE pawl.meta (id int)",
        "CREATE SCHEMA pawl; CREATE TABLE pawl.meta (name text, number bigint, value text)",
        "CREATE SCHEMA pawl; CREATE TABLE pawl.meta (name int, number int, value int)",
        "CREATE SCHEMA pawl; CREATE MATERIALIZED VIEW pawl.runs AS SELECT 1",
    };
    for (size_t i = 0; i < sizeof MADE / sizeof *MADE; i++) {
        pgserver_exec(c->server, c->database, MADE[i]);
        expect_refused(c->url, PAWL_FOREIGN, "pawl");
        assert_int_equal(pgserver_number(c->server, c->database,
                                         "SELECT count(*) FROM pg_class WHERE relnamespace ="
                                         " 'pawl'::regnamespace"),
                         1);
        pgserver_exec(c->server, c->database,
                      "SET client_min_messages = warning; DROP SCHEMA pawl CASCADE");
    }
    expect_open(c->url);
}

static void tables_of_a_newer_pawl_are_refused(conf *c)
{
    expect_open(c->url);
    pgserver_exec(c->server, c->database,
                  "UPDATE pawl.meta SET number = number + 1000 WHERE name = 'schema'");
    expect_refused(c->url, PAWL_NEWER, "newer");
    pgserver_exec(c->server, c->database,
                  "UPDATE pawl.meta SET number = number - 1000 WHERE name = 'schema'");
    expect_open(c->url);
    pgserver_exec(c->server, c->database, "UPDATE pawl.meta SET value = 'x' WHERE name = 'format'");
    expect_refused(c->url, PAWL_FOREIGN, "pawl");
}

/* ---- URLs ---- */

static void wrong_urls_are_invalid(conf *c)
{
    static const char *const URLS[] = {
        "postgres:",
        "postgres:x",
        "postgres:/x",
        "postgresql:",
        "postgresql:/x",
        "postgres://u:" SECRET "@h:notaport/db",
        "postgres://u:" SECRET "@h:99999/db",
        "postgres://u:" SECRET "@h:-1/db",
        "postgres://u:" SECRET "@[::1/db",
        "postgres://u:" SECRET "@h%zz/db",
        "postgres://u:" SECRET "@h%00/db",
        "postgres://u:" SECRET "@h/db?durabilty=full",
        "postgres://u:" SECRET "@h/db?pooler=session",
        "postgres://u:" SECRET "@h/db?pooler=",
        "postgres://u:" SECRET "@h/db?durability=maybe",
        "postgres://u:" SECRET "@h/db?sslmode=maybe",
        "postgres://u:" SECRET "@h/db?pooler=transaction&durability=none",
        "postgres://u:" SECRET "@h/db?pooler",
        "postgres://u:" SECRET "@h/db?\xff=1",
        "postgres://u:" SECRET "\xc0\xaf@h/db",
    };
    (void)c;
    for (size_t i = 0; i < sizeof URLS / sizeof *URLS; i++)
        expect_refused(URLS[i], PAWL_INVALID, "URL");
}

static void a_url_that_is_too_long_is_refused(conf *c)
{
    char *url = malloc(PAWL_MAX_URL + 1000);
    assert_non_null(url);
    (void)c;
    size_t n = (size_t)snprintf(url, PAWL_MAX_URL, "postgres://u:" SECRET "@/db?application_name=");
    memset(url + n, 'a', PAWL_MAX_URL + 1 - n);
    url[PAWL_MAX_URL + 1] = '\0';
    expect_refused(url, PAWL_LIMIT, "bytes");
    free(url);
}

static void every_form_of_a_url_is_understood(conf *c)
{
    static const char *const SCHEMES[] = {"postgres", "postgresql", "POSTGRES", "PostgreSQL"};
    static const char *const MORE[] = {
        "",
        "&durability=full",
        "&durability=relaxed",
        "&durability=relaxed&application_name=shop",
        "&application_name=shop&durability=full&connect_timeout=5",
        "&pooler=transaction", /* without one it does no harm */
        "&",
    };
    char url[URL];
    const char *rest = strchr(c->url, ':');
    assert_non_null(rest);
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++) {
        snprintf(url, sizeof url, "%s%s", SCHEMES[i], rest);
        expect_open(url);
    }
    for (size_t i = 0; i < sizeof MORE / sizeof *MORE; i++) {
        snprintf(url, sizeof url, "%s%s", c->url, MORE[i]);
        expect_open(url);
    }
    snprintf(url, sizeof url, "postgres:///%s?durability=full&host=%s&user=pawl&port=%d",
             c->database, pgserver_dir(c->server), pgserver_port(c->server));
    expect_open(url); /* ours may come first */
}

/* ---- The driver's library ---- */

static void copy_program(const char *to)
{
    char bytes[65536];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_true(in >= 0 && out >= 0);
    ssize_t n;
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    assert_int_equal(n, 0);
    close(in);
    assert_int_equal(close(out), 0);
}

/* Have the copy open this URL; gives the code. Its words are checked there. */
static int open_elsewhere(const char *program, const char *url)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        unsetenv("LD_LIBRARY_PATH");
        execl(program, program, "open", url, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The copy: exit code is the code, 126 if there is anything else to complain about. */
static int be_elsewhere(const char *url)
{
    pawl *p = NULL;
    int code = (int)pawl_open(&p, url, NULL);
    int good =
        code == PAWL_OK || (strstr(pawl_errmsg(p), "PostgreSQL") &&
                            strstr(pawl_errhint(p), "install") && !strstr(pawl_errtext(p), SECRET));
    pawl_close(p);
    return good ? code : 126;
}

/* Programs look two folders above them, as tests do: there it is not, is something else, and is. */
static void a_driver_that_is_not_installed_is_unsupported(conf *c)
{
    char program[TMP_PATH], library[TMP_PATH], built[TMP_PATH], path[TMP_PATH];
    char url[URL], name[64];
    tmp_path(program, c->dir, "a");
    assert_int_equal(mkdir(program, 0700), 0);
    tmp_path(program, c->dir, "a/b");
    assert_int_equal(mkdir(program, 0700), 0);
    tmp_path(program, c->dir, "a/b/program");
    copy_program(program);
    url_for(c, "pawl:" SECRET, "", url);
    assert_int_equal(open_elsewhere(program, url), PAWL_UNSUPPORTED);

    snprintf(name, sizeof name, "libpawl-pg.so.%d.%d", PAWL_VERSION_NUMBER / 10000,
             PAWL_VERSION_NUMBER / 100 % 100);
    tmp_path(library, c->dir, name);
    tmp_file(library, "no library", 10);
    assert_int_equal(open_elsewhere(program, url), PAWL_UNSUPPORTED);
    assert_int_equal(unlink(library), 0);

    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_in_range(size, 1, sizeof path - 2);
    path[size] = '\0';
    for (int up = 0; up < 3; up++)
        *strrchr(path, '/') = '\0';
    tmp_path(built, path, name);
    assert_int_equal(symlink(built, library), 0);
    assert_int_equal(open_elsewhere(program, url), PAWL_OK);
}

static const conf_case CASES[] = {
    {"a user without the right to connect is denied", a_user_without_the_right_to_connect_is_denied,
     0},
    {"no spelling of a password is repeated", no_spelling_of_a_password_is_repeated, 0},
    {"rights that are missing are denied", rights_that_are_missing_are_denied, 0},
    {"tables of another role are denied", tables_of_another_role_are_denied, 0},
    {"what is not there has no database", what_is_not_there_has_no_database, 0},
    {"a server that is not there is unreachable", a_server_that_is_not_there_is_unreachable, 0},
    {"a silent server is unreachable", a_silent_server_is_unreachable, 0},
    {"a server without room is unreachable", a_server_without_room_is_unreachable, 0},
    {"a server that comes back is found", a_server_that_comes_back_is_found, 0},
    {"an old server is unsupported", an_old_server_is_unsupported, 0},
    {"a standby only reads", a_standby_only_reads, 0},
    {"other encodings are unsupported", other_encodings_are_unsupported, 0},
    {"tables that are not ours are foreign", tables_that_are_not_ours_are_foreign, 0},
    {"tables of a newer pawl are refused", tables_of_a_newer_pawl_are_refused, 0},
    {"wrong urls are invalid", wrong_urls_are_invalid, 0},
    {"a url that is too long is refused", a_url_that_is_too_long_is_refused, 0},
    {"every form of a URL is understood", every_form_of_a_url_is_understood, 0},
    {"a driver that is not installed is unsupported", a_driver_that_is_not_installed_is_unsupported,
     0},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "open") == 0)
        return be_elsewhere(argv[2]);
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
