/* Building units. Everything a unit needs is in its arena, so that it is freed, or used again, in
 * one stroke; nothing here touches the database. */
#include "db/unit.h"

#include <assert.h>
#include <string.h>

unit *unit_new(arena *a)
{
    unit *u = arena_alloc(a, sizeof *u);
    if (u)
        u->arena = a;
    return u;
}

/* Does the value fit the letter that the statement has for it? */
static int fits(char letter, const db_value *v)
{
    switch (v->type) {
    case DB_NULL:
    case DB_FROM:
        return letter != 0;
    case DB_INT:
        return letter == 'i';
    case DB_TEXT:
        return letter == 't';
    case DB_BYTES:
        return letter == 'b';
    }
    return 0;
}

static int writes(const unit_stmt *s)
{
    return strncmp(s->sql->text, "SELECT ", 7) != 0;
}

/* A refusal must leave nothing behind: is there anything, when this guard refuses? What is found
 * runs only where the guard before it has written nothing. */
static void note(unit *u, const unit_stmt *s)
{
    u->needs_mark |= s->kind == UNIT_GUARD && u->writes;
    u->writes |= s->kind != UNIT_FOUND && writes(s);
}

static int add(unit *u, unit_stmt what, const db_value *values, int count)
{
    unit_stmt *s = arena_alloc(u->arena, sizeof *s);
    db_value *copy = count ? arena_alloc(u->arena, sizeof *copy * (size_t)count) : NULL;
    if (!s || (count && !copy)) {
        u->broken_build = 1;
        return -1;
    }
    assert(strlen(what.sql->binds) == (size_t)count);
    for (int i = 0; i < count; i++) {
        assert(fits(what.sql->binds[i], &values[i]));
        assert(values[i].type != DB_FROM || values[i].from < u->count);
        copy[i] = values[i];
        u->bytes += values[i].s.size;
    }
    *s = what;
    s->values = copy;
    s->count = count;
    note(u, s);
    if (u->last)
        u->last->next = s;
    else
        u->first = s;
    u->last = s;
    u->bytes += sizeof *s + sizeof *copy * (size_t)count;
    return u->count++;
}

int unit_guard(unit *u, const db_sql *sql, const char *name, uint64_t key, const db_value *values,
               int count)
{
    return add(u, (unit_stmt){.kind = UNIT_GUARD, .sql = sql, .name = name, .key = key}, values,
               count);
}

int unit_found(unit *u, const db_sql *sql, const db_value *values, int count)
{
    assert(u->broken_build || (u->last && u->last->kind == UNIT_GUARD));
    return add(u, (unit_stmt){.kind = UNIT_FOUND, .sql = sql}, values, count);
}

int unit_write(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count)
{
    return add(u, (unit_stmt){.kind = UNIT_WRITE, .sql = sql, .key = key}, values, count);
}

/* What it says about marks stays: one more than is needed does no harm. */
void unit_cut(unit *u, int count)
{
    unit_stmt **at = &u->first;
    u->last = NULL;
    u->count = 0;
    while (*at && u->count < count) {
        u->last = *at;
        u->count++;
        at = &(*at)->next;
    }
    *at = NULL;
}

void unit_guards_first(unit *u)
{
    unit_stmt *writing = NULL, **guards = &u->first, **rest = &writing, *next;
    for (unit_stmt *s = u->first; s; s = next) {
        unit_stmt ***to = s->kind == UNIT_WRITE ? &rest : &guards;
        next = s->next;
        for (int i = 0; i < s->count; i++)
            assert(s->values[i].type != DB_FROM);
        **to = s;
        *to = &s->next;
        u->last = s->kind == UNIT_WRITE || !writing ? s : u->last;
    }
    *rest = NULL;
    *guards = writing;
    u->writes = u->needs_mark = 0;
    for (const unit_stmt *s = u->first; s; s = s->next)
        note(u, s);
}

const unit_row *unit_rows(const unit *u, int statement)
{
    const unit_stmt *s = u->first;
    while (s && statement-- > 0)
        s = s->next;
    return s ? s->rows : NULL;
}

void unit_break_submitter(unit *u)
{
    if (!u->submitter)
        return;
    long long first = u->submitter->broken;
    while ((first == 0 || first > u->order) &&
           !atomic_compare_exchange_weak(&u->submitter->broken, &first, u->order))
        continue;
}

int unit_is_cut_off(const unit *u)
{
    long long first = u->submitter ? u->submitter->broken : 0;
    return first != 0 && u->order > first;
}

/* FNV-1a, then a mix of the bits: the order need not mean anything, only be the same for all. */
static uint64_t hash(uint64_t h, const void *at, size_t size)
{
    const unsigned char *p = at;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

/* The table above, the row below: keys of one table are neighbours, so that statements of one kind
 * are too when they are put in order. */
static uint64_t key(const char *table, const void *at, size_t size)
{
    static const uint64_t BASIS = UINT64_C(14695981039346656037);
    uint64_t above = mix(hash(BASIS, table, strlen(table)));
    uint64_t below = mix(hash(above, at, size));
    return (above & (UINT64_C(0xffff) << 48)) | (below >> 16) | 1; /* never 0 */
}

uint64_t unit_key(const char *table, int64_t id)
{
    return key(table, &id, sizeof id);
}

uint64_t unit_key_text(const char *table, slice text)
{
    return key(table, text.at, text.size);
}
