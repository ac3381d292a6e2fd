/* The committer fixture: a database, and one committer that is driven by hand, so that a test
 * decides which units are in a batch of the group commit. */
#ifndef SUPPORT_COMMITTER_FIXTURE_H
#define SUPPORT_COMMITTER_FIXTURE_H

#include "support/conf.h"

typedef struct committer_fixture {
    db *db;
    committer *k;

    /* Only after committer_fixture_open_fault(). */
    clock_fake *clock;
    db_fault plan;
    db_conn *lock; /* NULL: the database is not locked */
} committer_fixture;

/* With the default options; or with these, but driven by hand (NULL: the defaults). */
committer_fixture committer_fixture_open(const conf *c);
committer_fixture committer_fixture_open_with(const conf *c, const committer_options *options);

/* The same on a fake clock, and with a plan of faults around the database. The fixture must stay
 * where it is in memory until it is closed. */
void committer_fixture_open_fault(committer_fixture *b, const conf *c, committer_options options,
                                  db_options database);

void committer_fixture_close(committer_fixture *b);

/* Hand in all and commit them in one batch. */
void committer_fixture_commit(committer_fixture *b, conf_ticket *tickets, size_t count);

/* Another connection locks the database, until it is unlocked or the fixture is closed. */
void committer_fixture_lock(committer_fixture *b);
void committer_fixture_unlock(committer_fixture *b);

#endif
