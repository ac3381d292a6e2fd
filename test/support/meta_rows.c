/* The statements are used as guards, as tries and as plain writes. Those that may be guards return
 * a row if they have changed something. */
#include "support/meta_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

const db_sql META_SET = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                         " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                         "ti"};
const db_sql META_TAKE = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                          " ON CONFLICT (name) DO NOTHING RETURNING number",
                          "ti"};
const db_sql META_RAISE = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 AND number = $2 RETURNING number", "ti"};
const db_sql META_GET = {"SELECT number FROM {meta} WHERE name = $1", "t"};
const db_sql META_DROP = {"DELETE FROM {meta} WHERE name = $1", "t"};
const db_sql META_COUNT = {"SELECT count(*) FROM {meta} WHERE name = $1", "t"};

int64_t meta_number(committer_fixture *b, const char *name)
{
    return conf_number(b->db, &META_GET, VALUES(db_text(slice_of(name))));
}

db_value meta_name(conf_ticket *t, const char *what, int number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s.%d", what, number);
    char *copy = arena_copy(t->arena, (slice){text, (size_t)n});
    assert_non_null(copy);
    return db_text((slice){copy, (size_t)n});
}
