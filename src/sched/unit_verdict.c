/* Decides by the code alone. A code that is not listed may pass or may stay: a column is missing,
 * or a right was taken away, for a moment or for good. */
#include "sched/unit_verdict.h"

unit_verdict unit_verdict_of(pawl_code code)
{
    switch (code) {
    /* RULE L7-what-is-refused-for-good-holds */
    case PAWL_DATA: /* constraint, trigger, type, size */
    case PAWL_LIMIT:
    case PAWL_INVALID:
    case PAWL_MISUSE:
    case PAWL_UNSUPPORTED:
    case PAWL_INTERNAL:
        return VERDICT_FOR_GOOD;
    case PAWL_BUSY:
    case PAWL_TIMEOUT:
    case PAWL_NOMEM:
    case PAWL_FULL:
    case PAWL_IO:
    case PAWL_READONLY:
    case PAWL_CANTOPEN:
    case PAWL_UNREACHABLE:
        return VERDICT_PASSES;
    default: /* STORAGE, DENIED, CORRUPT …: a missing column, a right that was taken away */
        return VERDICT_UNKNOWN;
    }
}
