/* Leaving, and joining again, after the database was restored from a backup.
 *   1. The node closes its old rows. It finds them by their random token, since after a restore
 *      its number may belong to another node.
 *   2. The first node that looks claims the runs which the closed rows own in the restored state.
 *   3. The restored heartbeats of other nodes are as old as the backup: so a node that joins then
 *      gives the others time for a new heartbeat before it takes them for dead. */
#include "sched/rejoin.h"

#include "db/world.h"
#include "sched/sched_internal.h"

/* Was the database rewound, and has the engine not begun anew since? */
static int rejoin_is_due(const sched *s)
{
    return atomic_load(&s->options.db->world->back);
}

int sched_is_open(const sched *s)
{
    return !atomic_load(&s->fenced) && !rejoin_is_due(s);
}

/* Commits a transaction that writes nothing, since each transaction checks for a rewind. A node
 * whose row is closed or gone has noticed that by a read, which does not check. */
static void check_rewind(sched *s)
{
    static const db_sql ASK = {"SELECT 1", ""};
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (u) {
        unit_guard(u, &ASK, "ask", 0, NULL, 0);
        (void)node_commit(committers_at(s->options.committers, 0), u, "ask", &(error){0});
    }
    arena_free(a);
}

pawl_code rejoin_end_of(sched *s, error *err)
{
    /* RULE L8-a-rewind-is-not-taken-for-a-closed-node */
    if (atomic_load(&s->fenced) && !rejoin_is_due(s))
        check_rewind(s);
    if (rejoin_is_due(s))
        return error_set(err, PAWL_REWOUND, "%s", pawl_code_text(PAWL_REWOUND));
    return atomic_load(&s->fenced)
               ? error_set(err, PAWL_FENCED, "this node was closed by another one")
               : PAWL_OK;
}

pawl_code rejoin_become_node(sched *s, error *err)
{
    committer *k = committers_at(s->options.committers, 0);
    node_options o = {.slots = committers_count(s->options.committers) + SCHED_SLOTS,
                      .name = s->options.name,
                      .build = s->options.build,
                      /* RULE L8-signs-of-life-of-others-are-as-old-as-the-backup */
                      .grace = atomic_load(&s->options.db->world->lives) > 0};
    if (rejoin_is_due(s)) /* a client of this engine has noticed the rewind: this transaction is the
                             first one after it */
        node_close_own(&s->node, k);
    world_bind(s->options.db);
    pawl_code rc = node_join(&s->node, k, s->beats, s->options.clock, &o, err);
    if (rc != PAWL_OK)
        world_unbind(s->options.db);
    return rc;
}

int rejoin_leave(sched *s)
{
    world_unbind(s->options.db);
    if (!rejoin_is_due(s))
        return 0;
    /* RULE L8-its-own-rows-are-closed-at-once, L8-a-restore-sees-runs-that-are-not-driven */
    node_close_own(&s->node, committers_at(s->options.committers, 0));
    return 1;
}
