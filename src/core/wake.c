/* Waking others, and being woken: hints that save a second of waiting.
 *
 * What is hard (who died, what is due) is always found by looking once a second. A hint only lets
 * one look at once: another process has put in work that nobody has, or a run has ended that
 * somebody here waits for. An engine that is driven by hand has no thread to hear with. */
#include "core/drive.h"

static void heard(void *arg)
{
    drive *d = arg;
    atomic_store(&d->mail_due, 1);
    pthread_mutex_lock(&d->lock);
    drive_call_keeper(d);
    drive_tell_all(d);
    pthread_mutex_unlock(&d->lock);
}

/* One is opened for whoever needs it first; a node's is another one, since it has a name. */
void wake_open(drive *d)
{
    if (d->options.threads == 0)
        return;
    int64_t me = atomic_load(&d->open_node);
    pthread_mutex_lock(&d->waking);
    if (!d->waker || d->waker_node != me) {
        waker_options o = {.node = me, .on_heard = heard, .on_heard_arg = d};
        waker_close(d->waker);
        d->waker = NULL;
        error err = {0};
        if (waker_open(&d->waker, d->options.db, &o, &err) != PAWL_OK)
            LOG(&d->log, LOG_WARNING, "no-waker", LOG_TEXT("code", pawl_code_name(err.code)));
        d->waker_node = me;
    }
    pthread_mutex_unlock(&d->waking);
}

void wake_close(drive *d)
{
    pthread_mutex_lock(&d->waking);
    waker_close(d->waker);
    d->waker = NULL;
    pthread_mutex_unlock(&d->waking);
}

void wake_tell(drive *d)
{
    pthread_mutex_lock(&d->waking);
    if (d->waker)
        waker_tell(d->waker, WAKER_EVERYBODY);
    pthread_mutex_unlock(&d->waking);
}
