/* What text must be: UTF-8, no NUL inside, within its limit.
 *
 * Names, ids and payloads are checked once, at the edge, so that every backend sees the same
 * text and compares it bytewise. Byte values may hold anything and do not come through here. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include "base/error.h"
#include "base/slice.h"

/* The bytes of the character that it begins with; 0 if it begins with none. */
size_t text_char(slice s);

/* 1 if a character may be shown to people as it is; `c` is the bytes that text_char() has counted,
 * or one byte that begins no character. 0: it is a control character, which a terminal may obey as
 * a command (U+0000 to U+001F, U+007F to U+009F); a line break (U+2028, U+2029); or no character
 * at all. */
int text_is_printable(slice c);

/* PAWL_OK, or an error that names `what`: PAWL_INVALID for a NULL pointer, a NUL inside or bytes
 * that are not UTF-8 (with the position), PAWL_LIMIT for more than `max` bytes. Never repeats
 * the text itself, which may be a secret. */
pawl_code text_check(slice s, size_t max, const char *what, error *err);

/* Text for people, in memory of a bounded size: cut where it is too long, between two characters,
 * and with a ? for each byte that is not UTF-8. _print: by a format, as vsnprintf(3). */
void text_clip(char *out, size_t room, slice s);
void text_print(char *out, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Removes, in place, the joints ": " that an empty part has left in a text of parts, such as
 * "message: detail": those at either end, and all but one of several in a row. */
void text_drop_empty_parts(char *text);

/* ---- For tests ---- */

/* 1 if it is UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF. */
int text_is_utf8(slice s);

#endif
