/* The committer fixture: a database, and one committer that is driven by hand, so that a test
 * decides which units are in a batch of the group commit. */
#ifndef SUPPORT_COMMITTER_FIXTURE_H
#define SUPPORT_COMMITTER_FIXTURE_H

#include "support/conf.h"

typedef struct committer_fixture {
    db *db;
    committer *k;

    /* Set by committer_fixture_open_fault() only. */
    clock_fake *clock;
    db_fault plan;

    db_conn *lock; /* the connection that locks the database; NULL: it is not locked */
} committer_fixture;

/* Open the database of the test, and a committer on it that is driven by hand. `options` are those
 * of the committer, but for by_hand; NULL: the defaults. */
committer_fixture committer_fixture_open(const conf *c);
committer_fixture committer_fixture_open_with(const conf *c, const committer_options *options);

/* The same on a fake clock, and with the fault plan b->plan around the database. `*b` must not move
 * in memory until the fixture is closed, since the database points to the plan. */
void committer_fixture_open_fault(committer_fixture *b, const conf *c, committer_options options,
                                  db_options database);

void committer_fixture_close(committer_fixture *b);

/* Hand in the units of all tickets, and commit them. Fails the test unless that is one batch. */
void committer_fixture_commit(committer_fixture *b, conf_ticket *tickets, size_t count);

/* Lock the database by another connection, until committer_fixture_unlock() or
 * committer_fixture_close(). */
void committer_fixture_lock(committer_fixture *b);
void committer_fixture_unlock(committer_fixture *b);

#endif
