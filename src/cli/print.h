/* Parts of the output that several commands share, printed to stdout: members of JSON objects for
 * programs, lines for people. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <pawl.h>

/* Print a comma and the member "key":"text" of a JSON object; "" is printed as null. put_time()
 * prints an instant; 0 is printed as null. */
void put_member(const char *key, const char *text);
void put_time(const char *key, int64_t ms);

/* Print a line with key and text. No line is printed for "" or the instant 0. */
void put_line(const char *key, const char *text);
void put_time_line(const char *key, int64_t ms);

/* Print how a run has ended. put_outcome() prints a JSON object, or null for NULL;
 * put_outcome_lines() prints lines, or none for NULL. */
void put_outcome(const pawl_outcome *end);
void put_outcome_lines(const pawl_outcome *end);

#endif
