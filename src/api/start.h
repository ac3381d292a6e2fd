/* A request to start a run, checked as it comes in: from pawl_start(), from a message that starts
 * its run, or from inside a transaction of the application. */
#ifndef API_START_H
#define API_START_H

#include "handle/handle.h"
#include "sched/handover.h"

/* A request to start a run. The texts belong to the caller; the attributes are in the arena. */
typedef struct start_ask {
    slice workflow;
    slice id;
    slice input;
    pawl_start_options options;
    attribute_set *attributes;
    int64_t begins_ms; /* when the request was written into the outbox, from which its delay and
                          deadline count; 0: they count from now */
} start_ask;

/* Checks the arguments and fills in the request. */
pawl_code start_read(start_ask *out, arena *memory, const char *name, const char *id,
                     const char *input, const pawl_start_options *options, error *err);

/* Fills in a new run that is created at `now_ms`, with a fresh key and without an owner. */
pawl_code start_birth(sched *s, const start_ask *ask, int64_t now_ms, slice by, run_insert *out,
                      error *err);

#endif
