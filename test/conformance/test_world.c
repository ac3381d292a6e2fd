/* L8 below the engine: a committer notices, before it writes, that its database went back,
 * whichever of the engine's connections has committed what was lost. It goes on when everything
 * that was held in memory was dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/committers.h"
#include "db/world.h"
#include "support/backup.h"
#include "support/conf.h"

enum { RUN = 1, NODE = 7, TOKEN = 1234567 };

/* Append a row; the answer must be this, and of a refusal its reason. */
static void append(committer *k, int64_t run, int64_t seq, unit_answer wanted, const char *why)
{
    conf_ticket t;
    conf_ticket_append(&t, run, seq, NULL);
    committer_commit(k, t.unit);
    CONF_ANSWER(&t, wanted);
    if (why)
        assert_string_equal(t.unit->refused, why);
    conf_ticket_free(&t);
}

static void the_next_transaction_notices_a_rewind(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    append(k, RUN, 1, UNIT_COMMITTED, NULL);
    backup_take(c);
    append(k, RUN, 2, UNIT_COMMITTED, NULL);
    backup_restore(c);
    append(k, RUN, 3, UNIT_REFUSED, "back");
    assert_int_equal(conf_rows(d, RUN), 1);
    append(k, RUN, 2, UNIT_COMMITTED,
           NULL); /* no connection is in a transaction: it has begun anew */
    append(k, RUN, 3, UNIT_COMMITTED, NULL);
    assert_int_equal(conf_rows(d, RUN), 3);
    committer_close(k);
    db_close(d);
}

/* Its first transaction is lost, and so its row. */
static void a_missing_row_counts_as_a_rewind(conf *c)
{
    db *d = conf_open(c, NULL);
    backup_take(c);
    committer *k = conf_committer(d, NULL);
    append(k, RUN, 1, UNIT_COMMITTED, NULL);
    backup_restore(c);
    append(k, RUN, 2, UNIT_REFUSED, "back");
    assert_int_equal(conf_rows(d, RUN), 0);
    committer_close(k);
    db_close(d);
}

/* What the one has committed last is there; what the other one has, after that, is not. */
static void what_another_connection_has_lost(conf *c)
{
    db *d = conf_open(c, NULL);
    committers *all;
    error err = {0};
    CONF_OK(committers_open(&all, d, NULL, 2, &err), &err);
    committer *first = committers_at(all, 0), *last = committers_at(all, committers_count(all) - 1);
    append(last, RUN, 1, UNIT_COMMITTED, NULL);
    append(first, RUN, 2, UNIT_COMMITTED, NULL);
    backup_take(c);
    append(last, RUN, 3, UNIT_COMMITTED, NULL);
    backup_restore(c);
    append(first, RUN, 4, UNIT_REFUSED, "back");
    assert_int_equal(conf_rows(d, RUN), 2);
    committers_close(all);
    db_close(d);
}

static void nothing_is_written_while_runs_are_held(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    world_bind(d);
    backup_take(c);
    append(k, RUN, 1, UNIT_COMMITTED, NULL);
    backup_restore(c);
    for (int i = 2; i < 5; i++)
        append(k, RUN, i, UNIT_REFUSED, "back");
    assert_int_equal(conf_rows(d, RUN), 0);
    world_unbind(d);
    append(k, RUN, 1, UNIT_COMMITTED, NULL);
    committer_close(k);
    db_close(d);
}

/* Another connection has begun anew meanwhile: what this one remembers is of the life before. */
static void one_connection_begins_a_new_history_for_all(conf *c)
{
    db *d = conf_open(c, NULL);
    committers *all;
    error err = {0};
    CONF_OK(committers_open(&all, d, NULL, 2, &err), &err);
    committer *first = committers_at(all, 0), *last = committers_at(all, committers_count(all) - 1);
    backup_take(c);
    append(first, RUN, 1, UNIT_COMMITTED, NULL);
    append(last, RUN, 2, UNIT_COMMITTED, NULL);
    backup_restore(c);
    append(first, RUN, 3, UNIT_REFUSED, "back");
    for (int i = 0; i < 4; i++)
        append(i % 2 ? first : last, RUN, i + 1, UNIT_COMMITTED, NULL);
    backup_restore(c);
    append(last, RUN, 5, UNIT_REFUSED, "back");
    append(last, RUN, 1, UNIT_COMMITTED, NULL);
    assert_int_equal(conf_rows(d, RUN), 1);
    committers_close(all);
    db_close(d);
}

static void a_node_with_the_same_id_is_another_one(conf *c)
{
    static const db_sql ROW = {
        "INSERT INTO {nodes} (node, slot, since, token) VALUES ($1, 1, 0, $2)", "ii"};
    const db_value values[] = {db_int(NODE), db_int(TOKEN)};
    db *d = conf_open(c, NULL);
    conf_do(d, &ROW, values, 2);
    committer *k = conf_committer(d, NULL);
    committer_set_node(k, NODE, 1, TOKEN);
    append(k, RUN, 1, UNIT_COMMITTED, NULL);
    committer_set_node(k, NODE, 1, TOKEN + 1);
    append(k, RUN, 2, UNIT_REFUSED, "node");
    committer_close(k);
    db_close(d);
}

static const conf_case CASES[] = {
    {"the next transaction notices a rewind", the_next_transaction_notices_a_rewind, DB_SHARED},
    {"a missing row counts as a rewind", a_missing_row_counts_as_a_rewind, DB_SHARED},
    {"what another connection has lost", what_another_connection_has_lost, DB_SHARED},
    {"nothing is written while runs are held", nothing_is_written_while_runs_are_held, DB_SHARED},
    {"one connection begins a new history for all", one_connection_begins_a_new_history_for_all,
     DB_SHARED},
    {"a node with the same id is another one", a_node_with_the_same_id_is_another_one, 0},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
