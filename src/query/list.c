/* The list of runs, filtered, by keyset pagination.
 *
 * The order is that of the run's key, so that a page begins where the one before ended, whatever
 * has been added or deleted since. The candidates come from an index where one fits: runs with the
 * attribute, runs with the prefix if few have it, runs in trouble. All other filters are applied to
 * the candidates.
 *
 * A filter that few runs pass must not make one long statement: its snapshot would be held for
 * long, and a server has time-outs. So each transaction first finds the end of a *slice* of the
 * candidates, and then lists the runs of the slice that pass the filter. The first slice has SLICE
 * candidates; after one that few runs pass, the next has twice as many, up to SLICE_MAX. The
 * candidates of a rare prefix are all in one slice. */
#include "base/argument.h"
#include "handle/handle.h"
#include "query/filter.h"
#include "query/info.h"

enum {
    PAGE = 256,        /* runs of a page */
    SLICE = 1024,      /* number of candidates in the first slice */
    SLICE_MAX = 16384, /* number of candidates in a slice, at most, when few pass the filter */
    RARE = 2000,       /* a prefix that fewer runs have is rare: its runs are sorted for each
                          page */
};

/* ---- SQL ---- */

/* The condition of the filter. The tenant is compared in a way that no index is chosen for, since
 * nearly all runs have the same tenant. */
#define PASSES                                                                                     \
    " r.tenant || '' = $3 AND ($4 IS NULL OR r.workflow = $4)"                                     \
    " AND ($5 IS NULL OR r.id >= $5) AND ($6 IS NULL OR r.id < $6)"                                \
    " AND (($7 >> CAST(CASE WHEN r.held <> 0 AND r.phase IN ({LIVE}, {FAILING})"                   \
    " THEN {SHOWN_HELD} ELSE r.phase END"                                                          \
    " AS INTEGER)) & 1) = 1"                                                                       \
    " AND r.created_at > $8 AND r.created_at < $9 AND ($10 IS NULL OR r.finished_at < $10)"

/* The runs of a slice: one statement for the newest first, and one for the oldest first. $1: the
 * key after which the slice begins; $2: its last key; $11: PAGE. */
#define ROWS(key, where, binds)                                                                    \
    {                                                                                              \
        {"SELECT " INFO_COLUMNS INFO_FROM where key " < $1 AND " key " >= $2 AND" PASSES           \
         " ORDER BY " key " DESC LIMIT $11",                                                       \
         "iitttt"                                                                                  \
         "iiiii" binds},                                                                           \
            {"SELECT " INFO_COLUMNS INFO_FROM where key " > $1 AND " key " <= $2 AND" PASSES       \
             " ORDER BY " key " LIMIT $11",                                                        \
             "iitttt"                                                                              \
             "iiiii" binds},                                                                       \
    }

/* The end of a slice: its last key, and its number of candidates. $1: the key after which the slice
 * begins; $2: the limit. */
#define ENDS(where, binds)                                                                         \
    {                                                                                              \
        {"SELECT min(run), count(*) FROM (SELECT run FROM " where                                  \
         " run < $1 ORDER BY run DESC LIMIT $2) s",                                                \
         "ii" binds},                                                                              \
            {"SELECT max(run), count(*) FROM (SELECT run FROM " where                              \
             " run > $1 ORDER BY run LIMIT $2) s",                                                 \
             "ii" binds},                                                                          \
    }

/* A source of candidates. The first of two statements lists the newest runs first, the second one
 * the oldest. */
typedef struct source {
    db_sql rows[2];
    db_sql ends[2]; /* no text: all candidates are one slice */
    int has_value;  /* 1: name, value and kind of the attribute are parameters */
} source;

static const source ALL = {ROWS("r.run", "WHERE ", ""), ENDS("{runs} WHERE ", ""), 0};

static const source IN_TROUBLE = {
    ROWS("r.run", "WHERE (r.phase >= {FAILED} OR r.held <> 0) AND ", ""),
    ENDS("{runs} WHERE (phase >= {FAILED} OR held <> 0) AND ", ""),
    0,
};

static const source WITH_TEXT = {
    ROWS("a.run",
         "JOIN {attributes} a ON a.run = r.run"
         " WHERE a.name = $12 AND a.value = $13 AND a.kind = $14 AND ",
         "tti"),
    ENDS("{attributes} WHERE name = $3 AND value = $4 AND kind = $5 AND ", "tti"),
    1,
};

static const source WITH_NUMBER = {
    ROWS("a.run",
         "JOIN {attributes} a ON a.run = r.run"
         " WHERE a.name = $12 AND a.number = CAST($13 AS {REAL}) AND a.kind = $14 AND ",
         "tti"),
    ENDS("{attributes} WHERE name = $3 AND number = CAST($4 AS {REAL}) AND kind = $5 AND ", "tti"),
    1,
};

/* The unary plus keeps the database from choosing the index of the key. */
static const source OF_PREFIX = {
    ROWS("+r.run", "WHERE r.tenant = $3 AND r.id >= $5 AND r.id < $6 AND ", ""),
    {{NULL, NULL}, {NULL, NULL}},
    0,
};

static const db_sql COUNT_PREFIX = {
    "SELECT count(*) FROM"
    " (SELECT 1 FROM {runs} WHERE tenant = $1 AND id >= $2 AND id < $3 LIMIT $4) s",
    "ttti"};

/* ---- One page ---- */

typedef struct listing {
    pawl *p;
    const filter *filter;
    const source *source;
    int64_t position; /* cursor: the list goes on after this key */
    int64_t slice;    /* number of candidates of the next slice */
    int64_t left;     /* how many runs may still be listed */
    int ended;
    info_page page;
} listing;

static db_value text_or_null(slice s)
{
    return s.at ? db_text(s) : db_null();
}

/* Finds the last key of the next slice. */
static pawl_code find_end(listing *l, db_conn *c, int64_t *end, error *err)
{
    const filter *f = l->filter;
    const db_sql *sql = &l->source->ends[f->oldest_first];
    *end = f->oldest_first ? INT64_MAX : INT64_MIN;
    l->ended = 1;
    if (!sql->text)
        return PAWL_OK;
    const db_value values[] = {db_int(l->position), db_int(l->slice), db_text(f->attribute),
                               db_text(f->value.text), db_int(f->value.kind)};
    int64_t found[2];
    int any;
    pawl_code rc =
        read_pool_numbers(c, sql, values, l->source->has_value ? 5 : 2, found, 2, &any, err);
    if (rc == PAWL_OK && any && found[1] == l->slice) {
        *end = found[0];
        l->ended = 0;
    }
    return rc;
}

static pawl_code read_rows(listing *l, db_conn *c, int64_t end, int64_t count, error *err)
{
    const filter *f = l->filter;
    int any_end = f->finished_before_ms == 0;
    const db_value values[] = {
        db_int(l->position),
        db_int(end),
        db_text(handle_tenant(l->p)),
        text_or_null(f->workflow),
        text_or_null(f->prefix),
        text_or_null(f->beyond),
        db_int(f->phases),
        db_int(f->created_after_ms),
        db_int(f->created_before_ms),
        any_end ? db_null() : db_int(f->finished_before_ms),
        db_int(count),
        db_text(f->attribute),
        db_text(f->value.text),
        db_int(f->value.kind),
    };
    return read_pool_rows(c, &l->source->rows[f->oldest_first], values,
                          DB_COUNT(values) - (l->source->has_value ? 0 : 3), info_page_add,
                          &l->page, err);
}

static pawl_code read_page(listing *l, error *err)
{
    db_conn *c;
    int64_t end = 0;
    int64_t count = l->left < PAGE ? l->left : PAGE;
    pawl_code rc = read_pool_begin(handle_read_pool(l->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = find_end(l, c, &end, err);
    if (rc == PAWL_OK)
        rc = read_rows(l, c, end, count, err);
    read_pool_end(handle_read_pool(l->p), c);
    if (rc != PAWL_OK)
        return rc;
    l->left -= (int64_t)l->page.count;
    if ((int64_t)l->page.count == count) { /* the slice may have more */
        l->position = l->page.at[count - 1]->run;
        l->ended = l->left == 0;
    } else {
        l->position = end;
        l->slice = l->slice < SLICE_MAX ? 2 * l->slice : l->slice;
    }
    return PAWL_OK;
}

/* ---- The list ---- */

/* Sets *rare if so few runs have the prefix that they can be sorted for each page. */
static pawl_code is_rare(listing *l, db_conn *c, int *rare, error *err)
{
    const filter *f = l->filter;
    const db_value values[] = {db_text(handle_tenant(l->p)), db_text(f->prefix), db_text(f->beyond),
                               db_int(RARE)};
    int64_t count = 0;
    pawl_code rc =
        read_pool_numbers(c, &COUNT_PREFIX, values, DB_COUNT(values), &count, 1, rare, err);
    *rare = count < RARE;
    return rc;
}

static pawl_code choose_source(listing *l, db_conn *c, error *err)
{
    const filter *f = l->filter;
    const int64_t trouble =
        1 << PAWL_RUN_FAILED | 1 << PAWL_RUN_CANCELLED | 1 << PAWL_RUN_FAILING | 1 << PAWL_RUN_HELD;
    int rare = 0;
    pawl_code rc = PAWL_OK;
    l->source = (f->phases & ~trouble) == 0 ? &IN_TROUBLE : &ALL;
    if (f->attribute.at) {
        l->source = f->value.kind == ATTRIBUTE_TEXT ? &WITH_TEXT : &WITH_NUMBER;
    } else if (f->beyond.at) {
        rc = is_rare(l, c, &rare, err);
        l->source = rare ? &OF_PREFIX : l->source;
    }
    return rc;
}

static pawl_code begin_list(listing *l, error *err)
{
    const filter *f = l->filter;
    db_conn *c;
    l->left = f->limit;
    l->slice = SLICE;
    l->position = f->oldest_first ? INT64_MIN : INT64_MAX;
    pawl_code rc = read_pool_begin(handle_read_pool(l->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = choose_source(l, c, err);
    if (rc == PAWL_OK && f->after_id.at)
        rc = read_pool_run(c, handle_tenant(l->p), f->after_id, &l->position, err);
    read_pool_end(handle_read_pool(l->p), c);
    if (rc == PAWL_NOTFOUND)
        error_detail(err, "the run of the option after_id");
    return rc;
}

/* Calls `fn` for each run of the page. Returns 1 if `fn` has ended the list. */
static int report_page(const info_page *page, pawl_info_fn *fn, void *arg)
{
    for (size_t i = 0; i < page->count; i++)
        if (fn(page->at[i], arg) != 0)
            return 1;
    return 0;
}

static pawl_code list_runs(pawl *p, const filter *f, pawl_info_fn *fn, void *arg, error *err)
{
    listing l = {.p = p, .filter = f};
    pawl_code rc = begin_list(&l, err);
    while (rc == PAWL_OK && !l.ended) {
        rc = read_page(&l, err);
        if (rc == PAWL_OK && report_page(&l.page, fn, arg))
            l.ended = 1;
        info_page_free(&l.page);
    }
    return rc;
}

pawl_code pawl_list(pawl *p, const pawl_filter *filter_given, pawl_info_fn *fn, void *arg)
{
    error err = {0};
    filter f;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK && !fn)
        rc = argument_no_function(&err);
    if (rc == PAWL_OK)
        rc = filter_read(&f, filter_given, &err);
    if (rc == PAWL_OK) {
        rc = list_runs(p, &f, fn, arg, &err);
        filter_free(&f);
    }
    return handle_leave(p, rc, &err);
}
