/* The canonical form of JSON: are two texts the same value?
 *
 * Two programs write the same value in different ways: other blanks, another order of members,
 * other escapes, 1 or 1.0 or 1e0. Where a repeated request has to be told from another one, the
 * values count and not the bytes. So each value has one canonical form, and a digest of it stands
 * for the value where the text itself is not kept.
 *
 *   no blanks; members in the order of the bytes of their keys, of equal keys the first one only;
 *   strings with \" and \\ and \u00xx for control characters, and no other escapes; numbers by
 *   their exact decimal value: 0, an integer of at most 20 digits, or digits e exponent
 *
 * Numbers are never rounded. Only where an exponent has more than 17 digits is it compared as it is
 * written. For text that passed value_check(); other text is PAWL_INVALID, or some value. */
#ifndef BASE_JSON_CANONICAL_H
#define BASE_JSON_CANONICAL_H

#include "base/buf.h"
#include "base/digest.h"
#include "base/json.h"

/* Adds the canonical form to a digest. PAWL_NOMEM: memory is out for sorting the members. */
pawl_code value_digest(digest *d, slice json);

/* Returns 1 if both are the same value; 0: they are different values, or one of them is not JSON;
 * -1: memory is out. Equal bytes are the same value without a closer look. */
int value_is_same(slice a, slice b);

/* ---- For tests ---- */

/* Adds the canonical form to a buffer. Whether memory was out is known from the buffer
 * (buf.no_memory). */
pawl_code value_canonical(buf *b, slice json);

#endif
