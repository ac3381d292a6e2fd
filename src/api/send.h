/* Messages from outside: what a client asks for, read and checked at the edge, and sending it, with
 * the start of the run if there is none. */
#ifndef API_SEND_H
#define API_SEND_H

#include "api/start.h"
#include "rows/send_units.h"

/* Where to read: connections shared by clients, or one of the caller's own. */
typedef struct sight {
    read_pool *shared;
    db_conn *own;
} sight;

pawl_code sight_begin(const sight *v, db_conn **out, error *err);
void sight_end(const sight *v, db_conn *c);

/* A message that is to be sent. */
typedef struct send_ask {
    letter letter; /* the run is filled in */
    slice id;
    start_ask start;
    int starts;       /* a run, if there is none */
    int64_t outbox;   /* the row that it comes from, which goes with it; 0: none */
    int64_t begin_ms; /* of a row: when it was written; delays count from there */
    int64_t seq;      /* what it was given, … */
    int64_t created;  /* … 1: it has started the run, … */
    int moved;        /* … 1: the row is gone already */
    int waits; /* of PAWL_BUSY: only because of this run; messages to others may go through */
} send_ask;

/* Check a message as it comes from outside. Texts stay the caller's; the run is not looked for. */
pawl_code send_read(letter *out, slice *id, const char *to, const char *mailbox,
                    const char *message, const pawl_send_options *o, error *err);

/* And the start that comes with it, whose attributes are in the arena. */
pawl_code send_read_start(send_ask *ask, const pawl_send_options *o, const char *id, arena *memory,
                          error *err);

/* Send it. PAWL_NOTFOUND, ENDED, CONFLICT: the run, or the key, is not as it must be. */
pawl_code send_carry(sched *d, const sight *v, send_ask *ask, error *err);

#endif
