/* What clients say about a run that is to be started, read at the edge: by pawl_start(), by a
 * message that starts its run, and inside a transaction of the application. */
#ifndef API_START_H
#define API_START_H

#include "handle/handle.h"
#include "sched/handover.h"

/* A start as it was asked for. Texts are the caller's, but for the attributes, which are in the
 * arena. */
typedef struct start_ask {
    slice workflow;
    slice id;
    slice input;
    pawl_start_options options;
    attribute_set *attributes;
} start_ask;

/* Check everything. The id may be one that was checked before. */
pawl_code start_read(start_ask *out, arena *memory, const char *name, const char *id,
                     const char *input, const pawl_start_options *options, error *err);

/* A new run of this kind, with a fresh key, from `now_ms` on, and without an owner so far. */
pawl_code start_birth(sched *d, const start_ask *ask, int64_t now_ms, slice by, run_insert *out,
                      error *err);

#endif
