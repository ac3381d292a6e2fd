/* Attributes: reading them from JSON, and writing their rows. A number is passed as text and cast
 * by the database, since parameters are integers, text or bytes. Texts are limited because they are
 * in an index, and some databases can only index short texts. */
#include "rows/attributes.h"

#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"

const db_sql ATTRIBUTE_NAMES = {"SELECT name FROM {attributes} WHERE run = $1", "i"};

static const db_sql SET_TEXT = {
    "INSERT INTO {attributes} (run, name, kind, value) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (run, name) DO UPDATE SET kind = excluded.kind, value = excluded.value,"
    " number = NULL",
    "itit"};

static const db_sql SET_NUMBER = {
    "INSERT INTO {attributes} (run, name, kind, number) VALUES ($1, $2, $3, CAST($4 AS {REAL}))"
    " ON CONFLICT (run, name) DO UPDATE SET kind = excluded.kind, number = excluded.number,"
    " value = NULL",
    "itit"};

static const db_sql TAKE_AWAY = {"DELETE FROM {attributes} WHERE run = $1 AND name = $2", "it"};

/* ---- Reading ---- */

static pawl_code no_scalar(const char *what, error *err)
{
    error_set(err, PAWL_INVALID, "the %s is not a string, number or boolean", what);
    error_hint(err, "give JSON text: \"\\\"text\\\"\", \"12.5\", \"true\"");
    return PAWL_INVALID;
}

static pawl_code read_number(attribute *a, arena *memory, slice part, error *err)
{
    char text[NUMBER_ROOM];
    double number;
    if (value_real(part, &number) != 0 || number_write(number, text) != 0)
        return error_set(err, PAWL_INVALID, "the number of an attribute is too large");
    a->kind = ATTRIBUTE_NUMBER;
    a->text = (slice){arena_copy(memory, slice_of(text)), strlen(text)};
    return PAWL_OK;
}

pawl_code attribute_read(attribute *a, arena *memory, const char *json, const char *what,
                         error *err)
{
    slice part;
    pawl_code rc = PAWL_OK;
    switch (value_get(json, "", &part)) {
    case PAWL_STRING:
        a->kind = ATTRIBUTE_TEXT;
        a->text = slice_of(value_text(memory, part));
        break;
    case PAWL_NUMBER:
        rc = read_number(a, memory, part, err);
        break;
    case PAWL_TRUE:
    case PAWL_FALSE:
        a->kind = ATTRIBUTE_BOOLEAN;
        a->text = slice_of(part.at[0] == 't' ? "1" : "0");
        break;
    default:
        return no_scalar(what, err);
    }
    return rc == PAWL_OK && !a->text.at ? error_nomem(err) : rc;
}

static pawl_code check_name(slice name, error *err)
{
    if (name.at && name.size == 0)
        return error_set(err, PAWL_INVALID, "the name of an attribute is empty");
    return text_check(name, PAWL_MAX_NAME, "name of an attribute", err);
}

static pawl_code check_value(const attribute *a, error *err)
{
    if (a->kind != ATTRIBUTE_TEXT || a->text.size <= PAWL_MAX_ID)
        return PAWL_OK;
    error_set(err, PAWL_LIMIT, "the text of an attribute is longer than %d bytes", PAWL_MAX_ID);
    error_detail(err, "it has %zu", a->text.size);
    return PAWL_LIMIT;
}

pawl_code attributes_read(attribute_set **out, arena *memory, const char *name, const char *json,
                          const char *what, error *err)
{
    slice part;
    pawl_code rc = check_name(slice_of(name), err);
    if (rc != PAWL_OK)
        return rc;
    attribute_set *a = arena_alloc(memory, sizeof *a);
    char *copy = arena_copy(memory, slice_of(name));
    if (!a || !copy)
        return error_nomem(err);
    a->name = slice_of(copy);
    a->there = value_get(json, "", &part) != PAWL_NULL;
    if (a->there)
        rc = attribute_read(&a->value, memory, json, what, err);
    if (rc == PAWL_OK)
        rc = check_value(&a->value, err);
    *out = a;
    return rc;
}

/* Returns 1 if the list has an attribute of this name: of a name that an object has twice, the
 * first one counts. */
static int has_name(const attribute_set *list, const char *name)
{
    for (; list; list = list->next)
        if (strcmp(list->name.at, name) == 0)
            return 1;
    return 0;
}

static pawl_code read_member(attribute_set **list, arena *memory, slice key, slice part, error *err)
{
    static const char WHAT[] = "value of an attribute";
    attribute_set *a = NULL;
    char *name = value_text(memory, key);
    char *value = arena_copy(memory, part);
    if (!name || !value)
        return error_nomem(err);
    if (has_name(*list, name))
        return PAWL_OK;
    pawl_code rc = attributes_read(&a, memory, name, value, WHAT, err);
    if (rc == PAWL_OK && a && !a->there)
        rc = error_set(err, PAWL_INVALID, "the %s is null", WHAT);
    if (rc != PAWL_OK || !a)
        return rc;
    a->next = *list;
    *list = a;
    return PAWL_OK;
}

pawl_code attributes_read_all(attribute_set **out, arena *memory, const char *json, error *err)
{
    slice object, key, part;
    size_t at = 0;
    int count = 0;
    *out = NULL;
    if (value_get(json, "", &object) != PAWL_OBJECT)
        return error_set(err, PAWL_INVALID, "the option attributes is not a JSON object");
    pawl_code rc = PAWL_OK;
    while (rc == PAWL_OK && value_member(object, &at, &key, &part))
        rc = read_member(out, memory, key, part, err);
    for (const attribute_set *a = *out; a; a = a->next)
        count++;
    if (rc == PAWL_OK && count > PAWL_MAX_ATTRIBUTES)
        rc = error_set(err, PAWL_LIMIT, "a run has at most %d attributes", PAWL_MAX_ATTRIBUTES);
    return rc;
}

/* ---- Writing ---- */

void attributes_write(unit *u, int64_t run, const attribute_set *list)
{
    attributes_write_of(u, db_int(run), unit_key("attributes", run), list);
}

void attributes_write_of(unit *u, db_value run, uint64_t key, const attribute_set *list)
{
    for (const attribute_set *a = list; a; a = a->next) {
        const db_value values[] = {run, db_text(a->name), db_int(a->value.kind),
                                   db_text(a->value.text)};
        if (a->there)
            unit_write(u, a->value.kind == ATTRIBUTE_TEXT ? &SET_TEXT : &SET_NUMBER, key, values,
                       DB_COUNT(values));
        else
            unit_write(u, &TAKE_AWAY, key, values, 2);
    }
}
