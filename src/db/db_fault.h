/* Fault injection: a decorator that breaks any driver on purpose, at exactly the call it is told
 * to.
 *
 * Wrapped around a database it behaves like it, until the plan says otherwise: fail the n-th call,
 * die before or after the n-th commit, lose the answer of a commit that happened or did not, stop
 * between two calls and let a test do something there. Calls are counted, so that a test can learn
 * how many there are and then break each in turn. */
#ifndef DB_DB_FAULT_H
#define DB_DB_FAULT_H

#include "db/db.h"

typedef enum {
    FAULT_CALL_BEGIN,
    FAULT_CALL_COMMIT,
    FAULT_CALL_PREPARE,
    FAULT_CALL_BIND,
    FAULT_CALL_NEXT,
    FAULT_CALL_SETTLE,
    FAULT_CALL_SCRIPT,
} fault_call;

typedef struct db_fault {
    /* The plan. Numbers count from 1; 0: never. */
    int64_t fail_call;   /* the call with this number fails with fail_code */
    pawl_code fail_code; /* PAWL_STORAGE unless told */
    int fail_ends; /* 1: the call that fails ends the transaction, as SQLite does on some errors */
    int64_t bad_run;      /* reading a row fails if its first column is this key of a run … */
    const char *bad_rows; /* … and the statement's SQL has this text; the code is fail_code */
    int64_t die_before;  /* the process kills itself (SIGKILL) before the commit with this number */
    int64_t die_after;   /* the process kills itself after the commit with this number */
    int64_t lose_commit; /* the answer of the commit with this number is lost */
    int lose_happened;   /* 1: the commit whose answer is lost has happened; 0: it has not */
    int lose_late; /* the commit is carried out only when settle() is called, as on a server that is
                      still working on it, or when the caller begins the next transaction without
                      settle() */
    int64_t unknown_times; /* how many times settle() answers DB_FATE_UNKNOWN first */
    int dead; /* from now on every call fails and nothing is executed, as if the process had died.
                 So an engine can be closed as if it were killed */
    clock_source *clock; /* the time that the database gives when it is asked; NULL: its own */
    int no_file; /* when it is wrapped: the database does not say that it is a file of this host. So
                    there are no locks beside it, and it has a time of its own, as a server has */
    void (*before)(void *arg, int64_t number, fault_call call,
                   const char *sql); /* trace, or pause */
    void *before_arg;

    /* What was counted; and the connection whose commit is still under way. */
    _Atomic int64_t calls;
    _Atomic int64_t commits;
    db_conn *late; /* NULL: none */
} db_fault;

/* Wrap `inner`, which then belongs to the wrapper and is closed with it. The plan is borrowed and
 * may be changed between calls, by the thread that makes them. NULL when memory is out. */
db *db_fault_wrap(db *inner, db_fault *plan);

/* Carry out the commit that is still under way now, and not when settle() is called. */
void db_fault_land(db_fault *plan);

#endif
