/* bench engine open: what it costs to open a database, from pawl_open() to its return, and to the
 * result of the first run: a new database, and the same one again. */
#include <stdio.h>

#include "engine.h"

typedef struct open_task {
    bench_db db;
    int number; /* of the first run */
} open_task;

typedef struct open_result {
    double open_ms, first_ms;
} open_result;

static void child_open(const void *arg, int number, void *result)
{
    const open_task *t = arg;
    open_result *out = result;
    plan p = {.steps = 1, .clients = 1};
    pawl *opened = NULL;
    (void)number;
    int64_t start = bench_now_ns();
    if (pawl_open(&opened, t->db.url, NULL) != PAWL_OK)
        bench_die("open: %s", pawl_errtext(opened));
    out->open_ms = (double)(bench_now_ns() - start) / 1e6;
    pawl_close(opened);
    start = bench_now_ns();
    rig *r = rig_open(&t->db, &p);
    rig_run(r, t->number);
    out->first_ms = (double)(bench_now_ns() - start) / 1e6;
    rig_close(r);
}

void case_open(const bench_case *c, const backend *on)
{
    open_task t = {.db = on->named("pawl")};
    report r = {.bench = "engine", .name = c->name, .in = "ms", .on = on};
    for (int i = 0; i < report_rounds(); i++) {
        open_result fresh, again;
        on->remove(&t.db);
        on->fresh(&t.db);
        t.number = 0;
        bench_children(1, child_open, &t, &fresh, sizeof fresh);
        t.number = 1;
        bench_children(1, child_open, &t, &again, sizeof again);
        report_set(&r, i, "value", fresh.open_ms, 2);
        report_set(&r, i, "again_ms", again.open_ms, 2);
        report_set(&r, i, "first_ms", again.first_ms, 2);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}
