/* The transactional outbox: starts and messages from inside transactions of the application.
 *
 * The application's connection only appends a row (outbox.c). Once its transaction is committed, a
 * node or a call of pawl_outbox_flush() turns the row into a run or a message (outbox_relay.c). The
 * same unit deletes the row, so this happens exactly once, however often it is tried. */
#ifndef API_OUTBOX_H
#define API_OUTBOX_H

#include "api/outbox_backoff.h"
#include "api/start.h"
#include "sched/chores.h"

/* Lets the unit delete a row of the outbox. Guard "moved" refuses the unit if the row is gone
 * already, or is a dead letter. */
void outbox_relay_take(unit *u, int64_t pos);

/* The relay of a node. It begins with `sched` set and everything else zero; outbox_relay_clear()
 * frees what it has allocated. */
typedef struct outbox_relay {
    sched *sched;
    outbox_backoff backoff;
} outbox_relay;

void outbox_relay_clear(outbox_relay *r);

/* The chore, to be run every OUTBOX_RELAY_MS; its `arg` is an outbox_relay. Delivers some rows, and
 * gives their number. */
enum { OUTBOX_RELAY_MS = 1000 };
chore_fn outbox_relay_look;

/* Reads the options of a start from a row of the outbox. They are JSON. A row of a message that may
 * start its run has more behind the JSON: a byte that JSON cannot have, and the input of the
 * run. */
pawl_code outbox_read_options(start_ask *out, arena *a, slice options, error *err);

#endif
