/* The places of a run in the scheduler: which moves the table of run_slot.c allows. A move that is
 * missing there ends the process; one too many hides that two threads have the same run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sched/run_slot.h"

/* Every move that the scheduler makes; there is no other. */
static void a_run_moves_as_the_table_says(void **state)
{
    (void)state;
    static const struct {
        run_place from, to;
    } MOVES[] = {
        {PLACE_READY, PLACE_READY},     {PLACE_READY, PLACE_IN_HAND},
        {PLACE_IN_HAND, PLACE_READY},   {PLACE_IN_HAND, PLACE_COMMITS},
        {PLACE_IN_HAND, PLACE_SLEEPS},  {PLACE_IN_HAND, PLACE_AT_LIMIT},
        {PLACE_IN_HAND, PLACE_GONE},    {PLACE_COMMITS, PLACE_READY},
        {PLACE_COMMITS, PLACE_IN_HAND}, {PLACE_COMMITS, PLACE_IN_DOUBT},
        {PLACE_SLEEPS, PLACE_READY},    {PLACE_AT_LIMIT, PLACE_READY},
        {PLACE_IN_DOUBT, PLACE_READY},
    };
    for (int from = PLACE_READY; from <= PLACE_GONE; from++) {
        for (int to = PLACE_READY; to <= PLACE_GONE; to++) {
            int may = 0;
            for (size_t i = 0; i < sizeof MOVES / sizeof *MOVES; i++)
                may |= (int)MOVES[i].from == from && (int)MOVES[i].to == to;
            assert_int_equal(run_may_move((run_place)from, (run_place)to), may);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_moves_as_the_table_says),
    };
    return cmocka_run_group_tests_name("run_slot", tests, NULL, NULL);
}
