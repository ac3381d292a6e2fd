/* The filter of a list of runs: a pawl_filter, checked and prepared for SQL.
 *
 * Everything that comes from outside is validated here. What is left are values that a statement
 * can take: a range of ids for the prefix, an attribute as the database has it, a mask of
 * phases. */
#ifndef QUERY_FILTER_H
#define QUERY_FILTER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "rows/attributes.h"

typedef struct filter {
    arena *memory;
    slice workflow; /* at NULL: all */
    slice prefix;   /* at NULL: all; otherwise ids from this one … */
    slice beyond;   /* … to before this one; at NULL: to the end */
    slice after_id; /* at NULL: from the beginning of the list */
    slice attribute;
    attribute value;
    int64_t phases; /* bit by bit; all bits if it does not matter */
    int64_t created_after_ms;
    int64_t created_before_ms;
    int64_t finished_before_ms; /* 0: does not matter, and need not have ended */
    int64_t limit;
    int oldest_first;
} filter;

/* Read the filter; NULL means all defaults. Its texts are borrowed. After an error there is nothing
 * to free. */
pawl_code filter_read(filter *f, const pawl_filter *given, error *err);
void filter_free(filter *f);

/* ---- For tests ---- */

/* The first text, bytewise, that is larger than all that begin with the prefix, in the arena; at
 * NULL: there is none, or memory is out (then *failed is 1). */
slice filter_beyond(arena *memory, slice prefix, int *failed);

#endif
