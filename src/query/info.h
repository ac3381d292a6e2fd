/* What is known about a run, as an object for people and programs (pawl_info).
 *
 * One allocation has the whole object, texts included. An info does not depend on the handle or the
 * database, so it can be kept, handed to another thread, and read after pawl_close(). */
#ifndef QUERY_INFO_H
#define QUERY_INFO_H

#include "handle/read_pool.h"

struct pawl_info {
    int64_t run; /* the run's key in the database */
    int64_t generation;
    int64_t status_seq;
    int64_t depth; /* set by pawl_tree() */
    int64_t created_ms;
    int64_t updated_ms;
    int64_t finished_ms;
    int64_t wake_ms;
    pawl_phase phase;
    int has_children; /* set only if the statement selects INFO_CHILDREN */
    const char *id;
    const char *workflow;
    const char *version;
    const char *status;
    const char *held;
    const char *parent;
    const char *by;
};

/* The columns and tables that a statement for info_page_add() selects: the run is r, its parent
 * q. */
#define INFO_COLUMNS                                                                               \
    "r.run, r.id, r.workflow, r.version, r.phase, r.held, r.generation, r.status,"                 \
    " r.status_seq, r.held_reason, r.by, r.created_at, r.updated_at, r.finished_at, r.wake_at, "   \
    "q.id"
#define INFO_FROM " FROM {runs} r LEFT JOIN {runs} q ON q.run = r.parent "

/* An optional last column, behind INFO_COLUMNS: 1 if the run has children. */
#define INFO_CHILDREN                                                                              \
    ", CASE WHEN EXISTS (SELECT 1 FROM {runs} c WHERE c.parent = r.run) THEN 1 ELSE 0 END"
enum { INFO_CHILDREN_AT = 16 };

/* Returns the phase that clients see, from the columns `phase` and `held` of a run's row:
 * PAWL_RUN_HELD if the run has not ended and `held` is not 0, otherwise `phase`. */
pawl_phase info_phase(int64_t phase, int64_t held);

/* Returns in words why a run is held, for a row that has no reason in words. */
const char *info_held_word(int64_t held);

/* A list of infos, in order. A zeroed struct is an empty list. */
typedef struct info_page {
    pawl_info **at;
    size_t count;
    size_t room;
} info_page;

/* A callback for read_pool_rows(), whose `arg` is an info_page: adds the info of a row. */
read_pool_fn info_page_add;
void info_page_free(info_page *page);

#endif
