/* One heartbeat in a third of claim_ms, at least one a second, and two a second while the node has
 * its lock. A heartbeat that fails is followed by the next one; when claim_ms have passed without
 * any, no work function is begun any more (sched_claim_is_good), and another node may take over. A
 * process that stood still finds out when it goes on: the heartbeat checks the node's own row first
 * (node_beat), and a node that was closed meanwhile ends here. */
#include "sched/heartbeat.h"

#include "base/thread.h"
#include "db/inflight_file.h"
#include "rows/node_sign.h"
#include "sched/sched_internal.h"

enum {
    HURRIES = 5,
    HURRY_MS = 30,
    JUDGES_AFTER_MS = 2000, /* how long a node that has lost its own lock does not judge others
                               by theirs: longer than a notifier takes to connect again */
};

static const int64_t NS_PER_MS = 1000000;

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

/* When the next heartbeat is due. With the lock held. */
static int64_t next_ns(sched *s)
{
    int64_t each = sched_look_ns(s);
    if (s->heartbeat.server && each > SIGN_BEAT_MS * NS_PER_MS)
        each = SIGN_BEAT_MS * NS_PER_MS; /* RULE A1-a-node-with-a-sign-beats-twice-a-second */
    if (s->heartbeat.hurries)
        each = HURRY_MS * NS_PER_MS;
    return s->host->mono_ns(s->host) + each;
}

/* Waits until the next heartbeat is due. 0: the thread is to end. */
static int wait_for_next(sched *s)
{
    heartbeat *h = &s->heartbeat;
    pthread_mutex_lock(&h->lock);
    int64_t next = next_ns(s);
    while (!h->ends && !h->changed && !s->host->wait(s->host, &h->cond, &h->lock, next))
        continue;
    int goes_on = !h->ends;
    if (h->changed)
        node_tell_lock(&s->node, h->server);
    h->changed = 0;
    pthread_mutex_unlock(&h->lock);
    return goes_on;
}

/* After a change of the lock a few heartbeats follow quickly, HURRY_MS apart, until one is written:
 * other nodes have to hear of a lost lock between two of their looks. Counts them down. */
static void count_hurry(sched *s, pawl_code rc)
{
    heartbeat *h = &s->heartbeat;
    pthread_mutex_lock(&h->lock);
    h->hurries = rc == PAWL_OK || h->hurries == 0 ? 0 : h->hurries - 1;
    pthread_mutex_unlock(&h->lock);
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
        count_hurry(s, rc);
        if (rc != PAWL_FENCED && rc != PAWL_REWOUND)
            continue;
        atomic_store(&s->fenced, 1);
        sched_call(s);
        break;
    }
    return NULL;
}

void heartbeat_locked(void *arg, int64_t server)
{
    sched *s = arg;
    heartbeat *h = &s->heartbeat;
    pthread_mutex_lock(&h->lock);
    if (!server)
        h->judges_ns = clock_deadline(s->host->mono_ns(s->host), JUDGES_AFTER_MS);
    h->server = server;
    h->changed = 1;
    h->hurries = HURRIES;
    pthread_cond_signal(&h->cond);
    pthread_mutex_unlock(&h->lock);
}

int heartbeat_judges(sched *s)
{
    heartbeat *h = &s->heartbeat;
    pthread_mutex_lock(&h->lock);
    /* RULE A10-after-an-outage-no-node-is-dead-by-its-lock */
    int judges = h->runs && h->server && s->host->mono_ns(s->host) >= h->judges_ns;
    pthread_mutex_unlock(&h->lock);
    return judges;
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
