/* Times, spans and names, written for people as parts of sentences.
 *
 * Names and messages are untrusted text. They are escaped, so that none of them can end its
 * sentence, begin a line of its own, or send commands to a terminal. */
#ifndef QUERY_HUMANIZE_H
#define QUERY_HUMANIZE_H

#include <stdint.h>

#include "base/buf.h"

/* Writes an instant as 2025-01-31T12:00:00.000Z, by the calendar of ISO 8601, for any number. */
void humanize_time(buf *b, int64_t ms);

/* Writes a duration as "40 milliseconds", "3 minutes", "2 days": one unit, rounded down, without a
 * sign. */
void humanize_span(buf *b, int64_t ms);

/* Writes a name in quotes, escaped as JSON is; DEL, the control characters from U+0080 to U+009F,
 * and the line breaks U+2028 and U+2029 are escaped too. A name that is longer than a line is
 * cut. */
void humanize_name(buf *b, const char *name);

/* Writes a message without quotes, as part of a sentence; one that is longer than a line is cut.
 * Control characters and line breaks are escaped, as in a name, and nothing else is. */
void humanize_message(buf *b, const char *message);

#endif
