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
    struct workflow *next; /* the workflow that was registered before this one */
    const char *name;
    const char *version;
    pawl_workflow_fn *fn;
    void *arg;
    int returns_errors;
} workflow;

/* A list of jobs, which are calls beside the functions of runs (jobs.h). */
typedef struct job_list {
    struct job *first;
    struct job *last;
} job_list;

typedef struct work_entry {
    struct work_entry *next;
    const char *name;
    pawl_work_fn *fn;
    void *arg;
    int64_t at_most; /* the concurrency limit; 0: none */
    int64_t inside;  /* number of attempts in this process, if there is a limit
                        (sched/work_limit.h) */
    pawl_run *first; /* runs that wait for a slot */
    pawl_run *last;
    job_list jobs; /* jobs that wait for a slot */
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

/* The head of the list of workflows, which is the one registered last; `next` leads to the one
 * registered before it. NULL: none is registered. */
const workflow *registry_first(registry *r);

/* The head of the list of work functions, in the same order. NULL: none is registered. */
work_entry *registry_first_work(registry *r);

/* Rises with everything that is added. */
uint64_t registry_count(registry *r);

/* The first error of a registration, which is kept; PAWL_OK: there was none. */
pawl_code registry_error(registry *r, error *err);

#endif
