/* Steps live in the disk fixture until it is freed, so that a test may look at each at any time.
 * What was answered is copied out of the unit, whose memory may be used again. */
#include "support/disk_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_MAX (8 * 1024 * 1024)

void disk_init(disk_fixture *r, const char *path)
{
    *r = (disk_fixture){.count = 0};
    scratch_suffix(r->path, path, "");
    r->clock = clock_fake_new(1000000);
    r->payload = calloc(1, PAYLOAD_MAX);
    if (!r->clock || !r->payload || vfs_shim_register() != 0)
        scratch_die("setting up a rig");
    vfs_shim_reset();
    atomic_store(&vfs_shim.quick, 1);
}

void disk_free(disk_fixture *r)
{
    disk_close(r);
    for (int i = 0; i < r->count; i++)
        arena_free(r->steps[i].arena);
    clock_fake_free(r->clock);
    ledger_free(&r->ledger);
    free(r->payload);
    vfs_shim_reset();
}

static int on_connect(void *native, void *arg)
{
    disk_fixture *r = arg;
    char sql[64];
    r->native = native;
    if (r->cache_pages == 0)
        return 0;
    snprintf(sql, sizeof sql, "PRAGMA cache_size = %d", r->cache_pages);
    sqlite3_exec(native, sql, NULL, NULL, NULL); /* this may fail, since the disk may be broken */
    return 0;
}

pawl_code disk_open(disk_fixture *r)
{
    char url[TMP_PATH + 64];
    snprintf(url, sizeof url, "sqlite:%s", r->path);
    db_options options = {.url = url,
                          .on_connect = on_connect,
                          .on_connect_arg = r,
                          .clock = clock_fake_source(r->clock),
                          .by_hand = 1,
                          .wal_bytes = r->wal_bytes,
                          .vfs = VFS_SHIM_NAME};
    committer_options by_hand = {.by_hand = 1};
    memset(&r->err, 0, sizeof r->err);
    pawl_code rc = db_open(&r->db, &options, &r->err);
    if (rc != PAWL_OK) {
        r->db = NULL;
        return rc;
    }
    rc = committer_open(&r->committer, r->db, &by_hand, &r->err);
    if (rc != PAWL_OK) {
        r->committer = NULL;
        disk_close(r);
    }
    return rc;
}

void disk_close(disk_fixture *r)
{
    if (r->committer)
        committer_close(r->committer);
    if (r->db)
        db_close(r->db);
    r->committer = NULL;
    r->db = NULL;
}

pawl_code disk_make_runs(disk_fixture *r, int64_t count)
{
    return steps_make_runs(r->committer, 1, count);
}

static void on_answer(unit *u, void *arg)
{
    disk_step *s = arg;
    s->answer = u->answer;
    s->code = u->code;
    if (s->disk->on_answer)
        s->disk->on_answer(s, s->disk->on_answer_arg);
    ledger_entry e = step_entry(&s->step, u);
    ledger_add(&s->disk->ledger, &e);
    if (u->answer == UNIT_UNDECIDED) {
        s->undecided++;
        return;
    }
    s->finals++;
    s->order = ++s->disk->finals;
    s->dirty = vfs_shim_wal_dirty();
    snprintf(s->refused, sizeof s->refused, "%s", u->refused ? u->refused : "");
    snprintf(s->message, sizeof s->message, "%s", u->message ? u->message : "");
}

disk_step *disk_submit(disk_fixture *r, submitter *owner, int64_t run, int64_t seq, size_t bytes)
{
    if (r->count == DISK_STEPS || bytes > PAYLOAD_MAX)
        scratch_die("too much for a rig");
    disk_step *s = &r->steps[r->count++];
    slice data = {r->payload, bytes};
    *s = (disk_step){.disk = r, .arena = arena_new(0)};
    s->step = (step){run, seq, ++r->marks, STEP_GOOD, data};
    if (!s->arena)
        scratch_die("memory");
    s->unit = step_unit(s->arena, owner, &s->step);
    s->unit->done = on_answer;
    s->unit->done_arg = s;
    committer_submit(r->committer, s->unit);
    return s;
}

void disk_drive(disk_fixture *r)
{
    while (committer_next_ns(r->committer) != INT64_MAX && committer_drive(r->committer))
        continue;
}

int disk_drive_on(disk_fixture *r, int times)
{
    clock_source *clock = clock_fake_source(r->clock);
    for (int i = 0; i < times; i++) {
        disk_drive(r);
        int64_t next = committer_next_ns(r->committer);
        if (next == INT64_MAX)
            return 1;
        int64_t wait = next - clock->mono_ns(clock);
        clock_fake_advance(r->clock, wait > 0 ? (wait + 999999) / 1000000 : 1);
    }
    disk_drive(r);
    return committer_next_ns(r->committer) == INT64_MAX;
}

int disk_recovered(disk_fixture *r, const disk_step *s)
{
    char copy[TMP_PATH];
    sqlite3 *native = NULL;
    sqlite3_stmt *q = NULL;
    scratch_suffix(copy, r->path, ".copy");
    scratch_copy_db(r->path, copy);
    if (sqlite3_open(copy, &native) != SQLITE_OK ||
        sqlite3_prepare_v2(native, "SELECT 1 FROM pawl_journal WHERE run = ? AND at = ?", -1, &q,
                           NULL) != SQLITE_OK)
        scratch_die("opening a copy");
    sqlite3_bind_int64(q, 1, s->step.run);
    sqlite3_bind_int64(q, 2, s->step.mark);
    int found = sqlite3_step(q) == SQLITE_ROW;
    sqlite3_finalize(q);
    sqlite3_close(native);
    scratch_remove_db(copy);
    return found;
}

int disk_count_open(const disk_fixture *r)
{
    int open = 0;
    for (int i = 0; i < r->count; i++)
        open += r->steps[i].finals == 0;
    return open;
}

/* ---- A disk fixture in a folder of the test ---- */

int disk_set_up(void **state)
{
    static disk_folder s;
    s = (disk_folder){.folder = ""};
    tmp_dir_make(s.folder);
    tmp_path(s.path, s.folder, "app.db");
    disk_init(&s.disk, s.path);
    *state = &s;
    return 0;
}

int disk_tear_down(void **state)
{
    disk_folder *s = *state;
    disk_free(&s->disk);
    tmp_dir_remove(s->folder);
    return 0;
}

disk_fixture *disk_open_with_runs(disk_folder *s, int64_t runs)
{
    TMP_CHECK(disk_open(&s->disk) == PAWL_OK);
    TMP_CHECK(disk_make_runs(&s->disk, runs) == PAWL_OK);
    return &s->disk;
}
