/* Reading a filter. A prefix of ids becomes a range of ids, which an index can answer. The end of
 * the range is the prefix with its last character raised by one. The result has to be a valid
 * character again: databases compare bytes, but accept UTF-8 only. */
#include "query/filter.h"

#include <stdint.h>

#include "base/options.h"
#include "base/text.h"

enum {
    LIMIT = 100,
    PHASES = 6,
    LAST_CHARACTER = 0x10FFFF,
    SURROGATES = 0xD800,
    BEHIND_SURROGATES = 0xE000,
};

/* ---- Prefixes ---- */

/* Decodes one character of UTF-8, which has been validated before. */
static uint32_t decode_utf8(slice s)
{
    static const unsigned char LEAD[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *p = (const unsigned char *)s.at;
    uint32_t c = p[0] & LEAD[s.size];
    for (size_t i = 1; i < s.size; i++)
        c = c << 6 | (p[i] & 0x3F);
    return c;
}

static size_t encode_utf8(uint32_t c, char out[4])
{
    static const unsigned char MARKS[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)(MARKS[size] | c);
    return size;
}

/* Where the last character begins. */
static size_t last_character(slice s)
{
    size_t at = s.size - 1;
    while (at > 0 && ((unsigned char)s.at[at] & 0xC0) == 0x80)
        at--;
    return at;
}

slice filter_beyond(arena *memory, slice prefix, int *failed)
{
    while (prefix.size > 0) {
        size_t at = last_character(prefix);
        uint32_t c = decode_utf8((slice){prefix.at + at, prefix.size - at});
        prefix.size = at;
        if (c == LAST_CHARACTER)
            continue; /* no character is larger: raise the one before it */
        char *out = arena_alloc(memory, at + 4);
        if (!out) {
            *failed = 1;
            break;
        }
        memcpy(out, prefix.at, at);
        c = c + 1 == SURROGATES ? BEHIND_SURROGATES : c + 1;
        return (slice){out, at + encode_utf8(c, out + at)};
    }
    return (slice){NULL, 0};
}

/* ---- Filters ---- */

static pawl_code check_texts(const pawl_filter *o, error *err)
{
    pawl_code rc = options_text(slice_of(o->workflow), PAWL_MAX_NAME, "workflow", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->id_prefix), PAWL_MAX_ID, "id_prefix", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->after_id), PAWL_MAX_ID, "after_id", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->attribute), PAWL_MAX_NAME, "attribute", err);
    if (rc == PAWL_OK && !o->attribute != !o->attribute_value) {
        error_set(err, PAWL_INVALID, "of attribute and attribute_value only one is given");
        error_hint(err, "give both, or neither");
        return PAWL_INVALID;
    }
    return rc;
}

static pawl_code check_numbers(const pawl_filter *o, error *err)
{
    pawl_code rc = options_number(o->limit, 0, "limit", err);
    if (rc == PAWL_OK)
        rc = options_number(o->created_after_ms, 0, "created_after_ms", err);
    if (rc == PAWL_OK)
        rc = options_number(o->created_before_ms, 0, "created_before_ms", err);
    if (rc == PAWL_OK)
        rc = options_number(o->finished_before_ms, 0, "finished_before_ms", err);
    if (rc == PAWL_OK && (o->phases & ~((INT64_C(1) << PHASES) - 1)) != 0) {
        error_set(err, PAWL_INVALID, "the option phases has a bit that is no phase");
        error_detail(err, "0x%llx", (unsigned long long)o->phases);
        error_hint(err, "put it together from 1 << PAWL_RUN_HELD and its like, or leave it 0");
        return PAWL_INVALID;
    }
    return rc;
}

static pawl_code fill_filter(filter *f, const pawl_filter *o, error *err)
{
    f->workflow = slice_of(o->workflow);
    f->after_id = slice_of(o->after_id);
    f->attribute = slice_of(o->attribute);
    f->phases = o->phases ? o->phases : -1;
    f->created_after_ms = o->created_after_ms ? o->created_after_ms : INT64_MIN;
    f->created_before_ms = o->created_before_ms ? o->created_before_ms : INT64_MAX;
    f->finished_before_ms = o->finished_before_ms;
    f->limit = o->limit ? o->limit : LIMIT;
    f->oldest_first = o->oldest_first == 1;
    int failed = 0;
    if (o->id_prefix && o->id_prefix[0]) {
        f->prefix = slice_of(o->id_prefix);
        f->beyond = filter_beyond(f->memory, f->prefix, &failed);
    }
    if (failed)
        return error_nomem(err);
    if (!o->attribute)
        return PAWL_OK;
    return attribute_read(&f->value, f->memory, o->attribute_value, "attribute_value", err);
}

pawl_code filter_read(filter *f, const pawl_filter *given, error *err)
{
    pawl_filter o;
    *f = (filter){0};
    pawl_code rc = options_read(&o, sizeof o, given, err);
    if (rc == PAWL_OK)
        rc = check_texts(&o, err);
    if (rc == PAWL_OK)
        rc = check_numbers(&o, err);
    if (rc != PAWL_OK)
        return rc;
    f->memory = arena_new(0);
    rc = f->memory ? fill_filter(f, &o, err) : error_nomem(err);
    if (rc != PAWL_OK)
        filter_free(f);
    return rc;
}

void filter_free(filter *f)
{
    arena_free(f->memory);
    f->memory = NULL;
}
