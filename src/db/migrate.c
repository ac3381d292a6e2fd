/* Bringing the tables up to date.
 *
 * First the version of the tables is read. A database whose pawl tables were not made by pawl, or
 * by a newer library, is refused before anything is changed. In a new database all migrations are
 * applied in one transaction; in an older one each has a transaction of its own. Each such
 * transaction reads the version again after it has begun as the only writer, and applies only what
 * is missing: if several processes start at once, one migrates and the others find nothing left to
 * do. At last the version is read once more, since a newer library may have migrated further. */
#include "db/migrate.h"

#include "base/id.h"
#include "db/world.h"

static const db_sql COUNT_TABLES = {"SELECT count(*) FROM {OUR_TABLES} AS t", ""};
static const db_sql COUNT_META = {
    "SELECT count(*) FROM {OUR_TABLES} AS t WHERE name = 'meta' AND type = 'table'", ""};
static const db_sql IS_OURS = {
    "SELECT count(*) FROM {meta} WHERE name = 'format' AND value = 'pawl' AND number = 1", ""};
static const db_sql GET_VERSION = {"SELECT number FROM {meta} WHERE name = 'schema'", ""};
static const db_sql SET_VERSION = {
    "INSERT INTO {meta} (name, number, value) VALUES ('schema', $1, $2) "
    "ON CONFLICT (name) DO UPDATE SET number = excluded.number, value = excluded.value",
    "it"};
static const db_sql NAME_DATABASE = {
    "INSERT INTO {meta} (name, number, value) VALUES ('database', $1, $2) "
    "ON CONFLICT (name) DO NOTHING",
    "it"};

static const db_sql NAME_HISTORY = {"INSERT INTO {meta} (name, number) VALUES ('history', $1)"
                                    " ON CONFLICT (name) DO NOTHING",
                                    "i"};

/* The class of the nodes' advisory locks (docs/format.md): a positive number of 32 bits. */
static const db_sql NAME_LOCKS = {"INSERT INTO {meta} (name, number) VALUES ('lock_class', $1)"
                                  " ON CONFLICT (name) DO NOTHING",
                                  "i"};

static pawl_code refuse_foreign(error *err)
{
    error_set(err, PAWL_FOREIGN, "the database has pawl tables that are not pawl's");
    error_detail(err, "tables called pawl_… exist, but not with pawl's own mark in pawl_meta");
    error_hint(err, "rename those tables, or give pawl a database of its own");
    return PAWL_FOREIGN;
}

static pawl_code count_rows(db_conn *c, const db_sql *sql, int64_t *out, error *err)
{
    int found;
    *out = 0;
    return db_number(c, sql, NULL, 0, out, &found, err);
}

/* The version of the tables: 0 when there are none. Inside a transaction. */
static pawl_code read_version(db_conn *c, int64_t *version, error *err)
{
    int64_t tables = 0, meta = 0, ours = 0;
    *version = 0;
    pawl_code rc = count_rows(c, &COUNT_TABLES, &tables, err);
    if (rc == PAWL_OK)
        rc = count_rows(c, &COUNT_META, &meta, err);
    if (rc != PAWL_OK || tables == 0)
        return rc;
    if (meta == 0)
        return refuse_foreign(err);
    rc = count_rows(c, &IS_OURS, &ours, err);
    /* Other columns than ours, or of other types. */
    if (rc == PAWL_STORAGE || rc == PAWL_DATA || (rc == PAWL_OK && ours != 1))
        return refuse_foreign(err);
    if (rc == PAWL_OK)
        rc = count_rows(c, &GET_VERSION, version, err);
    return rc;
}

static pawl_code begin_migration(db_conn *c, error *err)
{
    pawl_code rc = db_begin(c, err);
    if (rc == PAWL_BUSY)
        error_hint(err, "another program holds the database; try again when it is done");
    return rc;
}

static pawl_code record_version(db_conn *c, const struct migration *m, error *err)
{
    const db_options *o = &c->db->options;
    char id[ID_TEXT_SIZE];
    int64_t now = o->clock->now_ms(o->clock);
    if (id_uuid7(id, now, o->random) != 0)
        return error_set(err, PAWL_STORAGE, "the system gives no randomness");
    const db_value history = db_int(world_random());
    if (history.i == 0)
        return error_set(err, PAWL_STORAGE, "the system gives no randomness");
    db_value version[] = {db_int(m->number), db_text(slice_of(m->name))};
    db_value name[] = {db_int(now), db_text(slice_of(id))};
    pawl_code rc = db_run(c, &SET_VERSION, version, DB_COUNT(version), err);
    if (rc == PAWL_OK)
        rc = db_run(c, &NAME_DATABASE, name, DB_COUNT(name), err);
    const db_value locks = db_int(world_random() & INT32_MAX);
    if (rc == PAWL_OK)
        rc = db_run(c, &NAME_HISTORY, &history, 1, err);
    return rc == PAWL_OK ? db_run(c, &NAME_LOCKS, &locks, 1, err) : rc;
}

static pawl_code apply_migration(db_conn *c, const struct migration *m, error *err)
{
    buf text;
    buf_init(&text, 1024 * 1024);
    pawl_code rc = db_expand(c->driver, m->sql, &text, err);
    if (rc == PAWL_OK)
        rc = c->driver->script(c, buf_str(&text), err);
    buf_free(&text);
    return rc;
}

/* Applies the migrations that are missing, in the transaction that is open. */
static pawl_code apply_missing(db_conn *c, const struct migration *list, size_t count_, error *err)
{
    int64_t version;
    const struct migration *last = NULL;
    pawl_code rc = read_version(c, &version, err);
    for (size_t i = 0; rc == PAWL_OK && i < count_; i++) {
        if (version >= list[i].number) /* RULE migrations-look-again-under-the-lock */
            continue;
        last = &list[i];
        rc = apply_migration(c, last, err);
    }
    return rc == PAWL_OK && last ? record_version(c, last, err) : rc;
}

/* Applies some migrations, as one transaction. */
static pawl_code apply_together(db_conn *c, const struct migration *list, size_t count_, error *err)
{
    pawl_code rc = begin_migration(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = apply_missing(c, list, count_, err);
    if (rc != PAWL_OK) {
        db_rollback(c);
        return rc;
    }
    rc = db_commit(c, err);
    if (rc != PAWL_OK && c->driver->in_transaction(c))
        db_rollback(c);
    return rc;
}

static pawl_code read_version_alone(db_conn *c, int newest, int64_t *version, error *err)
{
    pawl_code rc = begin_migration(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_version(c, version, err);
    db_rollback(c);
    if (rc == PAWL_OK && *version > newest) { /* RULE a-newer-database-is-refused */
        error_set(err, PAWL_NEWER, "the database was written by a newer pawl");
        error_detail(err, "its schema is %lld, this library knows %d", (long long)*version, newest);
        error_hint(err, "use the libpawl that has written it, or a newer one");
        return PAWL_NEWER;
    }
    return rc;
}

pawl_code migrate_with(db *d, const struct migration *list, size_t count_, error *err)
{
    int64_t version = 0;
    int newest = count_ ? list[count_ - 1].number : 0;
    db_conn *c;
    error own;
    err = err ? err : &own;
    pawl_code rc = db_connect(d, DB_READER, &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_version_alone(c, newest, &version, err);
    db_disconnect(c);
    if (rc != PAWL_OK || version == newest)
        return rc;
    rc = db_connect(d, DB_WRITER, &c, err);
    /* A new database is not to wait for a sync of the disk for each migration. */
    size_t at_once = version == 0 ? count_ : 1;
    for (size_t i = 0; rc == PAWL_OK && i < count_; i += at_once)
        rc = apply_together(c, list + i, at_once, err);
    if (rc == PAWL_OK) /* a newer library may have migrated further meanwhile */
        rc = read_version_alone(c, newest, &version, err);
    if (c)
        db_disconnect(c);
    return rc;
}

pawl_code migrate(db *d, error *err)
{
    return migrate_with(d, MIGRATIONS, MIGRATION_COUNT, err);
}

static pawl_code refuse_old(int64_t version, int newest, error *err)
{
    if (version == 0) {
        error_set(err, PAWL_NOTFOUND, "there is nothing of pawl in this database");
        error_hint(err, "look at the URL; a program that drives runs makes the tables when it opens"
                        " the database");
        return PAWL_NOTFOUND;
    }
    error_set(err, PAWL_READONLY, "the tables are those of an older pawl");
    error_detail(err, "their schema is %lld, this library reads %d", (long long)version, newest);
    error_hint(err, "looking changes nothing: have a program of this version open the database"
                    " once, or look with the older one");
    return PAWL_READONLY;
}

pawl_code migrate_check(db *d, error *err)
{
    int64_t version = 0;
    int newest = MIGRATION_COUNT ? MIGRATIONS[MIGRATION_COUNT - 1].number : 0;
    db_conn *c;
    pawl_code rc = db_connect(d, DB_READER, &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_version_alone(c, newest, &version, err);
    db_disconnect(c);
    return rc == PAWL_OK && version != newest ? refuse_old(version, newest, err) : rc;
}
