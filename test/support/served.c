/* Who serves is a thread of the test's: it comes back when the engine was stopped, and what it was
 * answered is looked at then. */
#include "support/served.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

served served_open(conf *c, const pawl_options *options)
{
    served v = {.stage = stage_new(c)};
    stage_go(v.stage);
    v.p = stage_open(v.stage, options);
    return v;
}

void served_begin(served *v)
{
    assert_int_equal(pthread_create(&v->thread, NULL, stage_serve, v->p), 0);
}

void served_stop(served *v)
{
    void *failed;
    pawl_stop(v->p);
    assert_int_equal(pthread_join(v->thread, &failed), 0);
    assert_null(failed);
}

void served_end(served *v)
{
    served_stop(v);
    pawl_close(v->p);
    stage_free(v->stage);
}
