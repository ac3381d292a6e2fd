/* The format is copied piece by piece; all that has to be known is whether the place is inside a
 * string. A backslash takes the character behind it along, whatever it is. So no conversion can
 * follow one: there, the backslash would meet the first escape of the argument and undo it.
 * What the check of the result finds anyway (a string that does not end, a comma too many) is not
 * looked for here. */
#include "base/json_write.h"

#include "base/json.h"
#include "base/number.h"

typedef struct writer {
    buf *out;
    const char *at; /* in the format */
    int quoted;     /* inside a string */
    va_list args;
} writer;

/* ---- strings ---- */

static void escape_one(buf *b, unsigned char c)
{
    static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* a byte, and its letter */
    for (size_t i = 0; i + 1 < sizeof SHORT; i += 2) {
        if ((unsigned char)SHORT[i] == c) {
            char two[2] = {'\\', SHORT[i + 1]};
            buf_add(b, (slice){two, sizeof two});
            return;
        }
    }
    buf_printf(b, "\\u%04x", c);
}

void value_escape(buf *b, slice text)
{
    size_t begin = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(b, (slice){text.at + begin, i - begin});
        escape_one(b, c);
        begin = i + 1;
    }
    if (begin < text.size)
        buf_add(b, (slice){text.at + begin, text.size - begin});
}

void value_quote(buf *b, slice text)
{
    buf_char(b, '"');
    value_escape(b, text);
    buf_char(b, '"');
}

/* ---- conversions ---- */

static void write_string(writer *w, const char *text)
{
    if (!text)
        buf_text(w->out, "null");
    else if (w->quoted)
        value_escape(w->out, slice_of(text));
    else
        value_quote(w->out, slice_of(text));
}

/* Not inside a string, which the quotes of this JSON would end. */
static pawl_code write_json(writer *w, const char *json)
{
    if (w->quoted)
        return PAWL_INVALID;
    slice text =
        json ? (slice){json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)} : SLICE_LIT("null");
    pawl_code rc = value_check(text, NULL);
    if (rc == PAWL_OK)
        buf_add(w->out, text);
    return rc;
}

static pawl_code write_real(writer *w, double value)
{
    char text[NUMBER_ROOM];
    if (number_write(value, text) != 0)
        return PAWL_INVALID;
    buf_text(w->out, text);
    return PAWL_OK;
}

static pawl_code write_integer(writer *w)
{
    if (w->at[0] == 'd')
        buf_printf(w->out, "%d", va_arg(w->args, int));
    else if (w->at[1] == 'd')
        buf_printf(w->out, "%ld", va_arg(w->args, long));
    else if (w->at[1] == 'l' && w->at[2] == 'd')
        buf_printf(w->out, "%lld", va_arg(w->args, long long));
    else
        return PAWL_INVALID;
    w->at += strspn(w->at, "l") + 1;
    return PAWL_OK;
}

/* From behind the percent sign. */
static pawl_code write_argument(writer *w)
{
    switch (*w->at) {
    case 'd':
    case 'l':
        return write_integer(w);
    case 'i':
        w->at++;
        buf_printf(w->out, "%lld", (long long)va_arg(w->args, int64_t));
        return PAWL_OK;
    case 's':
        w->at++;
        write_string(w, va_arg(w->args, const char *));
        return PAWL_OK;
    case 'j':
        w->at++;
        return write_json(w, va_arg(w->args, const char *));
    case 'g':
        w->at++;
        return write_real(w, va_arg(w->args, double));
    case 'b':
        w->at++;
        buf_text(w->out, va_arg(w->args, int) ? "true" : "false");
        return PAWL_OK;
    case '%':
        w->at++;
        buf_char(w->out, '%');
        return PAWL_OK;
    default:
        return PAWL_INVALID;
    }
}

/* ---- the format ---- */

static pawl_code write_backslash(writer *w)
{
    char c = *w->at;
    if (c == '\0')
        return PAWL_INVALID;
    if (c != '\'')
        buf_char(w->out, '\\');
    buf_char(w->out, c);
    w->at++;
    return PAWL_OK;
}

static pawl_code write_next(writer *w)
{
    size_t plain = strcspn(w->at, "'\"\\%");
    buf_add(w->out, (slice){w->at, plain});
    w->at += plain;
    if (!*w->at)
        return PAWL_OK;
    char c = *w->at++;
    if (c == '%')
        return write_argument(w);
    if (c == '\\')
        return write_backslash(w);
    w->quoted = !w->quoted;
    buf_char(w->out, '"');
    return PAWL_OK;
}

pawl_code value_write(buf *b, const char *format, va_list args)
{
    if (!format)
        return PAWL_INVALID;
    writer w = {.out = b, .at = format};
    size_t begin = b->size;
    va_copy(w.args, args);
    pawl_code rc = PAWL_OK;
    while (rc == PAWL_OK && *w.at && !b->failed)
        rc = write_next(&w);
    va_end(w.args);
    if (rc != PAWL_OK)
        return rc;
    return b->failed ? PAWL_LIMIT : value_check((slice){buf_str(b) + begin, b->size - begin}, NULL);
}

char *value_write_arena(arena *a, pawl_code *rc, const char *format, va_list args)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    pawl_code code = value_write(&b, format, args);
    char *out = code == PAWL_OK ? arena_copy(a, (slice){b.at, b.size}) : NULL;
    if (code == PAWL_OK && !out)
        code = PAWL_NOMEM;
    buf_free(&b);
    if (rc)
        *rc = code;
    return out;
}
