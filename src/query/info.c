/* Making an info from a row of the run list. Texts are copied one after the other behind the
 * struct; a missing text becomes the default that the public header promises, so that the getters
 * need no checks. */
#include "query/info.h"

#include <stdlib.h>

/* The texts of a row, in the order in which they are copied. */
enum { ID, WORKFLOW, VERSION, STATUS, HELD, PARENT, BY, TEXTS };

pawl_phase info_phase(int64_t phase, int64_t held)
{
    int ended = phase != PAWL_RUN_LIVE && phase != PAWL_RUN_FAILING;
    return held != 0 && !ended ? PAWL_RUN_HELD : (pawl_phase)phase;
}

const char *info_held_word(int64_t held)
{
    static const char *const WORDS[] = {
        "",
        "no node has its workflow in its version",
        "its code does not fit its journal",
        "it was claimed again and again without getting further",
        "it was held by hand",
        "a clean-up has failed for good",
        "the database refuses what is to be recorded of it",
    };
    if (held < 0 || held >= (int64_t)(sizeof WORDS / sizeof *WORDS))
        return "for a reason that this version does not know";
    return WORDS[held];
}

static void read_texts(db_stmt *row, slice texts[TEXTS], pawl_phase phase)
{
    texts[ID] = read_pool_text(row, 1);
    texts[WORKFLOW] = read_pool_text(row, 2);
    texts[VERSION] = read_pool_text(row, 3);
    texts[STATUS] = read_pool_is_null(row, 7) ? SLICE_LIT("null") : read_pool_text(row, 7);
    texts[HELD] = SLICE_LIT("");
    if (phase == PAWL_RUN_HELD) {
        texts[HELD] = read_pool_text(row, 9);
        if (texts[HELD].size == 0)
            texts[HELD] = slice_of(info_held_word(read_pool_int(row, 5)));
    }
    texts[BY] = read_pool_text(row, 10);
    texts[PARENT] = read_pool_text(row, 15);
}

static void read_numbers(db_stmt *row, pawl_info *i)
{
    i->run = read_pool_int(row, 0);
    i->generation = read_pool_int(row, 6);
    i->status_seq = read_pool_int(row, 8);
    i->created_ms = read_pool_int(row, 11);
    i->updated_ms = read_pool_int(row, 12);
    i->finished_ms = read_pool_int(row, 13);
    i->wake_ms = read_pool_int(row, 14);
}

static pawl_info *info_new(db_stmt *row)
{
    slice texts[TEXTS];
    size_t size = sizeof(pawl_info);
    pawl_phase phase = info_phase(read_pool_int(row, 4), read_pool_int(row, 5));
    read_texts(row, texts, phase);
    for (int t = 0; t < TEXTS; t++)
        size += texts[t].size + 1;
    pawl_info *i = calloc(1, size);
    if (!i)
        return NULL;
    read_numbers(row, i);
    i->phase = phase;
    if (row->conn->driver->columns(row) > INFO_CHILDREN_AT)
        i->has_children = read_pool_int(row, INFO_CHILDREN_AT) != 0;
    const char **places[TEXTS] = {&i->id,   &i->workflow, &i->version, &i->status,
                                  &i->held, &i->parent,   &i->by};
    char *at = (char *)(i + 1);
    for (int t = 0; t < TEXTS; t++) {
        memcpy(at, texts[t].at, texts[t].size);
        *places[t] = at;
        at += texts[t].size + 1;
    }
    return i;
}

void pawl_info_free(pawl_info *i)
{
    free(i);
}

/* ---- Pages ---- */

pawl_code info_page_add(void *arg, db_stmt *row, error *err)
{
    info_page *page = arg;
    if (page->count == page->room) {
        size_t room = page->room ? 2 * page->room : 32;
        pawl_info **at = realloc(page->at, room * sizeof(pawl_info *));
        if (!at)
            return error_nomem(err);
        page->at = at;
        page->room = room;
    }
    pawl_info *i = info_new(row);
    if (!i)
        return error_nomem(err);
    page->at[page->count++] = i;
    return PAWL_OK;
}

void info_page_free(info_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        free(page->at[i]);
    free(page->at);
    *page = (info_page){0};
}

/* ---- What an info says ---- */

const char *pawl_phase_name(pawl_phase phase)
{
    static const char *const NAMES[] = {"live", "done", "failed", "cancelled", "failing", "held"};
    size_t number = (size_t)phase;
    return number < sizeof NAMES / sizeof *NAMES ? NAMES[number] : "?";
}

const char *pawl_info_id(const pawl_info *i)
{
    return i ? i->id : "";
}

const char *pawl_info_workflow(const pawl_info *i)
{
    return i ? i->workflow : "";
}

const char *pawl_info_version(const pawl_info *i)
{
    return i ? i->version : "";
}

pawl_phase pawl_info_phase(const pawl_info *i)
{
    return i ? i->phase : PAWL_RUN_LIVE;
}

int64_t pawl_info_generation(const pawl_info *i)
{
    return i ? i->generation : 0;
}

const char *pawl_info_status(const pawl_info *i)
{
    return i ? i->status : "null";
}

int64_t pawl_info_status_seq(const pawl_info *i)
{
    return i ? i->status_seq : 0;
}

const char *pawl_info_held(const pawl_info *i)
{
    return i ? i->held : "";
}

const char *pawl_info_parent(const pawl_info *i)
{
    return i ? i->parent : "";
}

int64_t pawl_info_depth(const pawl_info *i)
{
    return i ? i->depth : 0;
}

const char *pawl_info_by(const pawl_info *i)
{
    return i ? i->by : "";
}

int64_t pawl_info_created_ms(const pawl_info *i)
{
    return i ? i->created_ms : 0;
}

int64_t pawl_info_updated_ms(const pawl_info *i)
{
    return i ? i->updated_ms : 0;
}

int64_t pawl_info_finished_ms(const pawl_info *i)
{
    return i ? i->finished_ms : 0;
}

int64_t pawl_info_wake_ms(const pawl_info *i)
{
    return i ? i->wake_ms : 0;
}
