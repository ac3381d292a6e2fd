/* committer_fixture_commit() promises that all units are in one batch, and asks the committer's own
 * count of batches whether they were. */
#include "support/committer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

committer_fixture committer_fixture_open_with(const conf *c, const committer_options *options)
{
    committer_fixture b = {.db = conf_open(c, NULL)};
    committer_options o = options ? *options : (committer_options){0};
    o.by_hand = 1;
    b.k = conf_committer(b.db, &o);
    return b;
}

committer_fixture committer_fixture_open(const conf *c)
{
    return committer_fixture_open_with(c, NULL);
}

void committer_fixture_open_fault(committer_fixture *b, const conf *c, committer_options options,
                                  db_options database)
{
    *b = (committer_fixture){.clock = clock_fake_new(1000000)};
    database.clock = clock_fake_source(b->clock);
    database.by_hand = 1;
    b->db = conf_open_fault(c, &database, &b->plan);
    options.by_hand = 1;
    b->k = conf_committer(b->db, &options);
}

void committer_fixture_lock(committer_fixture *b)
{
    b->lock = conf_lock(b->db);
}

void committer_fixture_unlock(committer_fixture *b)
{
    if (b->lock)
        conf_unlock(b->lock);
    b->lock = NULL;
}

void committer_fixture_close(committer_fixture *b)
{
    committer_fixture_unlock(b);
    committer_close(b->k);
    db_close(b->db);
    if (b->clock)
        clock_fake_free(b->clock);
}

void committer_fixture_commit(committer_fixture *b, conf_ticket *tickets, size_t count)
{
    int64_t before = committer_stats_now(b->k).batches;
    for (size_t i = 0; i < count; i++)
        committer_submit(b->k, tickets[i].unit);
    conf_drive(b->k, NULL, tickets, count);
    assert_int_equal(committer_stats_now(b->k).batches, before + 1);
}
