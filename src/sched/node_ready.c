/* Trouble is reported by the parts that meet it: a committer whose units wait because its server
 * cannot be reached, a runner that could not read. The node loop checks both before it claims.
 * While reading fails the node loop tries it itself, for without claims no runner may do so. */
#include "sched/node_ready.h"

#include "sched/sched.h"

/* ---- Before the node is one ---- */

static void let_go(sched *d)
{
    db_disconnect(d->beats);
    db_disconnect(d->looks);
    d->beats = d->looks = NULL;
}

pawl_code node_ready_reserve(sched *d, error *err)
{
    pawl_code rc = d->beats ? PAWL_OK : db_connect(d->options.db, DB_COMMITTER, &d->beats, err);
    if (rc == PAWL_OK && !d->looks)
        rc = db_connect(d->options.db, DB_READER, &d->looks, err);
    if (rc == PAWL_OK)
        /* RULE L3-a-node-has-a-connection-to-read-with-before-it-claims */
        rc = read_pool_need(d->options.read_pool, err);
    if (rc != PAWL_OK)
        let_go(d);
    return rc;
}

/* ---- While it is one ---- */

void node_ready_note_read(sched *d, pawl_code rc)
{
    node_ready *a = &d->node_ready;
    if (rc == PAWL_OK && !atomic_load_explicit(&a->unread, memory_order_relaxed))
        return;
    if (rc == PAWL_OK) {
        atomic_store(&a->unread, 0);
        atomic_store(&a->unread_ns, 0);
    } else if (rc == PAWL_UNREACHABLE && !atomic_exchange(&a->unread, 1)) {
        atomic_store(&a->unread_ns, d->host->mono_ns(d->host));
    }
}

/* Where nothing can be committed either, the server is gone: then no other node could take them,
 * and giving back would have to wait all the same. */
int node_ready_gives_back(sched *d)
{
    int64_t since = atomic_load(&d->node_ready.unread_ns);
    return since != 0 && committers_trouble(d->options.committers) == PAWL_OK &&
           d->host->mono_ns(d->host) >= clock_deadline(since, d->options.claim_ms);
}

static pawl_code try_reading(sched *d, error *err)
{
    db_conn *c;
    if (!atomic_load(&d->node_ready.unread))
        return PAWL_OK;
    pawl_code rc = read_pool_begin(d->options.read_pool, &c, err);
    if (rc == PAWL_OK)
        read_pool_end(d->options.read_pool, c);
    node_ready_note_read(d, rc);
    return rc;
}

int node_ready_look(sched *d)
{
    error err = {0};
    const char *what = "look for work";
    pawl_code rc = d->node_ready.inbox_seen == PAWL_UNREACHABLE ? PAWL_UNREACHABLE : PAWL_OK;
    if (rc == PAWL_OK) {
        what = "read journals";
        rc = try_reading(d, &err);
    }
    if (rc == PAWL_OK) {
        what = "commit";
        rc = committers_trouble(d->options.committers);
    }
    if (rc != PAWL_OK && !d->node_ready.unable) /* RULE L6-a-node-that-cannot-execute-says-so */
        LOG(&d->log, LOG_WARNING, "node-unable", LOG_NUM("node", d->node.id), LOG_TEXT("to", what),
            LOG_TEXT("code", pawl_code_name(rc)), LOG_TEXT("why", err.detail),
            LOG_TEXT("so", "it claims nothing meanwhile"));
    else if (rc == PAWL_OK && d->node_ready.unable)
        LOG(&d->log, LOG_INFO, "node-able", LOG_NUM("node", d->node.id));
    d->node_ready.unable = rc != PAWL_OK;
    /* RULE L6-a-heartbeat-tells-what-its-node-cannot-do */
    atomic_store(&d->node.unable, rc != PAWL_OK ? what : NULL);
    return rc == PAWL_OK;
}
