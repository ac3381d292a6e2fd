/* The outbox: starts and messages from inside transactions of the application.
 *
 * The application's connection only appends a row (outbox.c). Once its transaction is committed, a
 * node or a call of pawl_outbox_flush() turns the row into a run or a message (outbox_relay.c). The
 * same unit deletes the row, so this happens exactly once, however often it is tried. */
#ifndef API_OUTBOX_H
#define API_OUTBOX_H

#include "api/outbox_backoff.h"
#include "api/start.h"
#include "sched/chores.h"

/* Take a row away with the unit. Guard "moved": it is gone, or has failed. */
void outbox_relay_take(unit *u, int64_t pos);

/* The relay of a node. Filled with zeroes but for `sched` it is as at the beginning;
 * outbox_relay_clear() frees what it has. */
typedef struct outbox_relay {
    sched *sched;
    outbox_backoff backoff;
} outbox_relay;

void outbox_relay_clear(outbox_relay *r);

/* The chore, to be run every OUTBOX_RELAY_MS; its `arg` is an outbox_relay. Move some rows. Gives
 * how many. */
enum { OUTBOX_RELAY_MS = 1000 };
chore_fn outbox_relay_look;

/* Read the options of a start as a row has them (JSON; behind it, of a message that may start its
 * run, a byte that JSON cannot have and the input). */
pawl_code outbox_read_options(start_ask *out, arena *a, slice options, error *err);

#endif
