/* The places of a run in the scheduler, as a state machine: which move is possible from where. A
 * move that is not in the table means that two threads believe to have the run; then the process is
 * ended before one of them records something in the name of the other. */
#include "sched/run_slot.h"

#include <assert.h>

#define TO(place) (1u << (place))

static const unsigned MOVES[] = {
    [PLACE_READY] = TO(PLACE_READY) | TO(PLACE_IN_HAND), /* to another list; taken by a runner */
    [PLACE_IN_HAND] = TO(PLACE_READY) | TO(PLACE_COMMITS) | TO(PLACE_SLEEPS) | TO(PLACE_AT_LIMIT) |
                      TO(PLACE_GONE),
    [PLACE_COMMITS] = TO(PLACE_READY) | TO(PLACE_IN_DOUBT) |
                      TO(PLACE_IN_HAND), /* the run's own thread has applied the unit: a
                                            transactional step */
    [PLACE_SLEEPS] = TO(PLACE_READY),
    [PLACE_AT_LIMIT] = TO(PLACE_READY),
    [PLACE_IN_DOUBT] = TO(PLACE_READY),
    [PLACE_GONE] = 0,
};

int run_may_move(run_place from, run_place to)
{
    return (MOVES[from] & TO(to)) != 0; /* RULE a-run-moves-only-as-the-table-says */
}

void run_move(pawl_run *run, run_place to)
{
    assert(run_may_move(run->slot->place, to));
    run->slot->place = to;
}
