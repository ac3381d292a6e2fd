/* Reading JSON where it lies: by pointer, and what is there as a C value.
 *
 * The text has been checked before, so that stepping over a value needs no grammar: it ends with
 * the bracket that evens out its first one, and strings are searched for their closing quote.
 * Nothing here relies on that for its safety: each step looks where the text ends, and moves on by
 * at least one byte or stops. */
#include "base/json.h"

#include "base/number.h"

typedef struct reader {
    const char *at;
    const char *end;
} reader;

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static int is_at(const reader *r, char c)
{
    return r->at < r->end && *r->at == c;
}

/* ---- stepping over values ---- */

/* A quote ends the string unless an odd number of backslashes stands before it; looking for them
 * ends at the string's first quote at the latest. */
static int skip_string(reader *r)
{
    r->at++;
    while (r->at < r->end) {
        const char *quote = memchr(r->at, '"', (size_t)(r->end - r->at));
        if (!quote)
            return -1;
        r->at = quote + 1;
        const char *before = quote;
        while (before[-1] == '\\')
            before--;
        if ((quote - before) % 2 == 0)
            return 0;
    }
    return -1;
}

static int skip_container(reader *r)
{
    size_t depth = 0;
    while (r->at < r->end) {
        char c = *r->at;
        if (c == '"') {
            if (skip_string(r) != 0)
                return -1;
            continue;
        }
        r->at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return 0;
    }
    return -1;
}

static int is_scalar_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

static int skip_value(reader *r)
{
    if (is_at(r, '"'))
        return skip_string(r);
    if (is_at(r, '{') || is_at(r, '['))
        return skip_container(r);
    const char *begin = r->at;
    while (r->at < r->end && is_scalar_byte(*r->at))
        r->at++;
    return r->at > begin ? 0 : -1;
}

/* Moves into an array or object, to its first value or key. 0: it is empty. */
static int enter_first(reader *r)
{
    r->at++;
    skip_space(r);
    return r->at < r->end && *r->at != ']' && *r->at != '}';
}

/* Moves from behind a value to the next value or key. 0: that was the last. */
static int move_to_next(reader *r)
{
    skip_space(r);
    if (!is_at(r, ','))
        return 0;
    r->at++;
    skip_space(r);
    return 1;
}

/* Reads a key, without its quotes, and moves to its value. */
static int read_key(reader *r, slice *key)
{
    key->at = r->at + 1;
    if (!is_at(r, '"') || skip_string(r) != 0)
        return -1;
    key->size = (size_t)(r->at - key->at) - 1;
    skip_space(r);
    if (!is_at(r, ':'))
        return -1;
    r->at++;
    skip_space(r);
    return 0;
}

/* ---- escapes ---- */

static unsigned read_unit(const char *hex)
{
    unsigned unit = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)hex[i];
        unit = unit << 4 | (c <= '9' ? (unsigned)c & 0xF : ((unsigned)c & 0xF) + 9);
    }
    return unit & 0xFFFF;
}

static size_t encode_utf8(unsigned point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xE0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (point & 0x3F));
    return 4;
}

/* Reads the digits behind \u. Two units, with \u between them, are one character. */
static size_t read_unicode(reader *r, char out[4])
{
    if (r->end - r->at < 4)
        return 0;
    unsigned point = read_unit(r->at);
    r->at += 4;
    if (point >= 0xD800 && point <= 0xDBFF) {
        if (r->end - r->at < 6)
            return 0;
        point = 0x10000 + ((point & 0x3FF) << 10) + (read_unit(r->at + 2) & 0x3FF);
        r->at += 6;
    }
    return encode_utf8(point, out);
}

static char unescaped(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

/* Reads one byte of a string, or one escape with all bytes that it stands for, into `out`. Returns
 * their number; 0 at the end, or where a text that was not checked breaks off. */
static size_t read_bytes(reader *r, char out[4])
{
    if (r->at == r->end)
        return 0;
    out[0] = *r->at++;
    if (out[0] != '\\')
        return 1;
    if (r->at == r->end)
        return 0;
    out[0] = unescaped(*r->at++);
    return out[0] == 'u' ? read_unicode(r, out) : 1;
}

/* ---- pointers ---- */

/* Returns the next byte of a pointer's token, in which ~1 stands for / and ~0 for ~; -1 at its
 * end. */
static int token_byte(slice *token)
{
    if (token->size == 0)
        return -1;
    int c = (unsigned char)token->at[0];
    size_t used = 1;
    if (c == '~') {
        if (token->size < 2 || (token->at[1] != '0' && token->at[1] != '1'))
            return -1;
        c = token->at[1] == '0' ? '~' : '/';
        used = 2;
    }
    token->at += used;
    token->size -= used;
    return c;
}

static int is_key(slice key, slice token)
{
    reader r = {key.at, key.at + key.size};
    char bytes[4];
    size_t size;
    while ((size = read_bytes(&r, bytes)) > 0)
        for (size_t i = 0; i < size; i++)
            if (token_byte(&token) != (unsigned char)bytes[i])
                return 0;
    return r.at == r.end && token.size == 0;
}

/* Moves from an object to the value of a member. 0: there is none. */
static int enter_member(reader *r, slice token)
{
    slice key;
    for (int more = enter_first(r); more; more = move_to_next(r)) {
        if (read_key(r, &key) != 0)
            return 0;
        if (is_key(key, token))
            return 1;
        if (skip_value(r) != 0)
            return 0;
    }
    return 0;
}

/* Moves from an array to one of its elements. 0: there is none. No array in a payload has as many
 * elements as nine digits can count. */
static int enter_element(reader *r, slice token)
{
    size_t index = 0;
    if (token.size == 0 || token.size > 9 || (token.size > 1 && token.at[0] == '0'))
        return 0;
    for (size_t i = 0; i < token.size; i++) {
        if (token.at[i] < '0' || token.at[i] > '9')
            return 0;
        index = index * 10 + (size_t)(token.at[i] - '0');
    }
    for (int more = enter_first(r); more; more = move_to_next(r)) {
        if (index-- == 0)
            return 1;
        if (skip_value(r) != 0)
            return 0;
    }
    return 0;
}

static pawl_kind kind_of(slice part)
{
    switch (part.at[0]) {
    case '{':
        return PAWL_OBJECT;
    case '[':
        return PAWL_ARRAY;
    case '"':
        return PAWL_STRING;
    case 't':
        return PAWL_TRUE;
    case 'f':
        return PAWL_FALSE;
    case 'n':
        return PAWL_NULL;
    default:
        return PAWL_NUMBER;
    }
}

pawl_kind value_find(slice json, slice pointer, slice *part)
{
    *part = (slice){"", 0};
    if (json.size == 0)
        return PAWL_NOTHING;
    reader r = {json.at, json.at + json.size};
    skip_space(&r);
    while (pointer.size > 0) {
        if (pointer.at[0] != '/')
            return PAWL_NOTHING;
        slice token = {pointer.at + 1, pointer.size - 1};
        const char *slash = token.size > 0 ? memchr(token.at, '/', token.size) : NULL;
        if (slash)
            token.size = (size_t)(slash - token.at);
        pointer = (slice){token.at + token.size, pointer.size - 1 - token.size};
        int found = is_at(&r, '{')   ? enter_member(&r, token)
                    : is_at(&r, '[') ? enter_element(&r, token)
                                     : 0;
        if (!found)
            return PAWL_NOTHING;
    }
    slice here = {r.at, 0};
    if (skip_value(&r) != 0)
        return PAWL_NOTHING;
    here.size = (size_t)(r.at - here.at);
    *part = here;
    return kind_of(here);
}

pawl_kind value_get(const char *json, const char *pointer, slice *part)
{
    *part = (slice){"", 0};
    if (!json || !pointer)
        return PAWL_NOTHING;
    slice text = {json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)};
    if (value_check(text, NULL) != PAWL_OK)
        return PAWL_NOTHING;
    return value_find(text, slice_of(pointer), part);
}

int value_member(slice object, size_t *at, slice *key, slice *part)
{
    reader r = {object.at + *at, object.at + object.size};
    slice inside;
    int more = *at ? move_to_next(&r) : is_at(&r, '{') && enter_first(&r);
    if (!more || read_key(&r, &inside) != 0)
        return 0;
    *key = (slice){inside.at - 1, inside.size + 2};
    part->at = r.at;
    if (skip_value(&r) != 0)
        return 0;
    part->size = (size_t)(r.at - part->at);
    *at = (size_t)(r.at - object.at);
    return 1;
}

int value_element(slice array, size_t *at, slice *part)
{
    reader r = {array.at + *at, array.at + array.size};
    int more = *at ? move_to_next(&r) : is_at(&r, '[') && enter_first(&r);
    part->at = r.at;
    if (!more || skip_value(&r) != 0)
        return 0;
    part->size = (size_t)(r.at - part->at);
    *at = (size_t)(r.at - array.at);
    return 1;
}

size_t value_next_char(slice *rest, char out[4])
{
    reader r = {rest->at, rest->at + rest->size};
    size_t size = read_bytes(&r, out);
    rest->size -= (size_t)(r.at - rest->at);
    rest->at = r.at;
    return size;
}

/* ---- values ---- */

int64_t value_count(slice part)
{
    reader r = {part.at, part.at + part.size};
    int is_object = is_at(&r, '{');
    if (!is_object && !is_at(&r, '['))
        return -1;
    int64_t count = 0;
    for (int more = enter_first(&r); more; more = move_to_next(&r)) {
        slice key;
        if ((is_object && read_key(&r, &key) != 0) || skip_value(&r) != 0)
            return -1;
        count++;
    }
    return count;
}

/* Reads an integer. `value` is counted downwards from zero, because there is one negative number
 * more than there are positive ones. */
int value_int(slice part, int64_t *out)
{
    size_t i = part.size > 0 && part.at[0] == '-';
    int negative = i > 0;
    int64_t value = 0;
    if (i == part.size)
        return -1;
    for (; i < part.size; i++) {
        int digit = part.at[i] - '0';
        if (digit < 0 || digit > 9 || value < (INT64_MIN + digit) / 10)
            return -1;
        value = value * 10 - digit;
    }
    if (!negative && value == INT64_MIN)
        return -1;
    *out = negative ? value : -value;
    return 0;
}

int value_real(slice part, double *out)
{
    return part.size > 0 ? number_read(part, out) : -1;
}

/* ---- text ---- */

/* A place for text, which may be too small for it. */
typedef struct sink {
    char *at;
    size_t room; /* for bytes, without the NUL */
    size_t used;
    size_t size;
} sink;

/* A piece that does not fit is cut between characters, and from there on nothing fits. */
static void put_bytes(sink *s, const char *bytes, size_t size)
{
    s->size += size;
    size_t fits = s->room - s->used;
    if (size > fits) {
        s->room = s->used;
        while (fits > 0 && ((unsigned char)bytes[fits] & 0xC0) == 0x80)
            fits--;
        s->room += fits;
        size = fits;
    }
    if (size > 0)
        memcpy(s->at + s->used, bytes, size);
    s->used += size;
}

size_t value_copy(slice part, char *out, size_t room)
{
    sink s = {.at = out, .room = room > 0 ? room - 1 : 0};
    put_bytes(&s, part.at, part.size);
    if (room > 0)
        out[s.used] = '\0';
    return s.size;
}

size_t value_unescape(slice part, char *out, size_t room)
{
    sink s = {.at = out, .room = room > 0 ? room - 1 : 0};
    if (part.size >= 2) {
        reader r = {part.at + 1, part.at + part.size - 1};
        while (r.at < r.end) {
            const char *escape = memchr(r.at, '\\', (size_t)(r.end - r.at));
            size_t plain = (size_t)((escape ? escape : r.end) - r.at);
            put_bytes(&s, r.at, plain);
            r.at += plain;
            char bytes[4];
            size_t size = read_bytes(&r, bytes);
            put_bytes(&s, bytes, size);
        }
    }
    if (room > 0)
        out[s.used] = '\0';
    return s.size;
}

char *value_text(arena *a, slice part)
{
    size_t size = value_unescape(part, NULL, 0);
    char *out = arena_alloc(a, size + 1);
    if (out)
        value_unescape(part, out, size + 1);
    return out;
}
