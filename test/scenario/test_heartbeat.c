/* A work function takes longer than a claim lasts, and the process that is in it lives: however its
 * engine is driven, no other node takes over. These engines go by the system's clock, since only
 * they have a thread for the heartbeat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/conf.h"

#include <pawl.h>

/* The step takes longer than a claim and the next looks: a node that is silent is taken over from
 * meanwhile. A claim is long where nodes are known by their heartbeats: on a busy machine these may
 * come late. */
enum { CLAIM_MS = 15000, SHORT_CLAIM_MS = 2000, LOOKS_MS = 2500, PAUSE_MS = 20 };

typedef struct fixture {
    conf *conf;
    atomic_int executions;
    atomic_int inside; /* a process is in the step */
    atomic_int over;   /* the other node may go */
    pthread_t other;
    pawl *looks_on; /* its engine */
} fixture;

static int claim_ms(const fixture *v)
{
    return v->conf->promises & DB_FILE ? SHORT_CLAIM_MS : CLAIM_MS;
}

static void take_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static const char *take_long(pawl_work *work, const char *input)
{
    fixture *v = pawl_work_arg(work);
    atomic_fetch_add(&v->executions, 1);
    atomic_store(&v->inside, 1);
    take_ms(claim_ms(v) + LOOKS_MS);
    return input;
}

static const char *flow(pawl_run *run, const char *input)
{
    return pawl_step(run, "long", take_long, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static pawl *open_engine(fixture *v)
{
    pawl *p = NULL;
    assert_int_equal(
        pawl_open(&p, v->conf->url, PAWL_OPTIONS(.threads = -1, .claim_ms = claim_ms(v))), PAWL_OK);
    assert_int_equal(pawl_register_workflow(p, "flow", flow, PAWL_WORKFLOW(.arg = v)), PAWL_OK);
    return p;
}

/* The other node: it would take over if it could. */
static void *look_on(void *arg)
{
    fixture *v = arg;
    while (!atomic_load(&v->inside))
        take_ms(PAUSE_MS);
    while (!atomic_load(&v->over)) {
        pawl_poll(v->looks_on, NULL);
        take_ms(PAUSE_MS);
    }
    return NULL;
}

static pawl *begin(fixture *v, conf *c)
{
    v->conf = c;
    v->looks_on = open_engine(v);
    pawl *p = open_engine(v);
    assert_int_equal(pthread_create(&v->other, NULL, look_on, v), 0);
    assert_int_equal(pawl_start(p, "flow", "run", "1", NULL), PAWL_OK);
    return p;
}

static void end(fixture *v, pawl *p)
{
    atomic_store(&v->over, 1);
    assert_int_equal(pthread_join(v->other, NULL), 0);
    pawl_close(p);
    pawl_close(v->looks_on);
    assert_int_equal(atomic_load(&v->executions), 1);
}

static void a_long_step_under_finish(conf *c)
{
    fixture v = {0};
    pawl *p = begin(&v, c);
    assert_int_equal(pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    end(&v, p);
}

static void a_long_step_under_poll(conf *c)
{
    fixture v = {0};
    pawl *p = begin(&v, c);
    TMP_AWAIT((pawl_poll(p, NULL), pawl_wait(p, "run", 0, NULL) == PAWL_OK));
    end(&v, p);
}

static const conf_case CASES[] = {
    {"a long step under finish", a_long_step_under_finish, DB_SHARED},
    {"a long step under poll", a_long_step_under_poll, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
