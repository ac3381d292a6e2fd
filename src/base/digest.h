/* SHA-256 (FIPS 180-4), by which a repeated request is recognised (idempotency).
 *
 * A receipt has to tell the same message from another one for as long as the run lives, and must
 * not keep the message for that. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdint.h>

#include "base/slice.h"

#define DIGEST_SIZE 32

typedef struct digest {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} digest;

void digest_begin(digest *d);
void digest_add(digest *d, slice s);
void digest_end(digest *d, unsigned char out[DIGEST_SIZE]);

#endif
