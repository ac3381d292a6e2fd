/* Writing JSON from a format. The format is copied piece by piece, and the writer only has to know
 * whether it is inside a string. A backslash is copied with the character behind it, whatever that
 * is, so that a conversion cannot follow a backslash: the backslash would join with the first
 * escape of the argument and undo it. Errors that the check of the result finds anyway (a string
 * that does not end, a comma too many) are not looked for here. */
#include "base/json_write.h"

#include "base/json.h"
#include "base/number.h"

typedef struct writer {
    buf *out;
    const char *at; /* the position in the format */
    int quoted;     /* 1: that position is inside a string */
    va_list args;
    const char *wrong; /* what is wrong, in words; NULL: nothing */
} writer;

static pawl_code is_wrong(writer *w, const char *what)
{
    w->wrong = what;
    return PAWL_INVALID;
}

/* ---- strings ---- */

static void escape_one(buf *b, unsigned char c)
{
    static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs of a byte and the letter of
                                                              its escape */
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

/* Writes JSON as it is. It may not stand inside a string, which its quotes would end. */
static pawl_code write_json(writer *w, const char *json)
{
    if (w->quoted)
        return is_wrong(w, "%j stands inside quotes");
    slice text =
        json ? (slice){json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)} : SLICE_LIT("null");
    pawl_code rc = value_check(text, NULL);
    if (rc == PAWL_OK)
        buf_add(w->out, text);
    else
        w->wrong = rc == PAWL_LIMIT ? "the argument of %j is too large, or nested too deeply"
                                    : "the argument of %j is not JSON";
    return rc;
}

static pawl_code write_real(writer *w, double value)
{
    char text[NUMBER_ROOM];
    if (number_write(value, text) != 0)
        return is_wrong(w, "the argument of %g is not a finite number");
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
        return is_wrong(w, "there is no such conversion");
    w->at += strspn(w->at, "l") + 1;
    return PAWL_OK;
}

/* Writes the argument of a conversion; w->at is behind the percent sign. */
static pawl_code write_argument(writer *w)
{
    switch (*w->at) {
    case 'd':
    case 'l':
        return write_integer(w);
    case 'i':
        /* RULE an-i-is-no-conversion-of-pawl-json */
        return is_wrong(w, "%i is no conversion: write %lld with a cast to long long, or PRId64");
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
        return is_wrong(w, "there is no such conversion");
    }
}

/* ---- the format ---- */

static pawl_code write_backslash(writer *w)
{
    char c = *w->at;
    if (c == '\0')
        return is_wrong(w, "nothing follows the backslash");
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

static pawl_code why_full(const buf *b, error *err)
{
    if (b->no_memory)
        return error_nomem(err);
    return error_set(err, PAWL_LIMIT, "the value would be larger than %zu bytes", b->max);
}

static pawl_code why_not(pawl_code rc, size_t at, error *err)
{
    if (rc == PAWL_LIMIT)
        return error_set(err, rc, "the value is nested too deeply, or too large");
    return error_set(err, rc, "the value is not JSON (at its byte %zu)", at);
}

pawl_code value_write_why(buf *b, const char *format, va_list args, error *err)
{
    if (!format)
        return error_set(err, PAWL_INVALID, "the format is NULL");
    writer w = {.out = b, .at = format};
    size_t begin = b->size, at = 0;
    va_copy(w.args, args);
    pawl_code rc = PAWL_OK;
    while (rc == PAWL_OK && *w.at && !b->failed)
        rc = write_next(&w);
    va_end(w.args);
    if (rc != PAWL_OK)
        return error_set(err, rc, "%s, before byte %zu of the format", w.wrong,
                         (size_t)(w.at - format));
    if (b->failed)
        return why_full(b, err);
    rc = value_check((slice){buf_str(b) + begin, b->size - begin}, &at);
    return rc == PAWL_OK ? rc : why_not(rc, at, err);
}

pawl_code value_write(buf *b, const char *format, va_list args)
{
    pawl_code rc = value_write_why(b, format, args, NULL);
    return rc == PAWL_NOMEM ? PAWL_LIMIT : rc;
}

char *value_write_arena(arena *a, error *err, const char *format, va_list args)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    pawl_code code = value_write_why(&b, format, args, err);
    char *out = code == PAWL_OK ? arena_copy(a, (slice){b.at, b.size}) : NULL;
    if (code == PAWL_OK && !out)
        error_nomem(err);
    buf_free(&b);
    return out;
}
