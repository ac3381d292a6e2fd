/* The notifier of an engine, opened lazily and reopened under the channel of the node once the
 * engine is one; see notify.h.
 *
 * An engine with threads has a thread that listens. An engine without threads is driven by its
 * caller: the notifier's descriptor is in the set of pawl_fd() (loop_fds.h), and every poll hears
 * and sends. As long as the engine is no node its caller may never poll it: so the thread that
 * calls notify_tell() sends the notification at once. */
#include "db/notify.h"

void notify_init(notify *n, db *d)
{
    *n = (notify){.db = d};
    loop_hint_init(&n->changes);
    pthread_mutex_init(&n->lock, NULL);
}

void notify_free(notify *n)
{
    notify_close(n);
    loop_hint_close(&n->changes);
    pthread_mutex_destroy(&n->lock);
}

void notify_listen(notify *n, loop_fds *loop, void (*on_heard)(void *arg),
                   void (*on_lock)(void *arg, int64_t server), void *arg)
{
    n->loop = loop;
    n->on_heard = on_heard;
    n->on_lock = on_lock;
    n->arg = arg;
}

static void heard(void *arg)
{
    notify *n = arg;
    n->on_heard(n->arg);
    loop_hint_raise(&n->changes); /* RULE H2-changes-of-other-processes-are-heard */
}

/* Closes the notifier. With the lock held. */
static void close_notifier(notify *n)
{
    if (n->notifier && n->loop)
        loop_fds_remove(n->loop, notifier_fd(n->notifier));
    notifier_close(n->notifier);
    n->notifier = NULL;
}

static void open_notifier(notify *n, int64_t node)
{
    notifier_options o = {.node = node,
                          .by_hand = n->loop != NULL,
                          .on_heard = heard,
                          .on_heard_arg = n,
                          .on_lock = n->on_lock,
                          .on_lock_arg = n->arg};
    error err = {0};
    pawl_code rc = notifier_open(&n->notifier, n->db, &o, &err);
    if (rc == PAWL_OK && n->loop && !loop_fds_add(n->loop, notifier_fd(n->notifier)))
        rc = PAWL_NOMEM;
    if (rc != PAWL_OK && !n->is_told) /* RULE L6-an-engine-without-a-notifier-is-told-once */
        LOG(&n->db->options.log, LOG_WARNING, "no-notifier", LOG_TEXT("code", pawl_code_name(rc)));
    else if (rc == PAWL_OK && n->is_told)
        LOG(&n->db->options.log, LOG_INFO, "notifier-back", LOG_NUM("node", node));
    n->is_told = rc != PAWL_OK;
    n->node = node;
}

void notify_open(notify *n, int64_t node)
{
    if (!n->on_heard || !(n->db->driver->promises & DB_SHARED))
        return;
    pthread_mutex_lock(&n->lock);
    if (!n->notifier || n->node != node) {
        close_notifier(n);
        open_notifier(n, node);
    }
    pthread_mutex_unlock(&n->lock);
}

void notify_close(notify *n)
{
    pthread_mutex_lock(&n->lock);
    close_notifier(n);
    pthread_mutex_unlock(&n->lock);
}

int notify_has_session(notify *n)
{
    if (pthread_mutex_trylock(&n->lock) != 0)
        return 0;
    int has = n->notifier && notifier_has_session(n->notifier);
    pthread_mutex_unlock(&n->lock);
    return has;
}

void notify_tell(notify *n)
{
    pthread_mutex_lock(&n->lock);
    if (n->notifier)
        notifier_tell(n->notifier, NOTIFY_ALL_NODES);
    if (n->notifier && n->loop && n->node == 0)
        notifier_flush(n->notifier); /* RULE H1-a-client-without-threads-tells-others */
    pthread_mutex_unlock(&n->lock);
}

void notify_poll(notify *n)
{
    pthread_mutex_lock(&n->lock);
    if (n->notifier && n->loop)
        notifier_poll(n->notifier);
    pthread_mutex_unlock(&n->lock);
}

int64_t notify_next_ns(notify *n)
{
    pthread_mutex_lock(&n->lock);
    int64_t next = n->notifier && n->loop ? notifier_next_ns(n->notifier) : INT64_MAX;
    pthread_mutex_unlock(&n->lock);
    return next;
}

void notify_flush(notify *n)
{
    pthread_mutex_lock(&n->lock);
    if (n->notifier && n->loop)
        notifier_flush(n->notifier);
    pthread_mutex_unlock(&n->lock);
}
