/* Options structs, read at the edge.
 *
 * Caller and library may have been compiled with different versions of pawl.h. Every options struct
 * begins with its size and grows at its end only, so that the size tells which members the caller
 * knows. This is the one place that interprets it. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/error.h"
#include "base/slice.h"

enum {
    OPTIONS_MOST = 4096, /* no options struct gets this large: a larger size was never set */
};

/* Copy the options at `given` into the struct of `known` bytes at `out`. What the caller does not
 * know is zero in it; `given` may be NULL, and then all is. PAWL_INVALID: the size is none, or
 * there is something in bytes that this library does not know. Does not judge the members. */
pawl_code options_read(void *out, size_t known, const void *given, error *err);

/* A text among the options: NULL is allowed, otherwise as text_check(). */
pawl_code options_text(slice text, size_t max, const char *what, error *err);

/* PAWL_INVALID with the name of the option for a number below `least`. */
pawl_code options_number(int64_t number, int64_t least, const char *what, error *err);

/* PAWL_UNSUPPORTED: the header declares the option, and nothing here carries it out yet. */
pawl_code options_unbuilt(const char *what, error *err);

#endif
