/* The filter of a list of runs: a pawl_filter, checked and prepared for SQL.
 *
 * Every field of the pawl_filter is validated here, and becomes a parameter of the statement: the
 * prefix a range of ids, the attribute a value as the database stores it, the phases a bit mask. */
#ifndef QUERY_FILTER_H
#define QUERY_FILTER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "rows/attributes.h"

typedef struct filter {
    arena *memory;
    slice workflow; /* at NULL: all */
    slice prefix;   /* first id of the range for the prefix; at NULL: all ids */
    slice beyond;   /* first id behind the range; at NULL: the range has no end */
    slice after_id; /* cursor: the list goes on after this run; at NULL: it begins anew */
    slice attribute;
    attribute value;
    int64_t phases; /* bit mask; all bits: any phase */
    int64_t created_after_ms;
    int64_t created_before_ms;
    int64_t finished_before_ms; /* 0: no bound; runs that have not ended are listed too */
    int64_t limit;
    int oldest_first;
} filter;

/* Reads the filter; NULL means all defaults. Its texts must live as long as the filter. After an
 * error there is nothing to free. */
pawl_code filter_read(filter *f, const pawl_filter *given, error *err);
void filter_free(filter *f);

/* ---- For tests ---- */

/* Returns the smallest text, bytewise, that is larger than all texts with the prefix, allocated in
 * the arena. at NULL: there is none, or memory is out (then *failed is 1). */
slice filter_beyond(arena *memory, slice prefix, int *failed);

#endif
