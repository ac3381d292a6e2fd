/* Building units. Everything that a unit needs is in its arena, so that all of it is freed, or used
 * again, at once; nothing here touches the database. */
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

/* Does the type of the value fit the letter that `binds` of the statement has for it? */
static int value_fits(char letter, const db_value *v)
{
    switch (v->type) {
    case DB_NULL:
    case DB_FROM:
        return letter != 0;
    case DB_INT:
        return letter == 'i' || letter == 'k';
    case DB_TEXT:
        return letter == 't';
    case DB_BYTES:
        return letter == 'b';
    }
    return 0;
}

int unit_stmt_writes(const unit_stmt *s)
{
    return strncmp(s->sql->text, "SELECT ", 7) != 0;
}

/* A refusal must leave nothing behind: a unit that may have written something when a guard refuses
 * it needs a savepoint. A UNIT_FOUND statement does not count: it is run only where the guard
 * before it has refused. */
static void track_writes(unit *u, const unit_stmt *s)
{
    /* RULE A4-what-was-written-before-a-refusal-needs-a-savepoint */
    u->needs_mark |= s->kind == UNIT_GUARD && u->writes;
    /* RULE A8-what-a-failed-function-wrote-goes */
    u->needs_mark |= s->kind == UNIT_CALL; /* the guest may have written */
    u->writes |= s->kind != UNIT_FOUND && unit_stmt_writes(s);
}

/* Make room for one more statement in `numbered`; the old list stays in the arena. 0: memory is
 * out. */
static int make_room(unit *u)
{
    if (u->count < u->room)
        return 1;
    int room = u->room ? 2 * u->room : 8;
    unit_stmt **more = arena_alloc(u->arena, sizeof *more * (size_t)room);
    if (!more)
        return 0;
    if (u->count)
        memcpy(more, u->numbered, sizeof *more * (size_t)u->count);
    u->numbered = more;
    u->room = room;
    return 1;
}

/* Resolve each db_from() to the statement that it names. 0: no memory. */
static int find_sources(const unit *u, unit_stmt *s)
{
    for (int i = 0; i < s->count; i++) {
        if (s->values[i].type != DB_FROM)
            continue;
        if (!s->sources)
            s->sources = arena_alloc(u->arena, sizeof(unit_stmt *) * (size_t)s->count);
        if (!s->sources)
            return 0;
        assert(s->values[i].from >= 0 && s->values[i].from < u->count);
        s->sources[i] = u->numbered[s->values[i].from];
    }
    return 1;
}

static int add_stmt(unit *u, unit_stmt what, const db_value *values, int count)
{
    if (u->broken_build) /* its values may be those of a statement that was not added */
        return -1;
    unit_stmt *s = arena_alloc(u->arena, sizeof *s);
    db_value *copy = count ? arena_alloc(u->arena, sizeof *copy * (size_t)count) : NULL;
    if (!s || (count && !copy) || !make_room(u)) {
        u->broken_build = 1;
        return -1;
    }
    assert(strlen(what.sql->binds) == (size_t)count);
    for (int i = 0; i < count; i++) {
        assert(value_fits(what.sql->binds[i], &values[i]));
        copy[i] = values[i];
        u->bytes += values[i].s.size;
    }
    *s = what;
    s->values = copy;
    s->count = count;
    if (!find_sources(u, s)) {
        u->broken_build = 1;
        return -1;
    }
    track_writes(u, s);
    if (u->last)
        u->last->next = s;
    else
        u->first = s;
    u->last = s;
    u->bytes += sizeof *s + sizeof *copy * (size_t)count;
    u->numbered[u->count] = s;
    return u->count++;
}

int unit_guard(unit *u, const db_sql *sql, const char *name, uint64_t key, const db_value *values,
               int count)
{
    return add_stmt(u, (unit_stmt){.kind = UNIT_GUARD, .sql = sql, .name = name, .key = key},
                    values, count);
}

int unit_found(unit *u, const db_sql *sql, const db_value *values, int count)
{
    assert(u->broken_build || (u->last && u->last->kind == UNIT_GUARD));
    return add_stmt(u, (unit_stmt){.kind = UNIT_FOUND, .sql = sql}, values, count);
}

int unit_try(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count)
{
    return add_stmt(u, (unit_stmt){.kind = UNIT_TRY, .sql = sql, .key = key}, values, count);
}

int unit_write(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count)
{
    return add_stmt(u, (unit_stmt){.kind = UNIT_WRITE, .sql = sql, .key = key}, values, count);
}

int unit_note(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count)
{
    u->notes = 1;
    return add_stmt(u, (unit_stmt){.kind = UNIT_WRITE, .sql = sql, .key = key, .note = 1}, values,
                    count);
}

int unit_append(unit *u, const db_sql *sql, uint64_t key, const db_value *values, int count)
{
    assert(count > 6 && values[0].type == DB_INT && values[6].type == DB_INT);
    return add_stmt(u, (unit_stmt){.kind = UNIT_WRITE, .sql = sql, .key = key, .appends = 1},
                    values, count);
}

int unit_call(unit *u, const char *name, unit_guest *guest)
{
    static const db_sql NONE = {"CALL", ""};
    guest->misused = 0;
    return add_stmt(u, (unit_stmt){.kind = UNIT_CALL, .sql = &NONE, .name = name, .guest = guest},
                    NULL, 0);
}

static void track_all_writes(unit *u)
{
    u->last = NULL;
    u->writes = u->needs_mark = 0;
    for (unit_stmt *s = u->first; s; s = s->next) {
        track_writes(u, s);
        u->last = s;
    }
}

void unit_cut(unit *u, int count)
{
    u->count = count < u->count ? count : u->count;
    unit_stmt **at = &u->first;
    for (int i = 0; i < u->count; i++) {
        *at = u->numbered[i];
        at = &(*at)->next;
    }
    *at = NULL;
    u->commit.marked = 0; /* what is allocated from here on belongs to no attempt */
    track_all_writes(u);
}

void unit_renew(unit *u)
{
    if (u->commit.marked)
        arena_rewind(u->arena, u->commit.mark);
    u->commit.marked = 0;
    u->answer = UNIT_OPEN;
    u->code = PAWL_OK;
    u->refused = u->message = NULL;
    u->found = NULL;
    for (unit_stmt *s = u->first; s; s = s->next) {
        s->rows = NULL;
        s->left_out = 0;
    }
}

void unit_put_first(unit *u, int statement)
{
    unit_stmt *one = u->numbered[statement], **at = &u->first;
    assert(!one->sources);
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    one->next = u->first;
    u->first = one;
    track_all_writes(u);
}

/* The part (guards, tries, writes) that a statement goes to: that of its kind, or a later one if it
 * takes a value of a statement there. */
static int part_of(const unit_stmt *s)
{
    static const int PARTS[] = {
        [UNIT_GUARD] = 0, [UNIT_FOUND] = 0, [UNIT_CALL] = 0, [UNIT_TRY] = 1, [UNIT_WRITE] = 2};
    int part = PARTS[s->kind];
    for (int i = 0; s->sources && i < s->count; i++)
        /* RULE A4-nothing-goes-before-what-it-takes */
        if (s->sources[i] && s->sources[i]->part > part)
            part = s->sources[i]->part;
    return part;
}

/* A guard goes where the UNIT_FOUND statement behind it can go, if that is a later part. */
static void give_parts(unit *u)
{
    for (unit_stmt *s = u->first; s; s = s->next) {
        s->part = part_of(s);
        if (s->kind == UNIT_FOUND || !s->next || s->next->kind != UNIT_FOUND)
            continue;
        int found = part_of(s->next);
        s->part = found > s->part ? found : s->part;
    }
}

void unit_guards_first(unit *u)
{
    unit_stmt *parts[3] = {NULL}, **ends[3] = {&parts[0], &parts[1], &parts[2]};
    int part = 0;
    give_parts(u);
    for (unit_stmt *s = u->first; s; s = s->next) {
        part = s->kind == UNIT_FOUND ? part : s->part; /* a UNIT_FOUND stays behind its guard */
        *ends[part] = s;
        ends[part] = &s->next;
    }
    *ends[2] = NULL;
    *ends[1] = parts[2];
    *ends[0] = parts[1];
    u->first = parts[0];
    track_all_writes(u);
}

const unit_row *unit_rows(const unit *u, int statement)
{
    return statement >= 0 && statement < u->count ? u->numbered[statement]->rows : NULL;
}

int unit_leaves_out(unit_stmt *s)
{
    s->left_out = 0;
    for (int i = 0; s->sources && i < s->count; i++) {
        const unit_stmt *from = s->sources[i];
        /* RULE A4-what-hangs-on-a-try-without-a-row-is-left-out */
        /* RULE A4-what-hangs-on-what-is-left-out-is-left-out */
        s->left_out |= from && (from->left_out || (from->kind == UNIT_TRY && !from->rows));
    }
    return s->left_out;
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

/* FNV-1a, to be mixed afterwards. The order of keys has no meaning; it only has to be the same in
 * all processes. */
static uint64_t hash_bytes(uint64_t h, const void *at, size_t size)
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

/* The upper 16 bits depend on the table, the lower ones on the row: so keys of one table are
 * neighbours when they are sorted, and with them statements of one kind. */
static uint64_t make_key(const char *table, const void *at, size_t size)
{
    static const uint64_t BASIS = UINT64_C(14695981039346656037);
    uint64_t above = mix(hash_bytes(BASIS, table, strlen(table)));
    uint64_t below = mix(hash_bytes(above, at, size));
    return (above & (UINT64_C(0xffff) << 48)) | (below >> 16) | 1; /* never 0 */
}

uint64_t unit_key(const char *table, int64_t id)
{
    return make_key(table, &id, sizeof id);
}

uint64_t unit_key_text(const char *table, slice text)
{
    return make_key(table, text.at, text.size);
}

pawl_code unit_shut_out(const unit *u, pawl_code rc)
{
    if (rc != PAWL_REFUSED || !u->refused)
        return rc;
    return strcmp(u->refused, "node") == 0   ? PAWL_FENCED
           : strcmp(u->refused, "back") == 0 ? PAWL_REWOUND
                                             : rc;
}
