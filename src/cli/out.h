/* What the tool prints, safely.
 *
 * Ids, names, errors and payloads are untrusted. A terminal obeys control characters, and some
 * characters turn text around or hide it; so in text for people all of these are shown as escapes,
 * and in JSON they are written as JSON's own escapes. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdint.h>
#include <stdio.h>

/* Text for people; what a terminal would obey is shown as \n, \x1b or \u202e, and \ as \\. Gives
 * the number of columns, as if each character had one. At most `most` characters, then "…"; 0:
 * all. */
size_t out_text(FILE *to, const char *text, size_t most);

/* A sentence of pawl_why(), in which names are escaped already: a \ is printed as it is. */
void out_sentence(FILE *to, const char *text);

/* As out_text(), filled up with blanks to so many columns. */
void out_column(FILE *to, const char *text, size_t columns);

/* A JSON string. */
void out_string(FILE *to, const char *text);

/* JSON text as a value in one line; if it is not JSON after all, as a string. */
void out_json(FILE *to, const char *json);

/* A moment as ISO 8601 has it, in UTC: 2025-01-31T12:00:00.000Z. */
enum { OUT_TIME = 64 };
void out_time(char out[OUT_TIME], int64_t ms);

#endif
