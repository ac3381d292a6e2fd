/* A proxy between a client and a PostgreSQL server that breaks the connection at a COMMIT.
 *
 * What becomes of a commit whose answer never comes cannot be tested on a server that always
 * answers. The proxy is a thread of the test: it listens on a Unix socket in a folder of its own,
 * hands everything on, and does what the test has planned when the n-th COMMIT comes by. The
 * commits that it knows are those of the driver: see wire_is_commit(). */
#ifndef SUPPORT_PROXY_H
#define SUPPORT_PROXY_H

#include <stdint.h>

#include "support/pgserver.h"

typedef struct proxy proxy;

typedef enum {
    PROXY_PASS,        /* nothing; how it begins */
    PROXY_CUT_BEFORE,  /* both sides are closed, the COMMIT is not handed on */
    PROXY_CUT_AFTER,   /* both sides are closed when the server has answered; the client gets
                          nothing */
    PROXY_CUT_BLIND,   /* both sides are closed when the COMMIT is handed on */
    PROXY_HOLE_BEFORE, /* the COMMIT and all after it vanishes, both ways; nothing is closed */
    PROXY_HOLE_AFTER,  /* the COMMIT is handed on, all else vanishes */
    PROXY_LATE,        /* the COMMIT waits for proxy_release(), even when the client has gone */
} proxy_action;

/* What became of a COMMIT that was late. */
typedef enum {
    PROXY_LATE_OPEN,        /* not known yet */
    PROXY_LATE_COMMITTED,   /* the server said so */
    PROXY_LATE_ROLLED_BACK, /* the server said so, or gave an error */
    PROXY_LATE_CLOSED,      /* the server had closed the connection, or did so without an answer */
} proxy_late;

typedef struct proxy_counts {
    int64_t connections; /* taken so far, those that were refused included */
    int64_t commits;     /* seen so far */
    int64_t fired;       /* times that a plan was carried out */
    int64_t open;        /* connections with a side that is still open */
} proxy_counts;

/* A proxy before this server, or before whatever listens as .s.PGSQL.PORT in a folder. */
proxy *proxy_start(const pgserver *s);
proxy *proxy_start_at(const char *dir, int port);
void proxy_stop(proxy *p); /* closes everything; NULL is allowed */

/* The URL of a database through the proxy. */
void proxy_url(const proxy *p, const char *database, char out[PGSERVER_URL]);

/* Do this at the n-th COMMIT from now on, on whatever connection it comes, once. A plan that was
 * not carried out yet is forgotten. */
void proxy_plan(proxy *p, proxy_action action, int64_t nth);

/* Close new connections at once, until told otherwise. */
void proxy_refuse(proxy *p, int on);

/* The server tells a version that begins with 09 on new connections, until told otherwise. */
void proxy_age_version(proxy *p, int on);

/* Close both sides of all connections; holes end by it. */
void proxy_cut(proxy *p);

/* Close one side, the client's or the server's, of each connection whose client has asked for an
 * advisory lock. The other side hears nothing of it, and is not answered any more. Gives their
 * number. */
int proxy_halve(proxy *p, int close_client);

/* Hand on the COMMIT that is held back by PROXY_LATE, and wait for what becomes of it. */
void proxy_release(proxy *p);
proxy_late proxy_wait_late(proxy *p);

proxy_counts proxy_count(proxy *p);

#endif
