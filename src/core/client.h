/* What clients say about a run that is to be started, read at the edge: by pawl_start(), by a
 * message that starts its run, and inside a transaction of the application. */
#ifndef CORE_CLIENT_H
#define CORE_CLIENT_H

#include "core/birth.h"
#include "core/engine.h"

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

/* A new run of this kind, with a fresh key, from `now_ms` on, and nobody's so far. */
pawl_code start_birth(drive *d, const start_ask *ask, int64_t now_ms, slice by, birth *out,
                      error *err);

/* Text and JSON from outside; `what` names them. Text must not be empty. _NAME: nor may it begin
 * with what is pawl's own. */
pawl_code client_name(slice *out, const char *text, size_t max, const char *what, error *err);
pawl_code client_text(slice *out, const char *text, size_t max, const char *what, error *err);
pawl_code client_json(slice *out, const char *json, const char *what, error *err);

/* How a client's unit went: PAWL_REFUSED by a guard of its own only. A closed node refuses
 * everything that it is asked: PAWL_FENCED. */
pawl_code client_code(const unit *u, pawl_code rc);

/* There is work that nobody has: whoever can take it hears of it. */
void client_call_others(drive *d);

/* A start was committed, or not: whoever can drive the run hears of it. To be called once after
 * each birth_owner(). */
void client_born(drive *d, const birth *b, int made);

#endif
