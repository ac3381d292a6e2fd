/* The in-flight list of a node: the runs on its threads, and when it moved last, in a file that
 * outlives the process.
 *
 * It is what the quarantine of poison runs rests on. When a process dies, one of the runs that it
 * was executing may be the cause. So each thread writes down which run it executes before it calls
 * the user's code. That must cost nothing, so it is a word of memory; and it must survive SIGKILL,
 * so the memory is a page of a file beside the database: `<db>-running-<node>`. The node that takes
 * over the dead node's runs reads it. After a power failure the page says nothing, and need not: no
 * run causes one.
 *
 * There is such a file only where the database is one (liveness_file.h). */
#ifndef DB_INFLIGHT_FILE_H
#define DB_INFLIGHT_FILE_H

#include <stdint.h>

struct liveness_file;

/* The engine's threads, and one for a caller that drives by hand. */
enum { INFLIGHT_THREADS = 65 };

typedef struct running running;

/* The list of this node, empty. NULL: it cannot be made, and a takeover has to do without it. */
running *inflight_open(struct liveness_file *f, int64_t node);

/* At the end of a node: the file goes too. NULL is allowed. */
void inflight_close(running *r);

/* This thread (from 0) executes this run; 0: none. */
void inflight_set(running *r, int thread, int64_t run);

/* This run cannot be the cause of a death from here on: remove it from every thread's word. */
void inflight_clear(running *r, int64_t run);

/* The node has made progress at this time. A process that is stopped (SIGSTOP) keeps its byte lock,
 * and so its claims: only this time shows an operator that it stands still. */
void inflight_moved(running *r, int64_t now_ms);

/* The runs on the threads of a node: at its death, or at this moment if it is alive. */
typedef struct inflight_list {
    int known;        /* 0: there is no list, or none that can be read */
    int64_t moved_ms; /* when the node moved last (inflight_moved()); 0: it has not noted that */
    int64_t at[INFLIGHT_THREADS];
} inflight_list;

void inflight_read(struct liveness_file *f, int64_t node, inflight_list *out);

/* Was the run being executed, so that it may be the cause of the death? */
int inflight_has(const inflight_list *list, int64_t run);

/* Delete the list of a node whose runs were taken over. */
void inflight_remove(struct liveness_file *f, int64_t node);

#endif
