/* Output of the tool: untrusted text, JSON and times.
 *
 * Ids, names, errors and payloads are untrusted. A terminal obeys control characters, and some
 * characters reverse text or hide it. So all of these are printed as escapes in text for people,
 * and as JSON escapes in JSON. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdint.h>
#include <stdio.h>

/* Prints text for people. Unsafe characters are printed as \n, \x1b or \u202e, and \ as \\. At most
 * `most` characters are printed, then "…"; 0: all. Gives the number of columns, counting one for
 * each character. */
size_t out_text(FILE *to, const char *text, size_t most);

/* Prints a sentence of pawl_why(). Names in it are escaped already, so a \ is printed as it is. */
void out_sentence(FILE *to, const char *text);

/* Prints text as out_text() does, filled up with blanks to `columns` columns. */
void out_column(FILE *to, const char *text, size_t columns);

/* Prints text as a JSON string. */
void out_string(FILE *to, const char *text);

/* Prints JSON text as a value on one line; text that is not JSON is printed as a JSON string. */
void out_json(FILE *to, const char *json);

/* Writes an instant in the form of ISO 8601, in UTC: 2025-01-31T12:00:00.000Z. */
enum { OUT_TIME = 64 };
void out_time(char out[OUT_TIME], int64_t ms);

#endif
