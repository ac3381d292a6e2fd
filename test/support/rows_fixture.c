/* The rows are written through the engine's own connections, since a database in memory has no
 * others. Values are parameters of the statements, so that they may be any text. */
#include "support/rows_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "db/liveness_file.h"
#include "handle/handle.h"

static const db_sql ADD = {
    "INSERT INTO {runs} (run, tenant, id, workflow, version, phase, generation, owner, wake_at,"
    " held, held_reason, held_for, held_at, claims, parent, by, created_at, updated_at, "
    "finished_at,"
    " deadline_at, status, status_seq, input, error)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,"
    " $20, $21, $22, $23, $24)",
    "ittttiiiiittiiitiiiitibt"};

static const db_sql REMOVE = {"DELETE FROM {runs} WHERE run = $1", "i"};

static const db_sql JOURNAL = {
    "INSERT INTO {journal} (run, generation, seq, kind, op, name, at, data)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    "iiiiitib"};

static const db_sql NODE = {
    "INSERT INTO {nodes} (node, slot, name, build, since) VALUES ($1, $2, $3, 'b-1', 77)", "iit"};

static const db_sql BEAT = {"INSERT INTO {beats} (node, at) VALUES ($1, $2)", "ii"};

pawl *runs_open(const conf *c, const char *tenant)
{
    pawl *p = NULL;
    if (pawl_open(&p, c->url, PAWL_OPTIONS(.tenant = tenant)) != PAWL_OK)
        fail_msg("%s", pawl_errtext(p));
    return p;
}

/* ---- Rows ---- */

static db_value text_or(const char *text, const char *otherwise)
{
    return db_text(slice_of(text ? text : otherwise));
}

static db_value text_or_null(const char *text)
{
    return text ? db_text(slice_of(text)) : db_null();
}

static db_value int_or_null(int64_t i)
{
    return i ? db_int(i) : db_null();
}

static void add_row(db_conn *c, const runs_row *r)
{
    error err = {0};
    char id[32];
    int64_t at = r->run * 1000;
    snprintf(id, sizeof id, "run-%lld", (long long)r->run);
    const db_value values[] = {
        db_int(r->run),
        text_or(r->tenant, ""),
        text_or(r->id, id),
        text_or(r->workflow, "flow"),
        text_or(r->version, "1"),
        db_int(r->phase),
        db_int(r->generation ? r->generation : 1),
        db_int(r->owner),
        int_or_null(r->wake_at),
        db_int(r->held),
        text_or_null(r->held_reason),
        text_or_null(r->held_for),
        int_or_null(r->held_at),
        db_int(r->claims),
        int_or_null(r->parent),
        text_or(r->by, ""),
        db_int(r->created_at ? r->created_at : at),
        db_int(r->updated_at ? r->updated_at : at),
        int_or_null(r->finished_at),
        int_or_null(r->deadline_at),
        text_or_null(r->status),
        db_int(r->status_seq),
        r->input ? db_bytes(slice_of(r->input)) : db_null(),
        text_or_null(r->error),
    };
    CONF_OK(db_run(c, &ADD, values, DB_COUNT(values), &err), &err);
}

void runs_add(pawl *p, const runs_row *row)
{
    db_conn *c = conf_connect(handle_db(p), DB_WRITER);
    conf_begin(c);
    add_row(c, row);
    conf_commit(c);
    db_disconnect(c);
}

void runs_add_many(pawl *p, size_t count, void (*make)(runs_row *row, size_t i, void *arg),
                   void *arg)
{
    db_conn *c = conf_connect(handle_db(p), DB_WRITER);
    conf_begin(c);
    for (size_t i = 0; i < count; i++) {
        runs_row row = {0};
        make(&row, i, arg);
        add_row(c, &row);
    }
    conf_commit(c);
    db_disconnect(c);
}

void runs_remove(pawl *p, int64_t run)
{
    const db_value key[] = {db_int(run)};
    conf_do(handle_db(p), &REMOVE, key, DB_COUNT(key));
}

void runs_journal(pawl *p, const runs_entry *e)
{
    const db_value values[] = {
        db_int(e->run), db_int(e->generation ? e->generation : 1),
        db_int(e->seq), db_int(e->kind),
        db_int(e->op),  text_or(e->name, ""),
        db_int(e->at),  e->data ? db_bytes(slice_of(e->data)) : db_null(),
    };
    conf_do(handle_db(p), &JOURNAL, values, DB_COUNT(values));
}

void runs_attribute(pawl *p, int64_t run, const char *name, int64_t kind, const char *value)
{
    char sql[512];
    int n = snprintf(sql, sizeof sql,
                     "INSERT INTO {attributes} (run, name, kind, %s) VALUES (%lld, '%s', %lld, %s)",
                     kind == 1 ? "value" : "number", (long long)run, name, (long long)kind, value);
    assert_in_range(n, 1, sizeof sql - 1);
    conf_script(handle_db(p), sql);
}

void runs_node(pawl *p, pawl *other, int64_t node, const char *name, int alive)
{
    db *d = handle_db(p);
    for (int slot = 1; slot <= 2; slot++) { /* a node with two slots must be listed once */
        const db_value row[] = {db_int(node), db_int(slot), text_or(name, "")};
        conf_do(d, &NODE, row, DB_COUNT(row));
    }
    if (!alive)
        return;
    error err = {0};
    int64_t now;
    if (db_nodes(d)) {
        CONF_OK(liveness_file_hold(db_nodes(handle_db(other)), node, &err), &err);
        return;
    }
    db_conn *c = conf_connect(d, DB_READER);
    CONF_OK(d->driver->now_ms(c, &now, &err), &err);
    db_disconnect(c);
    const db_value beat[] = {db_int(node), db_int(now)};
    conf_do(d, &BEAT, beat, DB_COUNT(beat));
}

/* ---- What a list tells ---- */

int runs_tell(const pawl_info *info, void *arg)
{
    runs_told *t = arg;
    size_t at = strlen(t->text);
    int n = snprintf(t->text + at, sizeof t->text - at, "%.*s%s ", (int)pawl_info_depth(info),
                     "................", pawl_info_id(info));
    if (n >= (int)(sizeof t->text - at))
        t->text[at] = '\0'; /* the info is counted, and its id is not added */
    snprintf(t->last, sizeof t->last, "%s", pawl_info_id(info));
    return ++t->count == t->most;
}
