/* The committer does group commit: units of many threads, one transaction and one sync for all of
 * them.
 *
 * Units are queued by any thread and applied in queue order, as many in one transaction as are
 * there (within bounds). There is no dedicated committer thread (leader/follower): a thread that
 * waits for its unit while no other thread leads becomes the *leader*. It commits a batch for all
 * and passes the lead on. So a thread that is alone commits without a switch to another one. For
 * units without a waiting thread there is one helper thread, woken by committer_leave() or, at the
 * latest, by its own watch over the queue (rule 7); an engine driven by hand has no helper and
 * calls committer_drive().
 *
 * Rules, numbered for tests and comments:
 *   1. Units are applied in queue order; guards see what came before.
 *   2. Every unit gets exactly one final answer; UNDECIDED may come once before it.
 *   3. Prefix rule: after a unit of a submitter that was not committed, none of its units is.
 *   4. Nothing is answered COMMITTED before the database has said that it is durable.
 *   5. Backpressure: the queue is bounded in units and bytes. A thread that finds it full leads, or
 *      waits. Units of clients are answered PAWL_BUSY after busy_ms; units of runs have a share of
 *      their own.
 *   6. A leader calls no user code but the callback `log` and the guest of its own unit
 *      (committer_apply()), and never holds the lock while it does so or uses the database.
 *   7. A unit that is handed in is committed, or answered, within a bounded time while the storage
 *      works, even if its submitter neither waits nor calls committer_leave(). By hand,
 *      committer_next_ns() says that there is something to do.
 *   8. A unit that waits for a row lock of a foreign transaction delays no other unit, except the
 *      later ones of its submitter: it is set aside and tried again alone (aside.h). A run's unit
 *      waits as long as it takes; a client's is answered PAWL_BUSY at its deadline. Where one
 *      transaction writes at a time (DB_TURNS) there are no row locks: the writer has locked the
 *      whole database. */
#ifndef DB_COMMITTER_H
#define DB_COMMITTER_H

#include "db/unit.h"

typedef struct committer committer;

typedef struct committer_options {
    int by_hand;         /* no helper thread: the caller calls committer_drive(), and
                            committer_submit() blocks only while the queue is full */
    int64_t units_max;   /* in the queue, per class; 0: 8192 */
    int64_t bytes_max;   /* in the queue, per class; 0: 64 MiB */
    int64_t batch_units; /* in one transaction; 0: 1024 */
    int64_t batch_bytes; /* in one transaction; 0: 16 MiB */
    int64_t busy_ms;     /* how long client units wait; 0: the database's busy_ms */
    int64_t stand_ms;    /* a unit stands in the queue no longer than this while no thread leads;
                            0: 50 */

    /* Called after the commit of a unit with a note for the change feed (unit_note()), even if the
     * feed is off and the note was left out. The leader calls it, without any lock, before the
     * units have their answers; it must not block. NULL: not called. */
    void (*on_noted)(void *arg);
    void *on_noted_arg;
} committer_options;

typedef struct committer_stats {
    int64_t batches;
    int64_t committed;
    int64_t refused;
    int64_t failed;
    int64_t undecided;    /* units that were undecided for a while */
    int64_t restarts;     /* transactions that the database threw away */
    int64_t busy;         /* units given up: no room, or something was locked for too long */
    int64_t locked;       /* units that were set aside for a row lock of a foreign transaction */
    int64_t batch_max;    /* units in the largest batch */
    int64_t batch_ns_max; /* the longest transaction, waiting for its turn included */
} committer_stats;

/* A committer with a writing connection of its own. The database must outlive it. */
pawl_code committer_open(committer **out, db *d, const committer_options *options, error *err);

/* Commits the queued units as far as the database lets it, answers all others (PAWL_CLOSED, or
 * PAWL_UNDECIDED), and frees the committer. No other thread may be using it. A unit that a `done`
 * submits meanwhile is answered PAWL_CLOSED at once; a `done` must not submit again for ever. */
void committer_close(committer *k);

/* Queue a unit. It is the committer's until its `done` has been called with the final answer. Every
 * unit gets a final answer, after an error too, and perhaps before this function returns. Blocks
 * only while the queue is full, and leads meanwhile. */
void committer_submit(committer *k, unit *u);

/* Queue a unit and wait for its final answer, leading if no other thread does. Returns u->code.
 * u->done is called too, if set, before this returns; the unit is still in use during that call. By
 * hand: drives until the answer is there. PAWL_BUSY: the database stayed locked past the unit's
 * deadline, and nothing was written. */
pawl_code committer_commit(committer *k, unit *u);

/* Apply a unit now, alone and on the calling thread; no other thread may hand in units to this
 * committer. PAWL_UNDECIDED: the unit stays the committer's until `done` is called with the final
 * answer. Any other code is the final answer: `done` was called with it, and the unit is the
 * caller's. A unit that cannot be applied now does not stay queued: PAWL_BUSY, or
 * PAWL_UNREACHABLE. */
pawl_code committer_apply(committer *k, unit *u);

/* Returns 1 if no unit is queued, set aside, under way or undecided. */
int committer_is_idle(committer *k);

/* Lead once if there is something to do. 1: it was tried; 0: there is nothing to do, another thread
 * leads, or it is not time yet (back-off after a failure). */
int committer_drive(committer *k);

/* Returns when committer_drive() should be called next, in clock_source.mono_ns time: 0 now,
 * INT64_MAX not before a unit is submitted. */
int64_t committer_next_ns(committer *k);

/* To be called before user code is entered or control returns to the application: a queued unit
 * never waits for user code. Wakes the helper if units are queued and no thread leads; by hand,
 * drives once. */
void committer_leave(committer *k);

/* Wait until no unit of a run is queued or undecided, whatever clients hand in meanwhile, and not
 * past `deadline_ns`; leads if no other thread does. 0: some units of runs are left.
 * committer_give_up_runs() answers these PAWL_CLOSED, or PAWL_UNDECIDED where it is not known
 * whether they were committed. */
int committer_flush_runs(committer *k, int64_t deadline_ns);
void committer_give_up_runs(committer *k);

committer_stats committer_stats_now(committer *k);

/* PAWL_UNREACHABLE if units wait because the server cannot be reached; otherwise PAWL_OK. */
pawl_code committer_trouble(committer *k);

/* From the next transaction on the committer commits for this node: each transaction locks the row
 * (node, slot) of {nodes}, which must have this token. If the row is closed all units are refused
 * (by the guard "node"), and so are all units after a rewind ("back"; world.h). Waits while another
 * thread leads; a `done` must not call it. */
void committer_set_node(committer *k, int64_t node, int64_t slot, int64_t token);

/* The writing connection, to ask the driver for its figures or its database; it must not be used
 * for statements. */
db_conn *committer_connection(committer *k);

/* ---- For tests and benches ---- */

/* Wait until nothing is queued and nothing is undecided, leading if no other thread does. */
void committer_flush(committer *k);

#endif
