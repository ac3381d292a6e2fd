/* Attributes of runs on their way into the database: checked at the edge, written in the units
 * that record what the run has done. */
#ifndef ROWS_ATTRIBUTES_H
#define ROWS_ATTRIBUTES_H

#include "db/unit.h"

/* A typed value that runs are found by, as {attributes} has it. */
typedef enum { ATTRIBUTE_TEXT = 1, ATTRIBUTE_NUMBER = 2, ATTRIBUTE_BOOLEAN = 3 } attribute_kind;

typedef struct attribute {
    attribute_kind kind;
    slice
        text; /* of a text: it; otherwise the number, in the one way that number_write() has for it,
                   to be cast to {REAL} */
} attribute;

/* Read a JSON scalar as an attribute; its text is in the arena. PAWL_INVALID for anything else,
 * null included; `what` names it. */
pawl_code attribute_read(attribute *a, arena *memory, const char *json, const char *what,
                         error *err);

/* An attribute with its name. Not there: it is to be taken away. */
typedef struct attribute_set {
    struct attribute_set *next;
    slice name;
    int there;
    attribute value;
} attribute_set;

/* Read one, from JSON text; null takes it away. It is in the arena, with its texts. PAWL_INVALID,
 * LIMIT or NOMEM; `what` names it. */
pawl_code attributes_read(attribute_set **out, arena *memory, const char *name, const char *json,
                          const char *what, error *err);

/* Read a JSON object of them, none of which may be null. */
pawl_code attributes_read_all(attribute_set **out, arena *memory, const char *json, error *err);

/* Write those of a list, in which no name is twice. They live as long as the unit. */
void attributes_write(unit *u, int64_t run, const attribute_set *list);

/* The same where the run's key is what another statement of the unit gives (db_from); `key` as
 * unit_key() names the rows. */
void attributes_write_of(unit *u, db_value run, uint64_t key, const attribute_set *list);

/* Names of what a run has: column 0, for key $1. */
extern const db_sql ATTRIBUTE_NAMES;

#endif
