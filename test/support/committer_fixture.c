/* That all units went into one batch is part of the promise, and is checked by the committer's own
 * count. */
#include "support/committer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

bench bench_open(const conf *c)
{
    bench b = {conf_open(c, NULL), NULL};
    b.k = conf_committer(b.db, &(committer_options){.by_hand = 1});
    return b;
}

void bench_close(bench *b)
{
    committer_close(b->k);
    db_close(b->db);
}

void bench_batch(bench *b, conf_ticket *tickets, size_t count)
{
    int64_t before = committer_stats_now(b->k).batches;
    for (size_t i = 0; i < count; i++)
        committer_submit(b->k, tickets[i].unit);
    conf_drive(b->k, NULL, tickets, count);
    assert_int_equal(committer_stats_now(b->k).batches, before + 1);
}
