/* Trouble is reported by the parts that meet it: a committer whose units wait because its server
 * cannot be reached, a runner that could not read. The node loop checks both before it claims.
 * While reading fails the node loop tries it itself, for without claims no runner may do so. */
#include "sched/node_ready.h"

#include "sched/sched_internal.h"

/* ---- Before the engine is a node ---- */

static void let_go(sched *s)
{
    db_disconnect(s->beats);
    db_disconnect(s->looks);
    s->beats = s->looks = NULL;
}

pawl_code node_ready_reserve(sched *s, error *err)
{
    pawl_code rc = s->beats ? PAWL_OK : db_connect(s->options.db, DB_COMMITTER, &s->beats, err);
    if (rc == PAWL_OK && !s->looks)
        rc = db_connect(s->options.db, DB_READER, &s->looks, err);
    if (rc == PAWL_OK)
        /* RULE L3-a-node-has-a-connection-to-read-with-before-it-claims */
        rc = read_pool_need(s->options.read_pool, err);
    if (rc != PAWL_OK)
        let_go(s);
    return rc;
}

/* ---- While it is a node ---- */

void node_ready_note_read(sched *s, pawl_code rc)
{
    node_ready *a = &s->node_ready;
    if (rc == PAWL_OK && !atomic_load_explicit(&a->unread, memory_order_relaxed))
        return;
    if (rc == PAWL_OK) {
        atomic_store(&a->unread, 0);
        atomic_store(&a->unread_ns, 0);
    } else if (rc == PAWL_UNREACHABLE && !atomic_exchange(&a->unread, 1)) {
        atomic_store(&a->unread_ns, s->host->mono_ns(s->host));
    }
}

/* If nothing can be committed either, the server is gone. Then no other node could claim the runs,
 * and the units that give them back could not be committed. */
int node_ready_gives_back(sched *s)
{
    int64_t since = atomic_load(&s->node_ready.unread_ns);
    return since != 0 && committers_trouble(s->options.committers) == PAWL_OK &&
           s->host->mono_ns(s->host) >= clock_deadline(since, s->options.claim_ms);
}

static const db_sql ANY = {"SELECT 1", ""};

static pawl_code try_reading(sched *s, error *err)
{
    db_conn *c;
    if (!atomic_load(&s->node_ready.unread))
        return PAWL_OK;
    int64_t one;
    int found;
    pawl_code rc = read_pool_begin(s->options.read_pool, &c, err);
    if (rc == PAWL_OK) { /* read_pool_begin() may not have reached the server, since a transaction
                            begins with its first statement: so one is executed */
        rc = db_number(c, &ANY, NULL, 0, &one, &found, err);
        read_pool_end(s->options.read_pool, c);
    }
    node_ready_note_read(s, rc);
    return rc;
}

int node_ready_look(sched *s)
{
    error err = {0};
    const char *what = "look for work", *why = s->node_ready.look_why;
    pawl_code rc = s->node_ready.look_code == PAWL_UNREACHABLE ? PAWL_UNREACHABLE : PAWL_OK;
    if (rc == PAWL_OK) {
        what = "read journals";
        rc = try_reading(s, &err);
        why = err.detail[0] ? err.detail : err.message;
    }
    if (rc == PAWL_OK) {
        what = "commit";
        rc = committers_trouble(s->options.committers);
        why = ""; /* the committer remembers the code of the failure, and not its text */
    }
    if (rc != PAWL_OK && !s->node_ready.unable) /* RULE L6-a-node-that-cannot-execute-says-so */
        LOG(&s->log, LOG_WARNING, "node-unable", LOG_NUM("node", s->node.id), LOG_TEXT("to", what),
            LOG_TEXT("code", pawl_code_name(rc)),
            LOG_TEXT("why", why[0] ? why : pawl_code_text(rc)),
            LOG_TEXT("so", "it claims nothing meanwhile"));
    else if (rc == PAWL_OK && s->node_ready.unable)
        LOG(&s->log, LOG_INFO, "node-able", LOG_NUM("node", s->node.id));
    s->node_ready.unable = rc != PAWL_OK;
    /* RULE L6-a-heartbeat-tells-what-its-node-cannot-do */
    atomic_store(&s->node.unable, rc != PAWL_OK ? what : NULL);
    return rc == PAWL_OK;
}
