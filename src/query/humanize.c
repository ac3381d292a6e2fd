/* Times and texts for sentences. Dates are computed here because the functions of the C library
 * depend on a time zone and a locale, and have a limited range. A number of days becomes a date by
 * eras of 400 years, which all have the same length. */
#include "query/humanize.h"

#include "base/json_write.h"
#include "base/text.h"

enum {
    DAY_MS = 86400000,
    ERA_DAYS = 146097,
    TO_MARCH_0000 = 719468, /* days from March 1st of the year 0 to 1970 */
    LINE = 200,
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The years of this computation begin in March, so that a leap day is the last day of its year. */
static void put_date(buf *b, int64_t days)
{
    days += TO_MARCH_0000;
    int64_t era = floor_div(days, ERA_DAYS);
    int64_t day = days - era * ERA_DAYS;
    int64_t year = (day - day / 1460 + day / 36524 - day / (ERA_DAYS - 1)) / 365;
    day -= 365 * year + year / 4 - year / 100;
    int64_t month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5;
    month = month < 10 ? month + 3 : month - 9;
    year += era * 400 + (month <= 2);
    buf_printf(b, year > 9999 ? "+%lld-%02d-%02d" : "%04lld-%02d-%02d", (long long)year, (int)month,
               (int)day + 1);
}

void humanize_time(buf *b, int64_t ms)
{
    int64_t days = floor_div(ms, DAY_MS);
    int rest = (int)(ms % DAY_MS);
    rest += rest < 0 ? DAY_MS : 0;
    put_date(b, days);
    buf_printf(b, "T%02d:%02d:%02d.%03dZ", rest / 3600000, rest / 60000 % 60, rest / 1000 % 60,
               rest % 1000);
}

void humanize_span(buf *b, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *name;
    } UNITS[] = {{DAY_MS, "day"},
                 {3600000, "hour"},
                 {60000, "minute"},
                 {1000, "second"},
                 {1, "millisecond"}};
    uint64_t span = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    size_t u = 0;
    while (UNITS[u].ms > 1 && span < (uint64_t)UNITS[u].ms)
        u++;
    uint64_t count = span / (uint64_t)UNITS[u].ms;
    buf_printf(b, "%llu %s%s", (unsigned long long)count, UNITS[u].name, count == 1 ? "" : "s");
}

/* Cuts a text to LINE bytes, between two characters. */
static slice clip_line(const char *text, int *was_cut)
{
    slice s = slice_of(text);
    size_t size = 0;
    while (size < s.size && size < LINE) {
        size_t one = text_char((slice){s.at + size, s.size - size});
        size += one ? one : 1;
    }
    *was_cut = size < s.size;
    return (slice){s.at, size};
}

/* Writes a character that may not stand as it is, as JSON does: "\n", "\u001b", "\u2028". */
static void put_unprintable(buf *b, slice c)
{
    const unsigned char *p = (const unsigned char *)c.at;
    unsigned code = c.size == 1   ? p[0]
                    : c.size == 2 ? (p[0] & 0x1FU) << 6 | (p[1] & 0x3FU)
                                  : (p[0] & 0x0FU) << 12 | (p[1] & 0x3FU) << 6 | (p[2] & 0x3FU);
    if (code < 0x20)
        value_escape(b, c);
    else
        buf_printf(b, "\\u%04x", code);
}

/* Writes text that stays on its line, and of which a terminal obeys nothing. Between quotes, a
 * quote and a backslash are escaped too. A byte that is no character becomes a question mark. */
static void put_escaped(buf *b, slice text, int quoted)
{
    while (text.size > 0) {
        size_t size = text_char(text);
        slice c = {text.at, size ? size : 1};
        if (size == 0)
            buf_char(b, '?');
        else if (!text_is_printable(c)) /* RULE what-a-terminal-obeys-is-escaped */
            put_unprintable(b, c);
        else if (quoted) /* RULE messages-are-escaped-once */
            value_escape(b, c);
        else
            buf_add(b, c);
        text = (slice){text.at + c.size, text.size - c.size};
    }
}

void humanize_message(buf *b, const char *message)
{
    int was_cut;
    put_escaped(b, clip_line(message, &was_cut), 0);
    if (was_cut)
        buf_text(b, " …");
}

void humanize_name(buf *b, const char *name)
{
    int was_cut;
    buf_char(b, '"');
    put_escaped(b, clip_line(name, &was_cut), 1);
    buf_text(b, was_cut ? " …\"" : "\"");
}
