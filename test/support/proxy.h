/* A proxy between a client and a PostgreSQL server that breaks the connection at a COMMIT.
 *
 * A server that always answers does not show what becomes of a commit whose answer never comes. The
 * proxy is a thread of the test: it listens on a Unix socket in a folder of its own, forwards
 * everything, and does what the test has planned when the n-th COMMIT comes by. The commits that it
 * recognises are those of pawl's driver: see wire_is_commit(). */
#ifndef SUPPORT_PROXY_H
#define SUPPORT_PROXY_H

#include <stdint.h>

#include "support/pgserver.h"

typedef struct proxy proxy;

typedef enum {
    PROXY_PASS,        /* nothing is done; the first plan */
    PROXY_CUT_BEFORE,  /* both sides are closed; the COMMIT is not forwarded */
    PROXY_CUT_AFTER,   /* both sides are closed when the server has answered; the client gets no
                          answer */
    PROXY_CUT_BLIND,   /* both sides are closed when the COMMIT was forwarded */
    PROXY_HOLE_BEFORE, /* the COMMIT and everything after it is dropped, in both directions; no
                          side is closed */
    PROXY_HOLE_AFTER,  /* the COMMIT is forwarded, and everything after it is dropped */
    PROXY_LATE,        /* the COMMIT is kept until proxy_release(), even if the client closes its
                          side before that */
} proxy_action;

/* What became of a COMMIT that was kept (PROXY_LATE). */
typedef enum {
    PROXY_LATE_OPEN,        /* not known yet */
    PROXY_LATE_COMMITTED,   /* the server has answered so */
    PROXY_LATE_ROLLED_BACK, /* the server has answered so, or with an error */
    PROXY_LATE_CLOSED,      /* the server had closed the connection, or closed it without an
                               answer */
} proxy_late;

typedef struct proxy_counts {
    int64_t connections; /* accepted so far, those that were refused included */
    int64_t commits;     /* seen so far */
    int64_t fired;       /* how many plans were carried out */
    int64_t open;        /* connections of which a side is still open */
} proxy_counts;

/* proxy_start() starts a proxy before this server, proxy_start_at() before whatever listens as
 * .s.PGSQL.PORT in a folder. */
proxy *proxy_start(const pgserver *s);
proxy *proxy_start_at(const char *dir, int port);
void proxy_stop(proxy *p); /* closes all connections; NULL is allowed */

/* Writes the URL of a database by way of the proxy. */
void proxy_url(const proxy *p, const char *database, char out[PGSERVER_URL]);

/* Plans what to do, once, at the n-th COMMIT from now on, on whatever connection that comes.
 * Replaces a plan that was not carried out yet. */
void proxy_plan(proxy *p, proxy_action action, int64_t nth);

/* With `on` 1 every new connection is closed at once, until a call with 0. */
void proxy_refuse(proxy *p, int on);

/* With `on` 1 the proxy changes the version that the server tells new connections to one that
 * begins with 09, until a call with 0. */
void proxy_age_version(proxy *p, int on);

/* Closes all connections, to the client and to the server. Connections whose messages the proxy
 * drops at the moment are closed too. */
void proxy_cut(proxy *p);

/* Closes one side, the client's or the server's, of each connection whose client has asked for an
 * advisory lock. The other side does not notice, and gets no answer any more. Returns the number of
 * these connections. */
int proxy_halve(proxy *p, int close_client);

/* Forwards the COMMIT that PROXY_LATE has kept, and waits until it is known what becomes of it. */
void proxy_release(proxy *p);
proxy_late proxy_wait_late(proxy *p);

proxy_counts proxy_count(proxy *p);

#endif
