/* One heartbeat in a third of claim_ms, at least one a second. A heartbeat that fails is followed
 * by the next one; when claim_ms have passed without any, no work function is begun any more
 * (sched_claim_is_good), and another node may take over. A process that stood still finds out when
 * it goes on: the heartbeat checks the node's own row first (node_beat), and a node that was closed
 * meanwhile ends here. */
#include "sched/heartbeat.h"

#include "base/thread.h"
#include "db/inflight_file.h"
#include "sched/sched_internal.h"

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

/* Waits until the next heartbeat is due. 0: the thread is to end. */
static int wait_for_next(sched *s)
{
    heartbeat *h = &s->heartbeat;
    int64_t next = s->host->mono_ns(s->host) + sched_look_ns(s);
    pthread_mutex_lock(&h->lock);
    while (!h->ends && !s->host->wait(s->host, &h->cond, &h->lock, next))
        continue;
    int goes_on = !h->ends;
    pthread_mutex_unlock(&h->lock);
    return goes_on;
}

/* The thread's function. When it finds the node closed it calls the driving thread, which then
 * stops executing runs. */
static void *beat(void *arg)
{
    sched *s = arg;
    while (wait_for_next(s)) {
        error err = {0};
        inflight_moved(s->quarantine.running, sched_now_ms(s));
        pawl_code rc = node_beat(&s->node, s->beats, &err);
        if (rc != PAWL_FENCED && rc != PAWL_REWOUND)
            continue;
        atomic_store(&s->fenced, 1);
        sched_call(s, 'k');
        break;
    }
    return NULL;
}

void heartbeat_start(sched *s)
{
    heartbeat *h = &s->heartbeat;
    /* RULE L6-a-long-step-is-motion, A1-a-node-driven-by-hand-has-a-heartbeat */
    if (!s->options.has_heartbeat)
        return;
    h->ends = 0;
    h->runs = thread_start(&h->thread, beat, s);
    if (!h->runs)
        LOG(&s->log, LOG_WARNING, "no-heartbeat-thread", LOG_NUM("node", s->node.id));
}

void heartbeat_stop(sched *s)
{
    heartbeat *h = &s->heartbeat;
    if (!h->runs)
        return;
    pthread_mutex_lock(&h->lock);
    h->ends = 1;
    pthread_cond_signal(&h->cond);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    h->runs = 0;
}
