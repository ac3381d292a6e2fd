/* Pieces of what commands print: members of JSON objects for programs, lines for people. All go to
 * stdout. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <pawl.h>

/* "key":"text", a comma before it; a moment, or null. */
void put_member(const char *key, const char *text);
void put_time(const char *key, int64_t ms);

/* A line of key and text; none if there is no text, or no moment. */
void put_line(const char *key, const char *text);
void put_time_line(const char *key, int64_t ms);

/* How a run has ended: an object, null for NULL; lines, none for NULL. */
void put_outcome(const pawl_outcome *end);
void put_outcome_lines(const pawl_outcome *end);

#endif
