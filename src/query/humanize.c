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

/* Without quotes only control characters need escaping: they could begin another line, or send
 * commands to a terminal. */
void humanize_message(buf *b, const char *message)
{
    int was_cut;
    slice text = clip_line(message, &was_cut);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < 0x20) /* RULE messages-are-escaped-once */
            value_escape(b, (slice){text.at + i, 1});
        else
            buf_char(b, text.at[i]);
    }
    if (was_cut)
        buf_text(b, " …");
}

void humanize_name(buf *b, const char *name)
{
    int was_cut;
    buf_char(b, '"');
    value_escape(b, clip_line(name, &was_cut));
    buf_text(b, was_cut ? " …\"" : "\"");
}
