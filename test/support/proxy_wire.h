/* The protocol of PostgreSQL, as far as the proxy has to understand it.
 *
 * Bytes come in as the network cuts them; whole messages come out. A connection begins with packets
 * without a type (start-up, requests for encryption or for a cancel); after the start-up packet
 * every message has a letter and a length. */
#ifndef SUPPORT_PROXY_WIRE_H
#define SUPPORT_PROXY_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* Bytes that are put in behind and taken out in front. Zeroed: empty. */
typedef struct pile {
    char *bytes;
    size_t start; /* of what is still in it */
    size_t end;
    size_t room;
} pile;

void pile_add(pile *p, slice s);
slice pile_all(const pile *p);
void pile_take(pile *p, size_t size);
void pile_clear(pile *p);
void pile_free(pile *p);

/* One direction of a connection. Zeroed: nothing has come yet. */
typedef struct wire {
    pile in;
    int typed; /* messages have letters from now on: from the beginning in what a server says */
    int raw;   /* so many bytes come that are no message: answers to requests for encryption */
} wire;

/* A message. The bytes may be changed, and are there until the next wire_next() or pile_add(). */
typedef struct wire_message {
    char type; /* its letter; 0: a packet without one, or a raw byte */
    char *all;
    size_t size;
    slice body; /* without letter and length */
} wire_message;

/* 1: there was a whole message. */
int wire_next(wire *w, wire_message *out);

/* What kind of packet one without a letter is. */
typedef enum { WIRE_START, WIRE_ENCRYPT, WIRE_CANCEL } wire_packet;
wire_packet wire_packet_of(const wire_message *m);

/* Of a client: is this where a transaction is committed? It is a Bind of the prepared statement
 * `pawl_commit`, or a Parse of an unnamed statement that is "COMMIT". */
int wire_is_commit(const wire_message *m);

/* Of a client: will the server answer it with ReadyForQuery? */
int wire_asks_ready(const wire_message *m);

/* Of a server: make the version that it tells one that begins with 09. */
void wire_age_version(const wire_message *m);

#endif
