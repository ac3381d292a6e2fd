/* Requests of clients to send a message: they are checked here, and carried out, with the start of
 * the run if the request has one. */
#ifndef API_SEND_H
#define API_SEND_H

#include "api/start.h"
#include "rows/send_units.h"

/* Where to read: on a connection of the read pool that clients share, or on one of the caller's
 * own. */
typedef struct sight {
    read_pool *shared;
    db_conn *own;
} sight;

pawl_code sight_begin(const sight *v, db_conn **out, error *err);
void sight_end(const sight *v, db_conn *c);

/* A request to send a message, and its results. */
typedef struct send_ask {
    inbox_message message; /* send_carry() fills in the run */
    slice id;
    start_ask start;
    int starts;      /* 1: `start` starts the run if there is none */
    int64_t outbox;  /* the outbox row that the message comes from, which the same unit deletes; 0:
                         none */
    int64_t seq;     /* result: the number of the message */
    int64_t created; /* result: 1 if the request has started the run */
    int moved;       /* result: 1 if the outbox row is gone */
    int waits;       /* result, with PAWL_BUSY: only this run is locked, messages to others may get
                  through */
} send_ask;

/* Checks the arguments and fills in the message. The texts belong to the caller. The
 * run is not looked up yet. */
pawl_code send_read(inbox_message *out, slice *id, const char *to, const char *mailbox,
                    const char *message, const pawl_send_options *o, error *err);

/* Checks the start that comes with a message. Its attributes are allocated in the arena. */
pawl_code send_read_start(send_ask *ask, const pawl_send_options *o, const char *id, arena *memory,
                          error *err);

/* Sends the message. Errors: NOTFOUND, ENDED (of the run), CONFLICT (the key was used for another
 * message). */
pawl_code send_carry(sched *s, const sight *v, send_ask *ask, error *err);

#endif
