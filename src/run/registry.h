/* What the program has registered: workflows by name and version, work functions by name.
 *
 * Entries are only added, and live until the registry goes, so that a caller may keep a pointer to
 * one. Any thread may search and add at any time; a thread that waits for a registration compares a
 * generation number to know when to search again. */
#ifndef RUN_REGISTRY_H
#define RUN_REGISTRY_H

#include "base/error.h"

typedef struct registry registry;

typedef struct workflow {
    struct workflow *next; /* registered before this one */
    const char *name;
    const char *version;
    pawl_workflow_fn *fn;
    void *arg;
    int returns_errors;
} workflow;

/* Work that is done beside the functions of runs: jobs.h. */
typedef struct job_list {
    struct job *first;
    struct job *last;
} job_list;

typedef struct work_entry {
    struct work_entry *next;
    const char *name;
    pawl_work_fn *fn;
    void *arg;
    int64_t at_most;
    int64_t inside; /* that are in it, in this process, where that is limited; see work_limit.h … */
    pawl_run *first; /* … and the runs that wait for a place */
    pawl_run *last;
    job_list jobs; /* and the work that is done beside them */
} work_entry;

registry *registry_new(void);
void registry_free(registry *r);

/* A registration was refused before it came here, for `err`: the first such error is kept, too. */
void registry_refuse(registry *r, const error *err);

/* PAWL_CONFLICT: the name (and version) is registered with another function or argument. What was
 * registered before is fine, and changes nothing. */
pawl_code registry_add_workflow(registry *r, const workflow *w, error *err);
pawl_code registry_add_work(registry *r, const work_entry *w, error *err);

/* NULL: not registered. `version` NULL: the one registered last. */
const workflow *registry_workflow(registry *r, const char *name, const char *version);
work_entry *registry_work(registry *r, const char *name);

/* The workflow that was registered last; the ones before it are behind it. NULL: there is none. */
const workflow *registry_first(registry *r);

/* Likewise the work functions. */
work_entry *registry_first_work(registry *r);

/* Rises with everything that is added. */
uint64_t registry_count(registry *r);

/* The first error of an addition sticks; PAWL_OK: none. */
pawl_code registry_error(registry *r, error *err);

#endif
