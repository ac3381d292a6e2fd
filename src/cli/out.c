/* Printing untrusted text. Every function walks over the characters of a text, and prints a
 * harmless character as it is and any other as an escape. Bytes that are not UTF-8 are never
 * printed as they are. */
#include "cli/out.h"

#include <string.h>
#include <pawl.h>

#define NO_CHARACTER UINT32_MAX

/* Decodes the character at *at and moves *at behind it. NO_CHARACTER: the byte begins no character
 * of UTF-8; *at moves by one. */
static uint32_t next_character(const unsigned char **at)
{
    const unsigned char *p = *at;
    int more = p[0] < 0x80 ? 0 : p[0] >= 0xF0 ? 3 : p[0] >= 0xE0 ? 2 : 1;
    static const uint32_t LEAST[] = {0, 0x80, 0x800, 0x10000};
    uint32_t c = more ? p[0] & (0x3FU >> more) : p[0];
    *at = p + 1;
    if (more && (p[0] < 0xC2 || p[0] > 0xF4))
        return NO_CHARACTER;
    for (int i = 1; i <= more; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return NO_CHARACTER;
        c = c << 6 | (p[i] & 0x3F);
    }
    if (c < LEAST[more] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return NO_CHARACTER;
    *at = p + 1 + more;
    return c;
}

/* Tells whether a terminal would obey the character as a command, or a reader would not see it. */
static int is_unsafe(uint32_t c)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } SLY[] = {
        {0x00, 0x1F},     {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200B, 0x200F},   {0x2028, 0x202E},
        {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}, {0x180E, 0x180E},
    };
    for (size_t i = 0; i < sizeof SLY / sizeof *SLY; i++)
        if (c >= SLY[i].first && c <= SLY[i].last) /* RULE the-tool-escapes-what-a-terminal-obeys */
            return 1;
    return 0;
}

/* ---- For people ---- */

static size_t put_escape(FILE *to, uint32_t c, unsigned char byte)
{
    int columns = c == NO_CHARACTER || c < 0x80 ? fprintf(to, "\\x%02x", byte)
                  : c < 0x10000                 ? fprintf(to, "\\u%04x", (unsigned)c)
                                                : fprintf(to, "\\U%08x", (unsigned)c);
    return columns > 0 ? (size_t)columns : 0;
}

static size_t put_one(FILE *to, const unsigned char **at)
{
    const unsigned char *from = *at;
    uint32_t c = next_character(at);
    const char *short_form = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
    if (short_form) {
        fputs(short_form, to);
        return 2;
    }
    if (c == NO_CHARACTER || is_unsafe(c))
        return put_escape(to, c, from[0]);
    fwrite(from, 1, (size_t)(*at - from), to);
    return 1;
}

size_t out_text(FILE *to, const char *text, size_t most)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t columns = 0;
    for (size_t count = 0; *at; count++) {
        if (most && count == most) {
            fputs("…", to);
            return columns + 1;
        }
        columns += put_one(to, &at);
    }
    return columns;
}

void out_sentence(FILE *to, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        if (*at == '\\')
            fputc(*at++, to);
        else
            put_one(to, &at);
    }
}

void out_column(FILE *to, const char *text, size_t columns)
{
    for (size_t at = out_text(to, text, 0); at < columns; at++)
        fputc(' ', to);
}

/* ---- For programs ---- */

static void put_unicode(FILE *to, uint32_t c)
{
    if (c < 0x10000)
        fprintf(to, "\\u%04x", (unsigned)c);
    else
        fprintf(to, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (c >> 10)),
                (unsigned)(0xDC00 + (c & 0x3FF)));
}

void out_string(FILE *to, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', to);
    while (*at) {
        const unsigned char *from = at;
        uint32_t c = next_character(&at);
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", (int)c);
        else if (c == NO_CHARACTER)
            put_unicode(to, 0xFFFD);
        else if (is_unsafe(c))
            put_unicode(to, c);
        else
            fwrite(from, 1, (size_t)(at - from), to);
    }
    fputc('"', to);
}

/* In JSON, control characters occur between values only, as white space; all other unsafe
 * characters are in strings, where they may be written as escapes. */
void out_json(FILE *to, const char *json)
{
    const unsigned char *at = (const unsigned char *)json;
    if (pawl_json_check(json, NULL) != PAWL_OK) {
        out_string(to, json);
        return;
    }
    while (*at) {
        const unsigned char *from = at;
        uint32_t c = next_character(&at);
        if (c < 0x20)
            fputc(' ', to);
        else if (is_unsafe(c))
            put_unicode(to, c);
        else
            fwrite(from, 1, (size_t)(at - from), to);
    }
}

/* ---- Times ---- */

/* Computes the date here, because the functions of the C library depend on a time zone and have a
 * limited range. Days become a date by eras of 400 years that begin in March, which all have the
 * same length. */
void out_time(char out[OUT_TIME], int64_t ms)
{
    int64_t days = ms / 86400000 - (ms % 86400000 < 0);
    int rest = (int)(ms % 86400000);
    rest += rest < 0 ? 86400000 : 0;
    days += 719468;
    int64_t era = days / 146097 - (days % 146097 < 0);
    int64_t day = days - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    int64_t month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5;
    month = month < 10 ? month + 3 : month - 9;
    year += era * 400 + (month <= 2);
    snprintf(out, OUT_TIME, "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", (long long)year, (int)month,
             (int)day + 1, rest / 3600000, rest / 60000 % 60, rest / 1000 % 60, rest % 1000);
}
