/* Validation of arguments: the texts, names, ids and JSON values that a program hands to a public
 * function. `what` names the argument in the error message. All answers but PAWL_OK have a message
 * in `err`: PAWL_INVALID, or PAWL_LIMIT for what is too long. */
#ifndef BASE_ARGUMENT_H
#define BASE_ARGUMENT_H

#include "base/error.h"
#include "base/slice.h"

/* Checks a text: it is neither NULL nor empty, and has at most `max` bytes. */
pawl_code argument_text(slice *out, const char *text, size_t max, const char *what, error *err);

/* As argument_text(), for a text that names something of the program: it must not begin with
 * "pawl.". */
pawl_code argument_name(slice *out, const char *text, size_t max, const char *what, error *err);

/* A JSON value. */
pawl_code argument_json(slice *out, const char *json, const char *what, error *err);

/* Checks the id of a run that is to be looked up. */
pawl_code argument_run_id(const char *id, slice *out, error *err);

/* Set the error of a call that was given no function to call, or no place for its result, and
 * return its code. */
pawl_code argument_no_function(error *err);
pawl_code argument_no_place(error *err);

#endif
