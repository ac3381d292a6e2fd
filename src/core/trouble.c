/* Runs whose storage fails them. They are held in memory only, since the database is what is
 * missing: nothing is written, and nothing is to be undone when it is there again.
 *
 * They wait for the first commit that succeeds, whoever's it is; for if nobody's does they would
 * only be in the way. Until then they try themselves, all at the same moment and more and more
 * seldom: somebody must. A run that fails again although others have succeeded has a trouble of its
 * own, and waits by itself. */
#include "core/drive.h"

static const int64_t FIRST_MS = 100;
static const int64_t LAST_MS = 30000;

static int64_t twice(int64_t ms)
{
    if (ms == 0)
        return FIRST_MS;
    return ms * 2 < LAST_MS ? ms * 2 : LAST_MS;
}

/* When all of them try again: one moment for all who fail before it. */
static int64_t next_try(drive *d)
{
    int64_t now = drive_now_ms(d);
    if (now >= d->trouble_at_ms) {
        d->trouble_ms = twice(d->trouble_ms);
        d->trouble_at_ms = now + d->trouble_ms;
    }
    return d->trouble_at_ms;
}

void drive_trouble(drive *d, pawl_run *run)
{
    int own = run->trouble_ms > 0 && run->trouble_seen != d->commits;
    run->trouble_ms = twice(run->trouble_ms);
    run->trouble_seen = d->commits;
    if (own) {
        drive_sleep(d, run, drive_now_ms(d) + run->trouble_ms);
        return;
    }
    run->trouble_next = d->troubled;
    run->trouble_at = &d->troubled;
    if (d->troubled)
        d->troubled->trouble_at = &run->trouble_next;
    d->troubled = run;
    drive_sleep(d, run, next_try(d));
}

void drive_trouble_end(pawl_run *run)
{
    if (!run->trouble_at)
        return;
    *run->trouble_at = run->trouble_next;
    if (run->trouble_next)
        run->trouble_next->trouble_at = run->trouble_at;
    run->trouble_next = NULL;
    run->trouble_at = NULL;
}

/* Who sleeps does so until a moment that it has named, however the clock is set. But who was put
 * off was so for a while: the moment at which that is over may be hours away now. */
void drive_trouble_back(drive *d)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    d->trouble_ms = d->trouble_at_ms = 0;
    while (map_next(&d->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        if (run->where == RUN_SLEEPS && run->put_off)
            drive_ready(d, run);
    }
}

void drive_committed(drive *d)
{
    d->commits++;
    d->trouble_ms = d->trouble_at_ms = 0;
    while (d->troubled)
        drive_ready(d, d->troubled);
}
