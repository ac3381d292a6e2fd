/* What has happened in all the worlds together, by kind.
 *
 * A simulator in which nothing goes wrong any more proves nothing, and that would go unnoticed. So
 * everything that may happen is counted, and so many seeds without a kind of it are an error. */
#ifndef SIM_TALLY_H
#define SIM_TALLY_H

#include <stdint.h>
#include <stdio.h>

typedef enum {
    TALLY_CALLS_FAILED,
    TALLY_COMMITS_FAILED,
    TALLY_UNDECIDED,
    TALLY_LATE, /* of these: they happened only when they were asked for */
    TALLY_CRASHES,
    TALLY_SHUT_OUT, /* nodes, while they still worked */
    TALLY_EVICTIONS,
    TALLY_JUMPS,
    TALLY_TAKEOVERS,
    TALLY_HOLDS,
    TALLY_RELEASES,
    TALLY_POISON,
    TALLY_LACKS, /* nodes without the work function */
    TALLY_MAIL,
    TALLY_THEFTS,
    TALLY_MEETINGS,
    TALLY_RETRIES,
    TALLY_TIMERS,
    TALLY_AGAIN, /* executions of what had been executed */
    TALLY_SENDS,
    TALLY_REPEATS,
    TALLY_CONFLICTS,
    TALLY_STARTED_BY_SEND,
    TALLY_RECEIVED,
    TALLY_TIMED_OUT,
    TALLY_TOLD,
    TALLY_ABANDONED,
    TALLY_CHILDREN,
    TALLY_CHILDREN_FAILED,
    TALLY_DETACHED,
    TALLY_TAKEN,
    TALLY_CANCELS,
    TALLY_CANCELLED,
    TALLY_DEADLINES,
    TALLY_UNDOS,
    TALLY_FINALLYS,
    TALLY_STUCK,
    TALLY_GENERATIONS,
    TALLY_REDRIVES,
    TALLY_STATE,
    TALLY_SERVES,
    TALLY_FINISHES,
    TALLY_STOPS,
    TALLY_PROBES,
    TALLY_STORM_PROBES, /* while things went wrong */
    TALLY_STORM_DUE,    /* runs that were due without an owner then, and were claimed */
    TALLY_SCENES,
    TALLY_REFUSED, /* worlds in which a record could not be written at last */
    TALLY_KINDS
} tally_kind;

typedef struct tally {
    int64_t at[TALLY_KINDS];
} tally;

void tally_print(const tally *t, FILE *out);

/* Something that has not happened; NULL: everything has. */
const char *tally_missing(const tally *t);

#endif
