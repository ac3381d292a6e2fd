/* The protocol of PostgreSQL, as far as the proxy has to understand it.
 *
 * Bytes come in as the network cuts them, and whole messages come out. A connection begins with
 * packets that have no type (start-up, requests for encryption or for a cancel). After the start-up
 * packet every message begins with a letter and a length. */
#ifndef SUPPORT_PROXY_WIRE_H
#define SUPPORT_PROXY_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* A queue of bytes: they are added at the end, and taken out at the front. A zeroed one is
 * empty. */
typedef struct pile {
    char *bytes;
    size_t start; /* offset of the bytes that are still in the queue */
    size_t end;
    size_t room;
} pile;

void pile_add(pile *p, slice s);
slice pile_all(const pile *p);
void pile_take(pile *p, size_t size);
void pile_clear(pile *p);
void pile_free(pile *p);

/* One direction of a connection. A zeroed one has received nothing. */
typedef struct wire {
    pile in;
    int typed; /* 1: messages begin with letters; those of a server always do */
    int raw;   /* number of the next bytes that are no messages: answers to requests for
                  encryption */
} wire;

/* A message. Its bytes may be changed, and are valid until the next wire_next() or pile_add(). */
typedef struct wire_message {
    char type; /* the letter; 0: a packet without a type, or a raw byte */
    char *all;
    size_t size;
    slice body; /* the message without its letter and length */
} wire_message;

/* Takes the next whole message. Returns 1; 0: there is none yet. */
int wire_next(wire *w, wire_message *out);

/* The kinds of packets that have no type. */
typedef enum { WIRE_START, WIRE_ENCRYPT, WIRE_CANCEL } wire_packet;
wire_packet wire_packet_of(const wire_message *m);

/* Returns 1 if this message of a client commits a transaction: it is a Bind of the prepared
 * statement `pawl_commit`, or a Parse of an unnamed statement that is "COMMIT". */
int wire_is_commit(const wire_message *m);

/* Returns 1 if the server will answer this message of a client with ReadyForQuery. */
int wire_asks_ready(const wire_message *m);

/* Changes the version in this message of a server to one that begins with 09. */
void wire_age_version(const wire_message *m);

#endif
