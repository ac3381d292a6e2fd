/* What a node is at: the runs on its threads, in a file that outlives it.
 *
 * When a process dies nobody knows whose fault it was. But it was the fault of something that was
 * being executed, and that is known, if each thread writes down which run it has in hand before it
 * calls the user's code. That must cost nothing, so it is a word of memory; and it must be there
 * after SIGKILL, so the memory is a page of a file beside the database: `<db>-running-<node>`. The
 * page goes to whoever takes over the dead node's runs. It says nothing after the power has failed,
 * and need not: no run does that.
 *
 * There is such a file only where the database is one (nodes_file.h). */
#ifndef CORE_RUNNING_H
#define CORE_RUNNING_H

#include <stdint.h>

struct nodes_file;

/* Those of the engine, and the one that drives by hand. */
enum { RUNNING_THREADS = 65 };

typedef struct running running;

/* The list of this node, empty. NULL: it cannot be had, and whoever takes over has to do
 * without. */
running *running_open(struct nodes_file *f, int64_t node);

/* At the end of a node: the file goes too. NULL is allowed. */
void running_close(running *r);

/* This thread (from 0) has this run in hand; 0: none. */
void running_set(running *r, int thread, int64_t run);

/* This run is under suspicion, and has been let out alone: it is to blame and nobody else. 0: none
 * is. */
void running_blame(running *r, int64_t run);

/* What a node that is dead was at. */
typedef struct running_list {
    int known; /* 0: there is no list, or none that can be read */
    int64_t blamed;
    int64_t at[RUNNING_THREADS];
} running_list;

void running_read(struct nodes_file *f, int64_t node, running_list *out);

/* Was it the run's fault, as far as the list knows? */
int running_has(const running_list *list, int64_t run);

/* Nobody will ask for it any more. */
void running_remove(struct nodes_file *f, int64_t node);

#endif
