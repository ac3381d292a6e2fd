/* Rows of runs made by SQL, for tests of queries: what the engine would have written in an hour is
 * there at once, and what it would never write can be there too. */
#ifndef SUPPORT_ROWS_FIXTURE_H
#define SUPPORT_ROWS_FIXTURE_H

#include "journal/op.h"
#include "support/conf.h"

/* Opens an engine on the backend for this tenant (NULL: ""). Fails the test if that fails. */
pawl *runs_open(const conf *c, const char *tenant);

/* A row of the table of runs. What is zero or NULL gets the default of the table; except id:
 * "run-N", workflow: "flow", version: "1", times: N * 1000. */
typedef struct runs_row {
    int64_t run;
    const char *tenant;
    const char *id;
    const char *workflow;
    const char *version;
    int64_t phase;
    int64_t generation;
    int64_t owner;
    int64_t wake_at;
    int64_t held;
    const char *held_reason;
    const char *held_for;
    int64_t held_at;
    int64_t claims;
    int64_t parent;
    const char *by;
    int64_t created_at;
    int64_t updated_at;
    int64_t finished_at;
    int64_t deadline_at;
    const char *status;
    int64_t status_seq;
    const char *input;
    const char *error;
} runs_row;

#define RUNS_ADD(p, ...) runs_add((p), &(runs_row){__VA_ARGS__})
void runs_add(pawl *p, const runs_row *row);

/* Adds many rows in one transaction: `make` fills in row number i, from 0 to count - 1. */
void runs_add_many(pawl *p, size_t count, void (*make)(runs_row *row, size_t i, void *arg),
                   void *arg);

void runs_remove(pawl *p, int64_t run);

/* A row of a journal. */
typedef struct runs_entry {
    int64_t run;
    int64_t generation; /* 0: 1 */
    int64_t seq;
    op_kind kind;
    int64_t op;
    const char *name; /* NULL: "" */
    int64_t at;
    const char *data; /* NULL: NULL */
} runs_entry;

#define RUNS_JOURNAL(p, ...) runs_journal((p), &(runs_entry){__VA_ARGS__})
void runs_journal(pawl *p, const runs_entry *e);

/* Adds an attribute to a run. `value` is written as in SQL: '…' or a number. */
void runs_attribute(pawl *p, int64_t run, const char *name, int64_t kind, const char *value);

/* Adds a node. With `alive` 1 it has a heartbeat, as the engine `other` would send it (which is
 * another one on the same database, or p itself); with 0 it has none. */
void runs_node(pawl *p, pawl *other, int64_t node, const char *name, int alive);

/* ---- Checking lists of runs ---- */

/* Collects the ids of a list, with a blank behind each, and with as many dots before it as its
 * depth. Ends the list after `most` ids (0: never). */
typedef struct runs_told {
    char text[8192];
    size_t count;
    size_t most;
    char last[PAWL_MAX_ID + 1];
} runs_told;

int runs_tell(const pawl_info *info, void *told);

#endif
