/* UUIDv7: ids that sort by the time they were made (RFC 9562).
 *
 * 48 bits of milliseconds, then randomness. Both come from outside, so that a seeded test makes
 * the same ids each time. Two ids of one millisecond are in no promised order. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdint.h>

#include "base/clock.h"

#define ID_TEXT_SIZE 37 /* 36 characters and the NUL */

/* Write a new id in its usual form (8-4-4-4-12, lower case). 0, or -1 without randomness. */
int id_uuid7(char out[ID_TEXT_SIZE], int64_t now_ms, random_source *random);

#endif
