/* The notifier: notifies other processes that there is something for them, and hears their
 * notifications.
 *
 * Inside a process threads wake each other by conditions; this is for what concerns another node: a
 * message for a run that it owns, a due run without an owner, the end of a run that one of its
 * threads waits for. A notification is a hint, and nothing more: it goes out after the commit,
 * never in its transaction (on PostgreSQL that would serialise all commits of the server), it may
 * come twice, for nothing, or not at all. The truth is in the database, which every waiter also
 * polls once a second.
 *
 * Notifications are coalesced: at most one in 5 ms for each target. Sending and hearing is done by
 * one thread with a connection of its own, or by hand. A lost connection is reopened, with a
 * back-off; then on_heard is called, since notifications may have been missed. */
#ifndef DB_NOTIFIER_H
#define DB_NOTIFIER_H

#include "db/db.h"

typedef struct notifier notifier;

/* The target for all nodes: a due run without an owner. */
enum { NOTIFY_ALL_NODES = 0 };

typedef struct notifier_options {
    int64_t node; /* the node that listens; 0: not a node, hears only what is for all nodes */
    int by_hand;  /* 1: there is no thread, and notifier_poll() hears, sends and reconnects */

    /* Called when there may be something to do, after every connect too, by the notifier's thread
     * or in notifier_poll(), without any lock. It must not block; it may call notifier_tell().
     * NULL: not called. */
    void (*on_heard)(void *arg);
    void *on_heard_arg;

    /* Called, in the same way, when the connection has the lock by which other nodes see that this
     * one has died (db_channel.lock_for_life), and with 0 as soon as it is lost. NULL: the lock is
     * not taken. */
    void (*on_lock)(void *arg, int64_t server);
    void *on_lock_arg;
} notifier_options;

typedef struct notifier_stats {
    int64_t told;       /* calls of notifier_tell() */
    int64_t sent;       /* notifications that went out, each target counted */
    int64_t heard;      /* how often something was heard; reconnects do not count */
    int64_t reconnects; /* how often a lost connection was made anew */
} notifier_stats;

/* A notifier with a connection of its own. A server that cannot be reached now is tried again
 * later; any other error fails. The database must outlive it. */
pawl_code notifier_open(notifier **out, db *d, const notifier_options *options, error *err);

/* Sends what is still to be sent, if there is a connection, and frees. No other thread may be using
 * it. In a child of fork() it only frees: the connection is the parent's. */
void notifier_close(notifier *w);

/* Marks `target` to be notified, a node or NOTIFY_ALL_NODES, when something that concerns it was
 * committed. A target that is the notifier's own node is left out. Any thread may call it at any
 * time, also the callback `done` of a unit, since nothing is sent here. */
void notifier_tell(notifier *w, int64_t target);

/* 1: the connection that hears has not been closed by the other side. Any thread, never blocks. */
int notifier_has_session(notifier *w);

/* ---- By hand; one thread at a time ---- */

/* A descriptor that is readable when notifier_poll() should be called. It stays the same over
 * reconnects. */
int notifier_fd(const notifier *w);

/* Do what is due: hear, send, reconnect. Blocks for the server's answer only. 1: on_heard was
 * called. */
int notifier_poll(notifier *w);

/* Send what is pending, without regard to the 5 ms between two notifications, and hear nothing: for
 * a caller that may be the last one: no notifier_poll() need follow. */
void notifier_flush(notifier *w);

/* When notifier_poll() should be called next, in clock_source.mono_ns time, unless the descriptor
 * is readable before: 0 now, INT64_MAX not before. */
int64_t notifier_next_ns(notifier *w);

/* ---- For tests ---- */

notifier_stats notifier_stats_now(notifier *w);

#endif
