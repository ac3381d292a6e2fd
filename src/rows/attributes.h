/* Attributes of runs: they are read from JSON, checked, and written by the units that record the
 * ops of a run. */
#ifndef ROWS_ATTRIBUTES_H
#define ROWS_ATTRIBUTES_H

#include "db/unit.h"

/* The type of an attribute, as the table {attributes} stores it. */
typedef enum { ATTRIBUTE_TEXT = 1, ATTRIBUTE_NUMBER = 2, ATTRIBUTE_BOOLEAN = 3 } attribute_kind;

typedef struct attribute {
    attribute_kind kind;
    slice
        text; /* a text as it is; a number as number_write() writes it, and a boolean as 1 or 0, to
                 be cast to {REAL} */
} attribute;

/* Reads a JSON scalar as an attribute, whose text is allocated in the arena. PAWL_INVALID for
 * anything else, null included; `what` names the value in the error. */
pawl_code attribute_read(attribute *a, arena *memory, const char *json, const char *what,
                         error *err);

/* A change of an attribute: it is to be set or, where `there` is 0, removed. */
typedef struct attribute_set {
    struct attribute_set *next;
    slice name;
    int there;
    attribute value;
} attribute_set;

/* Reads a change of an attribute from JSON text; null is a removal. The struct and its texts are
 * allocated in the arena. Errors: INVALID, LIMIT, NOMEM; `what` names the value in the error. */
pawl_code attributes_read(attribute_set **out, arena *memory, const char *name, const char *json,
                          const char *what, error *err);

/* Reads a JSON object of attributes, none of which may be null. If a name is in it twice, the first
 * one counts. */
pawl_code attributes_read_all(attribute_set **out, arena *memory, const char *json, error *err);

/* Adds the writes of a list of attributes, in which no name is twice. The list must live as long as
 * the unit. */
void attributes_write(unit *u, int64_t run, const attribute_set *list);

/* As attributes_write(), for a run whose key is a value of another statement of the unit
 * (db_from()). `key` is unit_key() of the rows. */
void attributes_write_of(unit *u, db_value run, uint64_t key, const attribute_set *list);

/* Selects the names of a run's attributes: column 0, for the run's key $1. */
extern const db_sql ATTRIBUTE_NAMES;

#endif
