/* The application and the engine are on one database, each by a connection of its own. The engine
 * is driven by hand: what was put into the outbox is carried out when a test says so. */
#include "support/outbox_fixture.h"

#include <stdio.h>

#include "handle/handle.h"

static const char *waiting(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    return input;
}

const char *scene_quick(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

scene scene_open(conf *c)
{
    scene x = {.s = stage_new(c)};
    x.p = stage_open(x.s, NULL);
    STAGE_REGISTER(x.s, x.p, waiting);
    stage_register(x.s, x.p, "quick", scene_quick);
    x.a = app_open(c);
    app_do(x.a, "CREATE TABLE orders (n INTEGER)");
    return x;
}

void scene_close(scene *x)
{
    app_close(x->a);
    pawl_close(x->p);
    stage_free(x->s);
}

int64_t scene_rows(pawl *p, const char *table, const char *where)
{
    char text[300];
    snprintf(text, sizeof text, "SELECT count(*) FROM %s WHERE %s", table, where);
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

int64_t scene_start_in(scene *x, const char *workflow, const char *id, const char *input,
                       pawl_code wanted, int line)
{
    int64_t created = 77;
    pawl_code rc =
        pawl_start_in(x->p, app_native(x->a), workflow, id, input, PAWL_START(.created = &created));
    stage_code(x->s, x->p, rc, wanted, line);
    return created;
}

int64_t scene_send_in(scene *x, const char *id, const char *message, const char *key,
                      pawl_code wanted, int line)
{
    int64_t seq = 77;
    pawl_code rc = pawl_send_in(x->p, app_native(x->a), id, "box", message,
                                PAWL_SEND(.key = key, .seq = &seq));
    stage_code(x->s, x->p, rc, wanted, line);
    return seq;
}
