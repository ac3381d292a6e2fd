/* Words for people: times, spans and names, as sentences have them.
 *
 * Names and messages come from anywhere. They are put between quotes and escaped as JSON is, so
 * that none of them can end its sentence, begin a line of its own, or send commands to a
 * terminal. */
#ifndef QUERY_HUMANIZE_H
#define QUERY_HUMANIZE_H

#include <stdint.h>

#include "base/buf.h"

/* 2025-01-31T12:00:00.000Z, by the calendar of ISO 8601, for any number. */
void humanize_time(buf *b, int64_t ms);

/* "40 milliseconds", "3 minutes", "2 days": one unit, rounded down. Without sign. */
void humanize_span(buf *b, int64_t ms);

/* In quotes; what is longer than a line is cut. */
void humanize_name(buf *b, const char *name);

/* A message as part of a sentence, without quotes, and cut likewise. Only control characters are
 * escaped: it stays on its line. */
void humanize_message(buf *b, const char *message);

#endif
