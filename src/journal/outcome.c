/* Outcomes: a code and four texts, in one allocation. A missing text is empty or "null", so that
 * callers need no check for NULL. */
#include "journal/outcome.h"

#include <stdlib.h>

#include "base/json.h"

struct pawl_outcome {
    pawl_code code;
    const char *value;
    const char *name;
    const char *message;
    const char *where;
};

static size_t size_of(const outcome_parts *parts)
{
    return sizeof(pawl_outcome) + parts->value.size + parts->name.size + parts->message.size +
           parts->where.size + 4;
}

static const char *append_text(char **at, slice s, const char *otherwise)
{
    if (!s.at)
        return otherwise;
    char *text = *at;
    memcpy(text, s.at, s.size);
    text[s.size] = '\0';
    *at += s.size + 1;
    return text;
}

static pawl_outcome *fill_outcome(void *memory, const outcome_parts *parts)
{
    pawl_outcome *o = memory;
    if (!o)
        return NULL;
    char *at = (char *)(o + 1);
    o->code = parts->code;
    o->value = append_text(&at, parts->value, "null");
    o->name = append_text(&at, parts->name, "");
    o->message = append_text(&at, parts->message, "");
    o->where = append_text(&at, parts->where, "");
    return o;
}

pawl_outcome *outcome_make(arena *memory, const outcome_parts *parts)
{
    size_t size = size_of(parts);
    return fill_outcome(memory ? arena_alloc(memory, size) : malloc(size), parts);
}

pawl_outcome *outcome_new(pawl_code code, slice value, const char *name, const char *message,
                          const char *where)
{
    return outcome_make(
        NULL, &(outcome_parts){code, value, slice_of(name), slice_of(message), slice_of(where)});
}

pawl_outcome *outcome_held(slice reason)
{
    return outcome_make(NULL, &(outcome_parts){.code = PAWL_HELD, .message = reason});
}

/* ---- Failures as they are recorded ---- */

static int read_text(arena *memory, const char *json, const char *pointer, slice *out)
{
    slice part;
    *out = SLICE_LIT("");
    if (value_get(json, pointer, &part) == PAWL_STRING)
        *out = slice_of(value_text(memory, part));
    return out->at ? 0 : -1;
}

int outcome_read_error(outcome_parts *parts, arena *memory, slice recorded)
{
    slice part;
    const char *json = arena_copy(memory, recorded.at ? recorded : SLICE_LIT(""));
    if (!json)
        return -1;
    parts->name = parts->where = SLICE_LIT("");
    if (value_get(json, "", &part) != PAWL_OBJECT) {
        parts->message = slice_of(json);
        return 0;
    }
    int failed = read_text(memory, json, "/name", &parts->name);
    failed |= read_text(memory, json, "/message", &parts->message);
    return failed | read_text(memory, json, "/where", &parts->where);
}

pawl_outcome *outcome_failed(pawl_code code, slice recorded)
{
    outcome_parts parts = {.code = code};
    arena *memory = arena_new(0);
    pawl_outcome *o = NULL;
    if (memory && outcome_read_error(&parts, memory, recorded) == 0)
        o = outcome_make(NULL, &parts);
    arena_free(memory);
    return o;
}

/* ---- What an outcome says ---- */

const char *pawl_outcome_value(const pawl_outcome *o)
{
    return o ? o->value : "null";
}

/* A NULL outcome must not look like success. */
pawl_code pawl_outcome_code(const pawl_outcome *o)
{
    return o ? o->code : PAWL_INVALID;
}

const char *pawl_outcome_name(const pawl_outcome *o)
{
    return o ? o->name : "";
}

const char *pawl_outcome_message(const pawl_outcome *o)
{
    return o ? o->message : "";
}

const char *pawl_outcome_where(const pawl_outcome *o)
{
    return o ? o->where : "";
}

void pawl_outcome_free(pawl_outcome *o)
{
    free(o);
}
