/* The units that delete a run. Only this file lists the tables that have rows of runs: a new table
 * with such rows has to be added to REST. Rows of the change feed stay until they are old: its
 * readers pass over a run that is gone. */
#include "rows/delete_units.h"

static const db_sql GONE = {"SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM {runs} WHERE run = $1)", "i"};

static const db_sql ENDED = {"DELETE FROM {runs} WHERE run = $1"
                             " AND phase IN ({DONE}, {FAILED}, {CANCELLED})"
                             " RETURNING run",
                             "i"};
static const db_sql ANY = {"DELETE FROM {runs} WHERE run = $1 RETURNING run", "i"};

static const db_sql REST[] = {
    {"DELETE FROM {journal} WHERE run = $1", "i"},
    {"DELETE FROM {inbox} WHERE run = $1", "i"},
    {"DELETE FROM {generations} WHERE run = $1", "i"},
    {"DELETE FROM {receipts} WHERE run = $1", "i"},
    {"DELETE FROM {attributes} WHERE run = $1", "i"},
    {"DELETE FROM {state} WHERE run = $1", "i"},
    {"DELETE FROM {tasks} WHERE run = $1", "i"},
};

/* Deletes from the long tables, a bounded number of rows at a time. */
static const db_sql SOME[] = {
    {"DELETE FROM {journal} WHERE pos IN (SELECT pos FROM {journal} WHERE run = $1 LIMIT 5000)",
     "i"},
    {"DELETE FROM {inbox} WHERE run = $1 AND seq IN"
     " (SELECT seq FROM {inbox} WHERE run = $1 LIMIT 5000)",
     "i"},
};
/* Adds the deletion of all rows but that in {runs}. With `some` at most a bounded number of rows is
 * deleted from each of the long tables, which come first. */
static void delete_rest(unit *u, int64_t run, int some)
{
    const db_value key = db_int(run);
    for (size_t i = 0; i < sizeof REST / sizeof *REST; i++) {
        int bounded = some && i < sizeof SOME / sizeof *SOME;
        unit_write(u, bounded ? &SOME[i] : &REST[i], unit_key("delete", run + (int64_t)i), &key, 1);
    }
}

void delete_units_run(unit *u, int64_t run, int force)
{
    const db_value key = db_int(run);
    unit_guard(u, force ? &ANY : &ENDED, "there", unit_key("runs", run), &key, 1);
    delete_rest(u, run, 0);
}

void delete_units_leftovers(unit *u, int64_t run)
{
    const db_value key = db_int(run);
    unit_guard(u, &GONE, "gone", unit_key("runs", run), &key, 1);
    delete_rest(u, run, 1);
}
