/* One heartbeat in a third of claim_ms, at least one a second. A heartbeat that fails is followed
 * by the next one; when claim_ms have passed without any, no work function is begun any more
 * (sched_claim_is_good), and another node may take over. A process that stood still finds out when
 * it goes on: the heartbeat checks the node's own row first (node_beat), and a node that was closed
 * meanwhile ends here. */
#include "sched/heartbeat.h"

#include "base/thread.h"
#include "db/inflight_file.h"
#include "sched/sched.h"

void heartbeat_init(heartbeat *h)
{
    *h = (heartbeat){.runs = 0};
    pthread_mutex_init(&h->lock, NULL);
    clock_cond_init(&h->cond);
}

void heartbeat_free(heartbeat *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->cond);
}

/* 0: the node is at its end. */
static int wait_for_next(sched *d)
{
    heartbeat *h = &d->heartbeat;
    int64_t next = d->host->mono_ns(d->host) + sched_look_ns(d);
    pthread_mutex_lock(&h->lock);
    while (!h->ends && !d->host->wait(d->host, &h->cond, &h->lock, next))
        continue;
    int goes_on = !h->ends;
    pthread_mutex_unlock(&h->lock);
    return goes_on;
}

/* The driving thread is called when the node was closed: it has to stop what it does. */
static void *beat(void *arg)
{
    sched *d = arg;
    while (wait_for_next(d)) {
        error err = {0};
        inflight_moved(d->quarantine.running, sched_now_ms(d));
        pawl_code rc = node_beat(&d->node, d->beats, &err);
        if (rc != PAWL_FENCED && rc != PAWL_REWOUND)
            continue;
        atomic_store(&d->fenced, 1);
        sched_call(d, 'k');
        break;
    }
    return NULL;
}

void heartbeat_start(sched *d)
{
    heartbeat *h = &d->heartbeat;
    /* RULE L6-a-long-step-is-motion, A1-a-node-driven-by-hand-has-a-heartbeat */
    if (!d->options.has_heartbeat)
        return;
    h->ends = 0;
    h->runs = thread_start(&h->thread, beat, d);
    if (!h->runs)
        LOG(&d->log, LOG_WARNING, "no-heartbeat-thread", LOG_NUM("node", d->node.id));
}

void heartbeat_stop(sched *d)
{
    heartbeat *h = &d->heartbeat;
    if (!h->runs)
        return;
    pthread_mutex_lock(&h->lock);
    h->ends = 1;
    pthread_cond_signal(&h->cond);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    h->runs = 0;
}
