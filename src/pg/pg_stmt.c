/* Statements, and the forms made from them.
 *
 * SQL is written once, for one set of values. Sent one by one, a thousand inserts cost a thousand
 * executions; with arrays they cost one. So from
 *     INSERT INTO t (a, b) VALUES ($1, $2) RETURNING pos
 * this is made:
 *     INSERT INTO t (a, b) SELECT u.p1, u.p2 FROM unnest($1::int8[], $2::text[])
 *         WITH ORDINALITY AS u (p1, p2, o) RETURNING pos
 * and from a guard that only reads (SELECT … FOR SHARE) a lateral join whose first column says
 * which set of values the row belongs to. Other statements have no array form and are sent one by
 * one.
 *
 * A guard can also be made to fail where it gives no row, so that a unit that is alone is sent and
 * committed in one trip: the server executes nothing after a failure. If a write needs a number of
 * the guard's row (a message gets its number from the run's row), the guard also writes that number
 * into a setting of the transaction, from which the write takes it. */
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

enum { TEXT_MAX = 64 * 1024 };

static Oid type_of(char letter)
{
    return letter == 'i' || letter == 'k' ? PG_OID_INT : letter == 't' ? PG_OID_TEXT : PG_OID_BYTES;
}

static const char *array_of(char letter)
{
    return letter == 'i' || letter == 'k' ? "int8[]" : letter == 't' ? "text[]" : "bytea[]";
}

/* ---- Making and freeing ---- */

static void name_stmt(pg_stmt *s, pg_conn *c)
{
    buf b;
    buf_init_fixed(&b, s->name, sizeof s->name);
    if (strcmp(s->text, "COMMIT") == 0)
        buf_text(&b, "pawl_commit");
    else
        buf_printf(&b, "pawl_%u", ++c->names);
}

static pg_stmt *make_stmt(pg_conn *c, const db_sql *sql, slice text)
{
    pg_stmt *s = calloc(1, sizeof *s);
    char *copy = s ? malloc(text.size + 1) : NULL;
    if (!copy) {
        free(s);
        return NULL;
    }
    memcpy(copy, text.at, text.size);
    copy[text.size] = 0;
    s->base = (db_stmt){&c->base, sql};
    s->text = copy;
    s->count = (int)strlen(sql->binds);
    for (int i = 0; i < s->count; i++)
        s->types[i] = type_of(sql->binds[i]);
    name_stmt(s, c);
    return s;
}

pawl_code pg_stmt_prepare(db_conn *base, const db_sql *sql, const char *text, db_stmt **out,
                          error *err)
{
    if (strlen(sql->binds) > PG_PARAMETERS)
        return error_set(err, PAWL_INTERNAL, "a statement with too many parameters");
    pg_stmt *s = make_stmt((pg_conn *)base, sql, slice_of(text));
    if (!s)
        return error_nomem(err);
    *out = &s->base;
    return PAWL_OK;
}

void pg_stmt_free(db_stmt *base)
{
    pg_stmt *s = (pg_stmt *)base;
    if (!s)
        return;
    pg_stmt_free(s->array ? &s->array->base : NULL);
    pg_stmt_free(s->must ? &s->must->base : NULL);
    pg_stmt_free(s->keep ? &s->keep->base : NULL);
    pg_stmt_free(s->take ? &s->take->base : NULL);
    PQclear(s->result);
    free(s->text);
    free(s);
}

/* ---- Forms ---- */

/* Copies SQL with u.p1 … in the place of $1 …, and returns the number of parameters. */
static int add_renamed(buf *out, slice text)
{
    int count = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.at[i] == '$') {
            buf_text(out, "u.p");
            count++;
        } else {
            buf_char(out, text.at[i]);
        }
    }
    return count;
}

/* Writes unnest($1::int8[], …) WITH ORDINALITY AS u (p1, …, o). */
static void add_unnest(buf *out, const char *binds)
{
    buf_text(out, "unnest(");
    for (int i = 0; binds[i]; i++)
        buf_printf(out, "%s$%d::%s", i ? ", " : "", i + 1, array_of(binds[i]));
    buf_text(out, ") WITH ORDINALITY AS u (");
    for (int i = 0; binds[i]; i++)
        buf_printf(out, "p%d, ", i + 1);
    buf_text(out, "o)");
}

/* Finds the list in parentheses behind VALUES, and returns where it ends. NULL: the statement is no
 * INSERT with one such list, or the list has a subquery, which would read rows that the same array
 * inserts. */
static const char *find_values(const char *text, slice *list)
{
    static const char WORD[] = " VALUES (";
    const char *at = strncmp(text, "INSERT INTO ", 12) == 0 ? strstr(text, WORD) : NULL;
    if (!at)
        return NULL;
    list->at = at + sizeof WORD - 1;
    int depth = 1;
    const char *p = list->at;
    for (; *p && depth > 0; p++)
        depth += (*p == '(') - (*p == ')');
    /* RULE A4-an-insert-that-reads-is-no-array */
    if (depth > 0 || *p == ',' || strchr(list->at, '\'') || strstr(list->at, "SELECT "))
        return NULL;
    list->size = (size_t)(p - 1 - list->at);
    return p;
}

static int array_of_insert(buf *out, const char *text, const char *binds)
{
    slice list;
    const char *rest = find_values(text, &list);
    if (!rest || strchr(rest, '$') || (strstr(rest, "ON CONFLICT") && strstr(rest, "RETURNING")))
        return 0;
    const char *values = list.at - strlen(" VALUES (");
    buf_add(out, (slice){text, (size_t)(values - text)});
    buf_text(out, " SELECT ");
    add_renamed(out, list);
    buf_text(out, " FROM ");
    add_unnest(out, binds);
    buf_text(out, rest);
    return 1;
}

static int array_of_look(buf *out, const char *text, const char *binds)
{
    if (strncmp(text, "SELECT ", 7) != 0)
        return 0;
    buf_text(out, "SELECT u.o, g.* FROM ");
    add_unnest(out, binds);
    buf_text(out, " CROSS JOIN LATERAL (");
    add_renamed(out, slice_of(text));
    buf_text(out, ") AS g");
    return 1;
}

pg_stmt *pg_stmt_array(pg_stmt *s)
{
    if (s->array || s->no_array)
        return s->array;
    const char *binds = s->base.sql->binds;
    buf text;
    buf_init(&text, TEXT_MAX);
    int fits =
        *binds && (array_of_insert(&text, s->text, binds) || array_of_look(&text, s->text, binds));
    s->no_array = !fits || text.failed;
    if (!s->no_array)
        s->array = make_stmt((pg_conn *)s->base.conn, s->base.sql, (slice){text.at, text.size});
    buf_free(&text);
    for (int i = 0; s->array && i < s->count; i++)
        s->array->types[i] = 0; /* the text of the array form has casts, which give the types */
    return s->array;
}

pg_stmt *pg_stmt_must(pg_stmt *s)
{
    if (s->must)
        return s->must;
    buf text;
    buf_init(&text, TEXT_MAX);
    if (strncmp(s->text, "SELECT 1 FROM ", 14) == 0) /* the usual guard has a form of its own, which
                                                        is four times as quick */
        buf_printf(&text, "SELECT 1 / coalesce((%s), 0)", s->text);
    else
        buf_printf(&text,
                   "WITH g AS (%s) SELECT g.* FROM (SELECT 1 / count(*) AS one FROM g) AS must"
                   " LEFT JOIN g ON must.one >= 0",
                   s->text);
    if (!text.failed)
        s->must = make_stmt((pg_conn *)s->base.conn, s->base.sql, (slice){text.at, text.size});
    buf_free(&text);
    return s->must;
}

#define KEPT "pawl.kept"

pg_stmt *pg_stmt_keep(pg_stmt *s, int column)
{
    if (s->keep)
        return s->keep_column == column ? s->keep : NULL;
    buf text;
    buf_init(&text, TEXT_MAX);
    buf_text(&text, "WITH g (");
    for (int i = 0; i <= column; i++)
        buf_printf(&text, "%sk%d", i ? ", " : "", i);
    buf_printf(&text,
               /* RULE A4-a-write-takes-the-number-that-its-guard-returned */
               ") AS (%s) SELECT g.* FROM (SELECT 1 / count(*) AS one,"
               " count(set_config('" KEPT "', k%d::text, true)) AS kept FROM g) AS must"
               " LEFT JOIN g ON must.one >= 0 AND must.kept >= 0",
               s->text, column);
    if (!text.failed)
        s->keep = make_stmt((pg_conn *)s->base.conn, s->base.sql, (slice){text.at, text.size});
    s->keep_column = column;
    buf_free(&text);
    return s->keep;
}

/* Copies SQL; in the place of the parameters in `which` it reads the number that the server has
 * kept. */
static void add_taking(buf *out, const char *text, uint32_t which)
{
    while (*text) {
        char *end = NULL;
        long number = *text == '$' ? strtol(text + 1, &end, 10) : 0;
        if (number >= 1 && number <= 32 && which >> (number - 1) & 1) {
            buf_text(out, "current_setting('" KEPT "')::bigint");
            text = end;
        } else {
            buf_char(out, *text++);
        }
    }
}

pg_stmt *pg_stmt_take(pg_stmt *s, uint32_t which)
{
    if (s->take)
        return s->takes == which ? s->take : NULL;
    buf text;
    buf_init(&text, TEXT_MAX);
    add_taking(&text, s->text, which);
    if (!text.failed)
        s->take = make_stmt((pg_conn *)s->base.conn, s->base.sql, (slice){text.at, text.size});
    s->takes = which;
    buf_free(&text);
    return s->take;
}
