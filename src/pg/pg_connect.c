/* Connecting: the URL, the settings of a session, and what is refused.
 *
 * The settings of a session are read back after the application's on_connect: a server or a session
 * that would not keep what it acknowledges is refused (guarantee 8). The time-outs (for locks, for
 * an idle transaction, for a dead peer) are shorter than a lease, so that a node that has stopped
 * in the middle of a transaction does not hold its locks for longer than its claims.
 *
 * Behind a pooler that changes servers between two transactions nothing of a session lasts. It is
 * recognised by its process id, which is not the one that the server has; with ?pooler=transaction
 * settings go into every transaction, and statements have no names. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pg/pg.h"

enum { OLDEST = 130000, OPTIONS_MAX = 64, BY_HAND_MS = 10 };

/* ---- The URL ---- */

static int is_ours(pg_db *d, slice parameter, pawl_code *rc, error *err)
{
    static const char HINT[] =
        "it may be pooler=transaction, durability=full or durability=relaxed";
    int pooler = slice_starts(parameter, SLICE_LIT("pooler="));
    if (!pooler && !slice_starts(parameter, SLICE_LIT("durability=")))
        return 0;
    if (slice_equal(parameter, SLICE_LIT("pooler=transaction")))
        d->pooler = 1;
    else if (slice_equal(parameter, SLICE_LIT("durability=relaxed")))
        d->relaxed = 1;
    else if (!slice_equal(parameter, SLICE_LIT("durability=full"))) {
        *rc = error_set(err, PAWL_INVALID, "the database URL has a parameter with a wrong value");
        error_detail(err, "%s", pooler ? "pooler" : "durability");
        error_hint(err, HINT);
    }
    return 1;
}

/* Copies the URL without the parameters that only pawl knows. libpq knows the others. */
static pawl_code strip_parameters(pg_db *d, slice url, buf *out, error *err)
{
    pawl_code rc = PAWL_OK;
    const char *end = url.at + url.size;
    const char *mark = memchr(url.at, '?', url.size);
    buf_add(out, (slice){url.at, (size_t)((mark ? mark : end) - url.at)});
    char between = '?';
    while (mark && mark < end) {
        const char *from = mark + 1;
        mark = memchr(from, '&', (size_t)(end - from));
        slice parameter = {from, (size_t)((mark ? mark : end) - from)};
        if (is_ours(d, parameter, &rc, err))
            continue;
        buf_char(out, between);
        buf_add(out, parameter);
        between = '&';
    }
    return rc;
}

/* Is the text a list of port numbers with commas between? An empty item stands for the default
 * port. */
static int are_ports(const char *text)
{
    for (;;) {
        size_t digits = strspn(text, "0123456789");
        long port = digits > 0 ? strtol(text, NULL, 10) : 1;
        if (port < 1 || port > 65535)
            return 0;
        text += digits;
        if (*text != ',')
            return !*text;
        text++;
    }
}

/* If a password in the URL has a character that should be written as %40 or %2F, it ends there, and
 * what follows is taken for a host or a port. Such a URL is refused here, since libpq would quote
 * that part in its errors. */
static int is_plausible(const PQconninfoOption *info)
{
    for (const PQconninfoOption *o = info; o->keyword; o++) {
        if (!o->val)
            continue;
        int host = strcmp(o->keyword, "host") == 0 || strcmp(o->keyword, "hostaddr") == 0;
        if (host && o->val[0] != '/' && strpbrk(o->val, "@?#"))
            return 0;
        if (strcmp(o->keyword, "port") == 0 && !are_ports(o->val))
            return 0;
    }
    return 1;
}

/* Refuses a URL that libpq would not accept. */
static pawl_code refuse_url(error *err)
{
    error_set(err, PAWL_INVALID, "the database URL is not one of PostgreSQL's");
    error_hint(err, "it looks like postgres://user:password@host:5432/database?sslmode=require;"
                    " in a password @ is written as %%40, / as %%2F");
    return PAWL_INVALID;
}

pawl_code pg_read_url(pg_db *d, slice url, error *err)
{
    const char *colon = memchr(url.at, ':', url.size);
    slice rest = {colon, url.size - (size_t)(colon - url.at)};
    if (!slice_starts(rest, SLICE_LIT("://")))
        return refuse_url(err);
    buf text;
    buf_init(&text, PAWL_MAX_URL + 16);
    buf_text(&text, "postgresql");
    pawl_code rc = strip_parameters(d, rest, &text, err);
    if (rc == PAWL_OK && text.failed)
        rc = error_nomem(err);
    char *why = NULL;
    if (rc == PAWL_OK)
        d->info = PQconninfoParse(buf_str(&text), &why);
    PQfreemem(why); /* it may quote the password */
    buf_free(&text);
    /* RULE passwords-do-not-become-hosts */
    if (rc == PAWL_OK && (!d->info || !is_plausible(d->info)))
        rc = refuse_url(err);
    return rc;
}

/* ---- Making a connection ---- */

static void ignore_notice(void *arg, const PGresult *r)
{
    (void)arg;
    (void)r;
}

typedef struct words {
    const char *keys[OPTIONS_MAX];
    const char *values[OPTIONS_MAX];
    int count;
    char limit[24];
} words;

static void add_word(words *w, const char *key, const char *value)
{
    w->keys[w->count] = key;
    w->values[w->count++] = value;
}

/* Writes the settings for libpq. Of two values for one key libpq takes the later one: so the URL
 * can change the first four, and not the encoding. */
static void write_words(const pg_conn *c, words *w)
{
    memset(w, 0, sizeof *w);
    buf b;
    buf_init_fixed(&b, w->limit, sizeof w->limit);
    buf_printf(&b, "%lld", (long long)c->patience_ms);
    add_word(w, "application_name", "pawl");
    add_word(w, "keepalives_idle", "5");
    add_word(w, "keepalives_interval", "2");
    add_word(w, "tcp_user_timeout", w->limit);
    for (PQconninfoOption *o = pg_db_of(c)->info; o->keyword && w->count < OPTIONS_MAX - 3; o++)
        if (o->val && *o->val)
            add_word(w, o->keyword, o->val);
    add_word(w, "client_encoding", "UTF8");
}

/* The error of a connection that failed before libpq tried to reach the server: libpq refuses the
 * URL. Its own message is not passed on, since it quotes the word that it refuses, which may be a
 * part of a password. libpq is asked for this only until the URL has worked once. */
static pawl_code refuse_start(const pg_conn *c, const PGconn *native, const words *w, error *err)
{
    if (!pg_db_of(c)->reached && PQpingParams(w->keys, w->values, 0) == PQPING_NO_ATTEMPT)
        return refuse_url(err);
    return pg_error_connecting(native, err);
}

/* Waits until the connection is made, has failed, or the time is over. */
static pawl_code await_connection(pg_conn *c, PGconn *native, error *err)
{
    clock_source *real = clock_system();
    int64_t deadline = clock_deadline(real->mono_ns(real), c->patience_ms);
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED) {
        int64_t left = deadline - real->mono_ns(real);
        if (left <= 0)
            return pg_error_silent(err);
        struct pollfd p = {PQsocket(native), status == PGRES_POLLING_READING ? POLLIN : POLLOUT, 0};
        int64_t ms = left / 1000000 + 1;
        if (poll(&p, 1, ms > 60000 ? 60000 : (int)ms) != 0)
            status = PQconnectPoll(native);
    }
    return status == PGRES_POLLING_OK ? PAWL_OK : pg_error_connecting(native, err);
}

static pawl_code check_version(const PGconn *native, error *err)
{
    int version = PQserverVersion(native);
    if (version >= OLDEST)
        return PAWL_OK;
    error_set(err, PAWL_UNSUPPORTED, "the database server is too old");
    error_detail(err, "it is PostgreSQL %d", version / 10000);
    error_hint(err, "PostgreSQL %d is the oldest that will do", OLDEST / 10000);
    return PAWL_UNSUPPORTED;
}

static pawl_code call_on_connect(pg_conn *c, error *err)
{
    const db_options *o = &c->base.db->options;
    if (o->on_connect && o->on_connect(c->native, o->on_connect_arg) != 0) {
        error_set(err, PAWL_CANTOPEN, "the application's on_connect refused the connection");
        error_hint(err, "on_connect gives 0 when the connection may be used");
        return PAWL_CANTOPEN;
    }
    PGTransactionStatusType status = PQtransactionStatus(c->native);
    /* RULE on-connect-leaves-no-transaction */
    if (status == PQTRANS_IDLE || status == PQTRANS_UNKNOWN) /* unknown: lost, as will be seen */
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "the application's on_connect has left a transaction open");
    error_hint(err, "commit in on_connect, and take all results, before it gives 0");
    return PAWL_CANTOPEN;
}

/* ---- Settings ---- */

static void add_number(pg_params *p, char text[24], int64_t number)
{
    buf b;
    buf_init_fixed(&b, text, 24);
    buf_printf(&b, "%lld", (long long)number);
    db_value v = db_text(slice_of(text));
    pg_param(p, &v);
}

int64_t pg_lock_ms(const pg_conn *c)
{
    const db_options *o = &c->base.db->options;
    if (o->by_hand)
        return BY_HAND_MS;
    return c->base.role == DB_WRITER ? o->busy_ms : o->claim_ms * 2 / 5;
}

/* Unqualified names are resolved in pg_catalog, whatever the application's search_path is: it may
 * contain a function of the same name. Nothing is set in a session of a pooler, which later clients
 * would inherit. */
static const char SET_PATH[] =
    /* RULE names-are-those-of-the-server */
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)"
    /* RULE a-pooler-is-recognised */
    " WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) ($1::pg_catalog.text)::int";

/* The lock time-out is shorter than a lease; an idle transaction is ended. No limit on a statement:
 * the server would cancel a commit that waits for its standby, and report it as committed. */
static const char SET[] =
    "SELECT set_config('lock_timeout', $1::text, false),"
    " set_config('idle_in_transaction_session_timeout', $2::text, false),"
    " set_config('statement_timeout', '0', false),"
    " set_config('synchronous_commit', CASE WHEN $3::text = 'relaxed' THEN 'off' WHEN"
    " current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'"
    " ELSE 'on' END, false)"; /* RULE 8-a-session-commits-durably */

static pawl_code refuse_pooler(error *err)
{
    error_set(err, PAWL_POOLER, "a pooler stands between pawl and the database server");
    error_detail(err, "the process that answers is not the one that was connected to");
    error_hint(err, "add ?pooler=transaction to the URL, or connect to the server itself");
    return PAWL_POOLER;
}

static pawl_code set_path(pg_conn *c, error *err)
{
    pg_params p = {0};
    char pid[24];
    add_number(&p, pid, PQbackendPID(c->native));
    PGresult *r = pg_once(c, SET_PATH, &p, err);
    int ours = r && PQntuples(r) == 1;
    PQclear(r);
    return ours ? PAWL_OK : r ? refuse_pooler(err) : err->code;
}

static pawl_code set_session(pg_conn *c, error *err)
{
    const db_options *o = &c->base.db->options;
    pg_params p = {0};
    char lock[24], idle[24];
    int alone = c->base.role == DB_WRITER;
    add_number(&p, lock, c->lock_ms);
    /* RULE C6-a-transaction-that-stands-still-ends */
    add_number(&p, idle, alone ? 0 : o->claim_ms * 3 / 5);
    db_value how = db_text(slice_of(pg_db_of(c)->relaxed ? "relaxed" : "full"));
    pg_param(&p, &how);
    PGresult *r = pg_once(c, SET, &p, err);
    PQclear(r);
    c->lock_set_ms = c->lock_ms;
    return r ? PAWL_OK : err->code;
}

static const char SET_LOCK[] = "SELECT set_config('lock_timeout', $1::text, false)";

/* When driven by hand, waits only for a moment for a lock, however long `ms` is. */
void pg_want_lock_ms(pg_conn *c, int64_t ms)
{
    int64_t most = pg_lock_ms(c);
    c->lock_ms = ms < most ? ms : most;
}

/* Set the lock time-out of the session, if it has changed. Behind a pooler every transaction sets
 * it. */
static pawl_code set_lock_timeout(pg_conn *c, error *err)
{
    if (c->lock_ms == c->lock_set_ms || pg_db_of(c)->pooler)
        return PAWL_OK;
    pg_params p = {0};
    char text[24];
    add_number(&p, text, c->lock_ms);
    PGresult *r = pg_once(c, SET_LOCK, &p, err);
    PQclear(r);
    if (!r)
        return err->code;
    c->lock_set_ms = c->lock_ms;
    return PAWL_OK;
}

static const char LOOK[] =
    "SELECT pg_catalog.current_setting('fsync'), pg_catalog.current_setting('synchronous_commit'),"
    " pg_catalog.current_setting('server_encoding'), pg_catalog.pg_is_in_recovery()::int,"
    " (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::bigint";

static pawl_code refuse_settings(const char *fsync, const char *commit, error *err)
{
    error_set(err, PAWL_NOTDURABLE, "the database would not keep what it acknowledges");
    error_detail(err, "fsync is %s, synchronous_commit is %s", fsync, commit);
    error_hint(err, "set fsync = on at the server, or say durability=relaxed in the URL");
    return PAWL_NOTDURABLE;
}

static pawl_code judge_settings(pg_conn *c, const PGresult *r, error *err)
{
    const char *fsync = PQgetvalue(r, 0, 0), *commit = PQgetvalue(r, 0, 1);
    const char *encoding = PQgetvalue(r, 0, 2);
    pg_db *d = pg_db_of(c);
    if (strcmp(encoding, "UTF8") != 0) {
        error_set(err, PAWL_UNSUPPORTED, "the database keeps its text in %s", encoding);
        error_hint(err, "make a database with ENCODING 'UTF8'");
        return PAWL_UNSUPPORTED;
    }
    if (c->base.db->options.look_only) /* a handle that only reads may use a standby, and a server
                                          that does not sync */
        return PAWL_OK;
    if (strcmp(PQgetvalue(r, 0, 3), "1") == 0) {
        error_set(err, PAWL_READONLY, "the database server is a standby");
        error_hint(err, "give the URL of the primary, or target_session_attrs=read-write");
        return PAWL_READONLY;
    }
    int kept = strcmp(commit, "on") == 0 || strcmp(commit, "remote_apply") == 0 || d->pooler;
    /* RULE 8-a-server-that-does-not-sync-is-refused */
    if (!d->relaxed && (strcmp(fsync, "on") != 0 || !kept))
        return refuse_settings(fsync, commit, err); /* RULE 8-a-session-commits-durably */
    return PAWL_OK;
}

static pawl_code read_settings(pg_conn *c, error *err)
{
    clock_source *mono = c->base.db->options.clock;
    int64_t before = mono->mono_ns(mono);
    PGresult *r = pg_once(c, LOOK, NULL, err);
    if (!r)
        return err->code;
    int64_t middle = before + (mono->mono_ns(mono) - before) / 2;
    c->time_offset = strtoll(PQgetvalue(r, 0, 4), NULL, 10) - middle / 1000000;
    pawl_code rc = judge_settings(c, r, err);
    PQclear(r);
    return rc;
}

int64_t pg_time_ms(const pg_conn *c)
{
    clock_source *mono = c->base.db->options.clock;
    return mono->mono_ns(mono) / 1000000 + c->time_offset;
}

/* ---- All of it ---- */

void pg_forget(pg_conn *c)
{
    if (c->native)
        PQfinish(c->native);
    c->native = NULL;
    c->epoch++;
    c->pending_head = c->pending_tail = 0;
    c->synced = 0;
    c->lazy = 0;
    c->proven = 0; /* the next connection may lead to another server, so all witnesses are checked
                      again */
}

static pawl_code set_up(pg_conn *c, error *err)
{
    pawl_code rc = check_version(c->native, err);
    if (rc == PAWL_OK)
        rc = call_on_connect(c, err);
    if (rc != PAWL_OK)
        return rc;
    if (PQsetnonblocking(c->native, 1) != 0 || !PQenterPipelineMode(c->native))
        return pg_error_connecting(c->native, err);
    if (!pg_db_of(c)->pooler) {
        rc = set_path(c, err);
        rc = rc == PAWL_OK ? set_session(c, err) : rc;
    }
    return rc == PAWL_OK ? read_settings(c, err) : rc;
}

/* Between two trips a server sends nothing but its own shutdown. Noticed here, a restarted server
 * costs nothing; noticed after a COMMIT was sent, it leaves that commit undecided. */
static int is_stale(const pg_conn *c)
{
    struct pollfd p = {PQsocket(c->native), POLLIN, 0};
    /* RULE an-idle-connection-that-ended-costs-nothing */
    return PQtransactionStatus(c->native) == PQTRANS_IDLE && c->base.role != DB_NOTIFIER &&
           poll(&p, 1, 0) != 0;
}

pawl_code pg_ensure(pg_conn *c, error *err)
{
    pg_take_ending(c);
    if (c->native && PQstatus(c->native) == CONNECTION_OK && !is_stale(c))
        return PAWL_OK;
    pg_forget(c);
    words w;
    write_words(c, &w);
    PGconn *native = PQconnectStartParams(w.keys, w.values, 0);
    if (!native)
        return error_nomem(err);
    PQsetErrorVerbosity(native, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(native, ignore_notice, NULL);
    pawl_code rc = PQstatus(native) == CONNECTION_BAD ? refuse_start(c, native, &w, err)
                                                      : await_connection(c, native, err);
    if (rc != PAWL_OK) {
        PQfinish(native);
        return rc;
    }
    c->native = native;
    pg_db_of(c)->reached = 1;
    rc = set_up(c, err);
    if (rc != PAWL_OK)
        pg_forget(c);
    return rc;
}

pawl_code pg_ready(pg_conn *c, error *err)
{
    pawl_code rc = pg_ensure(c, err);
    if (rc == PAWL_OK)
        rc = set_lock_timeout(c, err);
    return rc == PAWL_OK && c->base.role == DB_COMMITTER ? pg_ring_need(c, err) : rc;
}
