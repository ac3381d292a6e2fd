/* The application and the engine use one database, each by a connection of its own. The engine is
 * driven by hand, so that the rows of the outbox are delivered when a test says so. */
#include "support/outbox_fixture.h"

#include <stdio.h>

#include "handle/handle.h"

static const char *waiting(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    return input;
}

const char *outbox_fixture_quick(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

outbox_fixture outbox_fixture_open(conf *c)
{
    outbox_fixture x = {.s = fixture_new(c)};
    x.p = fixture_open(x.s, NULL);
    FIXTURE_REGISTER(x.s, x.p, waiting);
    fixture_register(x.s, x.p, "quick", outbox_fixture_quick);
    x.a = app_open(c);
    app_do(x.a, "CREATE TABLE orders (n INTEGER)");
    return x;
}

void outbox_fixture_close(outbox_fixture *x)
{
    app_close(x->a);
    pawl_close(x->p);
    fixture_free(x->s);
}

int64_t outbox_fixture_rows(pawl *p, const char *table, const char *where)
{
    char text[300];
    snprintf(text, sizeof text, "SELECT count(*) FROM %s WHERE %s", table, where);
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

int64_t outbox_fixture_start_in(outbox_fixture *x, const char *workflow, const char *id,
                                const char *input, pawl_code wanted, int line)
{
    int64_t created = 77;
    pawl_code rc =
        pawl_start_in(x->p, app_native(x->a), workflow, id, input, PAWL_START(.created = &created));
    fixture_code(x->s, x->p, rc, wanted, line);
    return created;
}

int64_t outbox_fixture_send_in(outbox_fixture *x, const char *id, const char *message,
                               const char *key, pawl_code wanted, int line)
{
    int64_t seq = 77;
    pawl_code rc = pawl_send_in(x->p, app_native(x->a), id, "box", message,
                                PAWL_SEND(.key = key, .seq = &seq));
    fixture_code(x->s, x->p, rc, wanted, line);
    return seq;
}
