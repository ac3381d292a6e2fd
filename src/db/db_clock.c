/* Clock synchronisation with the server: which measurement to believe.
 *
 * The server read its clock at some moment between question and answer; the middle of the two is
 * wrong by half of the round trip at most. So an answer that took a second says little, and must
 * not replace an answer that came in a millisecond. But the error of an old answer grows: both
 * clocks may be slewed by 500 millionths, in opposite directions, which is a thousandth of the time
 * since. Hence: the new measurement wins unless its error is larger than that of the old one now.
 *
 * A measurement that wins moves the offset no further than it must: to the nearest value that it
 * allows. Otherwise each heartbeat would move the offset by the chance of its round trip, and each
 * move forward makes due times come early. So, as long as no clock is set or slewed, the offset is
 * never moved forward beyond the true one, which is ahead by the error at most; and a due time to
 * which that error was added (db_clock_up_ms) does not come early in this process.
 *
 * There is one exception: the old and the new offset are further apart than both errors together.
 * Then the old offset is not just inexact: the server's clock was set, another server has taken
 * over, or this host was suspended, which stops its monotonic clock. So the new one always wins. */
#include "db/db_clock.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_US INT64_C(1000)
#define END_US INT64_C(4102444800000000) /* the year 2100: no server's clock is there by itself */

enum { DRIFT_PARTS = 1000 };

typedef struct reading {
    int64_t offset_ns;
    int64_t error_ns;
    int64_t at_ns;
} reading;

void db_clock_init(db_clock *c, const db *d)
{
    *c = (db_clock){.host = d->options.clock};
    unsigned promises = d->driver->promises;
    c->is_hosts = (promises & DB_FILE) || !(promises & DB_SHARED);
    pthread_mutex_init(&c->lock, NULL);
}

void db_clock_free(db_clock *c)
{
    pthread_mutex_destroy(&c->lock);
}

static int64_t old_error(const db_clock *c, int64_t now_ns)
{
    return c->error_ns + (now_ns - c->at_ns) / DRIFT_PARTS;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a < b ? b - a : a - b;
}

static int is_better(const db_clock *c, const reading *r)
{
    if (!c->measured)
        return 1;
    int64_t old = old_error(c, r->at_ns);
    /* RULE C2-a-slow-answer-does-not-replace-a-quick-one */
    return r->error_ns <= old || distance(r->offset_ns, c->offset_ns) > r->error_ns + old;
}

/* The reading for an answer that came between these two times of the monotonic clock. */
static reading make_reading(int64_t before_ns, int64_t after_ns, int64_t answer_us)
{
    int64_t half = (after_ns - before_ns) / 2;
    return (reading){
        .offset_ns = answer_us * NS_PER_US - (before_ns + half),
        .error_ns = after_ns - before_ns - half,
        .at_ns = after_ns,
    };
}

/* Returns the offset that is nearest to the old one among those that the reading allows. */
static int64_t nearest_offset(int64_t old_ns, const reading *r)
{
    int64_t low = r->offset_ns - r->error_ns, high = r->offset_ns + r->error_ns;
    return old_ns < low ? low : old_ns > high ? high : old_ns;
}

static void adopt_reading(db_clock *c, const reading *r)
{
    int64_t old = c->measured ? old_error(c, r->at_ns) : 0, to = r->offset_ns;
    /* RULE C2-the-offset-moves-no-further-than-it-must */
    if (c->measured && distance(r->offset_ns, c->offset_ns) <= r->error_ns + old)
        to = nearest_offset(c->offset_ns, r);
    c->error_ns = r->error_ns + distance(to, r->offset_ns);
    c->at_ns = r->at_ns;
    c->offset_ns = to;
    c->measured = 1;
}

pawl_code db_clock_measure(db_clock *c, db_conn *conn, error *err)
{
    if (c->is_hosts)
        return PAWL_OK;
    int64_t answer_us = 0;
    int64_t before = c->host->mono_ns(c->host);
    pawl_code rc = conn->driver->now_us(conn, &answer_us, err);
    int64_t after = c->host->mono_ns(c->host);
    if (rc != PAWL_OK)
        return rc;
    if (answer_us < 0 || answer_us > END_US)
        return error_set(err, PAWL_STORAGE, "the server's clock is out of all bounds");
    reading r = make_reading(before, after, answer_us);
    pthread_mutex_lock(&c->lock);
    if (is_better(c, &r))
        adopt_reading(c, &r);
    pthread_mutex_unlock(&c->lock);
    return PAWL_OK;
}

int64_t db_clock_now_ms(db_clock *c)
{
    if (!db_clock_is_known(c) || c->is_hosts)
        return c->host->now_ms(c->host);
    /* RULE C2-database-time-does-not-jump-with-the-host */
    return (c->offset_ns + c->host->mono_ns(c->host)) / NS_PER_MS;
}

int64_t db_clock_up_ms(db_clock *c)
{
    if (!db_clock_is_known(c) || c->is_hosts)
        return clock_up_ms(c->host);
    int64_t latest_ns = c->offset_ns + c->error_ns + c->host->mono_ns(c->host);
    /* RULE C2-a-due-time-includes-the-error-of-the-clock */
    return (latest_ns + NS_PER_MS - 1) / NS_PER_MS;
}

int db_clock_is_known(const db_clock *c)
{
    return c->is_hosts || c->measured;
}
