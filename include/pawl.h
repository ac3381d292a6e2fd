/* pawl: durable execution in C.
 *
 * You write a workflow as an ordinary C function. Every call that it makes on its `run` is recorded
 * in a database before anything that depends on it happens. If the process is killed, the power
 * goes, or a new version is deployed, some process calls the same function again: calls that were
 * recorded answer from the record, and the function goes on behind the last of them.
 *
 *     static const char *greet(pawl_work *work, const char *name)    // work: anything outside
 *     {
 *         return pawl_work_json(work, "{'greeting':'Hello, %s!'}",
 *                               pawl_work_text(work, name, "", "you"));
 *     }
 *
 *     static const char *hello(pawl_run *run, const char *name)      // a workflow
 *     {
 *         const char *greeting = pawl_step(run, "greet", greet, name, NULL);
 *         pawl_sleep(run, PAWL_HOURS(24));           // a day, and any number of crashes
 *         return greeting;
 *     }
 *
 *     int main(void)
 *     {
 *         pawl *p;
 *         pawl_outcome *end = NULL;
 *         pawl_code rc = pawl_open(&p, "hello.db", NULL);               // or "postgres://…"
 *         if (rc == PAWL_OK) rc = pawl_register_workflow(p, "hello", hello, NULL);
 *         if (rc == PAWL_OK) rc = pawl_start(p, "hello", "hello-1", "\"world\"", NULL);
 *         if (rc == PAWL_OK) rc = pawl_finish(p, "hello-1", PAWL_FOREVER, &end);
 *         puts(rc == PAWL_OK ? pawl_outcome_value(end) : pawl_errtext(p));
 *         pawl_outcome_free(end);
 *         pawl_close(p);
 *         return rc != PAWL_OK;
 *     }
 *
 * INDEX.  All functions, by topic:
 *
 *   opening       pawl_open pawl_close pawl_version pawl_version_number
 *   errors        pawl_errtext pawl_errcode pawl_errmsg pawl_errdetail pawl_errhint pawl_code_name
 *                 pawl_code_text pawl_code_retryable
 *   registering   pawl_register_workflow pawl_register_work
 *   driving       pawl_serve pawl_stop pawl_finish pawl_poll pawl_fd pawl_timeout
 *   clients       pawl_start pawl_send pawl_wait pawl_cancel pawl_read_state pawl_id_new pawl_free
 *                 pawl_complete pawl_complete_failed
 *   outbox        pawl_start_in pawl_send_in pawl_outbox_flush
 *   outcomes      pawl_outcome_value pawl_outcome_code pawl_outcome_name pawl_outcome_message
 *                 pawl_outcome_where pawl_outcome_free
 *   work of a run pawl_step pawl_call pawl_transact pawl_until
 *   waiting       pawl_sleep pawl_sleep_until pawl_receive pawl_sender
 *   other runs    pawl_child pawl_tell pawl_state_of
 *   futures       pawl_step_later pawl_call_later pawl_sleep_later pawl_sleep_until_later
 *                 pawl_until_later pawl_receive_later pawl_child_later pawl_all_later
 *                 pawl_any_later pawl_await pawl_all pawl_any pawl_try pawl_value
 *                 pawl_future_cancel
 *   ends          pawl_undo pawl_finally pawl_defer pawl_fail pawl_continue_as_new
 *                 pawl_should_continue_as_new
 *   recorded      pawl_now pawl_uuid pawl_random pawl_patch pawl_set_status pawl_attr
 *                 pawl_state_set pawl_state_get pawl_log
 *   about a run   pawl_run_id pawl_run_workflow pawl_run_version pawl_run_generation
 *                 pawl_run_error pawl_arg
 *   its memory    pawl_alloc pawl_drop pawl_json pawl_part pawl_text
 *   inside work   pawl_work_key pawl_work_fail pawl_work_retry pawl_work_cancelled pawl_work_fence
 *                 pawl_work_attempt pawl_work_name pawl_work_run_id pawl_work_arg pawl_work_log
 *                 pawl_work_alloc pawl_work_json pawl_work_part pawl_work_text pawl_work_ticket
 *                 pawl_work_pending pawl_work_note pawl_work_progress
 *   JSON          pawl_get_int pawl_get_real pawl_get_bool pawl_get_count pawl_get_kind
 *                 pawl_get_text pawl_get_json pawl_json_check pawl_json_new
 *   looking       pawl_inspect pawl_wait_status pawl_list pawl_tree pawl_history pawl_why
 *                 pawl_changes pawl_changes_fd pawl_nodes pawl_metrics
 *   a run's info  pawl_info_id pawl_info_workflow pawl_info_version pawl_info_phase
 *                 pawl_phase_name pawl_info_generation pawl_info_status pawl_info_status_seq
 *                 pawl_info_held pawl_info_parent pawl_info_depth pawl_info_by
 *                 pawl_info_created_ms pawl_info_updated_ms pawl_info_finished_ms
 *                 pawl_info_wake_ms pawl_info_free
 *   its history   pawl_event_seq pawl_event_generation pawl_event_op pawl_event_kind
 *                 pawl_event_name pawl_event_at_ms pawl_event_data
 *   managing      pawl_hold pawl_release pawl_redrive pawl_delete pawl_prune pawl_queue_set
 *                 pawl_queue_depth
 *   pawl_test.h   pawl_test_open pawl_test_close pawl_test_advance pawl_test_now pawl_test_finish
 *                 pawl_test_crash_at pawl_test_writes pawl_test_always_replay
 *
 * REPLAY.  A workflow function has to be deterministic: its input and the answers of its durable
 * calls decide which calls it makes next, and nothing else does. For pawl may leave it at any
 * durable call (it waits, memory is short, the process stops) and later run it again from the top;
 * recorded calls answer from the record. So in a workflow there is no clock, no random, no I/O and
 * no global, except through `run`. A run whose function makes another call than the recorded one is
 * held. Work functions need not be deterministic: they do what they like, and may run again after a
 * crash.
 *
 * FAILURE.  A durable call gives you its value or does not come back. When it fails for good
 * (attempts used up, child failed, run cancelled) pawl leaves your function at that call, as
 * exit(3) leaves main: nothing behind it runs, no destructor, no cleanup attribute, no unlock. So
 * take memory from pawl_alloc(); hand files and sockets to pawl_defer(), or better, keep them
 * inside work functions, which are ordinary C and always return. Never hold a lock over a durable
 * call. To deal with a failure yourself, start the call with its _later form and ask pawl_try(),
 * which comes back (a pawl_transact() has none: put it into a child). Every call that may not come
 * back carries the (empty) marker PAWL_MAY_LEAVE.
 *
 * RETURNING.  (NOT BUILT: a registration with `.returns_errors = 1` is refused.) With it every call
 * is to come back: a failed one gives NULL, 0, -1 or a code, all later durable calls on that run
 * return at once likewise, and the function returns; the engine keeps the first error
 * (pawl_run_error()). A run that has to wait uses the same door (PAWL_SUSPENDED): its function
 * returns and is called again from the top when it can go on. For C++ and other languages. This is
 * why no durable call returns void.
 *
 * C++.  Today: no object with a destructor may be alive at a call marked PAWL_MAY_LEAVE, because
 * pawl may leave the function there and then no destructor runs. Work functions are free of this.
 * No exception may leave a function that pawl calls; catch it and answer with pawl_work_fail() or
 * pawl_fail(). No durable call inside a catch block.
 *
 * NOT BUILT.  What is marked so is declared, that programs can be written for it, and does nothing
 * yet: functions answer PAWL_UNSUPPORTED (NULL where they give no code), and options other than 0
 * or NULL are refused with PAWL_UNSUPPORTED.
 *
 * VALUES.  Payloads are JSON text in UTF-8, without \u0000 and unpaired surrogates (INVALID), so
 * that no text given out holds a NUL. `const char *` in: validated and copied before the call
 * returns; NULL is PAWL_INVALID, "nothing" is "null". `const char *` out: valid until the workflow
 * or work function has returned and its result is copied, or pawl_drop(); never yours to free. What
 * your function returns must be such a value, memory of pawl_alloc() or pawl_work_alloc(), or
 * static. What clients get out (pawl_outcome, pawl_info, texts) is theirs to free, on any thread,
 * also after pawl_close(). Duplicate keys: the first one counts.
 *
 * THREADS.  A `pawl *` may be used by any number of threads at once, except for pawl_close(). A
 * `pawl_run *` belongs to its workflow function, a `pawl_work *` to its work function: use them on
 * the thread that was given them, and not after the function has returned. Calls on a run from
 * anywhere else do nothing (MISUSE, NULL, 0), and a work function that makes them fails for good.
 * Threads of pawl's own: those of pawl_serve(); those of the option work_threads; on PostgreSQL,
 * while the engine is a node, one that gives its heartbeat, however it is driven (but not where
 * hooks tell the time); and, unless the option threads is -1, one that commits, one that hears
 * other processes, and on a SQLite file two that wait for its lock and keep its log short.
 *
 * FORK.  A handle does not survive fork(): in the child calls answer PAWL_FORKED, also
 * pawl_close(), and pawl_stop() does nothing. A SQLite file that the parent had open cannot be
 * opened in the child either (PAWL_MISUSE), because SQLite there believes in locks that the child
 * does not have; a PostgreSQL database can, by a handle of the child's own. Open after fork(), or
 * exec(). A workflow or work function may fork; its child must end by _exit() or exec(). One that
 * returns is ended by abort(3), before it writes in the name of its parent.
 *
 * DEATH.  A workflow function has a stack of 256 KiB; large things belong into pawl_alloc(). One
 * that overflows it ends the process (SIGSEGV), as any function does that crashes. Another node, or
 * the next process, takes over the runs of the dead one. A run that was being executed at five
 * deaths in a row, without getting any further, is held. After the third it waits for five seconds
 * first, and no other such run is executed at the same time, so that none is held for another. All
 * other runs, those of the dead process too, go on at once and wait for none of these.
 *
 * TIME.  int64_t milliseconds; names end in _ms. In waits 0 means "do not wait"; in options 0 means
 * "the default". A negative duration is INVALID; a sum beyond the end of time is that end, which
 * never comes. Instants are milliseconds since 1970, UTC, in the database's time: on a SQLite file
 * the host's clock, on PostgreSQL the server's, which nodes keep by their monotonic clocks between
 * two measurements. A clock that is set forward makes what sleeps due earlier; one that is set back
 * makes it due later, by as much, since a sleep ends at an instant. pawl_now() never goes back
 * within a run. The time limit of an attempt is measured by a monotonic clock, and does not notice.
 *
 * OPTIONS.  Every options struct begins with its size, which the macro fills in:
 * PAWL_CALL(.attempts = 5). In C++: pawl_call_options o = {}; o.size = sizeof o; o.attempts = 5.
 * Structs grow at the end only, have no padding on 64-bit systems, and what a library does not know
 * must be zero. NULL means all defaults. Options and the texts in them are copied before the call
 * returns; functions and their args are used until pawl_close() returns.
 *
 * ERRORS.  Calls outside runs return a pawl_code; results go to out-parameters, which come last
 * (but first in pawl_open()) and are NULL or 0 on failure. pawl_errtext(p) has the last error of
 * the calling thread. Unless a call says otherwise it may answer INVALID, LIMIT, NOMEM, FORKED,
 * CLOSED, and the codes of storage: BUSY, UNDECIDED, FULL, READONLY, IO, CORRUPT, UNREACHABLE,
 * STORAGE; on a node that another one has closed FENCED, until the next serve, poll or finish makes
 * a new one; and REWOUND (REWINDS). After UNDECIDED it is not known whether the call took effect:
 * repeat it if it has an id or a key, for then that is safe; the table calls it not retryable
 * because without one it is not.
 *
 * REWINDS.  A database that is restored from a backup, or a standby that was behind and takes over,
 * lacks what this handle was told is durable. Every transaction looks for that first: nothing is
 * written then, the log says "database-went-back", calls answer REWOUND until the engine has let go
 * of what it held in memory, and serve, poll and finish go on by themselves, as a new node, from
 * what the database has now. What was lost is executed again; a lost start or message has to be
 * sent again by its client. A node that has nothing to do notices within two seconds.
 *
 * DURABLE.  What a call says is durable is synced to disk when it returns PAWL_OK.
 *
 * The library never writes to stdout or stderr, never exits, and installs no signal handlers; its
 * threads block all signals.
 * */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION "0.2.0"
#define PAWL_VERSION_NUMBER 200 /* major * 10000 + minor * 100 + patch */

/* Until 1.0 the library must have the major and the minor number of the header, and both are part
 * of its soname (libpawl.so.0.2): the dynamic linker refuses to start a program that was linked
 * with another one. From 1.0 on the major number is, and the library must not be older. A program
 * that loads the library by itself (dlopen(3), ctypes) compares pawl_version_number(). Enums are
 * int-sized. */

#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#else
#define PAWL_API
#endif

/* Marks a call that may not come back (FAILURE). Means nothing to the compiler. */
#define PAWL_MAY_LEAVE

/* Formats that the compiler can check. */
#if defined(__GNUC__)
#define PAWL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define PAWL_PRINTF(text, first)
#endif

/* ==== Codes ====================================================================================
 *
 * One table, from which the enum and the functions below are made:
 *   name, number (never changes), retryable, exit code of the tool, text
 * Retryable: the same call may succeed later without anything being changed in it. */
#define PAWL_CODES(X)                                                                              \
    X(OK, 0, 0, 0, "done")                                                                         \
    X(INVALID, 1, 0, 2, "an argument is not what the call takes")                                  \
    X(MISUSE, 2, 0, 2, "this call is not allowed here")                                            \
    X(NOMEM, 3, 1, 75, "out of memory")                                                            \
    X(LIMIT, 4, 0, 2, "larger than the limits table allows")                                       \
    X(BUSY, 5, 1, 75, "too much to do, or locked by another process")                              \
    X(TIMEOUT, 6, 1, 75, "it was not there in time")                                               \
    X(UNSUPPORTED, 7, 0, 69, "not built into this library")                                        \
    X(REFUSED, 8, 0, 1, "a condition that was asked for does not hold")                            \
    X(UNDECIDED, 9, 0, 75, "the storage has not said yet whether it is durable")                   \
    X(CLOSED, 10, 0, 69, "the engine is closing")                                                  \
    X(INTERNAL, 11, 0, 70, "a fault of pawl itself")                                               \
    X(FORKED, 12, 0, 70, "the handle belongs to the parent process")                               \
    X(NOTFOUND, 13, 0, 1, "there is no such thing")                                                \
    X(CONFLICT, 14, 0, 1, "the name is taken by something else")                                   \
    X(ENDED, 15, 0, 1, "the run has ended already")                                                \
    X(FAILED, 16, 0, 1, "the run or the call has failed")                                          \
    X(CANCELLED, 17, 0, 1, "it was cancelled")                                                     \
    X(HELD, 18, 0, 1, "the run is held")                                                           \
    X(SUSPENDED, 19, 1, 75, "the run waits; return from the function")                             \
    X(CANTOPEN, 20, 1, 66, "the database cannot be opened")                                        \
    X(NOTADB, 21, 0, 65, "the file is not a database")                                             \
    X(FOREIGN, 22, 0, 65, "the database has pawl tables that are not pawl's")                      \
    X(NEWER, 23, 0, 65, "the database was written by a newer pawl")                                \
    X(NOTWAL, 24, 0, 78, "the database is not in WAL mode")                                        \
    X(NETWORKFS, 25, 0, 78, "the database is on a network file system")                            \
    X(READONLY, 26, 1, 77, "the database cannot be written")                                       \
    X(FULL, 27, 1, 74, "the disk is full")                                                         \
    X(IO, 28, 1, 74, "reading or writing the disk failed")                                         \
    X(CORRUPT, 29, 0, 65, "the database is damaged")                                               \
    X(NOTDURABLE, 30, 0, 78, "the database would not keep what it acknowledges")                   \
    X(STORAGE, 31, 1, 74, "the database answered with an error")                                   \
    X(DATA, 32, 0, 65, "a row breaks a rule of the database")                                      \
    X(UNREACHABLE, 33, 1, 69, "the database server cannot be reached")                             \
    X(DENIED, 34, 0, 77, "the database server does not allow it")                                  \
    X(NODATABASE, 35, 0, 66, "the database server has no such database")                           \
    X(POOLER, 36, 0, 78, "a pooler stands between pawl and the database server")                   \
    X(FENCED, 37, 0, 75, "this node was closed by another one")                                    \
    X(REWOUND, 38, 1, 75, "the database went back to an earlier state")

typedef enum pawl_code {
#define PAWL_CODE_ENUM(name, number, retry, exit_code, text) PAWL_##name = number,
    PAWL_CODES(PAWL_CODE_ENUM)
#undef PAWL_CODE_ENUM
        PAWL_CODE_LAST_ = 0x7fffffff /* so that every number is a value of the type */
} pawl_code;

/* "PAWL_BUSY"; "PAWL_?" for a number that is no code. Static text. */
PAWL_API const char *pawl_code_name(pawl_code code);

/* One sentence from the table. Static text. */
PAWL_API const char *pawl_code_text(pawl_code code);

/* 1 if the same call may succeed later unchanged. */
PAWL_API int pawl_code_retryable(pawl_code code);

/* The version of the library that is running; compare with PAWL_VERSION. Static text; a number. */
PAWL_API const char *pawl_version(void);
PAWL_API int pawl_version_number(void);

/* ==== Limits ===================================================================================
 *
 * What comes from outside is checked at the edge; beyond these the answer is PAWL_LIMIT. Names and
 * ids are UTF-8 without NUL; anything else is PAWL_INVALID. */
#define PAWL_MAX_PAYLOAD (16 * 1024 * 1024) /* one value, in bytes */
#define PAWL_MAX_NAME 256                   /* a name: workflow, work, mailbox, queue, tag … */
#define PAWL_MAX_ID 512                     /* the id of a run, an idempotency key, a session */
#define PAWL_MAX_URL 4096                   /* a database URL */
#define PAWL_MAX_DEPTH 128                  /* nesting of a JSON value */
#define PAWL_MAX_STATUS 1024                /* a custom status */
#define PAWL_MAX_ATTRIBUTES 32              /* attributes of a run */
#define PAWL_MAX_FUTURES 100000             /* futures of a run at one time */

/* ==== Time ==================================================================================== */
#define PAWL_FOREVER INT64_MAX
#define PAWL_SECONDS(n) ((int64_t)(n)*1000)
#define PAWL_MINUTES(n) ((int64_t)(n)*60000)
#define PAWL_HOURS(n) ((int64_t)(n)*3600000)
#define PAWL_DAYS(n) ((int64_t)(n)*86400000)

/* ==== The nouns ================================================================================
 *
 *   workflow    a registered function; a *run* is one execution of it, known by its id
 *   op          one durable call of a run; the *journal* is the list of its ops with their results
 *   generation  a fresh journal of the same run, by pawl_continue_as_new() or pawl_redrive()
 *   work        a function that does something outside: a *step* or a *call* of a run; a *task* is
 *               one for other nodes (NOT BUILT)
 *   node        an engine that drives runs; its *claim* on a run is its right to, while it lives
 *   park        where a run waits: sleep, receive, await, call. Cancellation is told there
 *   held        in trouble that is not the run's fault: visible, with a reason, resumable
 *   mailbox     where messages for a run wait; a *receipt* is the remembered answer to a key
 *   outbox      where starts and messages from your own transactions wait for their turn
 */
typedef struct pawl pawl;                 /* the engine: one handle on one database */
typedef struct pawl_run pawl_run;         /* a run, as its workflow function sees it */
typedef struct pawl_work pawl_work;       /* one attempt of a work function */
typedef struct pawl_future pawl_future;   /* something that a run has started and not yet awaited */
typedef struct pawl_outcome pawl_outcome; /* how a run or a call has ended */
typedef struct pawl_info pawl_info;       /* what is known about a run */

/* A workflow: gives its result as JSON text. NULL fails the run ("null"), unless a pawl_json() of
 * the function has failed before: then it is held, as it is for what is no JSON, or too large. */
typedef const char *pawl_workflow_fn(pawl_run *run, const char *input);

/* Work: gives its result as JSON text, or NULL by way of pawl_work_fail() and its relatives (NULL
 * without them counts as a transient failure). What is no JSON, or too large, fails for good
 * ("invalid"). */
typedef const char *pawl_work_fn(pawl_work *work, const char *input);

/* Work inside a transaction: `native` is a `sqlite3 *` or `PGconn *`. See pawl_transact(). */
typedef const char *pawl_transact_fn(pawl_work *work, void *native, const char *input);

/* ==== Opening ==================================================================================
 */

/* Time and randomness from outside, for tests (pawl_test.h does this for you). Called from any
 * thread that pawl uses; `arg` must live until pawl_close(). */
typedef struct pawl_hooks {
    size_t size;
    int64_t (*now_ms)(void *arg);                        /* since 1970, UTC */
    int64_t (*mono_ns)(void *arg);                       /* never goes back */
    int (*random)(void *bytes, size_t count, void *arg); /* 0, or -1 */
    void *arg;
} pawl_hooks;

typedef struct pawl_options {
    size_t size;

    /* Called for every connection that pawl makes, before it is used: `native` is a `sqlite3 *` or
     * a `PGconn *`. Return 0 to go on; anything else refuses the connection with PAWL_CANTOPEN.
     * SQLite's wal_hook is pawl's. */
    int (*on_connect)(void *native, void *arg);
    void *on_connect_arg;

    /* One call per event: level 0 debug, 1 info, 2 warning, 3 error; `event` a short name; `fields`
     * a list "key=value key=value", values quoted where they need it. May be called from any thread
     * that pawl uses; must not call pawl. NULL: nothing is logged. */
    void (*log)(int level, const char *event, const char *fields, void *arg);
    void *log_arg;

    /* 1: an existing SQLite database that is not in WAL mode is switched to it for good. 0: it is
     * refused with PAWL_NOTWAL, because its other users would notice. New files always are. */
    int64_t switch_to_wal;

    /* Size in bytes at which SQLite's write-ahead log is copied back and begun anew. 0: 64 MiB. */
    int64_t wal_bytes;

    /* How long a start or a message may wait for room in a full queue, or for a locked database,
     * before it is answered PAWL_BUSY, or for a server that is gone: PAWL_UNREACHABLE. 0: 5000. */
    int64_t busy_ms;

    /* The name space of all ids and names of this handle; it sees and drives no other. NULL: "". */
    const char *tenant;

    /* Who this is, for people: "node" in the list of nodes, "by" of starts and messages.
     * NULL: the host's name and the process id. */
    const char *name;

    /* What of the program runs here, for instance a commit id. A run that was held because this
     * build could not go on is tried again by another one. NULL: the build id of the executable,
     * which says nothing about plug-ins that it loads or scripts that it interprets: where
     * workflows live in those, give an id that changes with them. */
    const char *build;

    /* Threads that drive runs and work under pawl_serve(): at first, and at most while work
     * functions block. -1: none, the caller drives by pawl_poll(). 0: one per processor; at most
     * 64. More than 64 count as 64. */
    int64_t threads;
    int64_t threads_max;

    /* Parked runs that are kept in memory, in bytes together. The rest is rebuilt by replay. 0: 256
     * MiB. */
    int64_t warm_bytes;

    /* NOT BUILT. Tags whose tasks this node takes, with commas between; "*": all. NULL: only
     * untagged ones. */
    const char *tags;

    /* How long a node may be silent before others take over its runs, where its death does not show
     * by itself (PostgreSQL). A process that lives is not silent, however long its work functions
     * take. The server's locks and answers are waited for less long. 0: 5000. */
    int64_t claim_ms;

    /* How long pawl_stop() lets work functions go on before pawl_serve() returns without them. The
     * next pawl_serve(), and pawl_close(), wait for them. Also how long a run that is cancelled, or
     * has clean-ups to do, waits for those that it has begun. 0: 10000. */
    int64_t drain_ms;

    /* NOT BUILT. Finished runs are deleted this long after their end. 0: never. */
    int64_t keep_ms;

    /* NULL: the system's clock and randomness. */
    const pawl_hooks *hooks;

    /* 1: this handle only looks. Nothing is made, migrated or written, neither in the database nor
     * beside it, and the engine never becomes a node: so it may look at a copy, at a standby, and
     * at files that this user cannot write. What is left is inspect, wait, list, tree, history,
     * why, nodes and read_state; every other call answers PAWL_READONLY. Waits look once a second:
     * they cannot ask to be notified. A SQLite file that is copied without its -wal and -shm is
     * read without locks: once another program has written to it, each call answers BUSY until the
     * handle is opened again. A -wal file that is not empty cannot be read without -shm: CANTOPEN,
     * which names it. */
    int64_t look_only;

    /* How long pawl_poll() goes on while there is more to do; at least one thing is done by each
     * call, and what it has begun it ends. -1: until nothing is left. 0: 10. */
    int64_t poll_ms;

    /* Threads that call work functions under pawl_poll() and pawl_finish(), so that a step which
     * blocks does not stop the caller's loop: steps, calls, their later forms, undos and finallys.
     * Workflow functions stay on the caller's thread, as do the functions of pawl_transact(). The
     * descriptor of pawl_fd() becomes readable when one has returned; the next pawl_poll() records
     * the result. Those that are still running when pawl_finish() or pawl_close() ends have
     * drain_ms for it. 0: none, the caller calls them. More than 64 count as 64. */
    int64_t work_threads;
} pawl_options;

/* Open the engine on a database.
 *
 *   url       "app.db" or "sqlite:app.db"         a SQLite file, made if it is not there
 *             "sqlite:app.db?durability=relaxed"  may lose the last commits at a power failure
 *             "memory:"                           gone with the handle
 *             "postgres://user@host/db"           PostgreSQL 13 or newer, as libpq reads such URLs;
 *                                                 also ?durability=relaxed, and, if a pooler stands
 *                                                 before the server, ?pooler=transaction
 *   options   NULL for the defaults; borrowed for the call
 *   out       always gets a handle, even on failure (to be asked and then closed); NULL only
 *             when memory is out
 *
 * pawl lives beside an application's own tables: all of its tables are called pawl_…, and it
 * leaves user_version and application_id alone. On PostgreSQL they are in a schema pawl, which is
 * made if the user may; the driver is libpawl-pg.so, which needs libpq.
 *
 * Errors: MISUSE (see FORK), UNSUPPORTED, FOREIGN, NEWER, NOTDURABLE, READONLY; of files CANTOPEN,
 * NOTADB, NOTWAL, NETWORKFS; of servers UNREACHABLE, DENIED, NODATABASE, POOLER. With look_only
 * also NOTFOUND (there is nothing of pawl in the database), and READONLY where the tables are those
 * of an older pawl.
 * Durable: the tables. Blocks: on the disk; up to busy_ms on a locked database; up to claim_ms on a
 * server that does not answer. */
PAWL_API pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options);

/* Close the engine and free the handle. NULL is allowed. No other thread may be using it, and
 * pawl_serve() must have returned; waits for work functions that are still running. What it owns
 * becomes free for other nodes at once. Errors: MISUSE while the engine is being driven, and from a
 * workflow, work or deferred function: nothing is closed then, and the handle, with its
 * pawl_errtext(), stays what it was. */
PAWL_API pawl_code pawl_close(pawl *p);

/* The last error of the calling thread on this handle: what happened; the specifics (a path, a
 * number, what was found); what to do next. Never NULL, "" when there is nothing to say; `p` may be
 * NULL. The text
 * is good until the same thread's next failing call on this handle, or pawl_close(). */
PAWL_API pawl_code pawl_errcode(pawl *p);
PAWL_API const char *pawl_errmsg(pawl *p);
PAWL_API const char *pawl_errdetail(pawl *p);
PAWL_API const char *pawl_errhint(pawl *p);

/* All three in one text, for a log or a terminal: "message: detail (hint)". */
PAWL_API const char *pawl_errtext(pawl *p);

#define PAWL_ID_SIZE 37

/* A fresh id for a run that has no better one: a UUIDv7. PAWL_OK, or STORAGE without randomness. */
PAWL_API pawl_code pawl_id_new(char out[PAWL_ID_SIZE]);

/* Free what pawl has allocated for you where a call says so. NULL is allowed. */
PAWL_API void pawl_free(void *memory);

/* ==== Registering ==============================================================================
 *
 * At any time: a run that waited for it goes on. Names are copied; functions and args are used
 * until pawl_close() returns. The same name (and version) with another function or arg is
 * PAWL_CONFLICT. Not durable. The first error sticks: serve, poll and finish answer it, so that a
 * row of registrations needs no checks; a thread that drives already goes on. Names (of workflows,
 * work, steps, mailboxes, patches), ids of runs and idempotency keys are not empty, and those that
 * begin with "pawl." are reserved (INVALID). */

typedef struct pawl_workflow_options {
    size_t size;
    const char *version;    /* a run is pinned to the version it started with; several may be
                               registered, new runs take the one registered last. NULL: "1" */
    void *arg;              /* for pawl_arg() */
    int64_t returns_errors; /* NOT BUILT. 1: see RETURNING */
} pawl_workflow_options;

typedef struct pawl_work_options {
    size_t size;
    void *arg;        /* for pawl_work_arg() */
    int64_t at_most;  /* calls by pawl_call() at one time in this process; 0: no limit */
    int64_t no_tasks; /* NOT BUILT. 1: this node takes no tasks of that name */
} pawl_work_options;

/* Register a workflow, or a version of one. */
PAWL_API pawl_code pawl_register_workflow(pawl *p, const char *name, pawl_workflow_fn *fn,
                                          const pawl_workflow_options *options);

/* Register a work function: needed for pawl_call(), pawl_undo() and pawl_finally(). */
PAWL_API pawl_code pawl_register_work(pawl *p, const char *name, pawl_work_fn *fn,
                                      const pawl_work_options *options);

/* ==== Driving ==================================================================================
 *
 * An engine becomes a node, which claims runs and does work, at its first serve, poll or finish; a
 * pure client never does. One serve, poll or finish at a time, and none from a workflow or work
 * function (MISUSE); a finish waits for another one, and for the run while a serve drives.
 *
 * On PostgreSQL a node needs 5 connections, a client 2; it uses some more if the server gives them.
 * With fewer it does not become a node: PAWL_UNREACHABLE, and the detail names the limit. A node
 * that loses some claims nothing until it has them again; the log says node-unable, node-able. */

/* Drive runs and work on the engine's threads until pawl_stop(). Then no more is claimed or begun,
 * what is under way gets drain_ms to end, what has ended is recorded (for which the database has
 * drain_ms again, or a second), and the rest is given back. A function that does not return in time
 * is left where it is, a workflow function too that does not come to a call of pawl: a line of the
 * log says which, what it gives is dropped, the next owner of the run executes it again, and its
 * thread is waited for by the next pawl_serve() and by pawl_close(). Only a transactional step is
 * waited for, since it has locks in the database. PAWL_OK after a stop. */
PAWL_API pawl_code pawl_serve(pawl *p);

/* Ask pawl_serve(), pawl_finish() and everything that waits on this handle to return (CLOSED); kept
 * for the next one if none is under way. One write to a pipe: may be called from a signal handler
 * and from any thread, any number of times. */
PAWL_API void pawl_stop(pawl *p);

/* Drive in the calling thread, as far as there is something to do now, but not for longer than
 * poll_ms, and return. Work functions run inside this call, unless there are work_threads. *did, if
 * not NULL: the number of things done; 0 means idle. After the first call the engine is a node
 * until pawl_close(), and stays alive between two calls: no other node drives what it owns. */
PAWL_API pawl_code pawl_poll(pawl *p, int64_t *did);

/* For an event loop around pawl_poll(): a descriptor that becomes readable when there is something
 * to do, also when another process has sent, started or released something that this node can
 * execute (pawl_poll() empties it; do not read it; it is closed by pawl_close()), -1 on failure;
 * and the time in ms, as poll(2) takes it, until pawl_poll() wants to be called anyway: -1 never, 0
 * now (also before the first poll); after a poll that failed, its back-off. Other processes are
 * heard from the first poll on; where hooks tell the time, only by looking once a second. */
PAWL_API int pawl_fd(pawl *p);
PAWL_API int pawl_timeout(pawl *p);

/* Drive one run, over all its generations, with the children it waits for, until it has
 * ended; claims nothing else. The workflow and its steps run in the calling thread; later forms of
 * steps run one after the other in it while the run waits. If another live node owns the run, wait
 * for it. Returns as pawl_wait() does; on TIMEOUT, and after pawl_stop() (CLOSED), what has
 * returned is recorded and what it owned is given back: so in a loop it gets further each time. */
PAWL_API pawl_code pawl_finish(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out);

/* ==== Clients ==================================================================================
 *
 * Any thread, any process; no node needed. */

typedef struct pawl_start_options {
    size_t size;
    const char *version;    /* NULL: the one registered last, here or on the node that claims it */
    const char *attributes; /* a JSON object of strings, numbers, booleans; see pawl_attr() */
    int64_t delay_ms;       /* not before */
    int64_t deadline_ms;    /* cancelled, with its clean-ups, this long after its start; 0: never */
    int64_t *created; /* if not NULL: 1 when this call has made the run, 0 when it was there */
} pawl_start_options;

/* Start a run. If a run of this id is there already, live or ended, with the same workflow and the
 * same input (of its first generation), that is PAWL_OK too: repeating a start is harmless. The
 * same input means the same JSON value: blanks, the order of keys, how a number or a character is
 * written do not matter. `id` NULL is not allowed: choose one that means something, or
 * pawl_id_new(). Errors: CONFLICT (the id belongs to a run of another workflow or input). A
 * workflow that no node knows is no error: the run waits, and is held, until one does. Durable: the
 * run. */
PAWL_API pawl_code pawl_start(pawl *p, const char *workflow, const char *id, const char *input,
                              const pawl_start_options *options);

typedef struct pawl_send_options {
    size_t size;
    const char *key; /* idempotency key: delivered once, for the life of the run. The same key with
                        another message (another JSON value) is CONFLICT */
    const char *start; /* workflow to start under that id, in the same commit, if there is no run */
    const char *start_input; /* its input */
    const pawl_start_options *start_options;
    int64_t *seq; /* if not NULL: number of the message, from 1, in the order of arrival */
} pawl_send_options;

/* Send a message into a run's mailbox. It stays until the run receives it, also over
 * continue-as-new; any number may wait. Errors: NOTFOUND (another tenant's run is none), ENDED,
 * CONFLICT (the key). Durable: the message. */
PAWL_API pawl_code pawl_send(pawl *p, const char *id, const char *mailbox, const char *message,
                             const pawl_send_options *options);

/* Wait for the end of a run. PAWL_OK: it is done. FAILED, CANCELLED: *out says why, and so does
 * pawl_errtext(). TIMEOUT: it goes on. HELD: it is in trouble, *out says why; it may go on later.
 * *out (`out` may be NULL) is yours: pawl_outcome_free(). In a work function that was called by
 * pawl_poll() or pawl_finish() this engine drives nothing meanwhile. Errors: NOTFOUND. */
PAWL_API pawl_code pawl_wait(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out);

/* Ask a run to stop. It is told at its next park, or before it calls the next work function; one
 * that is being called hears it by pawl_work_cancelled(), and is waited for as long as drain_ms
 * says. Its undos and finallys are carried out. Repeating is harmless; a run that has ended is
 * ENDED. `reason` may be NULL (at most PAWL_MAX_ID bytes). Works on held runs. Errors: NOTFOUND.
 * Durable: the request. */
PAWL_API pawl_code pawl_cancel(pawl *p, const char *id, const char *reason);

/* pawl_start() and pawl_send() inside a transaction of your own: `native` is your connection
 * (`sqlite3 *` or `PGconn *`) to this handle's database, in a transaction that you commit. The
 * start or message happens if and when you do, with the durability of your connection. What turns
 * out wrong only later (the run has ended) stays in the outbox as a dead letter, for people to see.
 * `created` is 1 if there seems to be no such run yet (0 of pawl_send_in(), which cannot know);
 * `seq` is 0 as long as the message has no number. On SQLite begin with BEGIN IMMEDIATE: a
 * transaction that has read before may not be able to write any more (BUSY). Errors: NOTFOUND,
 * CONFLICT, ENDED as far as can be seen; MISUSE if there is no transaction; INVALID if the
 * connection is to another database. */
PAWL_API pawl_code pawl_start_in(pawl *p, void *native, const char *workflow, const char *id,
                                 const char *input, const pawl_start_options *options);
PAWL_API pawl_code pawl_send_in(pawl *p, void *native, const char *id, const char *mailbox,
                                const char *message, const pawl_send_options *options);

/* Carry out what is committed in the outbox, in this thread: at PAWL_OK your start is a run, your
 * message is in its mailbox, unless its row has failed. Without it a node does so within a second.
 * Errors: BUSY (PostgreSQL: another transaction keeps the row of a run locked; what is for that run
 * was left, in its order, and everything else was carried out. A node tries again by itself). */
PAWL_API pawl_code pawl_outbox_flush(pawl *p);

/* NOT BUILT. Complete a task from outside with the ticket that its work function gave out
 * (pawl_work_ticket()). `key` as in pawl_send_options, may be NULL. Errors: NOTFOUND (no such
 * ticket), ENDED (completed already, timed out or cancelled). Durable: the result. */
PAWL_API pawl_code pawl_complete(pawl *p, const char *ticket, const char *result, const char *key);
PAWL_API pawl_code pawl_complete_failed(pawl *p, const char *ticket, const char *name,
                                        const char *message, const char *key);

/* A value of a run's state (pawl_state_set()), live or ended. *out is yours: pawl_free(). Errors:
 * NOTFOUND (no run, or no such key). */
PAWL_API pawl_code pawl_read_state(pawl *p, const char *id, const char *key, char **out);

/* ---- Outcomes: how a run or call has ended ---- */

/* The result as JSON text; "null" when there is none. Good as long as the outcome. (NULL is allowed
 * in all of these; the answers are "null", PAWL_INVALID and "".) */
PAWL_API const char *pawl_outcome_value(const pawl_outcome *o);

/* PAWL_OK; FAILED: attempts used up, or a permanent failure; TIMEOUT: a time limit of the call, or
 * of a receive; CANCELLED; HELD (of runs only). */
PAWL_API pawl_code pawl_outcome_code(const pawl_outcome *o);

/* Of a failure: its name ("rejected", as given to pawl_fail()), what happened, and where: the op
 * and run that failed first. "" when there is none. */
PAWL_API const char *pawl_outcome_name(const pawl_outcome *o);
PAWL_API const char *pawl_outcome_message(const pawl_outcome *o);
PAWL_API const char *pawl_outcome_where(const pawl_outcome *o);

/* NULL is allowed. Not for the outcomes of pawl_try(), which are borrowed. */
PAWL_API void pawl_outcome_free(pawl_outcome *o);

/* ==== Workflows: what a run can do =============================================================
 *
 * All of these are for the workflow function, on its own thread (elsewhere: MISUSE). "Recorded"
 * means: the answer is in the journal, and therefore deterministic. Buffered ones are committed
 * with the next op that waits or does something; all are durable before anything outside is done.
 *
 * Any of them leaves when it is given a wrong argument (INVALID, LIMIT: a mistake in the workflow,
 * so the run is held and a corrected build can go on) or when memory is out (what was done is
 * recorded; the run is tried again after pauses that grow, and held after ten tries). Where it says
 * "never leaves" that means: not for waiting, failure or cancel. */

/* ---- Work ---- */

typedef struct pawl_call_options {
    size_t size;
    int64_t attempts;       /* at most; 1: no retry. 0: 3; PAWL_FOREVER: until it succeeds */
    int64_t backoff_ms;     /* before the second attempt. 0: 1000 */
    int64_t backoff_max_ms; /* cap. 0: 60000 */
    int64_t backoff_kind;   /* PAWL_EXPONENTIAL (default), PAWL_LINEAR, PAWL_CONSTANT */
    int64_t no_jitter;      /* 1: exactly these times; otherwise up to a quarter less */
    int64_t attempt_ms;     /* time limit of one attempt; 0: none. A function is never interrupted:
                               pawl_work_cancelled() becomes 1, its late result is dropped, and the
                               next attempt may begin beside it */
    int64_t overall_ms;     /* of all attempts together. 0: none */
    const char *undo;       /* work that undoes it, registered together with the call; called, if
                               the call was ever handed out, with {"input":…,"result":…}, result
                               null when it is not known, or both together are too large for a
                               value. See pawl_undo() */
    const char *queue;      /* NOT BUILT, down to priority: pawl_call() only. NULL: "default" */
    const char *tag;        /* only nodes with this tag take it */
    const char *affinity;   /* session: all tasks with it go to one node, as long as that lives */
    const char *fair_key;   /* tasks of different keys take turns; limits may count per key */
    int64_t priority;       /* higher first; 0 is the middle */
    void *arg;              /* of steps: for pawl_work_arg(), instead of the registration's; not
                               recorded, must live until pawl_close() returns */
} pawl_call_options;

enum { PAWL_EXPONENTIAL = 0, PAWL_LINEAR = 1, PAWL_CONSTANT = 2 };

/* Step or call? The promise is the same: at least once until recorded, never again after. Both run
 * in the process that drives the run. A step needs no registration; a call is of a registered
 * function, by its name, and at_most limits it. (NOT BUILT: that a call is queued and done by any
 * node, with tags and tickets.) */

/* Run a work function here and now, on the thread's own stack, and record its result. Never again
 * once recorded; perhaps again if the process dies before. `name` tells it apart in the journal and
 * need not be registered. Leaves when the attempts are used up, or at a permanent failure. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_step(pawl_run *run, const char *name, pawl_work_fn *fn,
                                              const char *input, const pawl_call_options *options);

/* Have a registered work function called, at least once, and wait for the result. Where the process
 * that drives the run does not have it, the run is held until one that has it goes on with it. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_call(pawl_run *run, const char *work, const char *input,
                                              const pawl_call_options *options);

/* Run `fn` inside the very transaction that records it: rows that it writes through `native` and
 * the record commit together, exactly once. `fn` may be called again before that. If it fails
 * (pawl_work_fail(), NULL) its rows are rolled back, and it is tried again as a step is. So it is
 * if it takes longer than its limit, though not before it returns; and if the commit breaks a rule
 * of your tables ("commit"). It must neither commit nor roll back itself, nor leave a statement
 * open, and must not call pawl except on its own `work` (MISUSE): then the step fails for good
 * ("misuse").
 *
 * On SQLite there is one writer: no other one writes while `fn` runs. On PostgreSQL others go on,
 * up to four such functions of a node among them; make settings with SET LOCAL, and do not leave
 * the connection idle for long: the server ends it after 3/5 of claim_ms. pawl_stop() waits for
 * `fn`, which may ask pawl_work_cancelled(). */
PAWL_API PAWL_MAY_LEAVE const char *pawl_transact(pawl_run *run, const char *name,
                                                  pawl_transact_fn *fn, const char *input,
                                                  const pawl_call_options *options);

/* ---- Waiting ---- */

/* Sleep; wake-ups survive everything. An instant in the past returns at once; a negative duration
 * is a wrong argument. For "every night at two" compute the instant in a step, which may use the
 * clock and the time zone. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_sleep(pawl_run *run, int64_t ms);
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_sleep_until(pawl_run *run, int64_t at_ms);

/* The next message of a mailbox, in the order of arrival. OK or TIMEOUT; *message is "null" then.
 * With timeout 0 only what is there already. If a message and the time-out are both there, the
 * message wins; what arrives after it stays for the next receive, so let messages say what they
 * are about. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_receive(pawl_run *run, const char *mailbox,
                                               int64_t timeout_ms, const char **message);

/* Call a step again and again, `every_ms` (above 0) apart, until it gives something other than null
 * or false; that is the value. A transient failure counts as null, a permanent one fails this call.
 * "null" after `timeout_ms`, but it is called at least once. Only the last call is recorded. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_until(pawl_run *run, const char *name, pawl_work_fn *fn,
                                               const char *input, int64_t every_ms,
                                               int64_t timeout_ms);

/* Send a message to another run, once: its key is this op. OK, NOTFOUND or ENDED, recorded. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_tell(pawl_run *run, const char *id, const char *mailbox,
                                            const char *message);

/* Who sent the message that was received last, as the sender's engine is named (not a proof), or
 * the id of the run that told it; recorded with it; "" before the first of a generation. */
PAWL_API const char *pawl_sender(pawl_run *run);

/* ---- Children ---- */

typedef struct pawl_child_options {
    size_t size;
    const char *id;      /* NULL: made from the parent's id, generation and position; unique. (Too
                            long for an id: a wrong argument.) One that you give is used once, also
                            over generations of the parent */
    const char *version; /* NULL: the one registered last */
    int64_t detached; /* 1: a run of its own; pawl_child() gives its id as a JSON string at once */
} pawl_child_options;

/* Start another run and wait for its result. It is cancelled with its parent, and its failure is
 * the failure of this call. Leaves also when the id belongs to a run that this one has not
 * started. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_child(pawl_run *run, const char *workflow,
                                               const char *input,
                                               const pawl_child_options *options);

/* ---- Futures: several things at once ----
 *
 * The _later form of an op starts it and gives a future at once; it never leaves. A future belongs
 * to its run and is freed with it; one of another run is a wrong argument. pawl_step_later() runs
 * on another thread of this process. */
PAWL_API pawl_future *pawl_step_later(pawl_run *run, const char *name, pawl_work_fn *fn,
                                      const char *input, const pawl_call_options *options);
PAWL_API pawl_future *pawl_call_later(pawl_run *run, const char *work, const char *input,
                                      const pawl_call_options *options);
PAWL_API pawl_future *pawl_sleep_later(pawl_run *run, int64_t ms);
PAWL_API pawl_future *pawl_sleep_until_later(pawl_run *run, int64_t at_ms);
PAWL_API pawl_future *pawl_until_later(pawl_run *run, const char *name, pawl_work_fn *fn,
                                       const char *input, int64_t every_ms, int64_t timeout_ms);
PAWL_API pawl_future *pawl_receive_later(pawl_run *run, const char *mailbox, int64_t timeout_ms);
PAWL_API pawl_future *pawl_child_later(pawl_run *run, const char *workflow, const char *input,
                                       const pawl_child_options *options);

/* All of several as one future: its value is the JSON array of their values, in order. Or the first
 * of several: {"index":…,"value":…}; the others are cancelled. For nesting. */
PAWL_API pawl_future *pawl_all_later(pawl_run *run, pawl_future *const *futures, size_t count);
PAWL_API pawl_future *pawl_any_later(pawl_run *run, pawl_future *const *futures, size_t count);

/* Wait for a future: its value, as its op would have given it. Leaves when it failed. A sleep and a
 * receive that timed out have the value null (pawl_try() tells the latter from a message "null" by
 * its code, TIMEOUT). */
PAWL_API PAWL_MAY_LEAVE const char *pawl_await(pawl_run *run, pawl_future *future);

/* Wait until all are done; leaves at the first failure. Then ask pawl_value(). */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_all(pawl_run *run, pawl_future *const *futures,
                                           size_t count);

/* Wait for the first, and give its index; the others are cancelled before this returns, and leave
 * nothing behind. PAWL_KEEP: they go on. Leaves when the first to end has failed; with
 * PAWL_FAILURES it comes back then too, ask pawl_try(). -1 only when RETURNING. */
PAWL_API PAWL_MAY_LEAVE int64_t pawl_any(pawl_run *run, pawl_future *const *futures, size_t count,
                                         int64_t flags);
enum { PAWL_KEEP = 1, PAWL_FAILURES = 2 };

/* Wait for a future and give how it ended, failure included. Comes back, except when the run itself
 * is cancelled. The outcome is borrowed, like a value. */
PAWL_API PAWL_MAY_LEAVE const pawl_outcome *pawl_try(pawl_run *run, pawl_future *future);

/* Cancel what a future stands for. Its outcome becomes CANCELLED if it was not there already. */
PAWL_API pawl_code pawl_future_cancel(pawl_run *run, pawl_future *future);

/* The value of a future that is done (pawl_all, pawl_any have seen it); NULL if it is not, or was
 * given back. Does not wait. */
PAWL_API const char *pawl_value(pawl_future *future);

/* ---- Undo, finally, defer ---- */

/* Register a compensation: if the run fails, is cancelled or times out, `work` is called with
 * `input`, last registered first, each with its own retries, from the journal: even if this code is
 * gone. Recorded at once (buffered); cancellation is never delivered between the op before and this
 * call. Later forms that are still being called when the run ends are asked to stop, and waited for
 * as long as drain_ms says, before the first of these. Where the node that drives the run does not
 * have `work`, the run is held until one that has it goes on; where its attempts are used up, until
 * pawl_release(), which tries again. */
PAWL_API pawl_code pawl_undo(pawl_run *run, const char *work, const char *input);

/* The same, but at every end of the run, after the undos. */
PAWL_API pawl_code pawl_finally(pawl_run *run, const char *work, const char *input);

/* Local clean-up: fn(arg) is called whenever pawl leaves the function, for whatever reason (end,
 * failure, waiting without memory), last first, on some thread's own stack. Not recorded; must not
 * make durable calls. */
PAWL_API pawl_code pawl_defer(pawl_run *run, void (*fn)(void *arg), void *arg);

/* Fail the run for good, with a name for programs and a message (printf) for people. Leaves. Gives
 * NULL, so that `return pawl_fail(…)` reads well and is right when RETURNING. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_fail(pawl_run *run, const char *name, const char *format,
                                              ...) PAWL_PRINTF(3, 4);

/* Continue as new: end this generation and begin the next one with `input` and an empty journal.
 * Whatever is pending (later forms, attached children) is cancelled, finallys are carried out,
 * undos are forgotten; messages that were not received, receipts, state, status and the run's
 * deadline stay. `version` NULL: the one registered last. Old generations stay readable until
 * pawl_prune(). Leaves; gives NULL for `return pawl_continue_as_new(…)`. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_continue_as_new(pawl_run *run, const char *input,
                                                         const char *version);

/* 1 when the journal has grown long (10,000 ops) and pawl_continue_as_new() would be wise.
 * Recorded. */
PAWL_API int pawl_should_continue_as_new(pawl_run *run);

/* ---- What is recorded at once (buffered; these never leave) ---- */

/* The time, never going back within a run. Take this, not the clock. */
PAWL_API int64_t pawl_now(pawl_run *run);

/* A UUIDv7; 64 random bits. */
PAWL_API const char *pawl_uuid(pawl_run *run);
PAWL_API uint64_t pawl_random(pawl_run *run);

/* 1 if this generation reached this point first with code that has the change called `name`; 0 if
 * its journal went past it before the change. Recorded:
 *   if (pawl_patch(run, "two-step-charge")) { new way } else { old way } */
PAWL_API int pawl_patch(pawl_run *run, const char *name);

/* What clients see as the custom status; JSON text. */
PAWL_API pawl_code pawl_set_status(pawl_run *run, const char *status);

/* An attribute: a string (of at most PAWL_MAX_ID bytes), number or boolean, as JSON; indexed, for
 * pawl_list(). "null" takes it away. */
PAWL_API pawl_code pawl_attr(pawl_run *run, const char *name, const char *value);

/* Key-value state of the run, kept over generations and after its end, and readable from outside;
 * setting "null" takes a key away, and "null" is what is not there. A key is a name of at most
 * PAWL_MAX_NAME bytes, not empty; a value any payload. pawl_state_get() gives what this run has set
 * last; a value of an earlier generation is read once, and recorded. pawl_state_of() reads that of
 * another run, as it is at the first execution ("null" if there is no such run). */
PAWL_API pawl_code pawl_state_set(pawl_run *run, const char *key, const char *value);
PAWL_API const char *pawl_state_get(pawl_run *run, const char *key);
PAWL_API PAWL_MAY_LEAVE const char *pawl_state_of(pawl_run *run, const char *id, const char *key);

/* One log line, through the engine's log callback, once: not again at replay. */
PAWL_API pawl_code pawl_log(pawl_run *run, int level, const char *format, ...) PAWL_PRINTF(3, 4);

/* ---- About the run ---- */

/* RETURNING (NOT BUILT): PAWL_OK while the run goes on; otherwise the code with which every call
 * now returns, PAWL_SUSPENDED or that of the first error. In other workflows always PAWL_OK. */
PAWL_API pawl_code pawl_run_error(pawl_run *run);

/* Its id, workflow, version, generation (from 1), and the `arg` of its registration. */
PAWL_API const char *pawl_run_id(pawl_run *run);
PAWL_API const char *pawl_run_workflow(pawl_run *run);
PAWL_API const char *pawl_run_version(pawl_run *run);
PAWL_API int64_t pawl_run_generation(pawl_run *run);
PAWL_API void *pawl_arg(pawl_run *run);

/* ---- Memory and values of a run ---- */

/* Zeroed memory that goes with the function, whenever pawl leaves it. Never NULL, except when
 * RETURNING: a branch on it would not be deterministic. */
PAWL_API PAWL_MAY_LEAVE void *pawl_alloc(pawl_run *run, size_t size);

/* Give a value, a future that is done, or memory from pawl_alloc(), back early: for loops of a
 * million steps. A future whose value was given back is not to be waited for again (INVALID). The
 * value of what is part of an open pawl_all_later() or pawl_any_later() stays nevertheless. */
PAWL_API pawl_code pawl_drop(pawl_run *run, const void *value);

/* Write JSON: see VALUES below. */
PAWL_API const char *pawl_json(pawl_run *run, const char *format, ...);

/* A part of a JSON value as a value of its own: for the input of the next call. NULL if it is not
 * there. */
PAWL_API const char *pawl_part(pawl_run *run, const char *json, const char *pointer);

/* Text out of JSON: the string at `pointer`, unescaped. */
PAWL_API const char *pawl_text(pawl_run *run, const char *json, const char *pointer,
                               const char *fallback);

/* ==== Work functions ===========================================================================
 *
 * Ordinary C on a thread's own stack: may block, use any library, start threads. May be called
 * again after a crash, so use pawl_work_key() where the outside can tell duplicates apart. Values
 * in and out live until the function returns. */

/* Stable over all attempts of this call, and different for every other: an idempotency key. */
PAWL_API const char *pawl_work_key(pawl_work *work);

/* Fail this attempt. `kind` PAWL_TRANSIENT: to be retried by the call's policy; PAWL_PERMANENT:
 * not. Gives NULL:
 *     return pawl_work_fail(work, PAWL_PERMANENT, "declined", "card ends in %s", last4); */
PAWL_API const char *pawl_work_fail(pawl_work *work, int kind, const char *name, const char *format,
                                    ...) PAWL_PRINTF(4, 5);
enum { PAWL_TRANSIENT = 0, PAWL_PERMANENT = 1 };

/* Fail this attempt, and have the next one not before `ms` from now (a Retry-After header). Gives
 * NULL. */
PAWL_API const char *pawl_work_retry(pawl_work *work, int64_t ms, const char *format, ...)
    PAWL_PRINTF(3, 4);

/* NOT BUILT. Leave the task open, to be completed by pawl_complete() with a ticket (a URL-safe
 * text). Only for tasks (pawl_call); attempt_ms still counts. Return pawl_work_pending(work) after
 * the ticket was handed out; it gives NULL. */
PAWL_API const char *pawl_work_ticket(pawl_work *work);
PAWL_API const char *pawl_work_pending(pawl_work *work);

/* 1 when the result is not needed any more: the run was cancelled, the attempt timed out, the node
 * lost its claim, or the engine stops. Long work asks now and then. */
PAWL_API int pawl_work_cancelled(pawl_work *work);

/* NOT BUILT. Note how far the work has got, as JSON; the next attempt can ask pawl_work_progress()
 * (NULL: nothing noted). Durable a little later. */
PAWL_API pawl_code pawl_work_note(pawl_work *work, const char *progress);
PAWL_API const char *pawl_work_progress(pawl_work *work);

/* A number that rises whenever the run changes hands, to be given outside as a fence. */
PAWL_API int64_t pawl_work_fence(pawl_work *work);

/* About this attempt: its number, from 1; what is called, and for which run; the `arg` of its
 * registration (NULL for a step whose name is not registered). */
PAWL_API int64_t pawl_work_attempt(pawl_work *work);
PAWL_API const char *pawl_work_name(pawl_work *work);
PAWL_API const char *pawl_work_run_id(pawl_work *work);
PAWL_API void *pawl_work_arg(pawl_work *work);

/* As pawl_log(), pawl_alloc(), pawl_json(), pawl_part() and pawl_text(); memory lives until the
 * function returns. */
PAWL_API pawl_code pawl_work_log(pawl_work *work, int level, const char *format, ...)
    PAWL_PRINTF(3, 4);
PAWL_API void *pawl_work_alloc(pawl_work *work, size_t size);
PAWL_API const char *pawl_work_json(pawl_work *work, const char *format, ...);
PAWL_API const char *pawl_work_part(pawl_work *work, const char *json, const char *pointer);
PAWL_API const char *pawl_work_text(pawl_work *work, const char *json, const char *pointer,
                                    const char *fallback);

/* ==== Values ===================================================================================
 *
 * Reading: by JSON Pointer (RFC 6901): "" is the whole, "/items/0/name" a part. The fallback is for
 * what is not there or of another kind. Nothing is allocated. Any thread, anywhere, on any JSON
 * text that pawl gave out or checked; on other text the answer is the fallback. */

/* A number without fraction or exponent that fits 64 bits; any number; true or false. */
PAWL_API int64_t pawl_get_int(const char *json, const char *pointer, int64_t fallback);
PAWL_API double pawl_get_real(const char *json, const char *pointer, double fallback);
PAWL_API int pawl_get_bool(const char *json, const char *pointer, int fallback);

/* How many elements an array has, or members an object; -1 for anything else. */
PAWL_API int64_t pawl_get_count(const char *json, const char *pointer);

/* What is there: */
typedef enum pawl_kind {
    PAWL_NOTHING = 0,
    PAWL_NULL,
    PAWL_FALSE,
    PAWL_TRUE,
    PAWL_NUMBER,
    PAWL_STRING,
    PAWL_ARRAY,
    PAWL_OBJECT
} pawl_kind;
PAWL_API pawl_kind pawl_get_kind(const char *json, const char *pointer);

/* The string at `pointer`, unescaped, into `out` with a NUL; cut if it does not fit. Gives its full
 * length in bytes, as snprintf(3) does; -1 (and out "") if there is no string. */
PAWL_API int64_t pawl_get_text(const char *json, const char *pointer, char *out, size_t room);

/* The part at `pointer` as JSON text, into `out`, likewise. */
PAWL_API int64_t pawl_get_json(const char *json, const char *pointer, char *out, size_t room);

/* PAWL_OK, INVALID or LIMIT; *at, if not NULL, is the position of the first byte that is wrong. */
PAWL_API pawl_code pawl_json_check(const char *json, size_t *at);

/* Writing: a format with ' in the place of ", so that it can be read in C:
 *
 *     pawl_json(run, "{'id':%s,'cents':%d,'paid':%b,'stock':%j}", id, 100, 1, stock)
 *
 *   %s    const char *   a string, escaped, and quoted unless it stands inside quotes
 *                        ('Hello, %s!'); NULL: null
 *   %j    const char *   JSON text as it is; NULL: null
 *   %d    int            %ld long, %lld long long; for an int64_t "%" PRId64 of <inttypes.h>,
 *                        or %lld and a cast
 *   %g    double         infinities and NaN are errors
 *   %b    int            true or false
 *   %%    a percent sign; \\' an apostrophe inside a string
 *
 * The compiler does not check these: mind the types. The result is checked. NULL when it is not
 * JSON, or too large; a run that goes on with it, or returns it, is then held with words that say
 * what was wrong, and a work function that returns it fails. When memory is out pawl_json() leaves,
 * and pawl_work_json() gives NULL. */

/* The same for clients: yours, pawl_free(). NULL on error. */
PAWL_API char *pawl_json_new(const char *format, ...);

/* ==== Looking at runs and managing them ========================================================
 */

/* What has become of a run now. *out is yours: pawl_info_free(). Errors: NOTFOUND. */
PAWL_API pawl_code pawl_inspect(pawl *p, const char *id, pawl_info **out);

/* Wait until the custom status has changed since `seen` (pawl_info_status_seq(); 0: any), or the
 * run has ended. TIMEOUT: it has not. Errors: NOTFOUND. */
PAWL_API pawl_code pawl_wait_status(pawl *p, const char *id, int64_t seen, int64_t timeout_ms,
                                    pawl_info **out);

typedef enum pawl_phase {
    PAWL_RUN_LIVE = 0,
    PAWL_RUN_DONE = 1,
    PAWL_RUN_FAILED = 2,
    PAWL_RUN_CANCELLED = 3,
    PAWL_RUN_FAILING = 4, /* its undos and finallys are being carried out */
    PAWL_RUN_HELD = 5     /* in trouble that is not its fault; see pawl_why() */
} pawl_phase;

/* "live", "done", "failed", "cancelled", "failing", "held"; "?" for another number. Static text. */
PAWL_API const char *pawl_phase_name(pawl_phase phase);

/* What an info says. Texts are good as long as it is. NULL is allowed; the answers are "", "null"
 * and 0. */
PAWL_API const char *pawl_info_id(const pawl_info *i);
PAWL_API const char *pawl_info_workflow(const pawl_info *i);
PAWL_API const char *pawl_info_version(const pawl_info *i);
PAWL_API pawl_phase pawl_info_phase(const pawl_info *i);
PAWL_API int64_t pawl_info_generation(const pawl_info *i);
PAWL_API const char *pawl_info_status(const pawl_info *i); /* custom status, "null" if none */
PAWL_API int64_t pawl_info_status_seq(const pawl_info *i); /* rises with each change of it */
PAWL_API const char *pawl_info_held(const pawl_info *i);   /* why it is held, "" if not */
PAWL_API const char *pawl_info_parent(const pawl_info *i); /* id, "" if none */
PAWL_API int64_t pawl_info_depth(const pawl_info *i);      /* in pawl_tree(): 0 is the root */
PAWL_API const char *pawl_info_by(const pawl_info *i);     /* who started it */
PAWL_API int64_t pawl_info_created_ms(const pawl_info *i);
PAWL_API int64_t pawl_info_updated_ms(const pawl_info *i);
PAWL_API int64_t pawl_info_finished_ms(const pawl_info *i); /* 0: not yet */
PAWL_API int64_t pawl_info_wake_ms(const pawl_info *i);     /* when it is due; 0: by an arrival */
PAWL_API void pawl_info_free(pawl_info *i);                 /* NULL is allowed */

/* The functions below that take a callback call it for each thing found, in order, with a pointer
 * that is good during the call only, on the calling thread, while no snapshot of the database is
 * held. It returns 0 to go on, anything else to end the list (the answer is PAWL_OK then). It may
 * call pawl, but not pawl_close(). */
typedef int pawl_info_fn(const pawl_info *info, void *arg);

typedef struct pawl_filter {
    size_t size;
    const char *workflow;  /* NULL: all */
    const char *id_prefix; /* NULL: all */
    const char *attribute; /* with attribute_value, a JSON scalar: runs that have exactly this */
    const char *attribute_value;
    int64_t phases;             /* bits: 1 << PAWL_RUN_HELD …; 0: all */
    int64_t created_after_ms;   /* 0: from the beginning */
    int64_t created_before_ms;  /* 0: until now */
    int64_t finished_before_ms; /* 0: does not matter */
    const char *after_id;       /* go on behind this run of an earlier list */
    int64_t oldest_first;       /* 1; otherwise newest first */
    int64_t limit;              /* 0: 100 */
} pawl_filter;

/* List runs, nearly in the order in which they were made. Cost grows with what is listed, not with
 * what there is; where only other filters than an attribute, a rare id_prefix, or phases of trouble
 * (failed, cancelled, failing, held) are given, also with what they pass over. Errors: NOTFOUND
 * (the run of after_id is gone). */
PAWL_API pawl_code pawl_list(pawl *p, const pawl_filter *filter, pawl_info_fn *fn, void *arg);

/* A run and its children, parents first. Errors: NOTFOUND. */
PAWL_API pawl_code pawl_tree(pawl *p, const char *id, pawl_info_fn *fn, void *arg);

/* The journal of a generation (0: the current one), from behind `after_seq`. `kind` is a word
 * ("started", "step", "sleep", "message"), `data` JSON text. Errors: NOTFOUND (the run, or the
 * generation). */
typedef struct pawl_event pawl_event;
typedef int pawl_event_fn(const pawl_event *event, void *arg);
PAWL_API pawl_code pawl_history(pawl *p, const char *id, int64_t generation, int64_t after_seq,
                                pawl_event_fn *fn, void *arg);
PAWL_API int64_t pawl_event_seq(const pawl_event *e);
PAWL_API int64_t pawl_event_generation(const pawl_event *e);
PAWL_API int64_t pawl_event_op(const pawl_event *e); /* seq of the op that it answers or tells news
                                                        of; 0: it is an op itself, or of none */
PAWL_API const char *pawl_event_kind(const pawl_event *e);
PAWL_API const char *pawl_event_name(const pawl_event *e);
PAWL_API int64_t pawl_event_at_ms(const pawl_event *e);
PAWL_API const char *pawl_event_data(const pawl_event *e);

/* What a run waits for, and what would make it go on, in sentences for people. *out is yours:
 * pawl_free(). Errors: NOTFOUND. */
PAWL_API pawl_code pawl_why(pawl *p, const char *id, char **out);

/* Stop driving a run until pawl_release(), with a reason for people (at most PAWL_MAX_ID bytes, or
 * NULL); work functions that are being called come to their ends, and what they give is recorded.
 * Let a run go on that is held, for whatever reason; one that is not held goes on anyway. It goes
 * on when later forms that were being called when it was held have returned. A release keeps the
 * generation: what was under way is tried again with the same pawl_work_key(), unlike after a
 * redrive. A run whose result the database has refused to record is held and stays with its node,
 * which has that result in memory: a release makes the node try to record it again, and so do a
 * cancel and a deadline that passes. An error that may be the whole storage's, or that run's alone,
 * is tried some seconds first, with all other runs going on. Errors: NOTFOUND, ENDED. Durable: the
 * hold, the release. */
PAWL_API pawl_code pawl_hold(pawl *p, const char *id, const char *reason);
PAWL_API pawl_code pawl_release(pawl *p, const char *id);

typedef struct pawl_redrive_options {
    size_t size;
    const char *key;  /* idempotency key: repeating is harmless */
    const char *from; /* name of the op from which on everything is done again. NULL: the first that
                         has failed */
    int64_t whole;    /* 1: everything */
    const char *version; /* NULL: the one it has */
} pawl_redrive_options;

/* Have a failed, cancelled or held run go on as a new generation whose journal begins with a copy
 * of the ops that are kept; what was undone is not. Work that was under way gets a new
 * pawl_work_key(), and is begun anew: with its first attempt, and without the pause of a retry.
 * Only work of later forms behind which other ops are kept goes on with its next attempt, when that
 * is due; pawl_until() keeps its time, pawl_transact() its attempts. Messages that were received
 * behind what is kept go back to their mailbox; state, status and attributes stay as they were
 * left. The old generation stays readable. Errors: NOTFOUND (the run, or an op called `from`),
 * REFUSED (it is live, or done, or held while a node has a result of it that could not be
 * recorded), CONFLICT (the key was used for a message, or for a redrive with another from, whole or
 * version). Durable: the new generation. */
PAWL_API pawl_code pawl_redrive(pawl *p, const char *id, const pawl_redrive_options *options);

/* Delete a run that has ended, with its children and everything recorded of them; with `force` also
 * a live one, which is then gone without any clean-up: a node that is driving it comes to the next
 * park, and what it writes and starts until then is deleted by the nodes soon after. Errors:
 * NOTFOUND, REFUSED (live, or the child of another run). */
PAWL_API pawl_code pawl_delete(pawl *p, const char *id, int force);

/* NOT BUILT. Delete all ended runs that the filter finds (roots only, with their children), at most
 * filter->limit; and, of the runs that stay, all but the newest `keep_generations` (0: keep all).
 * *deleted, if not NULL: how many. */
PAWL_API pawl_code pawl_prune(pawl *p, const pawl_filter *filter, int64_t keep_generations,
                              int64_t *deleted);

/* What has changed, for caches and dashboards: the runs that were made, ended, were held or
 * released, set their custom status, began to fail or a new generation since *position (0: from now
 * on), each at least once, as it is now, and none skipped; waits up to `timeout_ms` for the first,
 * TIMEOUT if there is none. *position moves on, also then; if `fn` ends the list, what it was not
 * told comes again. A cache takes a position, lists all runs, and goes on from there. On PostgreSQL
 * the feed stops before transactions that are under way, of any program. Runs that are deleted are
 * not reported. Changes are kept for an hour or more; a feed that is not read for ten minutes may
 * cease to be written. Errors: NOTFOUND (the position is older than what is kept: list anew). */
PAWL_API pawl_code pawl_changes(pawl *p, int64_t timeout_ms, pawl_info_fn *fn, void *arg,
                                int64_t *position);

/* For an event loop that follows the changes, beside pawl_serve() or without it: a descriptor that
 * becomes readable when pawl_changes() may have something new (runs that have ended and all the
 * rest), in this process or in another; -1 on failure. It is readable at first. A call of
 * pawl_changes() with timeout_ms 0 empties it, and then tells what there is; do not read it; it is
 * the same until pawl_close(), which closes it. It is a hint: it may come for nothing, and what
 * other processes do may be told late or not at all (where the engine has no threads it is told
 * inside pawl_poll(); behind a pooler nothing is). So call pawl_changes() once a second or so in
 * any case; that also keeps the feed being written. */
PAWL_API int pawl_changes_fd(pawl *p);

/* ---- Queues (NOT BUILT) ---- */

typedef struct pawl_queue_options {
    size_t size;
    int64_t paused;      /* 1: nothing is handed out */
    int64_t running_max; /* tasks under way at one time, over all nodes; 0: no limit */
    int64_t per_key_max; /* the same per fair_key */
    int64_t rate;        /* tasks handed out per rate_ms; 0: no limit */
    int64_t rate_ms;
} pawl_queue_options;

/* NOT BUILT. Set the rules of a queue, for all nodes. Limits count live claims and are exact for
 * those. Durable. */
PAWL_API pawl_code pawl_queue_set(pawl *p, const char *queue, const pawl_queue_options *options);

/* NOT BUILT. Tasks waiting and under way. Errors: NOTFOUND (never used). */
PAWL_API pawl_code pawl_queue_depth(pawl *p, const char *queue, int64_t *waiting, int64_t *running);

/* ---- Nodes and metrics ---- */

/* Each live node: its number, name, build, and since when. */
typedef int pawl_node_fn(int64_t node, const char *name, const char *build, int64_t since_ms,
                         void *arg);
PAWL_API pawl_code pawl_nodes(pawl *p, pawl_node_fn *fn, void *arg);

/* NOT BUILT. Each figure of this engine: "pawl_commits_total", kind "counter", "gauge" or
 * "histogram" (then once per bucket, with labels "le=…"); labels "key=value,…" or "". In memory;
 * cheap. */
typedef int pawl_metric_fn(const char *name, const char *kind, const char *labels, double value,
                           void *arg);
PAWL_API pawl_code pawl_metrics(pawl *p, pawl_metric_fn *fn, void *arg);

/* ==== Options, filled in (C only) ==============================================================
 */
#ifndef __cplusplus
#define PAWL_OPTIONS(...) (&(pawl_options){.size = sizeof(pawl_options), __VA_ARGS__})
#define PAWL_HOOKS(...) (&(pawl_hooks){.size = sizeof(pawl_hooks), __VA_ARGS__})
#define PAWL_WORKFLOW(...)                                                                         \
    (&(pawl_workflow_options){.size = sizeof(pawl_workflow_options), __VA_ARGS__})
#define PAWL_WORK(...) (&(pawl_work_options){.size = sizeof(pawl_work_options), __VA_ARGS__})
#define PAWL_START(...) (&(pawl_start_options){.size = sizeof(pawl_start_options), __VA_ARGS__})
#define PAWL_SEND(...) (&(pawl_send_options){.size = sizeof(pawl_send_options), __VA_ARGS__})
#define PAWL_CALL(...) (&(pawl_call_options){.size = sizeof(pawl_call_options), __VA_ARGS__})
#define PAWL_CHILD(...) (&(pawl_child_options){.size = sizeof(pawl_child_options), __VA_ARGS__})
#define PAWL_FILTER(...) (&(pawl_filter){.size = sizeof(pawl_filter), __VA_ARGS__})
#define PAWL_REDRIVE(...)                                                                          \
    (&(pawl_redrive_options){.size = sizeof(pawl_redrive_options), __VA_ARGS__})
#define PAWL_QUEUE(...) (&(pawl_queue_options){.size = sizeof(pawl_queue_options), __VA_ARGS__})
#endif

#ifdef __cplusplus
}
#endif
#endif
