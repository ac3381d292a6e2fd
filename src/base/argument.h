/* Validation of arguments: the texts, names, ids and JSON values that a program hands to a public
 * function. `what` names the argument in the error message. All answers but PAWL_OK have a message
 * in `err`: PAWL_INVALID, or PAWL_LIMIT for what is too long. */
#ifndef BASE_ARGUMENT_H
#define BASE_ARGUMENT_H

#include "base/error.h"
#include "base/slice.h"

/* Text that is neither NULL nor empty, of at most `max` bytes. */
pawl_code argument_text(slice *out, const char *text, size_t max, const char *what, error *err);

/* Text as of argument_text() that names something of the program: it must not begin with
 * "pawl.". */
pawl_code argument_name(slice *out, const char *text, size_t max, const char *what, error *err);

/* A JSON value. */
pawl_code argument_json(slice *out, const char *json, const char *what, error *err);

/* The id of a run that is looked for. */
pawl_code argument_run_id(const char *id, slice *out, error *err);

/* The answers of a call without a function to call, or without a place for its result. */
pawl_code argument_no_function(error *err);
pawl_code argument_no_place(error *err);

#endif
