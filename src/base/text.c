/* Nearly all text is ASCII, so the check runs over eight bytes at a time as long as none of them
 * has its high bit set, and looks at single characters only from there on. The ranges of the
 * second byte are those of RFC 3629, section 4: they alone rule out overlong forms, surrogates
 * and everything past U+10FFFF. */
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>

size_t text_char(slice s)
{
    if (s.size == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)s.at;
    unsigned low = 0x80, high = 0xBF;
    size_t size;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        size = 2;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        size = 3;
        low = p[0] == 0xE0 ? 0xA0 : low;
        high = p[0] == 0xED ? 0x9F : high;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        size = 4;
        low = p[0] == 0xF0 ? 0x90 : low;
        high = p[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (s.size < size || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return size;
}

int text_is_printable(slice c)
{
    unsigned char first = (unsigned char)c.at[0];
    if (c.size == 1)
        return first >= 0x20 && first < 0x7F;
    unsigned char second = (unsigned char)c.at[1];
    if (c.size == 2)
        return !(first == 0xC2 && second < 0xA0);
    if (c.size == 3 && first == 0xE2 && second == 0x80)
        return c.at[2] != '\xA8' && c.at[2] != '\xA9';
    return 1;
}

/* How many bytes from the beginning are UTF-8. */
static size_t good_bytes(slice s)
{
    size_t i = 0;
    while (i < s.size) {
        uint64_t eight;
        while (s.size - i >= sizeof eight) {
            memcpy(&eight, s.at + i, sizeof eight);
            if (eight & UINT64_C(0x8080808080808080))
                break;
            i += sizeof eight;
        }
        if (i == s.size)
            break;
        size_t size = text_char((slice){s.at + i, s.size - i});
        if (size == 0)
            break;
        i += size;
    }
    return i;
}

int text_is_utf8(slice s)
{
    return good_bytes(s) == s.size;
}

pawl_code text_check(slice s, size_t max, const char *what, error *err)
{
    if (!s.at)
        return error_set(err, PAWL_INVALID, "the %s is NULL", what);
    if (s.size > max) {
        error_set(err, PAWL_LIMIT, "the %s is too long", what);
        error_detail(err, "%zu bytes; at most %zu are allowed", s.size, max);
        return PAWL_LIMIT;
    }

    const char *nul = s.size > 0 ? memchr(s.at, '\0', s.size) : NULL;
    size_t good = nul ? 0 : good_bytes(s);
    if (!nul && good == s.size)
        return PAWL_OK;
    error_set(err, PAWL_INVALID, nul ? "the %s has a NUL inside" : "the %s is not UTF-8", what);
    error_detail(err, "at byte %zu of %zu", nul ? (size_t)(nul - s.at) : good, s.size);
    error_hint(err, "text is UTF-8 without a NUL; anything else is passed as bytes");
    return PAWL_INVALID;
}

void text_clip(char *out, size_t room, slice s)
{
    size_t used = 0;
    while (s.size > 0) {
        size_t size = text_char(s);
        size_t taken = size ? size : 1;
        if (used + taken >= room)
            break;
        memmove(out + used, size && s.at[0] ? s.at : "?", taken); /* the two may overlap */
        used += taken;
        s = (slice){s.at + taken, s.size - taken};
    }
    out[used] = '\0';
}

/* Returns the size without the beginning of a last character whose end was cut off. */
static size_t without_part(const char *at, size_t size)
{
    size_t last = size;
    while (last > 0 && size - last < 3 && ((unsigned char)at[last - 1] & 0xC0) == 0x80)
        last--;
    if (last == 0 || (unsigned char)at[last - 1] < 0xC0)
        return size;
    return text_char((slice){at + last - 1, size - last + 1}) ? size : last - 1;
}

void text_print(char *out, size_t room, const char *format, va_list args)
{
    int wanted = format ? vsnprintf(out, room, format, args) : 0;
    size_t size = wanted < 0 ? 0 : (size_t)wanted;
    if (size >= room)
        size = without_part(out, room - 1);
    text_clip(out, room, (slice){out, size});
}

static int is_joint(const char *at)
{
    return at[0] == ':' && at[1] == ' ';
}

void text_drop_empty_parts(char *text)
{
    char *out = text;
    for (const char *at = text; *at;) {
        if (is_joint(at) && (out == text || is_joint(at + 2) || !at[2]))
            at += 2;
        else
            *out++ = *at++;
    }
    *out = '\0';
}
