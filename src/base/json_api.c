/* The public JSON functions that need no run: reading JSON by pointer, checking it, writing it.
 *
 * These functions take any text, so they check all of it before they look into it. That makes the
 * answer depend on the text alone, and not on where in it something is wrong. */
#include <stdlib.h>

#include "base/json.h"
#include "base/json_write.h"

int64_t pawl_get_int(const char *json, const char *pointer, int64_t fallback)
{
    slice part;
    int64_t value;
    if (value_get(json, pointer, &part) != PAWL_NUMBER || value_int(part, &value) != 0)
        return fallback;
    return value;
}

double pawl_get_real(const char *json, const char *pointer, double fallback)
{
    slice part;
    double value;
    if (value_get(json, pointer, &part) != PAWL_NUMBER || value_real(part, &value) != 0)
        return fallback;
    return value;
}

int pawl_get_bool(const char *json, const char *pointer, int fallback)
{
    slice part;
    pawl_kind kind = value_get(json, pointer, &part);
    return kind == PAWL_TRUE ? 1 : kind == PAWL_FALSE ? 0 : fallback;
}

int64_t pawl_get_count(const char *json, const char *pointer)
{
    slice part;
    value_get(json, pointer, &part);
    return value_count(part);
}

pawl_kind pawl_get_kind(const char *json, const char *pointer)
{
    slice part;
    return value_get(json, pointer, &part);
}

int64_t pawl_get_text(const char *json, const char *pointer, char *out, size_t room)
{
    slice part;
    room = out ? room : 0;
    if (value_get(json, pointer, &part) == PAWL_STRING)
        return (int64_t)value_unescape(part, out, room);
    if (room > 0)
        out[0] = '\0';
    return -1;
}

int64_t pawl_get_json(const char *json, const char *pointer, char *out, size_t room)
{
    slice part;
    room = out ? room : 0;
    if (value_get(json, pointer, &part) != PAWL_NOTHING)
        return (int64_t)value_copy(part, out, room);
    if (room > 0)
        out[0] = '\0';
    return -1;
}

pawl_code pawl_json_check(const char *json, size_t *at)
{
    slice text = {json, json ? strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1) : 0};
    return value_check(text, at);
}

char *pawl_json_new(const char *format, ...)
{
    buf b;
    va_list args;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    va_start(args, format);
    pawl_code rc = value_write(&b, format, args);
    va_end(args);
    if (rc == PAWL_OK)
        return b.at;
    buf_free(&b);
    return NULL;
}

void pawl_free(void *memory)
{
    free(memory);
}
