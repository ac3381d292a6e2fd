/* The demonstration: many threads commit, the process is killed, nothing acknowledged is missing.
 *
 * A child process writes journal rows for 64 runs from 8 threads through the committer. Each row
 * that was answered "committed" is reported through a pipe. The parent kills the child with
 * SIGKILL in the middle of it, three times, starts it again on the same file each time, and in
 * the end looks whether every reported row is there. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pawl.h>

#include "db/committer.h"

enum { THREADS = 8, RUNS_EACH = 8, RUNS = THREADS * RUNS_EACH, KILLS = 3, ROWS_PER_LIFE = 20000 };

static const db_sql MAKE_RUN = {
    "INSERT INTO {runs} (run, tenant, id, workflow, version, created_at, updated_at) "
    "VALUES ($1, '', 'demo-' || $1, 'demo', '1', $2, $2) ON CONFLICT DO NOTHING",
    "ii"};
static const db_sql LAST_SEQ = {
    "SELECT coalesce(max(seq), 0) FROM {journal} WHERE run = $1 AND generation = 1", "i"};
static const db_sql IS_LIVE = {"SELECT fence FROM {runs} WHERE run = $1 AND fence = 0", "i"};
static const db_sql APPEND = {"INSERT INTO {journal} (run, generation, seq, kind, name, at, data) "
                              "VALUES ($1, 1, $2, 1, 'step', $3, $4)",
                              "iiib"};

typedef struct report {
    int32_t run;
    int32_t seq;
} report;

typedef struct writer {
    pthread_t thread;
    committer *committer;
    int first_run;
    int64_t seq[RUNS_EACH];
    int out;
} writer;

static void die(const char *what, const error *err)
{
    fprintf(stderr, "demo: %s: %s %s\n", what, err->message, err->detail);
    _exit(1);
}

/* ---- The child ---- */

static void append_one(writer *w, arena *a, int which)
{
    static const char DATA[] = "{\"what\":\"a recorded step\"}";
    arena_reset(a);
    int run = w->first_run + which;
    unit *u = unit_new(a);
    db_value live[] = {db_int(run)};
    db_value row[] = {db_int(run), db_int(w->seq[which] + 1), db_int(0), db_bytes(slice_of(DATA))};
    unit_guard(u, &IS_LIVE, "live", unit_key("runs", run), live, DB_COUNT(live));
    unit_write(u, &APPEND, unit_key("journal", run), row, DB_COUNT(row));
    if (committer_commit(w->committer, u) != PAWL_OK) {
        fprintf(stderr, "demo: %s\n", u->message ? u->message : pawl_code_name(u->code));
        _exit(1);
    }
    report r = {run, (int32_t)++w->seq[which]};
    if (write(w->out, &r, sizeof r) != sizeof r)
        _exit(1);
}

static void *write_for_ever(void *arg)
{
    writer *w = arg;
    arena *a = arena_new(0);
    if (!a)
        _exit(1);
    for (int i = 0;; i = (i + 1) % RUNS_EACH)
        append_one(w, a, i);
}

static void prepare_runs(db *d, writer *writers)
{
    error err;
    db_conn *c;
    if (db_connect(d, DB_WRITER, &c, &err) != PAWL_OK || db_begin(c, &err) != PAWL_OK)
        die("connect", &err);
    for (int run = 1; run <= RUNS; run++) {
        int found;
        db_value values[] = {db_int(run), db_int(0)};
        int64_t *seq = &writers[(run - 1) / RUNS_EACH].seq[(run - 1) % RUNS_EACH];
        if (db_run(c, &MAKE_RUN, values, 2, &err) != PAWL_OK ||
            db_number(c, &LAST_SEQ, values, 1, seq, &found, &err) != PAWL_OK)
            die("prepare", &err);
    }
    if (db_commit(c, &err) != PAWL_OK)
        die("commit", &err);
    db_disconnect(c);
}

static void live(const char *path, int out)
{
    error err;
    db *d;
    committer *k;
    static writer writers[THREADS];
    if (db_open(&d, &(db_options){.url = path}, &err) != PAWL_OK ||
        committer_open(&k, d, NULL, &err) != PAWL_OK)
        die("open", &err);
    prepare_runs(d, writers);
    for (int i = 0; i < THREADS; i++) {
        writers[i].committer = k;
        writers[i].first_run = 1 + i * RUNS_EACH;
        writers[i].out = out;
        if (pthread_create(&writers[i].thread, NULL, write_for_ever, &writers[i]) != 0)
            _exit(1);
    }
    for (;;)
        pause();
}

/* ---- The parent ---- */

/* Read reports; SIGKILL when there are enough; then read what was still in the pipe. */
static int64_t one_life(const char *path, int64_t *acknowledged)
{
    int ends[2];
    if (pipe(ends) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        live(path, ends[1]);
    }
    close(ends[1]);
    int64_t count = 0;
    report r;
    while (read(ends[0], &r, sizeof r) == sizeof r) {
        if (r.seq > acknowledged[r.run])
            acknowledged[r.run] = r.seq;
        if (++count == ROWS_PER_LIFE)
            kill(child, SIGKILL);
    }
    close(ends[0]);
    waitpid(child, NULL, 0);
    return count;
}

static int64_t count_missing(const char *path, const int64_t *acknowledged, int64_t *rows)
{
    error err;
    db *d;
    db_conn *c;
    int64_t missing = 0;
    if (db_open(&d, &(db_options){.url = path}, &err) != PAWL_OK ||
        db_connect(d, DB_READER, &c, &err) != PAWL_OK || db_begin(c, &err) != PAWL_OK)
        die("look", &err);
    for (int run = 1; run <= RUNS; run++) {
        int64_t last = 0;
        int found;
        db_value values[] = {db_int(run)};
        if (db_number(c, &LAST_SEQ, values, 1, &last, &found, &err) != PAWL_OK)
            die("look", &err);
        *rows += last;
        if (last < acknowledged[run])
            missing += acknowledged[run] - last;
    }
    db_rollback(c);
    db_disconnect(c);
    db_close(d);
    return missing;
}

static void clean_up(const char *folder, const char *path)
{
    static const char *const ENDS[] = {"", "-wal", "-shm", "-nodes"};
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", path, ENDS[i]);
        unlink(name);
    }
    rmdir(folder);
}

int main(void)
{
    char folder[] = "/tmp/pawl-demo-XXXXXX";
    char path[64];
    int64_t acknowledged[RUNS + 1] = {0};
    int64_t total = 0, rows = 0;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/demo.db", folder);
    printf("pawl %s: %d threads append to the journals of %d runs in %s\n", pawl_version(), THREADS,
           RUNS, path);
    for (int life = 1; life <= KILLS; life++) {
        fflush(stdout);
        int64_t count = one_life(path, acknowledged);
        total += count;
        printf("  life %d: %lld rows acknowledged, then kill -9\n", life, (long long)count);
    }
    int64_t missing = count_missing(path, acknowledged, &rows);
    printf("after the last restart: %lld acknowledged, %lld in the database, %lld missing\n",
           (long long)total, (long long)rows, (long long)missing);
    printf("(more in the database than acknowledged: committed when the kill came, before anybody "
           "was told)\n");
    clean_up(folder, path);
    return missing != 0 || total < KILLS * ROWS_PER_LIFE;
}
