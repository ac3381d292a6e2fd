/* Members and lines that several commands print. An empty text and the time 0 say that there is no
 * value: it is left out of text, and null in JSON, whose readers expect every key. */
#include "cli/print.h"

#include <stdio.h>

#include "cli/out.h"

/* Prints ,"key":"2025-01-31T12:00:00.000Z", with null for the time 0. */
void put_time(const char *key, int64_t ms)
{
    char text[OUT_TIME];
    out_time(text, ms);
    if (ms)
        printf(",\"%s\":\"%s\"", key, text);
    else
        printf(",\"%s\":null", key);
}

void put_member(const char *key, const char *text)
{
    printf(",\"%s\":", key);
    if (text[0])
        out_string(stdout, text);
    else
        fputs("null", stdout);
}

void put_line(const char *key, const char *text)
{
    if (!text[0])
        return;
    out_column(stdout, key, 12);
    out_text(stdout, text, 0);
    fputc('\n', stdout);
}

void put_time_line(const char *key, int64_t ms)
{
    char text[OUT_TIME];
    out_time(text, ms);
    if (ms)
        put_line(key, text);
}

void put_outcome(const pawl_outcome *end)
{
    if (!end) {
        fputs("null", stdout);
        return;
    }
    printf("{\"code\":\"%s\",\"value\":", pawl_code_name(pawl_outcome_code(end)));
    out_json(stdout, pawl_outcome_value(end));
    put_member("name", pawl_outcome_name(end));
    put_member("message", pawl_outcome_message(end));
    put_member("where", pawl_outcome_where(end));
    fputc('}', stdout);
}

void put_outcome_lines(const pawl_outcome *end)
{
    if (!end)
        return;
    if (pawl_outcome_code(end) == PAWL_OK) {
        put_line("result", pawl_outcome_value(end));
        return;
    }
    put_line("failure", pawl_outcome_name(end));
    put_line("message", pawl_outcome_message(end));
    put_line("where", pawl_outcome_where(end));
}
