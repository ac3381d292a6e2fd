/* JSON as text: is it JSON, and what is at a pointer?
 *
 * Payloads stay the text that they came as. They are checked once, at the edge, in one pass without
 * a tree or an allocation, and read where they lie. So only what is read of a value costs time, and
 * what was written is what is recorded, byte for byte.
 *
 * A *part* is a value inside a text, from its first byte to its last, without the white space
 * around it; it lives as long as the text. All functions but value_check() and value_get() are
 * meant for text that passed value_check(); on other text they answer something, but read nothing
 * outside it and come to an end.
 *
 * Names begin with value_ because json_ is jansson's, and one program may link both. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>
#include <pawl.h>

#include "base/arena.h"
#include "base/slice.h"

/* PAWL_OK if it is one JSON value (RFC 8259) in UTF-8 without the character NUL, raw or escaped,
 * and without half a surrogate pair. PAWL_LIMIT if it is larger or nested deeper than the limits
 * table allows; otherwise PAWL_INVALID. Numbers may be of any size.
 *
 * *at, if not NULL: the first byte that no valid text could have there (of a character that is not
 * UTF-8, its first); the size of the text if only more of it could help, or nothing has to. */
pawl_code value_check(slice json, size_t *at);

/* The part at `pointer` (RFC 6901) and what it is; PAWL_NOTHING, and an empty part, if there is
 * none. Of members with the same key the first one counts. */
pawl_kind value_find(slice json, slice pointer, slice *part);

/* As value_find(), for text that may be anything: PAWL_NOTHING if it does not pass value_check(),
 * or one of the two is NULL. */
pawl_kind value_get(const char *json, const char *pointer, slice *part);

/* Walk over the members of an object: *at is 0 at first. The key is a part too, to be unescaped. 0:
 * there are no more. */
int value_member(slice object, size_t *at, slice *key, slice *part);

/* Walk over the elements of an array: *at is 0 at first. 0: there are no more. */
int value_element(slice array, size_t *at, slice *part);

/* Takes the next byte of the inside of a string from *rest, or the next escape with all bytes that
 * it stands for. Writes them to `out`, and returns their number; 0 at the end. */
size_t value_next_char(slice *rest, char out[4]);

/* How many elements or members an array or object has; -1 for anything else. */
int64_t value_count(slice part);

/* The value of a number. 0, or -1 when it has a fraction or an exponent, or needs more than 64
 * bits; for a real, when it is past the largest double. The byte behind the part must be readable:
 * the text ends in a NUL. */
int value_int(slice part, int64_t *out);
int value_real(slice part, double *out);

/* The text of a string, unescaped, into `out` with a NUL; cut between characters if it does not fit
 * into `room` bytes (0: nothing is written). Gives its full size. */
size_t value_unescape(slice part, char *out, size_t room);

/* Copies the bytes of a part as they are, quotes and escapes included; otherwise as
 * value_unescape(). */
size_t value_copy(slice part, char *out, size_t room);

/* The text of a string, in the arena. NULL when the arena is full. */
char *value_text(arena *a, slice part);

#endif
