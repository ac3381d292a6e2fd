/* Calls SQLite's function for each type of value. Text and bytes are bound without a copy: they
 * have to stay where they are until the statement is reset. */
#include "db/sqlite_value.h"

/* To SQLite $1 is a name, and parameters are numbered in the order in which they appear. Each
 * number is looked up by its name, once, so that values are bound rightly even if $2 stands before
 * $1. */
int sqlite_value_places(sqlite3_stmt *s, unsigned char *places, int max)
{
    int count = sqlite3_bind_parameter_count(s);
    if (count > max)
        return SQLITE_RANGE;
    for (int i = 0; i < count; i++) {
        char name[16];
        buf b;
        buf_init_fixed(&b, name, sizeof name);
        buf_printf(&b, "$%d", i + 1);
        places[i] = (unsigned char)sqlite3_bind_parameter_index(s, name);
    }
    return SQLITE_OK;
}

static int bind_bytes(sqlite3_stmt *s, int at, const db_value *v)
{
    /* A NULL pointer would bind NULL; an empty value is not NULL. */
    const char *bytes = v->s.at ? v->s.at : "";
    if (v->type == DB_TEXT)
        return sqlite3_bind_text64(s, at, bytes, v->s.size, SQLITE_STATIC, SQLITE_UTF8);
    return sqlite3_bind_blob64(s, at, bytes, v->s.size, SQLITE_STATIC);
}

int sqlite_value_bind(sqlite3_stmt *s, int at, const db_value *v)
{
    if (v->type == DB_INT)
        return sqlite3_bind_int64(s, at, v->i);
    if (v->type == DB_NULL)
        return sqlite3_bind_null(s, at);
    return v->type == DB_FROM ? SQLITE_RANGE : bind_bytes(s, at, v);
}

db_value sqlite_value_column(sqlite3_stmt *s, int index)
{
    const void *at;
    switch (sqlite3_column_type(s, index)) {
    case SQLITE_INTEGER:
        return db_int(sqlite3_column_int64(s, index));
    case SQLITE_NULL:
        return db_null();
    case SQLITE_BLOB:
        at = sqlite3_column_blob(s, index);
        return db_bytes((slice){at ? at : "", (size_t)sqlite3_column_bytes(s, index)});
    default:
        at = sqlite3_column_text(s, index);
        return db_text((slice){at ? at : "", (size_t)sqlite3_column_bytes(s, index)});
    }
}
