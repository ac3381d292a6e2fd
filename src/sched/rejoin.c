/* A node's own rows are closed by their token: after a restore the same number may be another
 * node's. The runs that they own, as they are now, are claimed at once by the first node that
 * looks. The heartbeats of other nodes are as old as the backup: they get time to be heard
 * again. */
#include "sched/rejoin.h"

#include "db/world.h"

/* The database was rewound, and the engine has not begun anew. */
static int rejoin_is_due(const sched *d)
{
    return atomic_load(&d->options.db->world->back);
}

int sched_is_open(const sched *d)
{
    return !atomic_load(&d->fenced) && !rejoin_is_due(d);
}

/* An empty transaction, which checks for a rewind as each does: a node may notice first that its
 * row is closed or gone, by a read that proves nothing. */
static void check_rewind(sched *d)
{
    static const db_sql ASK = {"SELECT 1", ""};
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (u) {
        unit_guard(u, &ASK, "ask", 0, NULL, 0);
        (void)node_commit(committers_at(d->options.committers, 0), u, "ask", &(error){0});
    }
    arena_free(a);
}

pawl_code rejoin_end_of(sched *d, error *err)
{
    /* RULE L8-a-rewind-is-not-taken-for-a-closed-node */
    if (atomic_load(&d->fenced) && !rejoin_is_due(d))
        check_rewind(d);
    if (rejoin_is_due(d))
        return error_set(err, PAWL_REWOUND, "%s", pawl_code_text(PAWL_REWOUND));
    return atomic_load(&d->fenced)
               ? error_set(err, PAWL_FENCED, "this node was closed by another one")
               : PAWL_OK;
}

pawl_code rejoin_become_node(sched *d, error *err)
{
    committer *k = committers_at(d->options.committers, 0);
    node_options o = {.slots = committers_count(d->options.committers) + DRIVE_SLOTS,
                      .name = d->options.name,
                      .build = d->options.build,
                      /* RULE L8-signs-of-life-of-others-are-as-old-as-the-backup */
                      .grace = atomic_load(&d->options.db->world->lives) > 0};
    if (rejoin_is_due(d)) /* a client has found out: this transaction is the first after that */
        node_close_own(&d->node, k);
    world_bind(d->options.db);
    pawl_code rc = node_join(&d->node, k, d->beats, d->options.clock, &o, err);
    if (rc != PAWL_OK)
        world_unbind(d->options.db);
    return rc;
}

int rejoin_leave(sched *d)
{
    world_unbind(d->options.db);
    if (!rejoin_is_due(d))
        return 0;
    /* RULE L8-its-own-rows-are-closed-at-once, L8-a-restore-sees-runs-that-are-not-driven */
    node_close_own(&d->node, committers_at(d->options.committers, 0));
    return 1;
}
