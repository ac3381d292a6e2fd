/* The outbox: starts and messages from inside transactions of the application.
 *
 * The application's connection only appends a row (outbox.c); if its transaction is committed, the
 * row is there, and some node, or whoever calls pawl_kick(), turns it into a run or a message
 * (mover.c). That takes the row away in the same unit, so it happens once, whoever does it and
 * however often it is tried. */
#ifndef CORE_OUTBOX_H
#define CORE_OUTBOX_H

#include "core/client.h"

/* What a row is for (docs/format.md). */
enum { OUTBOX_START = 1, OUTBOX_MESSAGE = 2 };

/* Take a row away with the unit. Guard "moved": it is gone, or has failed. */
void outbox_take(unit *u, int64_t pos);

/* The keeper's: move some rows, if it is time to look. Gives how many. Without the lock. */
int64_t outbox_look(drive *d);

/* The options of a start as a row has them: JSON; behind it, of a message that may start its run, a
 * byte that JSON cannot have and the input. NULL: memory is out. */
char *outbox_write_options(arena *a, const start_ask *ask, int with_input);
pawl_code outbox_read_options(start_ask *out, arena *a, slice options, error *err);

#endif
