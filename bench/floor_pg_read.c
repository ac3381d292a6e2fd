/* What the floor on PostgreSQL writes again, read from the database that pawl has written.
 *
 * The journal comes row by row, since it may be large. Runs that the floor only needs to be there
 * are kept as COPY gives them. */
#include "floor.h"
#include "pq.h"

/* With `lives`: room for the application's own rows too. */
static floor_rows *rows_new(PGconn *conn, int lives)
{
    int64_t count = pq_number(conn, "SELECT count(*) FROM pawl.journal");
    int64_t bytes = pq_number(conn, "SELECT coalesce(sum(octet_length(name) + "
                                    "coalesce(length(data), 0)), 0) FROM pawl.journal");
    int64_t runs = pq_number(
        conn, "SELECT coalesce(sum(octet_length(tenant || id || workflow || version || by) + "
              "coalesce(length(input), 0) + coalesce(length(output), 0) + "
              "coalesce(octet_length(error), 0)), 0) FROM pawl.runs");
    int64_t own = 0, texts = 0;
    if (lives &&
        pq_number(conn, "SELECT count(*) FROM pg_class WHERE relname = 'bench_rows'") > 0) {
        own = pq_number(conn, "SELECT count(*) FROM public.bench_rows");
        texts =
            pq_number(conn, "SELECT coalesce(sum(octet_length(data)), 0) FROM public.bench_rows");
    }
    floor_rows *r = floor_rows_new((size_t)(count + own), (size_t)(bytes + runs + texts));
    r->own = (size_t)own;
    return r;
}

static slice field(PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return (slice){NULL, 0};
    return (slice){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

static void row_keep(floor_rows *r, PGresult *result)
{
    floor_row *to = floor_rows_add(r, field(result, 0, 8), field(result, 0, 9));
    int64_t *numbers[] = {&to->run, &to->generation, &to->seq, &to->kind,
                          &to->op,  &to->at,         &to->enc, &to->fence};
    for (int i = 0; i < 8; i++)
        *numbers[i] = pq_int64(PQgetvalue(result, 0, i));
}

static void journal_read(PGconn *conn, floor_rows *r)
{
    static const char sql[] =
        "SELECT j.run, j.generation, j.seq, j.kind, j.op, j.at, j.enc, r.fence, j.name, j.data"
        " FROM pawl.journal j JOIN pawl.runs r ON r.run = j.run ORDER BY j.pos";
    if (!PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1) || !PQsetSingleRowMode(conn))
        bench_die("floor: %s", PQerrorMessage(conn));
    for (PGresult *result = PQgetResult(conn); result; result = PQgetResult(conn)) {
        pq_check(conn, result, sql);
        if (PQntuples(result) == 1)
            row_keep(r, result);
        PQclear(result);
    }
}

static void runs_read(PGconn *conn, buf *out)
{
    char *piece = NULL;
    int size;
    pq_run(conn, "COPY pawl.runs TO STDOUT");
    while ((size = PQgetCopyData(conn, &piece, 0)) > 0) {
        buf_add(out, (slice){piece, (size_t)size});
        PQfreemem(piece);
    }
    PQclear(pq_check(conn, PQgetResult(conn), "read the runs"));
    if (out->failed)
        bench_die("floor: too many runs");
}

static void own_read(PGconn *conn, floor_rows *r)
{
    static const char sql[] = "SELECT id, data FROM public.bench_rows ORDER BY id";
    if (r->own == 0)
        return;
    PGresult *result = pq_check(conn, PQexecParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1), sql);
    for (int i = 0; i < PQntuples(result); i++) {
        floor_row *to = floor_rows_add(r, SLICE_LIT(""), field(result, i, 1));
        to->what = FLOOR_OWN;
        to->seq = pq_int64(PQgetvalue(result, i, 0));
    }
    PQclear(result);
}

static void lives_read(PGconn *conn, floor_rows *r)
{
    static const char sql[] =
        "SELECT run, phase, created_at, finished_at, coalesce(parent, 0), "
        "coalesce(parent_generation, 0), coalesce(parent_op, 0), tenant, id, workflow, version, "
        "by, input, output, error FROM pawl.runs ORDER BY run";
    PGresult *result = pq_check(conn, PQexecParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1), sql);
    floor_lives_new(r, (size_t)PQntuples(result));
    for (size_t i = 0; i < r->life_count; i++) {
        floor_run *run = &r->lives[i];
        int64_t *numbers[] = {&run->run,         &run->phase,  &run->created_ms,
                              &run->finished_ms, &run->parent, &run->parent_generation,
                              &run->parent_op};
        floor_text *texts[] = {&run->tenant, &run->id,    &run->workflow, &run->version,
                               &run->by,     &run->input, &run->output,   &run->error};
        for (int k = 0; k < 7; k++)
            *numbers[k] = pq_int64(PQgetvalue(result, (int)i, k));
        for (int k = 0; k < 8; k++)
            *texts[k] = floor_rows_text(r, field(result, (int)i, 7 + k));
    }
    PQclear(result);
}

floor_rows *floor_pg_read(const bench_db *source)
{
    PGconn *conn = pq_open(source->url);
    floor_rows *r = rows_new(conn, 0);
    journal_read(conn, r);
    floor_rows_complete(r);
    runs_read(conn, &r->runs);
    pq_close(conn);
    return r;
}

floor_rows *floor_pg_read_lives(const bench_db *source)
{
    PGconn *conn = pq_open(source->url);
    floor_rows *r = rows_new(conn, 1);
    journal_read(conn, r);
    own_read(conn, r);
    floor_rows_complete(r);
    lives_read(conn, r);
    floor_lives_merge(r);
    pq_close(conn);
    return r;
}
