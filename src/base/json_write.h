/* Writing JSON from a format, in which ' stands for " so that it can be read in C.
 *
 * The result is JSON by construction or there is none: strings are escaped, JSON text that is put
 * in is checked by itself, and so is the whole. So no argument, wherever it came from, can end a
 * string early or add a member. The public header explains the format ("Writing"). */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include <stdarg.h>
#include <pawl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

/* Appends the JSON to `b`. PAWL_INVALID: the format or an argument does not make JSON; PAWL_LIMIT:
 * the result is too large, or memory is out. After an error `b` may have a part of the JSON. */
pawl_code value_write(buf *b, const char *format, va_list args);

/* As value_write(), and `err`, if not NULL, says what is wrong and where in the format. PAWL_NOMEM
 * is told from PAWL_LIMIT. Neither the format nor an argument is repeated. */
pawl_code value_write_why(buf *b, const char *format, va_list args, error *err);

/* The text that value_write() makes, in the arena. NULL on error; `err`, if not NULL, says
 * which. */
char *value_write_arena(arena *a, error *err, const char *format, va_list args);

/* Text as the inside of a JSON string, escaped, without quotes. */
void value_escape(buf *b, slice text);

/* Text as a JSON string. */
void value_quote(buf *b, slice text);

#endif
