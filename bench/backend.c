/* The databases that pawl is measured on: the list, and the simpler of the two. A database of
 * SQLite is a file and those beside it; it is made by opening and removed by deleting. */
#include "backend.h"

#include <stdio.h>
#include <unistd.h>

static int start(void)
{
    return 1;
}

static bench_db named(const char *name)
{
    bench_db d = {.backend = &BACKEND_SQLITE};
    snprintf(d.path, sizeof d.path, "%s/%s.db", bench_place(), name);
    snprintf(d.url, sizeof d.url, "sqlite:%s", d.path);
    return d;
}

static void remove_files(const bench_db *d)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-nodes", "-wake", "-journal"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[1100];
        snprintf(name, sizeof name, "%s%s", d->path, ends[i]);
        unlink(name);
    }
}

static void settle(const bench_db *d)
{
    (void)d; /* the connection that closes last copies the log back */
}

static int64_t server_cpu_ns(const bench_db *d)
{
    (void)d;
    return 0;
}

static int64_t log_bytes(const bench_db *d)
{
    char name[1100];
    snprintf(name, sizeof name, "%s-wal", d->path);
    return bench_file_size(name);
}

const backend BACKEND_SQLITE = {
    .name = "sqlite",
    .floor = &FLOOR_SQLITE,
    .turns = 1,
    .start = start,
    .named = named,
    .remove = remove_files,
    .fresh = remove_files,
    .settle = settle,
    .server_cpu_ns = server_cpu_ns,
    .log_bytes = log_bytes,
};

const backend *const BACKENDS[] = {
    &BACKEND_SQLITE,
#ifdef BENCH_POSTGRES
    &BACKEND_POSTGRES,
#endif
    NULL,
};

enum { COMMITS = 300 };

double backend_commit_us(const bench_db *source)
{
    const backend *on = source->backend;
    bench_db fresh = on->named("floor");
    floor_rows *rows = on->floor->read(source);
    on->fresh(&fresh);
    double us = on->floor->commit_us(&fresh, rows, COMMITS);
    on->remove(&fresh);
    floor_free(rows);
    return us;
}
