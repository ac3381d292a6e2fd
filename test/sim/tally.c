/* The kinds by name, in the order of the header, and which of them a build cannot do without.
 * Names are what the last line of the simulator says. */
#include "tally.h"

static const char *const NAMES[TALLY_KINDS] = {
    [TALLY_CALLS_FAILED] = "calls failed",
    [TALLY_COMMITS_FAILED] = "commits failed",
    [TALLY_UNDECIDED] = "undecided",
    [TALLY_LATE] = "late",
    [TALLY_CRASHES] = "crashes",
    [TALLY_SHUT_OUT] = "shut out",
    [TALLY_EVICTIONS] = "evictions",
    [TALLY_JUMPS] = "clock jumps",
    [TALLY_TAKEOVERS] = "takeovers",
    [TALLY_HOLDS] = "holds",
    [TALLY_RELEASES] = "releases",
    [TALLY_POISON] = "poison",
    [TALLY_LACKS] = "nodes that lack work",
    [TALLY_MAIL] = "mail",
    [TALLY_THEFTS] = "thefts",
    [TALLY_MEETINGS] = "meetings",
    [TALLY_RETRIES] = "retries",
    [TALLY_TIMERS] = "timers",
    [TALLY_AGAIN] = "executed again",
    [TALLY_SENDS] = "sends",
    [TALLY_REPEATS] = "repeated keys",
    [TALLY_CONFLICTS] = "keys taken",
    [TALLY_STARTED_BY_SEND] = "started by a send",
    [TALLY_RECEIVED] = "received",
    [TALLY_TIMED_OUT] = "receives timed out",
    [TALLY_TOLD] = "told",
    [TALLY_ABANDONED] = "cancelled",
    [TALLY_CHILDREN] = "children",
    [TALLY_CHILDREN_FAILED] = "children failed",
    [TALLY_DETACHED] = "detached",
    [TALLY_TAKEN] = "ids taken",
    [TALLY_CANCELS] = "cancels",
    [TALLY_CANCELLED] = "cancelled",
    [TALLY_DEADLINES] = "deadlines",
    [TALLY_UNDOS] = "undos",
    [TALLY_FINALLYS] = "finallys",
    [TALLY_STUCK] = "stuck",
    [TALLY_GENERATIONS] = "generations",
    [TALLY_REDRIVES] = "redrives",
    [TALLY_STATE] = "state",
    [TALLY_SERVES] = "served",
    [TALLY_FINISHES] = "finished",
    [TALLY_STOPS] = "stopped",
    [TALLY_PROBES] = "probes",
    [TALLY_STORM_PROBES] = "probes in storms",
    [TALLY_STORM_DUE] = "claimed in storms",
    [TALLY_SCENES] = "last scenes",
    [TALLY_REFUSED] = "refused",
};

void tally_print(const tally *t, FILE *out)
{
    for (int i = 0; i < TALLY_KINDS; i++)
        fprintf(out, "%s%s %lld", i ? ", " : "", NAMES[i], (long long)t->at[i]);
}

/* Where fibers are always dropped no node is asked for that, and none steals. */
static int is_expected(int kind)
{
#ifdef PAWL_ALWAYS_REPLAY
    if (kind == TALLY_EVICTIONS || kind == TALLY_THEFTS)
        return 0;
#endif
    return kind < TALLY_KINDS;
}

const char *tally_missing(const tally *t)
{
    for (int i = 0; i < TALLY_KINDS; i++)
        if (t->at[i] == 0 && is_expected(i))
            return NAMES[i];
    return NULL;
}
