/* Values on their way out of the server, and arrays on their way in. Everything is in binary form:
 * nothing has to be quoted, escaped or parsed, and bytes are bytes. */
#include <stdint.h>
#include <string.h>

#include "pg/pg.h"

enum {
    OID_BOOL = 16,
    OID_SMALL = 21,
    OID_INT4 = 23,
    OID_OID = 26,
    OID_REAL = 700,
    OID_DOUBLE = 701
};

/* ---- Out ---- */

static uint64_t big_endian(const char *at, int size)
{
    uint64_t u = 0;
    for (int i = 0; i < size; i++)
        u = u << 8 | (unsigned char)at[i];
    return u;
}

/* A double as SQLite would print it: the seam knows integers, text and bytes. */
static db_value real(double d, char number[32])
{
    buf b;
    buf_init_fixed(&b, number, 32);
    buf_printf(&b, "%.15g", d);
    if (!strpbrk(number, ".eni"))
        buf_text(&b, ".0");
    return db_text((slice){number, b.size});
}

static double double_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

db_value pg_column(const PGresult *r, int row, int column, char number[32])
{
    if (PQgetisnull(r, row, column))
        return db_null();
    const char *at = PQgetvalue(r, row, column);
    int size = PQgetlength(r, row, column);
    switch (PQftype(r, column)) {
    case OID_BOOL:
        return db_int(at[0] != 0);
    case OID_SMALL:
        return db_int((int16_t)big_endian(at, 2));
    case OID_INT4:
        return db_int((int32_t)big_endian(at, 4));
    case OID_OID:
        return db_int((int64_t)big_endian(at, 4));
    case PG_OID_INT:
        return db_int((int64_t)big_endian(at, 8));
    case OID_DOUBLE:
        return real(double_of(big_endian(at, 8)), number);
    case PG_OID_BYTES:
        return db_bytes((slice){at, (size_t)size});
    default:
        return db_text((slice){at, (size_t)size});
    }
}

static pawl_code no_room(error *err)
{
    return error_set(err, PAWL_LIMIT, "the answer does not fit into the unit's memory");
}

pawl_code pg_copy_row(unit *u, const PGresult *r, int row, int from, unit_row ***tail, error *err)
{
    int count = PQnfields(r) - from;
    unit_row *copy = arena_alloc(u->arena, sizeof *copy + sizeof copy->values[0] * (size_t)count);
    if (!copy)
        return no_room(err);
    copy->count = count;
    for (int i = 0; i < count; i++) {
        char number[32];
        db_value v = pg_column(r, row, from + i, number);
        if (v.type == DB_TEXT || v.type == DB_BYTES) {
            v.s.at = arena_copy(u->arena, v.s);
            if (!v.s.at)
                return no_room(err);
        }
        copy->values[i] = v;
    }
    **tail = copy;
    *tail = &copy->next;
    return PAWL_OK;
}

/* ---- In ---- */

enum { HEAD = 20 };

static void put32(char *to, uint32_t u)
{
    for (int i = 3; i >= 0; i--, u >>= 8)
        to[i] = (char)(u & 0xff);
}

static void add32(buf *b, uint32_t u)
{
    char bytes[4];
    put32(bytes, u);
    buf_add(b, (slice){bytes, 4});
}

/* Writes the head of an array: one dimension, members that may be NULL, the type, room for the
 * number of members (pg_array_end()), and 1 as the first index. */
void pg_array_begin(buf *b, Oid type)
{
    add32(b, 1);
    add32(b, 1);
    add32(b, type);
    add32(b, 0);
    add32(b, 1);
}

void pg_array_add(buf *b, const db_value *v)
{
    if (v->type == DB_NULL) {
        add32(b, UINT32_MAX);
    } else if (v->type == DB_INT) {
        add32(b, 8);
        add32(b, (uint32_t)((uint64_t)v->i >> 32));
        add32(b, (uint32_t)(uint64_t)v->i);
    } else {
        add32(b, (uint32_t)v->s.size);
        buf_add(b, v->s);
    }
}

void pg_array_end(buf *b, size_t count)
{
    if (!b->failed && b->size >= HEAD)
        put32(b->at + 12, (uint32_t)count);
}
