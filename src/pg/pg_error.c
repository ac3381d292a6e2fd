/* Maps the server's SQLSTATEs to pawl's codes.
 *
 * The server's first line is kept as the detail; its DETAIL is not, since that may quote values. A
 * connection that is refused has no result to ask, so its five-letter state is read from the
 * message, which is asked for in the verbose form: that does not depend on the language. */
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

typedef struct rule {
    const char *state; /* the beginning of a SQLSTATE; longer ones stand before shorter ones */
    pawl_code code;
} rule;

/* RULE too-many-connections-pass, a-full-disk-is-told-to-its-unit */
/* RULE L7-a-trigger-that-raises-is-no-storage-trouble */
static const rule RULES[] = {
    {"08", PAWL_UNREACHABLE},    {"57P", PAWL_UNREACHABLE}, {"25P03", PAWL_UNREACHABLE},
    {"53300", PAWL_UNREACHABLE}, {"28", PAWL_DENIED},       {"42501", PAWL_DENIED},
    {"3D000", PAWL_NODATABASE},  {"40", PAWL_BUSY},         {"55P03", PAWL_BUSY},
    {"57014", PAWL_BUSY},        {"53100", PAWL_FULL},      {"53200", PAWL_NOMEM},
    {"53", PAWL_BUSY},           {"58", PAWL_IO},           {"XX001", PAWL_CORRUPT},
    {"XX002", PAWL_CORRUPT},     {"25006", PAWL_READONLY},  {"21", PAWL_DATA},
    {"22", PAWL_DATA},           {"23", PAWL_DATA},         {"54", PAWL_DATA},
    {"26000", PAWL_POOLER},      {"42P05", PAWL_POOLER},    {"3F000", PAWL_FOREIGN},
    {"P0", PAWL_DATA}, /* a trigger that raises */
};

static pawl_code code_of(const char *state)
{
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        if (strncmp(state, RULES[i].state, strlen(RULES[i].state)) == 0)
            return RULES[i].code;
    return PAWL_STORAGE;
}

static const char *way_out(pawl_code code, const char *state)
{
    if (strcmp(state, "53300") == 0)
        return "raise max_connections, or the CONNECTION LIMIT of the role, or close some; a node"
               " needs 5, a client 2; what waits goes on by itself then";
    switch (code) {
    case PAWL_UNREACHABLE:
        return "look whether the server runs and is reachable; work goes on by itself then";
    case PAWL_DENIED:
        return "look at user and password, at pg_hba.conf, and at GRANT for the schema pawl";
    case PAWL_NODATABASE:
        return "make it with createdb, or correct the name in the URL";
    case PAWL_BUSY:
        return "another transaction holds a lock for long; try again when that is done";
    case PAWL_FULL:
        return "make room on the server's disk; work goes on by itself then";
    case PAWL_IO:
        return "look at the server's disk and log; work goes on when the cause is gone";
    case PAWL_READONLY:
        return "this server only reads, as a standby does; give the URL of the primary";
    case PAWL_CORRUPT:
        return "look at the server's log; restore a backup";
    case PAWL_POOLER:
        return "add ?pooler=transaction to the URL, or connect to the server itself";
    default:
        return "look at the detail and at the server's log";
    }
}

static pawl_code fill_error(const char *state, const char *text, const char *doing, error *err)
{
    pawl_code code = code_of(state);
    size_t line = strcspn(text, "\n");
    error_set(err, code, "cannot %s the database: %s", doing, pawl_code_text(code));
    error_detail(err, "%.*s (PostgreSQL %s)", (int)line, text, state);
    error_hint(err, "%s", way_out(code, state));
    return code;
}

static const char *field_of(const PGresult *r, int which)
{
    const char *text = PQresultErrorField(r, which);
    return text ? text : "";
}

/* Finds the five-letter state in a message like "FATAL: 28P01: password authentication failed …":
 * it stands between two colons. Several hosts give several lines; the last line is that of the host
 * that was tried last. */
static const char *find_state(const char *text, char state[6])
{
    const char *found = NULL;
    for (const char *p = strchr(text, ':'); p; p = strchr(p + 1, ':')) {
        const char *word = p + 1 + strspn(p + 1, " ");
        size_t size = strspn(word, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (size == 5 && word[5] == ':') {
            memcpy(state, word, 5);
            state[5] = 0;
            found = word + 6 + strspn(word + 6, " ");
        }
    }
    return found;
}

/* Does the message have this word outside of quotation marks? Inside of them it is a name. */
static int has_word(const char *text, const char *word)
{
    int quoted = 0;
    for (const char *p = text; *p; p++) {
        quoted ^= *p == '"';
        if (!quoted && strncmp(p, word, strlen(word)) == 0) /* RULE words-in-names-are-no-reasons */
            return 1;
    }
    return 0;
}

/* Is it the message of a server that ended during the TLS handshake: "SSL SYSCALL error: …", "…
 * unexpected eof"? */
static int is_end(const char *text)
{
    return has_word(text, "SYSCALL") || has_word(text, "unexpected eof");
}

pawl_code pg_error_connecting(const PGconn *native, error *err)
{
    const char *text = native ? PQerrorMessage(native) : "";
    char state[6];
    const char *said = find_state(text, state);
    if (said)
        return fill_error(state, said, "reach", err);
    if (native && PQconnectionNeedsPassword(native))
        return fill_error("28P01", "the server asks for a password", "reach", err);
    if ((has_word(text, "SSL") || has_word(text, "certificate")) && !is_end(text))
        return fill_error("28000", text, "reach", err);
    return fill_error("08006", *text ? text : "the connection is lost", "reach", err);
}

/* An established connection was lost, whatever the message says: the messages of TLS, and of a
 * server that ends a session, must not be taken for the answer to a statement. */
pawl_code pg_error_lost(const PGconn *native, error *err)
{
    const char *text = native ? PQerrorMessage(native) : "";
    char state[6];
    const char *said = find_state(text, state);
    if (said && code_of(state) == PAWL_UNREACHABLE) /* RULE A5-the-words-of-tls-are-no-answer */
        return fill_error(state, said, "reach", err);
    return fill_error("08006", *text ? text : "the connection is lost", "reach", err);
}

pawl_code pg_error(const pg_conn *c, const PGresult *r, const char *doing, error *err)
{
    const char *state = field_of(r, PG_DIAG_SQLSTATE);
    if (*state)
        return fill_error(state, field_of(r, PG_DIAG_MESSAGE_PRIMARY), doing, err);
    return pg_error_lost(c->native, err);
}

pawl_code pg_error_silent(error *err)
{
    return fill_error("08006", "the server has not answered in time", "reach", err);
}

int pg_is_refusal(const PGresult *r)
{
    return strcmp(field_of(r, PG_DIAG_SQLSTATE), "22012") == 0;
}

int pg_is_lock(const PGresult *r)
{
    return strcmp(field_of(r, PG_DIAG_SQLSTATE), "55P03") == 0;
}

int pg_is_fatal(const PGresult *r)
{
    const char *severity = field_of(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    return strcmp(severity, "ERROR") != 0;
}
