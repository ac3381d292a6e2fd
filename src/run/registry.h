/* The registry: workflows by name and version, and work functions by name, as the program has
 * registered them.
 *
 * Entries are only added, and live until the registry is freed, so that a caller may keep a pointer
 * to one. Any thread may search and add at any time. A thread that waits for a registration
 * compares registry_count() to know when to search again. */
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
    int64_t inside;  /* number of attempts under way in this process, if there is a limit
                        (sched/work_limit.h) */
    pawl_run *first; /* runs that wait for a slot */
    pawl_run *last;
    job_list jobs; /* jobs that wait for a slot */
} work_entry;

registry *registry_new(void);
void registry_free(registry *r);

/* Keeps the error of a registration that was refused before it got to the registry, if it is the
 * first one. */
void registry_refuse(registry *r, const error *err);

/* These add an entry. An entry that is registered already, with the same function and options, is
 * no error and changes nothing. PAWL_CONFLICT: the name (of a workflow: with the version) is
 * registered with others. */
pawl_code registry_add_workflow(registry *r, const workflow *w, error *err);
pawl_code registry_add_work(registry *r, const work_entry *w, error *err);

/* registry_workflow() returns the workflow of this name and version; `version` NULL: the one of
 * this name that was registered last. registry_work() returns the work function of this name. NULL:
 * not registered. */
const workflow *registry_workflow(registry *r, const char *name, const char *version);
work_entry *registry_work(registry *r, const char *name);

/* Returns the head of the list of workflows, which is the one registered last; `next` leads to the
 * one registered before it. NULL: none is registered. */
const workflow *registry_first(registry *r);

/* Returns the head of the list of work functions, in the same order. NULL: none is registered. */
work_entry *registry_first_work(registry *r);

/* Returns the number of all entries, which rises with each registration. */
uint64_t registry_count(registry *r);

/* Returns the code of the first registration that has failed, and copies its error to `err`, which
 * may be NULL. PAWL_OK: none has failed. */
pawl_code registry_error(registry *r, error *err);

#endif
