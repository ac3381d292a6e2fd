/* pawl: durable execution in C.
 *
 * You write a workflow as an ordinary C function. Every call that it makes on its `run` is recorded
 * in a database before anything that depends on it happens. If the process is killed, the power
 * fails, or a new version is deployed, this process or another one calls the same function again:
 * calls that were recorded answer from the record, and the function goes on after the last of them.
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
 * REPLAY.  A workflow function has to be deterministic: only its input and the answers of its
 * durable calls may decide which calls it makes next. The reason: pawl may leave the function at
 * any durable call (because the run waits, memory is short, or the process stops) and later call it
 * again from the top; recorded calls then answer from the record. So a workflow function uses no
 * clock, no randomness, no I/O and no global variable, except through `run`. If it makes a
 * different call from the recorded one, the run is held. Work functions need not be deterministic;
 * they may be called again after a crash.
 *
 * FAILURE.  A durable call gives you its value or does not come back. When it fails for good (its
 * attempts are used up, a child failed, the run is cancelled) pawl leaves your function at that
 * call, as exit(3) leaves main: no statement after the call runs, no destructor, no cleanup
 * attribute, no unlock. So take memory from pawl_alloc(); hand files and sockets to pawl_defer(),
 * or better, keep them inside work functions, which are ordinary C and always return. Never hold a
 * lock over a durable call. To handle a failure yourself, start the call with its _later form and
 * ask pawl_try(), which comes back. (pawl_transact() has no _later form: put it into a child.)
 * Every call that may not come back carries the (empty) marker PAWL_MAY_LEAVE. "The call leaves"
 * means in this header that it does not come back.
 *
 * RETURNING.  (NOT BUILT: a registration with `.returns_errors = 1` is refused.) With this option
 * every call will come back. A call that fails will give NULL, 0, -1 or a code, and so will, at
 * once, every later durable call on that run, until the function returns; the engine keeps the
 * first error (pawl_run_error()). When the run has to wait, its calls will give PAWL_SUSPENDED in
 * the same way: the function returns, and is called again from the top when the run can go on. The
 * option is meant for C++ and other languages, and is the reason why no durable call returns void.
 *
 * C++.  In a workflow function no object with a destructor may be alive at a call marked
 * PAWL_MAY_LEAVE, because pawl may leave the function there without running destructors. Work
 * functions have no such restriction. No exception may leave a function that pawl calls: catch it,
 * and answer with pawl_work_fail() or pawl_fail(). Make no durable call inside a catch block.
 *
 * NOT BUILT.  Functions and options with this mark are declared, so that programs can be written
 * for them, but do nothing yet. The functions answer PAWL_UNSUPPORTED (NULL where they return no
 * code); a value of such an option other than 0 or NULL is refused with PAWL_UNSUPPORTED.
 *
 * VALUES.  Payloads are JSON text in UTF-8. \u0000 and unpaired surrogates are refused (INVALID),
 * so that no text that pawl gives out holds a NUL. A `const char *` that you pass in is validated
 * and copied before the call returns; NULL is PAWL_INVALID, so write "null" for no value. A `const
 * char *` that a workflow or work function gets is valid until that function has returned and its
 * result is copied, or until pawl_drop(); never free it. The function must return such a value,
 * memory of pawl_alloc() or pawl_work_alloc(), or static text. A client frees what it gets
 * (pawl_outcome, pawl_info, texts), on any thread, also after pawl_close(). If an object has a key
 * twice, the first one counts.
 *
 * THREADS.  A `pawl *` may be used by any number of threads at once, except for pawl_close(). A
 * `pawl_run *` belongs to its workflow function, a `pawl_work *` to its work function: use them on
 * the thread that calls the function, and not after it has returned. Durable calls from anywhere
 * else do nothing (MISUSE, NULL, 0), and a work function that makes them fails for good. pawl
 * starts these threads: the ones of pawl_serve(); the ones of the option work_threads; on
 * PostgreSQL, while the engine is a node, a heartbeat thread, however the engine is driven (but not
 * where hooks tell the time); and, unless the option threads is -1, a thread that commits, a thread
 * that listens for notifications of other processes, for a SQLite file a thread that waits for its
 * lock and one that keeps its write-ahead log short, and, while runs with functions of pawl_defer()
 * are given back, one that watches these functions.
 *
 * FORK.  A handle does not survive fork(): in the child process every call answers PAWL_FORKED,
 * also pawl_close(), and pawl_stop() does nothing. A SQLite file that the parent had open cannot be
 * opened in the child either (PAWL_MISUSE), because SQLite would rely on locks that the child does
 * not have. A PostgreSQL database can be opened in the child, with a new handle. So open after
 * fork(), or exec(). A workflow or work function may fork; the child process must end by _exit() or
 * exec(). If it returns from the function instead, pawl ends it by abort(3), before it can write in
 * the name of its parent.
 *
 * DEATH.  A workflow function has a stack of 256 KiB; large objects belong into pawl_alloc(). A
 * function that overflows its stack ends the process (SIGSEGV), as any crash does. Another node, or
 * the next process, takes over the runs of the dead process. A run that was being executed at five
 * deaths in a row, without getting any further, is held, as other systems quarantine a poison
 * message. After the third death it waits for five seconds before it is executed again, and only
 * one such run is executed at a time, so that none is held because of another one. All other runs,
 * including the rest of the dead process's runs, go on at once and do not wait for a run in
 * quarantine.
 *
 * TIME.  int64_t milliseconds; names end in _ms. In waits 0 means "do not wait"; in options 0 means
 * "the default". A negative duration is INVALID; an instant plus a duration that does not fit is
 * PAWL_FOREVER, which never comes. Instants are milliseconds since 1970, UTC, in the database's
 * time: on a SQLite file the host's clock, on PostgreSQL the server's clock, which a node measures
 * now and then and extrapolates by its monotonic clock. Nothing ends early: a sleep, a time-out, a
 * delay, a deadline or the pause before the next attempt is due at a recorded instant, which is
 * rounded up. If the clock is set back, the instant comes later, by as much. If the clock is set
 * forward, the instant comes earlier, by as much, but for these: a pawl_sleep(), the time-out of a
 * pawl_receive(), the pause before the next attempt, and the pause and the time-out of a
 * pawl_until(), with their later forms, take their time by the monotonic clock if they began in
 * this process, as long as the run is in memory (warm_bytes). Those of another process, or of a run
 * that was replayed since, end at their instants, and so do overall_ms, the delay and the deadline
 * of a start, and pawl_sleep_until(). pawl_now() never goes back within a run. The time limit of an
 * attempt is measured by the monotonic clock, which setting the time does not change.
 *
 * OPTIONS.  Every options struct begins with its size, which the macro fills in:
 * PAWL_CALL(.attempts = 5). In C++: pawl_call_options o = {}; o.size = sizeof o; o.attempts = 5.
 * Structs grow at the end only, and have no padding on 64-bit systems; fields that an older library
 * does not know must be zero. NULL means all defaults. Options and the texts in them are copied
 * before the call returns; functions and their args are used until pawl_close() returns.
 *
 * ERRORS.  Calls outside runs return a pawl_code; results go to out-parameters, which come last
 * (but first in pawl_open()) and are NULL or 0 on failure. pawl_errtext(p) has the last error of
 * the calling thread. Unless a call says otherwise it may answer INVALID, LIMIT, NOMEM, FORKED,
 * CLOSED, and the codes of storage: BUSY, UNDECIDED, FULL, READONLY, IO, CORRUPT, UNREACHABLE,
 * STORAGE. It answers FENCED on a node whose runs another node has taken over, until the next
 * serve, poll or finish makes a new node of this engine; and REWOUND as told below (REWINDS). After
 * UNDECIDED it is not known whether the call took effect: repeat it if it has an id or an
 * idempotency key, which makes that safe. Without one it is not safe, so the table calls UNDECIDED
 * not retryable.
 *
 * REWINDS.  A database that is restored from a backup, or a standby that was behind and takes over,
 * lacks commits that this handle was told are durable. Every transaction checks for that first. If
 * commits are missing, the transaction writes nothing, the log says "database-went-back", and calls
 * answer REWOUND until the engine has dropped what it had in memory. Then serve, poll and finish go
 * on by themselves, as a new node, from what the database has now. Steps whose records were lost
 * are executed again; a lost start or message has to be sent again by its client. An idle node
 * notices within two seconds.
 *
 * DURABLE.  What the comment of a call lists under "Durable" is synced to disk when the call
 * returns PAWL_OK.
 *
 * The library never writes to stdout or stderr, never exits (but for FORK), and installs no signal
 * handlers; its threads block all signals.
 */
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
 * with another version. From 1.0 on only the major number is part of the soname, and the library
 * must not be older than the header. A program that loads the library by itself (dlopen(3), ctypes)
 * compares pawl_version_number(). Enums are int-sized. */

#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#else
#define PAWL_API
#endif

/* Marks a call that may not come back (see FAILURE). It expands to nothing. */
#define PAWL_MAY_LEAVE

/* Lets the compiler check printf formats. */
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
    X(LIMIT, 4, 0, 2, "more than a limit allows")                                                  \
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

/* The version of the library that the program runs with, as static text and as a number. Compare it
 * with PAWL_VERSION and PAWL_VERSION_NUMBER, the version of the header. */
PAWL_API const char *pawl_version(void);
PAWL_API int pawl_version_number(void);

/* ==== Limits ===================================================================================
 *
 * The public functions check their arguments against these limits; the answer beyond one is
 * PAWL_LIMIT. An op of a run gives no such answer: its function is left, and the run is held. Names
 * and ids are UTF-8 without NUL; anything else is PAWL_INVALID. */
#define PAWL_MAX_PAYLOAD (16 * 1024 * 1024) /* one value, in bytes */
#define PAWL_MAX_NAME 256                   /* a name: workflow, work, mailbox, queue, tag … */
#define PAWL_MAX_ID 512                     /* the id of a run, an idempotency key, a session */
#define PAWL_MAX_URL 4096                   /* a database URL */
#define PAWL_MAX_DEPTH 128                  /* nesting of a JSON value */
#define PAWL_MAX_STATUS 1024                /* a custom status */
#define PAWL_MAX_ATTRIBUTES 32              /* attributes of a run */
#define PAWL_MAX_FUTURES 100000             /* futures of a run, done or not, until pawl_drop() */

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
 *               a call that is queued for any node (NOT BUILT)
 *   node        an engine that drives runs; its *claim* on a run is a lease, as long as it lives
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

/* A workflow function: returns its result as JSON text. NULL fails the run (the name of the failure
 * is "null"), unless a pawl_json() of the function failed before. In that case, and for a result
 * that is not JSON or too large, the run is held. */
typedef const char *pawl_workflow_fn(pawl_run *run, const char *input);

/* A work function: returns its result as JSON text, or NULL by way of pawl_work_fail() or
 * pawl_work_retry(). NULL without one of them counts as a transient failure. A result that is not
 * JSON, or too large, is a permanent failure ("invalid"). */
typedef const char *pawl_work_fn(pawl_work *work, const char *input);

/* A work function inside a transaction: `native` is a `sqlite3 *` or `PGconn *`. See
 * pawl_transact(). */
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
     * that pawl uses; must not call pawl. A line may be missing after a crash, since it is written
     * after the commit that it tells of: pawl_changes() misses no end of a run. NULL: nothing is
     * logged. */
    void (*log)(int level, const char *event, const char *fields, void *arg);
    void *log_arg;

    /* 1: an existing SQLite database that is not in WAL mode is switched to it for good. 0: it is
     * refused with PAWL_NOTWAL, because the switch would affect its other users. A file that pawl
     * creates is always in WAL mode. */
    int64_t switch_to_wal;

    /* The size in bytes at which pawl checkpoints SQLite's write-ahead log and begins it anew. 0:
     * 64 MiB. */
    int64_t wal_bytes;

    /* How long a start or a message may wait. If a full queue has no room by then, or the database
     * is still locked, the call answers PAWL_BUSY; if the server still cannot be reached,
     * PAWL_UNREACHABLE. 0: 5000. */
    int64_t busy_ms;

    /* The name space of all ids and names of this handle; it neither sees nor drives runs of
     * another tenant. NULL: "". */
    const char *tenant;

    /* The name of this engine, for people: "node" in the list of nodes, "by" of starts and
     * messages. NULL: the host's name and the process id. */
    const char *name;

    /* Identifies the build of the program, for instance by a commit id. A run that was held because
     * one build could not go on with it is tried again by a node with another build. NULL: the
     * build id of the executable. That id does not change with plug-ins that the executable loads
     * or scripts that it interprets: where workflows live in those, give an id that changes with
     * them. */
    const char *build;

    /* The threads that drive runs and call work functions under pawl_serve(). pawl_serve() starts
     * with `threads` of them, and adds more, up to `threads_max`, while functions block.
     * threads: 0 means one per processor, -1 none (the caller drives by pawl_poll()). threads_max:
     * 0 means 64. More than 64 count as 64. */
    int64_t threads;
    int64_t threads_max;

    /* How many bytes of parked runs are kept in memory, all together. Other parked runs leave
     * memory and are rebuilt by replay when they go on; the engine still owns them. 0: 256 MiB. */
    int64_t warm_bytes;

    /* NOT BUILT. Tags whose tasks this node takes, with commas between; "*": all. NULL: only
     * untagged ones. */
    const char *tags;

    /* How long a node on PostgreSQL may go without a heartbeat before other nodes take over its
     * runs. The heartbeat has a thread of its own, so that it goes on however long a work function
     * takes. A node waits less long than this for locks and answers of the server. The death of a
     * process shows sooner: on SQLite at once, by a file lock; on PostgreSQL within a second or so,
     * by a lock of the server (not behind a pooler, and not where the whole machine is gone and the
     * server still waits for it). 0: 5000. */
    int64_t claim_ms;

    /* How long work functions may go on after pawl_stop(), before pawl_serve() returns without
     * them. The next pawl_serve(), and pawl_close(), wait for them. A run that is cancelled, or has
     * clean-ups to do, waits as long for the work functions that it has begun. 0: 10000. */
    int64_t drain_ms;

    /* NOT BUILT. Finished runs are deleted this long after their end. 0: never. */
    int64_t keep_ms;

    /* NULL: the system's clock and randomness. */
    const pawl_hooks *hooks;

    /* 1: the handle is read-only. pawl makes, migrates and writes nothing, neither in the database
     * nor beside it, and the engine never becomes a node. So it can open a copy, a standby, or
     * files that this user cannot write. The calls that remain are inspect, wait, list, tree,
     * history, why, nodes and read_state; every other call answers PAWL_READONLY. Waits poll the
     * database once a second, since notifications would need a write. A SQLite file that was copied
     * without its -wal and -shm files is read without locks: once another program has written to
     * it, each call answers BUSY until the handle is opened again. A -wal file that is not empty
     * cannot be read without -shm: the answer is CANTOPEN, and the error names the file. */
    int64_t look_only;

    /* How long pawl_poll() goes on while there is more to do. Each call does at least one thing,
     * and completes what it has begun. -1: until nothing is left. 0: 10. */
    int64_t poll_ms;

    /* Threads that call work functions under pawl_poll() and pawl_finish(), so that a step which
     * blocks does not stop the caller's loop: those of steps and calls, of their _later forms, of
     * undos and of finallys. Workflow functions stay on the caller's thread, as do the functions of
     * pawl_transact(). When a work function has returned, the descriptor of pawl_fd() becomes
     * readable, and the next pawl_poll() records the result. Functions that are still running at
     * the end of pawl_finish() or at pawl_close() have drain_ms to return. 0: none, the calling
     * thread calls work functions. More than 64 count as 64. */
    int64_t work_threads;

    /* How much is executed again if the process is killed. at_risk_max: when so many executions of
     * work functions are under way or not durable yet, all runs of this engine together, no run is
     * taken up until a commit is answered. Each thread may begin one more before it notices. Not
     * counted are results of later steps, at most 256 of a run, while their workflow function waits
     * in a step of its own, and results whose commit waits for a row that the application has
     * locked: one long step, or one lock, would stop all other runs.
     * at_risk_ms: a result waits no longer than this until its commit begins, unless another commit
     * is under way. More of either makes larger commits: more steps per second, and more that is
     * executed again. 0: 256 executions, 1 ms. */
    int64_t at_risk_max;
    int64_t at_risk_ms;
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
 *   out       always gets a handle, even on failure (for pawl_errtext() and pawl_close()); NULL
 *             only when memory is out
 *
 * pawl can share a database with an application's own tables: all of its tables are called pawl_…,
 * and it leaves user_version and application_id alone. On PostgreSQL its tables are in a schema
 * pawl, which is created if the user has the right to; the driver is libpawl-pg.so, which needs
 * libpq.
 *
 * Errors: MISUSE (see FORK), UNSUPPORTED, FOREIGN, NEWER, NOTDURABLE, READONLY; of files CANTOPEN,
 * NOTADB, NOTWAL, NETWORKFS; of servers UNREACHABLE, DENIED, NODATABASE, POOLER. With look_only
 * also NOTFOUND (the database has no tables of pawl), and READONLY where the tables are of an older
 * version and would have to be migrated. Durable: the tables. Blocks on the disk, up to busy_ms on
 * a locked database, and up to claim_ms on a server that does not answer. */
PAWL_API pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options);

/* Close the engine and free the handle. NULL is allowed. No other thread may be using the handle,
 * and pawl_serve() must have returned. Waits for work functions that are still running. Other nodes
 * can claim its runs at once. Errors: MISUSE while the engine is being driven, and from a workflow,
 * work or deferred function: then nothing is closed, and the handle, with its pawl_errtext(), stays
 * usable. */
PAWL_API pawl_code pawl_close(pawl *p);

/* The last error of the calling thread on this handle: its code, what happened, the specifics (a
 * path, a number, what was found), and what to do next. The texts are never NULL, "" when there is
 * nothing to say; `p` may be NULL. They are valid until the same thread's next failing call on this
 * handle, or pawl_close(). */
PAWL_API pawl_code pawl_errcode(pawl *p);
PAWL_API const char *pawl_errmsg(pawl *p);
PAWL_API const char *pawl_errdetail(pawl *p);
PAWL_API const char *pawl_errhint(pawl *p);

/* All three in one text, for a log or a terminal: "message: detail (hint)". */
PAWL_API const char *pawl_errtext(pawl *p);

#define PAWL_ID_SIZE 37

/* Make a fresh id, a UUIDv7, for a run that has no better one. Errors: STORAGE (the system gave no
 * random bytes). */
PAWL_API pawl_code pawl_id_new(char out[PAWL_ID_SIZE]);

/* Free memory that pawl has allocated for you, where the comment of a call says so. NULL is
 * allowed. */
PAWL_API void pawl_free(void *memory);

/* ==== Registering ==============================================================================
 *
 * Functions can be registered at any time; a run that was held for want of one then goes on. Names
 * are copied; functions and args are used until pawl_close() returns. The same name (and version)
 * with another function or arg is PAWL_CONFLICT. Registrations are not durable. The first error is
 * kept, and serve, poll and finish answer it, so that a program need not check each registration; a
 * thread that is driving already goes on. Names (of workflows, work, steps, mailboxes, patches),
 * ids of runs and idempotency keys must not be empty; names that begin with "pawl." are reserved
 * (INVALID). */

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
 * An engine becomes a node, which claims runs and calls work functions, at its first serve, poll or
 * finish; an engine that only calls client functions never becomes one. Only one serve, poll or
 * finish may drive at a time, and none may be called from a workflow or work function (MISUSE). A
 * pawl_finish() during another one waits for its turn; a pawl_finish() during pawl_serve() only
 * waits for the run to end.
 *
 * On PostgreSQL a node needs 5 connections, a client 2; a node uses some more if the server allows.
 * An engine with fewer does not become a node: the answer is PAWL_UNREACHABLE, and the detail names
 * the limit. A node that loses some of its 5 connections claims nothing until it has them again;
 * the log says node-unable, then node-able. */

/* Drive runs and call work functions on the engine's threads until pawl_stop(). After the stop:
 *
 * 1. No run is claimed and no function is begun any more.
 * 2. Functions that are running have drain_ms to return. Their results are recorded, for which the
 *    database has another drain_ms, but at least a second. A try that the database keeps waiting is
 *    not broken off, and is followed by up to three more. What is not recorded then is in the log
 *    (record-lost, stop-left), and is executed again.
 * 3. The other claimed runs are given back to other nodes, and pawl_serve() returns PAWL_OK. If the
 *    database stays locked all that time, that is up to some five busy_ms later.
 *
 * A function that does not return within drain_ms is abandoned, also a workflow function that makes
 * no call of pawl. A line of the log names it, its result is dropped, the next owner of the run
 * executes it again, and the next pawl_serve(), or pawl_close(), waits for its thread. Waited for
 * without limit are only the function of a pawl_transact(), since it has locks in the database, and
 * functions that were given to pawl_defer(), since they free what this process has; a line of the
 * log (stop-waits) names the run of such a one that takes longer than drain_ms. */
PAWL_API pawl_code pawl_serve(pawl *p);

/* Ask pawl_serve(), pawl_finish() and every call that waits on this handle to return (CLOSED). If
 * none is under way, the next one returns. The function only writes to a pipe, so it may be called
 * from a signal handler and from any thread, any number of times. */
PAWL_API void pawl_stop(pawl *p);

/* Drive in the calling thread while there is something to do, but for at most poll_ms. Work
 * functions run inside this call, unless there are work_threads. *did, if not NULL, is the number
 * of things done; 0 means idle. After the first call the engine is a node until pawl_close(), and
 * stays alive between two calls: no other node drives the runs that it owns. */
PAWL_API pawl_code pawl_poll(pawl *p, int64_t *did);

/* For an event loop around pawl_poll(). pawl_fd() gives a descriptor, -1 on failure, that becomes
 * readable when there is something to do, also when another process has sent, started or released
 * something that this node can execute. pawl_poll() empties it and pawl_close() closes it: do not
 * read it. Other processes are heard from the first poll on; where hooks tell the time, only by a
 * look at the database once a second.
 *
 * pawl_timeout() gives the time in ms, as poll(2) takes it, until pawl_poll() wants to be called
 * even if the descriptor stays silent: -1 means never, 0 now (also before the first poll). After a
 * poll that failed it is the back-off. */
PAWL_API int pawl_fd(pawl *p);
PAWL_API int pawl_timeout(pawl *p);

/* Drive one run, over all its generations, with the children it waits for, until it has ended; no
 * other run is claimed. The workflow function runs in the calling thread, and so do its work
 * functions, those of later forms one after the other while the run waits. With work_threads they
 * run on these threads, but for pawl_transact(). If another live node owns the run, pawl_finish()
 * waits for that node. It answers as pawl_wait() does. On TIMEOUT, and after pawl_stop() (CLOSED),
 * the results of functions that have returned are recorded and the claim is given back, so that a
 * loop around this call gets further each time, if its time-out is enough to become a node and to
 * claim the run: some milliseconds, and more on a busy server. A result that the database does not
 * take is kept, for a failure or because the run is held for it (HELD): then the engine stays a
 * node, as after pawl_poll(), and the next finish, poll or serve tries again to record it; until
 * then, or pawl_close(), no other node drives the run. A finish of another run only records it, and
 * then gives it back. */
PAWL_API pawl_code pawl_finish(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out);

/* ==== Clients ==================================================================================
 *
 * These functions can be called from any thread of any process, whether its engine is a node or
 * not. */

typedef struct pawl_start_options {
    size_t size;
    const char *version;    /* NULL: the version registered last, here or on the node that claims
                               the run */
    const char *attributes; /* a JSON object of strings, numbers, booleans; see pawl_attr() */
    int64_t delay_ms;       /* the run begins at the earliest this long after the call */
    int64_t deadline_ms;    /* this long after its start the run is cancelled, with its clean-ups;
                               0: never */
    int64_t *created;       /* if not NULL: 1 if this call has made the run, 0 if the run existed
                         already */
} pawl_start_options;

/* Start a run. The id is its idempotency key: if a run of this id exists already, live or ended,
 * with the same workflow and the same input (of its first generation), the answer is PAWL_OK too,
 * so repeating a start is harmless. The same input means the same JSON value: blanks, the order of
 * keys, and how a number or a character is written do not matter. `id` must not be NULL: choose one
 * that means something, or use pawl_id_new(). Errors: CONFLICT (the id belongs to a run of another
 * workflow or with another input). A workflow that no node has registered is no error: the run is
 * held until a node registers it. Durable: the run. */
PAWL_API pawl_code pawl_start(pawl *p, const char *workflow, const char *id, const char *input,
                              const pawl_start_options *options);

typedef struct pawl_send_options {
    size_t size;
    const char *key; /* idempotency key: the message is delivered once, for the life of the run. The
                        same key with another message (another JSON value) is CONFLICT */
    const char *start; /* workflow to start, in the same commit, if there is no run of that id */
    const char *start_input; /* input of the run that `start` starts */
    const pawl_start_options *start_options;
    int64_t *seq; /* if not NULL: the number of the message, from 1, in the order of arrival */
} pawl_send_options;

/* Send a message into a run's mailbox. The message stays there until the run receives it, also over
 * continue-as-new; any number of messages may wait. Errors: NOTFOUND (no run of this tenant has the
 * id), ENDED, CONFLICT (the key was used for another message). Durable: the message. */
PAWL_API pawl_code pawl_send(pawl *p, const char *id, const char *mailbox, const char *message,
                             const pawl_send_options *options);

/* Wait for the end of a run. PAWL_OK: the run is done. FAILED, CANCELLED: *out says why, and so
 * does pawl_errtext(). TIMEOUT: the run has not ended yet. HELD: the run is held, *out says why,
 * and it may go on later. Free *out by pawl_outcome_free(); `out` may be NULL. If a work function
 * that was called by pawl_poll() or pawl_finish() waits here, the engine drives nothing meanwhile.
 * Errors: NOTFOUND. */
PAWL_API pawl_code pawl_wait(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out);

/* Ask a run to stop. The run is cancelled at its next park, or before it calls its next work
 * function, also while it waits for its turn at one (at_most). A work function that is running
 * learns of it by pawl_work_cancelled(), and has drain_ms to return. Then the run's undos and
 * finallys are carried out. Repeating a cancel is harmless. `reason` may be NULL (at most
 * PAWL_MAX_ID bytes). A held run can be cancelled too. Errors: NOTFOUND, ENDED. Durable: the
 * request. */
PAWL_API pawl_code pawl_cancel(pawl *p, const char *id, const char *reason);

/* pawl_start() and pawl_send() inside a transaction of your own (a transactional outbox). `native`
 * is your connection (`sqlite3 *` or `PGconn *`) to this handle's database, in a transaction that
 * you commit. The start or message takes effect if and when you commit, with the durability of your
 * connection. If it cannot be delivered then (the run has ended), it stays in the outbox as a dead
 * letter, for people to see. `created` is 1 if there seems to be no such run yet; pawl_send_in()
 * cannot know and sets it to 0. `seq` is 0, since the message gets its number only at delivery,
 * unless a message with the same key was delivered before: then it is the number of that one. On
 * SQLite begin with BEGIN IMMEDIATE: a transaction that has only read so far may not be able to
 * write any more (BUSY). Errors: NOTFOUND, CONFLICT, ENDED as far as can be seen; MISUSE if there
 * is no transaction; INVALID if the connection is to another database. */
PAWL_API pawl_code pawl_start_in(pawl *p, void *native, const char *workflow, const char *id,
                                 const char *input, const pawl_start_options *options);
PAWL_API pawl_code pawl_send_in(pawl *p, void *native, const char *id, const char *mailbox,
                                const char *message, const pawl_send_options *options);

/* Deliver the committed rows of the outbox, in this thread: at PAWL_OK your start is a run, and
 * your message is in its mailbox, unless its row has become a dead letter. Without this call a node
 * delivers them within a second. Errors: BUSY (PostgreSQL: another transaction keeps the row of a
 * run locked. The rows for that run stay in the outbox, in their order, and all others were
 * delivered. A node tries again by itself). */
PAWL_API pawl_code pawl_outbox_flush(pawl *p);

/* NOT BUILT. Complete a task from outside with the ticket that its work function gave out
 * (pawl_work_ticket()). `key` as in pawl_send_options, may be NULL: repeating a call with its key
 * and its result is PAWL_OK, also when the task is completed. Errors: NOTFOUND (no such ticket),
 * ENDED (completed otherwise, timed out or cancelled), CONFLICT (the key was used for another
 * result). Durable: the result. */
PAWL_API pawl_code pawl_complete(pawl *p, const char *ticket, const char *result, const char *key);
PAWL_API pawl_code pawl_complete_failed(pawl *p, const char *ticket, const char *name,
                                        const char *message, const char *key);

/* Read a value of the state (pawl_state_set()) of a run, live or ended. Free *out by pawl_free().
 * Errors: NOTFOUND (no such run, or no such key). */
PAWL_API pawl_code pawl_read_state(pawl *p, const char *id, const char *key, char **out);

/* ---- Outcomes: how a run or call has ended ---- */

/* The result as JSON text; "null" when there is none. It is valid as long as the outcome. (`o` may
 * be NULL in all functions on outcomes; the answers are then "null", PAWL_INVALID and "".) */
PAWL_API const char *pawl_outcome_value(const pawl_outcome *o);

/* PAWL_OK; FAILED: attempts used up, or a permanent failure; TIMEOUT: the time limit of a call or a
 * receive has passed; CANCELLED; HELD (of runs only). */
PAWL_API pawl_code pawl_outcome_code(const pawl_outcome *o);

/* About a failure: its name ("rejected", as given to pawl_fail()), what happened, and where, that
 * is the op and the run that failed first. "" when there is no failure. */
PAWL_API const char *pawl_outcome_name(const pawl_outcome *o);
PAWL_API const char *pawl_outcome_message(const pawl_outcome *o);
PAWL_API const char *pawl_outcome_where(const pawl_outcome *o);

/* Free an outcome. NULL is allowed. An outcome of pawl_try() belongs to its run and must not be
 * freed. */
PAWL_API void pawl_outcome_free(pawl_outcome *o);

/* ==== Workflows: what a run can do =============================================================
 *
 * All of these calls are for the workflow function, on its own thread (elsewhere: MISUSE).
 * "Recorded" means: the answer is in the journal, and therefore deterministic. "Buffered" means:
 * the record is committed together with the next op that waits or calls a work function. All
 * records are durable before a work function is called; but those that tell of no effect outside
 * may commit in the transaction of a pawl_transact() behind them.
 *
 * Any of these calls leaves the function (see FAILURE) when it gets a wrong argument: INVALID and
 * LIMIT are mistakes in the workflow, so the run is held, and a corrected build can go on. It also
 * leaves when memory is out: what was done is recorded, and the run is tried again after pauses
 * that grow, and held after ten tries. "Never leaves" means: not for waiting, failure or cancel. */

/* ---- Work ---- */

typedef struct pawl_call_options {
    size_t size;
    int64_t attempts;       /* how many attempts at most; 1: no retry. 0: 3; PAWL_FOREVER: until it
                               succeeds */
    int64_t backoff_ms;     /* pause before the second attempt. 0: 1000 */
    int64_t backoff_max_ms; /* longest pause. 0: 60000 */
    int64_t backoff_kind;   /* PAWL_EXPONENTIAL (default), PAWL_LINEAR, PAWL_CONSTANT */
    int64_t no_jitter;      /* 1: pauses are exactly as computed. 0: each is shorter at random, by
                               up to a quarter */
    int64_t attempt_ms;     /* time limit of one attempt; 0: none. A function is never interrupted:
                               pawl_work_cancelled() becomes 1, its late result is dropped, and the
                               next attempt may begin beside it */
    int64_t overall_ms;     /* time limit of all attempts together. 0: none */
    const char *undo;       /* name of the work function that compensates this call; registered as
                               an undo together with the call. If the call was ever handed out, it
                               is called with {"input":…,"result":…}; result is null when it is not
                               known, or when both together are too large for a value. See
                               pawl_undo() */
    const char *queue;      /* NOT BUILT, down to priority: pawl_call() only. NULL: "default" */
    const char *tag;        /* only nodes with this tag take it */
    const char *affinity;   /* session: all tasks with it go to one node, as long as that lives */
    const char *fair_key;   /* tasks of different keys take turns; limits may count per key */
    int64_t priority;       /* higher first; 0 is the middle */
    void *arg;              /* steps only: what pawl_work_arg() gives, instead of the registration's
                               arg; not recorded, must live until pawl_close() returns */
} pawl_call_options;

enum { PAWL_EXPONENTIAL = 0, PAWL_LINEAR = 1, PAWL_CONSTANT = 2 };

/* Step or call? The promise is the same: the function is called at least once until its result is
 * recorded, and never again after. Both run in the process that drives the run. A step needs no
 * registration; a call names a registered function, whose option at_most limits how many run at a
 * time. (NOT BUILT: calls that are queued and executed by any node, with tags and tickets.) */

/* Call a work function here and now, on the thread's own stack, and record its result. Once the
 * result is recorded the function is never called again; if the process dies before, it may be.
 * `name` identifies the step in the journal and need not be registered. Leaves when the attempts
 * are used up, or at a permanent failure. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_step(pawl_run *run, const char *name, pawl_work_fn *fn,
                                              const char *input, const pawl_call_options *options);

/* Have a registered work function called, at least once, and wait for the result. If the process
 * that drives the run has not registered the function, the run is held until a process that has
 * registered it goes on with the run. Leaves as pawl_step() does. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_call(pawl_run *run, const char *work, const char *input,
                                              const pawl_call_options *options);

/* Call `fn` inside the very transaction that records its result: the rows that it writes through
 * `native` and the record commit together, exactly once. Before that `fn` may be called several
 * times. If it fails (pawl_work_fail(), NULL) its rows are rolled back, and it is tried again as a
 * step is. The same happens if it takes longer than its time limit, though only when it has
 * returned, and if the commit violates a constraint of your tables (the failure is called
 * "commit"). `fn` must neither commit nor roll back, must not leave a statement open, and must not
 * call pawl except on its own `work` (MISUSE); otherwise the step fails for good ("misuse"). If the
 * database does not take the record, `fn` is called again after a pause, in the same attempt, or
 * the run is held: see pawl_hold().
 *
 * SQLite has one writer: nothing else is written while `fn` runs. On PostgreSQL other transactions
 * go on, and a node runs up to four such functions at a time. Make settings with SET LOCAL, and do
 * not leave the connection idle for long: the server ends it after 3/5 of claim_ms. pawl_stop()
 * waits for `fn`, which may ask pawl_work_cancelled(). */
PAWL_API PAWL_MAY_LEAVE const char *pawl_transact(pawl_run *run, const char *name,
                                                  pawl_transact_fn *fn, const char *input,
                                                  const pawl_call_options *options);

/* ---- Waiting ---- */

/* Sleep for a duration, or until an instant. Sleeps survive crashes and restarts. An instant in the
 * past returns at once; a negative duration is a wrong argument. For "every night at two" compute
 * the instant in a step, which may use the clock and the time zone. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_sleep(pawl_run *run, int64_t ms);
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_sleep_until(pawl_run *run, int64_t at_ms);

/* Wait for the next message of a mailbox, in the order of arrival. Gives OK, or TIMEOUT with "null"
 * as *message. With timeout 0 only a message that has already arrived is received. If a message has
 * arrived and the time is over too, the message wins. A message that arrives after the time-out
 * stays for the next receive, so let messages say what they are about. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_receive(pawl_run *run, const char *mailbox,
                                               int64_t timeout_ms, const char **message);

/* Call a step again and again, `every_ms` (above 0) apart, until it gives something other than null
 * or false, which is the value of this call. A transient failure of the step counts as null, a
 * permanent one fails this call. After `timeout_ms` the value is "null", but the step is called at
 * least once. Only its last call is recorded. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_until(pawl_run *run, const char *name, pawl_work_fn *fn,
                                               const char *input, int64_t every_ms,
                                               int64_t timeout_ms);

/* Send a message to another run, exactly once: the op is its idempotency key. The answer OK,
 * NOTFOUND or ENDED is recorded. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_tell(pawl_run *run, const char *id, const char *mailbox,
                                            const char *message);

/* The sender of the message that was received last: the name of the sender's engine (which proves
 * nothing), or the id of the run that sent it by pawl_tell(). Recorded with the message; "" before
 * the first message of a generation. */
PAWL_API const char *pawl_sender(pawl_run *run);

/* ---- Children ---- */

typedef struct pawl_child_options {
    size_t size;
    const char *id;      /* NULL: made from the parent's id, generation and position, and unique; if
                            that is too long for an id, it is a wrong argument. An id that you give
                            can be used once, over all generations of the parent */
    const char *version; /* NULL: the one registered last */
    int64_t detached; /* 1: the child does not end with its parent; pawl_child() gives the child's
                         id as a JSON string at once */
} pawl_child_options;

/* Start another run, a child, and wait for its result. A child is cancelled with its parent, and
 * its failure is the failure of this call. The call leaves also when the id belongs to a run that
 * this run has not started. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_child(pawl_run *run, const char *workflow,
                                               const char *input,
                                               const pawl_child_options *options);

/* ---- Futures: several things at once ----
 *
 * The _later form of an op starts it and gives a future at once; it never leaves, except for a
 * wrong argument or beyond PAWL_MAX_FUTURES: then the run is held. A future belongs to its run and
 * is freed with it, or by pawl_drop(); a future of another run is a wrong argument. The work
 * function of such a step, call or until is called on another thread of this process; where
 * pawl_finish() or pawl_poll() drives without work_threads, on the calling thread, while the run
 * waits. */
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

/* Combine futures into one, which can be nested. pawl_all_later() is done when all of them are; its
 * value is the JSON array of their values, in order. pawl_any_later() is done when the first of
 * them is; its value is {"index":…,"value":…}, and the others are cancelled. */
PAWL_API pawl_future *pawl_all_later(pawl_run *run, pawl_future *const *futures, size_t count);
PAWL_API pawl_future *pawl_any_later(pawl_run *run, pawl_future *const *futures, size_t count);

/* Wait for a future and give its value, as its op would have given it. Leaves when the op has
 * failed. The value of a sleep, and of a receive that timed out, is null. (For a time-out the code
 * of pawl_try() is TIMEOUT, for a received message "null" it is OK.) */
PAWL_API PAWL_MAY_LEAVE const char *pawl_await(pawl_run *run, pawl_future *future);

/* Wait until all futures are done; leaves at the first failure. pawl_value() gives their values. */
PAWL_API PAWL_MAY_LEAVE pawl_code pawl_all(pawl_run *run, pawl_future *const *futures,
                                           size_t count);

/* Wait for the first future to end, and give its index; the others are cancelled before this call
 * returns (a cancelled receive takes no message). With the flag PAWL_KEEP the others go on instead.
 * The call leaves when the first to end has failed; with PAWL_FAILURES it comes back then too, and
 * pawl_try() tells the failure. It gives -1 only when RETURNING. */
PAWL_API PAWL_MAY_LEAVE int64_t pawl_any(pawl_run *run, pawl_future *const *futures, size_t count,
                                         int64_t flags);
enum { PAWL_KEEP = 1, PAWL_FAILURES = 2 };

/* Wait for a future and tell how it ended, failure included. Comes back, except when the run itself
 * is cancelled. The outcome belongs to the run, as a value does; do not free it. */
PAWL_API PAWL_MAY_LEAVE const pawl_outcome *pawl_try(pawl_run *run, pawl_future *future);

/* Cancel the op of a future. The outcome becomes CANCELLED, unless the op has already ended. */
PAWL_API pawl_code pawl_future_cancel(pawl_run *run, pawl_future *future);

/* The value of a future that pawl_all() or pawl_any() has seen done; NULL if the future is not
 * done, or its value was given back by pawl_drop(). Does not wait. */
PAWL_API const char *pawl_value(pawl_future *future);

/* ---- Undo, finally, defer ---- */

/* Register a compensation (of a saga): if the run fails, is cancelled or times out, the work
 * function called `work` is called with `input`. Compensations are called in reverse order, each
 * with its own retries, and from the journal, even if the workflow's code is gone by then. The
 * registration is recorded (buffered); cancellation is never delivered between the op before and
 * this call. Before the first compensation, later forms that are still running are asked to stop,
 * and have drain_ms to return. If the node that drives the run has not registered `work`, the run
 * is held until a node that has registered it goes on; if its attempts are used up, the run is held
 * until pawl_release(), which tries again. */
PAWL_API pawl_code pawl_undo(pawl_run *run, const char *work, const char *input);

/* Register a clean-up that is called as an undo is, but at every end of the run, after the
 * undos. */
PAWL_API pawl_code pawl_finally(pawl_run *run, const char *work, const char *input);

/* Register a local clean-up: fn(arg) is called whenever pawl leaves the workflow function, for
 * whatever reason (the end, a failure, or a wait for which the function is not kept in memory),
 * last registered first, on a thread's own stack. Not recorded; `fn` must not make durable calls,
 * and should return soon: pawl_serve(), pawl_finish() and pawl_close() wait for it. */
PAWL_API pawl_code pawl_defer(pawl_run *run, void (*fn)(void *arg), void *arg);

/* Fail the run for good, with a name for programs and a message (printf) for people. Leaves. Its
 * type lets `return pawl_fail(…)` read well; it gives NULL when RETURNING. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_fail(pawl_run *run, const char *name, const char *format,
                                              ...) PAWL_PRINTF(3, 4);

/* Continue as new: end this generation and begin the next one with `input` and an empty journal.
 * Pending later forms and attached children are cancelled, finallys are carried out, undos are
 * forgotten; messages that were not received, receipts, state, status and the run's deadline stay.
 * `version` NULL: the version registered last. Old generations stay readable until pawl_prune().
 * Leaves; its type is for `return pawl_continue_as_new(…)`. */
PAWL_API PAWL_MAY_LEAVE const char *pawl_continue_as_new(pawl_run *run, const char *input,
                                                         const char *version);

/* 1 when the journal has reached 10,000 ops, so that a replay takes long: call
 * pawl_continue_as_new(). Recorded. */
PAWL_API int pawl_should_continue_as_new(pawl_run *run);

/* ---- What is recorded at once (buffered; these never leave) ---- */

/* The time, which never goes back within a run. Use it instead of the clock. */
PAWL_API int64_t pawl_now(pawl_run *run);

/* A fresh UUIDv7, and 64 random bits. */
PAWL_API const char *pawl_uuid(pawl_run *run);
PAWL_API uint64_t pawl_random(pawl_run *run);

/* For a change of a workflow that has live runs. 1 if this generation reached this point for the
 * first time with code that has the change called `name`; 0 if its journal was already past this
 * point with older code. Recorded:
 *   if (pawl_patch(run, "two-step-charge")) { new way } else { old way } */
PAWL_API int pawl_patch(pawl_run *run, const char *name);

/* Set the custom status, JSON text, which clients see (pawl_info_status()). */
PAWL_API pawl_code pawl_set_status(pawl_run *run, const char *status);

/* Set an attribute, by which pawl_list() finds the run: a string (of at most PAWL_MAX_ID bytes),
 * number or boolean, as JSON. "null" removes it. */
PAWL_API pawl_code pawl_attr(pawl_run *run, const char *name, const char *value);

/* Key-value state of the run, kept over generations and after its end, and readable from outside. A
 * key is a name of at most PAWL_MAX_NAME bytes, not empty; a value is any payload. Setting "null"
 * removes a key, and getting a key that is not set gives "null". pawl_state_get() gives what this
 * run has set last; a value of an earlier generation is read once, and recorded. pawl_state_of()
 * reads the state of another run as it is at the first execution, and records it ("null" if there
 * is no such run). */
PAWL_API pawl_code pawl_state_set(pawl_run *run, const char *key, const char *value);
PAWL_API const char *pawl_state_get(pawl_run *run, const char *key);
PAWL_API PAWL_MAY_LEAVE const char *pawl_state_of(pawl_run *run, const char *id, const char *key);

/* Write one line through the engine's log callback. A replay does not write it again. */
PAWL_API pawl_code pawl_log(pawl_run *run, int level, const char *format, ...) PAWL_PRINTF(3, 4);

/* ---- About the run ---- */

/* RETURNING (NOT BUILT): PAWL_OK while the run goes on; otherwise the code that every durable call
 * now returns, PAWL_SUSPENDED or that of the first error. Without RETURNING always PAWL_OK. */
PAWL_API pawl_code pawl_run_error(pawl_run *run);

/* The run's id, workflow, version and generation (from 1), and the `arg` of the workflow's
 * registration. */
PAWL_API const char *pawl_run_id(pawl_run *run);
PAWL_API const char *pawl_run_workflow(pawl_run *run);
PAWL_API const char *pawl_run_version(pawl_run *run);
PAWL_API int64_t pawl_run_generation(pawl_run *run);
PAWL_API void *pawl_arg(pawl_run *run);

/* ---- Memory and values of a run ---- */

/* Allocate zeroed memory, which pawl frees when the workflow function ends or pawl leaves it. Never
 * NULL, except when RETURNING: a branch on NULL would not be deterministic. */
PAWL_API PAWL_MAY_LEAVE void *pawl_alloc(pawl_run *run, size_t size);

/* Free a value, a future that is done, or memory from pawl_alloc() early: for loops of a million
 * steps. A future whose value was freed must not be waited for again (INVALID). The value of a
 * future that is part of an open pawl_all_later() or pawl_any_later() is kept all the same. */
PAWL_API pawl_code pawl_drop(pawl_run *run, const void *value);

/* Write JSON by a format, which is explained under "Values" below. */
PAWL_API const char *pawl_json(pawl_run *run, const char *format, ...);

/* The part of a JSON value at `pointer` (JSON Pointer) as a value of its own, for instance as the
 * input of the next call. NULL if there is no such part. */
PAWL_API const char *pawl_part(pawl_run *run, const char *json, const char *pointer);

/* The string at `pointer` in a JSON value, unescaped; `fallback` if there is none. */
PAWL_API const char *pawl_text(pawl_run *run, const char *json, const char *pointer,
                               const char *fallback);

/* ==== Work functions ===========================================================================
 *
 * A work function is ordinary C on a thread's own stack: it may block, use any library, and start
 * threads. It may be called again after a crash, so give pawl_work_key() to systems that recognise
 * duplicates by an idempotency key. Its input, and values that pawl gives to it, live until it
 * returns. */

/* An idempotency key: the same for all attempts of this call, and different for every other
 * call. */
PAWL_API const char *pawl_work_key(pawl_work *work);

/* Fail this attempt. `kind` PAWL_TRANSIENT: it is retried as the options of the call say;
 * PAWL_PERMANENT: it is not retried. Gives NULL:
 *     return pawl_work_fail(work, PAWL_PERMANENT, "declined", "card ends in %s", last4); */
PAWL_API const char *pawl_work_fail(pawl_work *work, int kind, const char *name, const char *format,
                                    ...) PAWL_PRINTF(4, 5);
enum { PAWL_TRANSIENT = 0, PAWL_PERMANENT = 1 };

/* Fail this attempt, and begin the next one at least `ms` from now, as a Retry-After header asks
 * for. Gives NULL. */
PAWL_API const char *pawl_work_retry(pawl_work *work, int64_t ms, const char *format, ...)
    PAWL_PRINTF(3, 4);

/* NOT BUILT. Leave the task open, to be completed by pawl_complete() with a ticket (a URL-safe
 * text). Only in calls that are queued (pawl_call()), which are the tasks; attempt_ms still counts.
 * Return pawl_work_pending(work) after the ticket was handed out; it gives NULL. */
PAWL_API const char *pawl_work_ticket(pawl_work *work);
PAWL_API const char *pawl_work_pending(pawl_work *work);

/* 1 when the result is not needed any more: the run was cancelled, the attempt timed out, the node
 * lost its claim, or the engine stops. A work function that takes long should ask now and then. */
PAWL_API int pawl_work_cancelled(pawl_work *work);

/* NOT BUILT. Note how far the work has got, as JSON; the next attempt can ask pawl_work_progress()
 * (NULL: nothing noted). Durable a little later. */
PAWL_API pawl_code pawl_work_note(pawl_work *work, const char *progress);
PAWL_API const char *pawl_work_progress(pawl_work *work);

/* A fencing token: a number that rises whenever another node claims the run. A system outside that
 * remembers the highest one can refuse writes of an earlier owner. */
PAWL_API int64_t pawl_work_fence(pawl_work *work);

/* About this attempt: its number, from 1; the name of the work function or step; the id of the run;
 * the `arg` of the registration (NULL for a step whose name is not registered). */
PAWL_API int64_t pawl_work_attempt(pawl_work *work);
PAWL_API const char *pawl_work_name(pawl_work *work);
PAWL_API const char *pawl_work_run_id(pawl_work *work);
PAWL_API void *pawl_work_arg(pawl_work *work);

/* The same as pawl_log(), pawl_alloc(), pawl_json(), pawl_part() and pawl_text(), for work
 * functions. The memory lives until the work function returns. */
PAWL_API pawl_code pawl_work_log(pawl_work *work, int level, const char *format, ...)
    PAWL_PRINTF(3, 4);
PAWL_API void *pawl_work_alloc(pawl_work *work, size_t size);
PAWL_API const char *pawl_work_json(pawl_work *work, const char *format, ...);
PAWL_API const char *pawl_work_part(pawl_work *work, const char *json, const char *pointer);
PAWL_API const char *pawl_work_text(pawl_work *work, const char *json, const char *pointer,
                                    const char *fallback);

/* ==== Values ===================================================================================
 *
 * Values are read by JSON Pointer (RFC 6901): "" is the whole, "/items/0/name" a part. The fallback
 * is the answer if the part does not exist or has another kind, and for text that is not JSON. The
 * functions allocate nothing, and can be called on any thread. */

/* pawl_get_int() reads a number without fraction or exponent that fits 64 bits, pawl_get_real() any
 * number, pawl_get_bool() true or false. */
PAWL_API int64_t pawl_get_int(const char *json, const char *pointer, int64_t fallback);
PAWL_API double pawl_get_real(const char *json, const char *pointer, double fallback);
PAWL_API int pawl_get_bool(const char *json, const char *pointer, int fallback);

/* The number of elements of an array, or of members of an object; -1 for anything else. */
PAWL_API int64_t pawl_get_count(const char *json, const char *pointer);

/* The kind of the part at `pointer`; PAWL_NOTHING if there is no such part. */
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

/* The part at `pointer` as JSON text, into `out` with a NUL; cut, and its length given, as by
 * pawl_get_text(). */
PAWL_API int64_t pawl_get_json(const char *json, const char *pointer, char *out, size_t room);

/* PAWL_OK, INVALID or LIMIT; *at, if not NULL, is the position of the first byte that is wrong. */
PAWL_API pawl_code pawl_json_check(const char *json, size_t *at);

/* pawl_json() writes a value by a format, with ' in the place of ", so that it can be read in C:
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
 * The compiler does not check the arguments against the format: mind the types. The result is
 * checked, and is NULL when it is not JSON, or too large. A run that uses or returns that NULL is
 * held, with a reason that says what was wrong; a work function that returns it fails. When memory
 * is out pawl_json() leaves, and pawl_work_json() gives NULL. */

/* The same as pawl_json(), for clients: free the text by pawl_free(). NULL on error. */
PAWL_API char *pawl_json_new(const char *format, ...);

/* ==== Looking at runs and managing them ========================================================
 */

/* The present state of a run. Free *out by pawl_info_free(). Errors: NOTFOUND. */
PAWL_API pawl_code pawl_inspect(pawl *p, const char *id, pawl_info **out);

/* Wait until the number of the custom status is above `seen` (a number of pawl_info_status_seq(),
 * or 0 for any status), or the run has ended. Free *out by pawl_info_free(). Errors: NOTFOUND,
 * TIMEOUT (neither has happened). */
PAWL_API pawl_code pawl_wait_status(pawl *p, const char *id, int64_t seen, int64_t timeout_ms,
                                    pawl_info **out);

typedef enum pawl_phase {
    PAWL_RUN_LIVE = 0,
    PAWL_RUN_DONE = 1,
    PAWL_RUN_FAILED = 2,
    PAWL_RUN_CANCELLED = 3,
    PAWL_RUN_FAILING = 4, /* its undos and finallys are being carried out */
    PAWL_RUN_HELD = 5     /* by a person, or for trouble that is not its fault; see pawl_why() */
} pawl_phase;

/* "live", "done", "failed", "cancelled", "failing", "held"; "?" for another number. Static text. */
PAWL_API const char *pawl_phase_name(pawl_phase phase);

/* The fields of an info. Texts are valid as long as the info. `i` may be NULL; the answers are then
 * "", "null" and 0. */
PAWL_API const char *pawl_info_id(const pawl_info *i);
PAWL_API const char *pawl_info_workflow(const pawl_info *i);
PAWL_API const char *pawl_info_version(const pawl_info *i);
PAWL_API pawl_phase pawl_info_phase(const pawl_info *i);
PAWL_API int64_t pawl_info_generation(const pawl_info *i);
PAWL_API const char *pawl_info_status(const pawl_info *i); /* custom status, "null" if none */
/* Rises with each change of the custom status */
PAWL_API int64_t pawl_info_status_seq(const pawl_info *i);
/* Why the run is held, "" if it is not */
PAWL_API const char *pawl_info_held(const pawl_info *i);
PAWL_API const char *pawl_info_parent(const pawl_info *i); /* id of the parent run, "" if none */
PAWL_API int64_t pawl_info_depth(const pawl_info *i);      /* in pawl_tree(): 0 is the root */
/* The name of the engine, or the id of the run, that started it */
PAWL_API const char *pawl_info_by(const pawl_info *i);
PAWL_API int64_t pawl_info_created_ms(const pawl_info *i);
PAWL_API int64_t pawl_info_updated_ms(const pawl_info *i);
PAWL_API int64_t pawl_info_finished_ms(const pawl_info *i); /* 0: not yet */
/* When its next timer is due; 0: it has none */
PAWL_API int64_t pawl_info_wake_ms(const pawl_info *i);
PAWL_API void pawl_info_free(pawl_info *i); /* NULL is allowed */

/* The functions below that take a callback call it for each item found, in order, on the calling
 * thread. The pointer that it gets is valid during that call only. The callback returns 0 to go on,
 * anything else to end the list (the answer of the function is then PAWL_OK). It may call pawl, but
 * not pawl_close(); no snapshot of the database is open meanwhile. */
typedef int pawl_info_fn(const pawl_info *info, void *arg);

typedef struct pawl_filter {
    size_t size;
    const char *workflow;  /* NULL: all */
    const char *id_prefix; /* NULL: all */
    const char *attribute; /* runs whose attribute of this name has exactly attribute_value, a JSON
                              scalar */
    const char *attribute_value;
    int64_t phases;             /* bits: 1 << PAWL_RUN_HELD …; 0: all */
    int64_t created_after_ms;   /* 0: from the beginning */
    int64_t created_before_ms;  /* 0: until the present */
    int64_t finished_before_ms; /* 0: whether and when a run has ended does not matter */
    const char *after_id;       /* cursor: begin after this run, the last one of an earlier list */
    int64_t oldest_first;       /* 1: oldest first. 0: newest first */
    int64_t limit;              /* 0: 100 */
} pawl_filter;

/* List runs, nearly in the order in which they were made (keyset pagination, with after_id as the
 * cursor). An index serves filters by an attribute, by an id_prefix that few runs have, and by the
 * phases failed, cancelled, failing and held: with one of them, or with none, the cost grows with
 * the number of runs listed. With other filters only, it grows also with the number of runs passed
 * over. Errors: NOTFOUND (the run of after_id is gone). */
PAWL_API pawl_code pawl_list(pawl *p, const pawl_filter *filter, pawl_info_fn *fn, void *arg);

/* A run and its children, parents first. Errors: NOTFOUND. */
PAWL_API pawl_code pawl_tree(pawl *p, const char *id, pawl_info_fn *fn, void *arg);

/* The journal of a generation (0: the current one), beginning after the row `after_seq`. The kind
 * of an event is a word ("started", "step", "sleep", "message"), its data JSON text. Errors:
 * NOTFOUND (the run, or the generation). */
typedef struct pawl_event pawl_event;
typedef int pawl_event_fn(const pawl_event *event, void *arg);
PAWL_API pawl_code pawl_history(pawl *p, const char *id, int64_t generation, int64_t after_seq,
                                pawl_event_fn *fn, void *arg);
PAWL_API int64_t pawl_event_seq(const pawl_event *e);
PAWL_API int64_t pawl_event_generation(const pawl_event *e);
/* The seq of the op that the event is an answer to; 0: it is an op itself, or belongs to none */
PAWL_API int64_t pawl_event_op(const pawl_event *e);
PAWL_API const char *pawl_event_kind(const pawl_event *e);
PAWL_API const char *pawl_event_name(const pawl_event *e);
PAWL_API int64_t pawl_event_at_ms(const pawl_event *e);
PAWL_API const char *pawl_event_data(const pawl_event *e);

/* Explain what a run waits for, and what would make it go on, in sentences for people. Free *out by
 * pawl_free(). Errors: NOTFOUND. */
PAWL_API pawl_code pawl_why(pawl *p, const char *id, char **out);

/* pawl_hold() stops driving a run until pawl_release(), with a reason for people (at most
 * PAWL_MAX_ID bytes, or NULL). Work functions that are running come to their ends, and their
 * results are recorded.
 *
 * pawl_release() lets a held run go on, whatever the reason of the hold; on a run that is not held
 * it does nothing. Later forms that were running when the run was held return first. A release
 * keeps the generation: unlike after a redrive, interrupted work is tried again with the same
 * pawl_work_key().
 *
 * If the database does not take the record of a result, the node keeps the result in memory, and
 * all other runs go on. What breaks a rule of the database (DATA: a constraint, a trigger, a type)
 * holds the run at once, another failure that may stay (DENIED, CORRUPT, an unknown one) after some
 * seconds; the run stays with that node. FULL, IO, BUSY and their like never hold a run: the node
 * tries again, with pauses of 30 seconds at most. Where a run is held for its record, a release
 * makes the node try again, and so does a cancel, or a deadline that passes. All this holds for
 * pawl_transact() too, but nothing of it is in memory: its function is called again.
 *
 * Errors of both: NOTFOUND, ENDED. Durable: the hold, the release. */
PAWL_API pawl_code pawl_hold(pawl *p, const char *id, const char *reason);
PAWL_API pawl_code pawl_release(pawl *p, const char *id);

typedef struct pawl_redrive_options {
    size_t size;
    const char *key;  /* idempotency key: a redrive with the same key is carried out once */
    const char *from; /* name of the op from which on everything is executed again. NULL: the first
                         op that has failed */
    int64_t whole;    /* 1: everything is executed again, from the first op on */
    const char *version; /* version of the workflow to go on with. NULL: the one that the run has */
} pawl_redrive_options;

/* Let a failed, cancelled or held run go on as a new generation. Its journal begins with a copy of
 * the ops that are kept, without those that were undone. The old generation stays readable.
 *
 * Work that was under way begins anew: with a new pawl_work_key(), with its first attempt, and
 * without the pause of a retry. There are three exceptions: a later form after which other ops are
 * kept goes on with its next attempt, when that is due; pawl_until() keeps its time;
 * pawl_transact() keeps its attempts. Messages that were received after the ops that are kept go
 * back to their mailbox. State, status and attributes stay as they are.
 *
 * Errors: NOTFOUND (the run, or an op called `from`), REFUSED (the run is live, or done, or held
 * while a node has a result of it that could not be recorded), CONFLICT (the key was used for a
 * message, or for a redrive with another from, whole or version). Durable: the new generation. */
PAWL_API pawl_code pawl_redrive(pawl *p, const char *id, const pawl_redrive_options *options);

/* Delete a run that has ended, with its children and everything recorded of them. With `force` a
 * live run is deleted too, without any clean-up: a node that is driving it goes on until the next
 * park, and the rows that the run writes and the runs that it starts until then are deleted by the
 * nodes soon after. Errors: NOTFOUND, REFUSED (the run is live, or the child of another run). */
PAWL_API pawl_code pawl_delete(pawl *p, const char *id, int force);

/* NOT BUILT. Delete all ended runs that the filter finds (roots only, with their children), at most
 * filter->limit. Of the runs that stay, delete all generations but the newest `keep_generations`
 * (0: keep all). *deleted, if not NULL, is the number of runs deleted. */
PAWL_API pawl_code pawl_prune(pawl *p, const pawl_filter *filter, int64_t keep_generations,
                              int64_t *deleted);

/* The change feed, for caches and dashboards. It reports the runs that since *position (0: from now
 * on) were made, ended, were held or released, set their custom status, began to fail, or began a
 * new generation. Each such run is reported at least once, as it is at the time of the report, and
 * none is skipped; deleted runs are not reported. The call waits up to `timeout_ms` for the first
 * change, and answers TIMEOUT if there is none. *position moves on, also at a TIMEOUT; if `fn` ends
 * the list, runs that it was not called for are reported again. A cache takes a position, lists all
 * runs, and goes on from that position.
 *
 * On PostgreSQL the feed stops before the oldest transaction that is under way, of any program.
 * Changes are kept for an hour or more; a feed that is not read for ten minutes may cease to be
 * written. Errors: NOTFOUND (the position is older than what is kept: list anew). */
PAWL_API pawl_code pawl_changes(pawl *p, int64_t timeout_ms, pawl_info_fn *fn, void *arg,
                                int64_t *position);

/* For an event loop that follows the changes, beside pawl_serve() or without it: a descriptor, -1
 * on failure, that becomes readable when pawl_changes() may have something new, in this process or
 * in another one. It is readable at first. A call of pawl_changes() with timeout_ms 0 empties it
 * and then reports what there is: do not read it. It stays the same until pawl_close(), which
 * closes it.
 *
 * The descriptor is a hint. It may become readable for nothing, and changes of other processes may
 * be noticed late (where the engine has no threads only inside pawl_poll()) or not at all (behind a
 * pooler). So call pawl_changes() about once a second in any case; that also keeps the feed being
 * written. */
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

/* NOT BUILT. Set the rules of a queue, for all nodes. Limits count the tasks that live nodes have
 * claimed, exactly. Durable: the rules. */
PAWL_API pawl_code pawl_queue_set(pawl *p, const char *queue, const pawl_queue_options *options);

/* NOT BUILT. The number of tasks that wait, and of tasks under way. Errors: NOTFOUND (the queue was
 * never used). */
PAWL_API pawl_code pawl_queue_depth(pawl *p, const char *queue, int64_t *waiting, int64_t *running);

/* ---- Nodes and metrics ---- */

/* Call `fn` for each live node, with its number, name and build, and the time since when it is a
 * node. On a SQLite file a process that is stopped (SIGSTOP), or gets no processor, keeps its
 * claims: still_ms is the time since when it has not moved, and 0 for a node that moves. */
typedef int pawl_node_fn(int64_t node, const char *name, const char *build, int64_t since_ms,
                         int64_t still_ms, void *arg);
PAWL_API pawl_code pawl_nodes(pawl *p, pawl_node_fn *fn, void *arg);

/* NOT BUILT. Call `fn` for each metric of this engine, by name, for instance "pawl_commits_total".
 * The kind is "counter", "gauge" or "histogram" (then once per bucket, with labels "le=…"); labels
 * are "key=value,…" or "". The metrics are in memory, so that this is cheap. */
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
