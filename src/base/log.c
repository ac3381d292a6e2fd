/* A line is made on the stack: logging must work when memory is out. It is cut so that what is
 * left can still be read by a program: never inside an escape or a character, never inside a
 * number, and an open quote is closed. Line breaks that are not ASCII (U+0085, U+2028, U+2029) and
 * bytes that are no character at all are escaped too, as some readers of logs stumble over them. */
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/slice.h"
#include "base/text.h"

#define LINE_ROOM 1024

typedef struct line {
    char at[LINE_ROOM];
    size_t size;
} line;

/* Adds the text if `keep` bytes stay free behind it. 1: it was added; 0: nothing of it was. */
static int add_slice(line *l, slice s, size_t keep)
{
    if (l->size + s.size + keep > LINE_ROOM - 1)
        return 0;
    memcpy(l->at + l->size, s.at, s.size);
    l->size += s.size;
    return 1;
}

static slice first_char(slice s)
{
    size_t size = text_char(s);
    return (slice){s.at, size ? size : 1};
}

static int needs_quotes(slice s)
{
    if (s.size == 0)
        return 1;
    while (s.size > 0) {
        slice c = first_char(s);
        if (!text_is_printable(c) || *c.at == ' ' || *c.at == '"' || *c.at == '=')
            return 1;
        s = (slice){s.at + c.size, s.size - c.size};
    }
    return 0;
}

/* Write a character as it stands between quotes, where a quote and a backslash have a backslash
 * before them; gives its size there. */
static size_t escape(char out[16], slice c)
{
    static const char hex[] = "0123456789abcdef";
    size_t size = 0;
    if (text_is_printable(c)) {
        if (*c.at == '"' || *c.at == '\\')
            out[size++] = '\\';
        memcpy(out + size, c.at, c.size);
        return size + c.size;
    }
    if (*c.at == '\n' || *c.at == '\r' || *c.at == '\t') {
        out[size++] = '\\';
        out[size++] = *c.at == '\n' ? 'n' : *c.at == '\r' ? 'r' : 't';
        return size;
    }
    for (size_t i = 0; i < c.size; i++) {
        out[size++] = '\\';
        out[size++] = 'x';
        out[size++] = hex[(unsigned char)c.at[i] >> 4];
        out[size++] = hex[(unsigned char)c.at[i] & 15];
    }
    return size;
}

/* Adds the value of a field, or what fits of it. 1: all of it was added. */
static int add_text(line *l, slice s)
{
    int quoted = needs_quotes(s);
    if (quoted && !add_slice(l, SLICE_LIT("\""), 1))
        return 0;

    int fits = 1;
    while (s.size > 0 && fits) {
        char out[16];
        slice c = first_char(s);
        fits = quoted ? add_slice(l, (slice){out, escape(out, c)}, 1) : add_slice(l, c, 0);
        s = (slice){s.at + c.size, s.size - c.size};
    }
    if (quoted)
        add_slice(l, SLICE_LIT("\""), 0); /* a byte was kept free for the closing quote */
    return fits;
}

static int add_number(line *l, int64_t number)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%" PRId64, number);
    return add_slice(l, (slice){digits, (size_t)size}, 0);
}

/* 1 if all of the field was added. A key of which no value fits is taken away again. */
static int add_field(line *l, const log_field *field)
{
    size_t before = l->size;
    if ((before > 0 && !add_slice(l, SLICE_LIT(" "), 0)) ||
        !add_slice(l, slice_of(field->key), 0) || !add_slice(l, SLICE_LIT("="), 0)) {
        l->size = before;
        return 0;
    }
    size_t value = l->size;
    int whole = field->text ? add_text(l, slice_of(field->text)) : add_number(l, field->number);
    if (l->size == value)
        l->size = before;
    return whole;
}

void log_event(const log_sink *sink, log_level level, const char *event, const log_field *fields)
{
    if (!sink || !sink->write)
        return;
    line l;
    l.size = 0;
    for (; fields && fields->key; fields++) {
        if (!add_field(&l, fields))
            break; /* a later, shorter field would look as if none had been left out */
    }
    l.at[l.size] = '\0';
    sink->write((int)level, event, l.at, sink->arg);
}
