/* The check of JSON text: one pass, no tree, no allocation, no recursion.
 *
 * The only memory that JSON's grammar needs is which brackets are open, and the limit on nesting
 * bounds that to an array; so hostile depth ends in an error, not in a stack that has run out.
 * Nearly all bytes of a payload are in strings and nearly all of those are plain, hence strings are
 * looked at eight bytes at a time.
 *
 * Every function below leaves `at` on the first byte that it did not take. When one of them fails,
 * that byte is the first wrong one. */
#include "base/json.h"

#include "base/text.h"

typedef struct scan {
    const char *at;
    const char *end;
    size_t depth;
    char closing[PAWL_MAX_DEPTH]; /* what ends each of the open arrays and objects */
} scan;

/* Returns the byte at the position; at the end 0, a byte that JSON has nowhere. */
static char peek(const scan *s)
{
    return (char)(s->at < s->end ? *s->at : 0);
}

static int accept_char(scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return -1;
    s->at++;
    return 0;
}

static void skip_space(scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* ---- strings ---- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define HIGH EACH(0x80)
#define HAS_ZERO(eight) (((eight)-EACH(1)) & ~(eight))

/* Returns 1 if one of the eight bytes needs a closer look: a quote, a backslash, a control
 * character, or a part of a character that is not ASCII. */
static int is_special(uint64_t eight)
{
    uint64_t quote = eight ^ EACH('"'), backslash = eight ^ EACH('\\');
    uint64_t control = (eight - EACH(0x20)) & ~eight;
    return ((HAS_ZERO(quote) | HAS_ZERO(backslash) | control | eight) & HIGH) != 0;
}

static void skip_plain(scan *s)
{
    uint64_t eight;
    while ((size_t)(s->end - s->at) >= sizeof eight) {
        memcpy(&eight, s->at, sizeof eight);
        if (is_special(eight))
            break;
        s->at += sizeof eight;
    }
    while (s->at < s->end) {
        unsigned char c = (unsigned char)*s->at;
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
        s->at++;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Reads four hex digits of a \u escape. They must not be 0000. With `want_low` they must be the
 * second half of a surrogate pair, and without it they must not be. */
static int scan_unit(scan *s, int want_low, int *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(peek(s));
        int next = *unit << 4 | digit;
        if (digit < 0 || (i == 3 && next == 0))
            return -1;
        if (want_low ? (i == 0 && next != 0xD) || (i == 1 && next < 0xDC)
                     : i == 1 && next >= 0xDC && next <= 0xDF)
            return -1;
        *unit = next;
        s->at++;
    }
    return 0;
}

static int scan_escape(scan *s)
{
    int unit;
    switch (peek(s)) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        s->at++;
        return 0;
    case 'u':
        s->at++;
        if (scan_unit(s, 0, &unit) != 0)
            return -1;
        if (unit < 0xD800 || unit > 0xDBFF)
            return 0;
        return accept_char(s, '\\') == 0 && accept_char(s, 'u') == 0 ? scan_unit(s, 1, &unit) : -1;
    default:
        return -1;
    }
}

static int scan_string(scan *s)
{
    if (accept_char(s, '"') != 0)
        return -1;
    for (;;) {
        skip_plain(s);
        if (accept_char(s, '"') == 0)
            return 0;
        if (accept_char(s, '\\') == 0) {
            if (scan_escape(s) != 0)
                return -1;
            continue;
        }
        /* skip_plain() has stopped at a character that is not ASCII, which must be whole; or at a
         * control character or the end of the text, which are errors. */
        size_t size = text_char((slice){s->at, (size_t)(s->end - s->at)});
        if (size < 2)
            return -1;
        s->at += size;
    }
}

/* ---- numbers and words ---- */

static int scan_digits(scan *s)
{
    const char *begin = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > begin ? 0 : -1;
}

static int scan_number(scan *s)
{
    accept_char(s, '-');
    if (accept_char(s, '0') != 0 && scan_digits(s) != 0)
        return -1;
    if (accept_char(s, '.') == 0 && scan_digits(s) != 0)
        return -1;
    if (accept_char(s, 'e') == 0 || accept_char(s, 'E') == 0) {
        if (accept_char(s, '+') != 0)
            accept_char(s, '-');
        return scan_digits(s);
    }
    return 0;
}

static int scan_word(scan *s, const char *word)
{
    for (; *word; word++)
        if (accept_char(s, *word) != 0)
            return -1;
    return 0;
}

static int scan_scalar(scan *s)
{
    switch (peek(s)) {
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        return scan_number(s);
    }
}

/* ---- arrays and objects ---- */

static int scan_key(scan *s)
{
    skip_space(s);
    if (scan_string(s) != 0)
        return -1;
    skip_space(s);
    return accept_char(s, ':');
}

/* Enters an array or object: moves past the bracket and, in an object, past the first key. An empty
 * one is left again at once. Sets *whole to 1 if a value is complete now; 0: a value has to
 * follow. */
static pawl_code scan_open(scan *s, int *whole)
{
    char closing = peek(s) == '{' ? '}' : ']';
    if (s->depth == PAWL_MAX_DEPTH)
        return PAWL_LIMIT;
    s->at++;
    skip_space(s);
    *whole = accept_char(s, closing) == 0;
    if (*whole)
        return PAWL_OK;
    s->closing[s->depth++] = closing;
    return closing == ']' || scan_key(s) == 0 ? PAWL_OK : PAWL_INVALID;
}

/* Goes on behind a complete value: closes the arrays and objects that end here, and moves past the
 * comma in front of the next value, and past the key of that. If none is open any more, the text
 * must end here. */
static pawl_code scan_behind(scan *s)
{
    for (;;) {
        skip_space(s);
        if (s->depth == 0)
            return s->at == s->end ? PAWL_OK : PAWL_INVALID;
        char closing = s->closing[s->depth - 1];
        if (accept_char(s, closing) == 0) {
            s->depth--;
            continue;
        }
        if (accept_char(s, ',') != 0)
            return PAWL_INVALID;
        return closing == ']' || scan_key(s) == 0 ? PAWL_OK : PAWL_INVALID;
    }
}

static pawl_code scan_text(scan *s)
{
    pawl_code rc = PAWL_OK;
    do {
        int whole = 1;
        skip_space(s);
        if (peek(s) == '{' || peek(s) == '[')
            rc = scan_open(s, &whole);
        else if (scan_scalar(s) != 0)
            rc = PAWL_INVALID;
        if (rc == PAWL_OK && whole)
            rc = scan_behind(s);
    } while (rc == PAWL_OK && s->depth > 0);
    return rc;
}

pawl_code value_check(slice json, size_t *at)
{
    size_t good = 0;
    pawl_code rc = PAWL_INVALID;
    if (json.size > PAWL_MAX_PAYLOAD) {
        good = PAWL_MAX_PAYLOAD;
        rc = PAWL_LIMIT;
    } else if (json.size > 0) {
        scan s = {.at = json.at, .end = json.at + json.size};
        rc = scan_text(&s);
        good = (size_t)(s.at - json.at);
    }
    if (at)
        *at = good;
    return rc;
}
