/* The waker: tells other processes that there is something for them, and hears when they do.
 *
 * Inside a process threads wake each other by conditions; this is for what concerns another node:
 * a message for a run that it owns, work that nobody owns, the end of a run that somebody waits
 * for. A wake-up is a hint, and nothing more: it comes after the commit, never in its transaction
 * (on PostgreSQL that would line up all commits of the server), it may come twice, for nothing, or
 * not at all. The truth is in the database, and whoever waits also looks there by himself, once a
 * second.
 *
 * Wake-ups are coalesced: at most one in 5 ms for each target. Sending and hearing is done by one
 * thread with a connection of its own, or by hand. A connection that is lost is made anew, with a
 * back-off; then on_heard is called, since nobody knows what was missed. */
#ifndef DB_WAKER_H
#define DB_WAKER_H

#include "db/db.h"

typedef struct waker waker;

/* The target that is everybody: work that nobody owns. */
enum { WAKER_EVERYBODY = 0 };

typedef struct waker_options {
    int64_t node; /* who listens; 0: nobody's name, only what is for everybody is heard */
    int by_hand;  /* no thread: waker_poll() does it all */

    /* Called when there may be something to do, after every connect too, by the waker's thread or
     * in waker_poll(), without any lock. It must not block; it may tell. NULL: nobody wants to
     * know. */
    void (*on_heard)(void *arg);
    void *on_heard_arg;
} waker_options;

typedef struct waker_stats {
    int64_t told;       /* calls of waker_tell() */
    int64_t sent;       /* notifications that went out, each target counted */
    int64_t heard;      /* how often something was heard; reconnects do not count */
    int64_t reconnects; /* how often a lost connection was made anew */
} waker_stats;

/* A waker with a connection of its own. A server that cannot be reached now is tried again later;
 * anything else fails. The database must outlive it. */
pawl_code waker_open(waker **out, db *d, const waker_options *options, error *err);

/* Sends what is still to be sent, if there is a connection, and frees. No other thread may be using
 * it. In a child of fork() it only frees: the connection is the parent's. */
void waker_close(waker *w);

/* Something was committed that concerns `target`: a node, or WAKER_EVERYBODY. Any thread may call
 * it at any time, a unit's `done` too: it only makes a note. A node need not tell itself. */
void waker_tell(waker *w, int64_t target);

waker_stats waker_stats_now(waker *w);

/* ---- By hand; one thread at a time ---- */

/* A descriptor that is readable when waker_poll() should be called. The same one as long as the
 * waker lives, over reconnects too. */
int waker_fd(const waker *w);

/* Do what is due: hear, send, reconnect. Waits for nobody but the server's answer. 1: on_heard was
 * called. */
int waker_poll(waker *w);

/* When waker_poll() should be called next, in clock_source.mono_ns time, unless the descriptor is
 * readable before: 0 now, INT64_MAX not before. */
int64_t waker_next_ns(waker *w);

#endif
