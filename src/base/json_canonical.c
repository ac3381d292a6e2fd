/* The text is walked over in its canonical order, and each piece goes to a sink: a digest, or a
 * buffer. Nothing is copied but where the members of an object begin, which are sorted. The depth
 * of the walk is that of the value, which the limits table bounds. */
#include "base/json_canonical.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_write.h"

enum {
    PLAIN_DIGITS = 20, /* integers of so many digits have no exponent */
    EXPONENT_DIGITS = 17,
};

typedef struct sink {
    digest *digest; /* takes the pieces of text; NULL: `buf` takes them */
    buf *buf;
} sink;

static void put_piece(const sink *s, slice piece)
{
    if (s->digest && piece.size > 0)
        digest_add(s->digest, piece);
    else if (s->buf)
        buf_add(s->buf, piece);
}

/* ---- strings ---- */

static void put_string(const sink *s, slice part)
{
    char piece[32], bytes[4];
    size_t size;
    slice rest = {part.at + 1, part.size >= 2 ? part.size - 2 : 0};
    if (rest.size == 0 || !memchr(rest.at, '\\', rest.size)) { /* it is in canonical form already */
        put_piece(s, part);
        return;
    }
    put_piece(s, SLICE_LIT("\""));
    while ((size = value_next_char(&rest, bytes)) > 0) {
        buf one;
        buf_init_fixed(&one, piece, sizeof piece);
        value_escape(&one, (slice){bytes, size});
        put_piece(s, (slice){one.at, one.size});
    }
    put_piece(s, SLICE_LIT("\""));
}

/* Negative, 0 or positive, as the bytes of two keys are ordered when they are unescaped. */
static int compare_text(slice a, slice b)
{
    char left[4], right[4];
    size_t in_left = 0, in_right = 0, at_left = 0, at_right = 0;
    for (;;) {
        if (at_left == in_left) {
            in_left = value_next_char(&a, left);
            at_left = 0;
        }
        if (at_right == in_right) {
            in_right = value_next_char(&b, right);
            at_right = 0;
        }
        if (in_left == 0 || in_right == 0)
            return (in_left > 0) - (in_right > 0);
        int difference =
            (int)(unsigned char)left[at_left++] - (int)(unsigned char)right[at_right++];
        if (difference != 0)
            return difference;
    }
}

/* ---- numbers ---- */

static slice digits_at(slice part, size_t *at)
{
    slice digits = {part.at + *at, 0};
    while (*at < part.size && part.at[*at] >= '0' && part.at[*at] <= '9') {
        digits.size++;
        ++*at;
    }
    return digits;
}

static void strip_leading(slice *digits)
{
    while (digits->size > 0 && digits->at[0] == '0') {
        digits->at++;
        digits->size--;
    }
}

static int64_t strip_trailing(slice *digits)
{
    int64_t stripped = 0;
    for (; digits->size > 0 && digits->at[digits->size - 1] == '0'; stripped++)
        digits->size--;
    return stripped;
}

static int64_t small_number(slice digits)
{
    int64_t number = 0;
    for (size_t i = 0; i < digits.size; i++)
        number = number * 10 + (digits.at[i] - '0');
    return number;
}

/* Writes a number: the digits of `before` and `behind`, one after the other, times 10^power. The
 * digits neither begin nor end with a zero. */
static void put_power(const sink *s, slice before, slice behind, int64_t power)
{
    char text[32];
    put_piece(s, before);
    put_piece(s, behind);
    if (power >= 0 && before.size + behind.size + (size_t)power <= PLAIN_DIGITS) {
        static const char ZEROS[PLAIN_DIGITS + 1] = "00000000000000000000";
        put_piece(s, (slice){ZEROS, (size_t)power});
        return;
    }
    snprintf(text, sizeof text, "e%" PRId64, power);
    put_piece(s, slice_of(text));
}

static void put_number(const sink *s, slice part)
{
    size_t at = part.size > 0 && part.at[0] == '-';
    int negative = at > 0, lowers = 0;
    slice before = digits_at(part, &at), behind = {"", 0}, exponent = {"", 0};
    if (at < part.size && part.at[at] == '.') {
        at++;
        behind = digits_at(part, &at);
    }
    if (at < part.size && (part.at[at] == 'e' || part.at[at] == 'E')) {
        at++;
        lowers = at < part.size && part.at[at] == '-';
        at += at < part.size && (part.at[at] == '-' || part.at[at] == '+');
        exponent = digits_at(part, &at);
    }
    int64_t power = -(int64_t)behind.size;
    strip_leading(&before);
    if (before.size == 0)
        strip_leading(&behind);
    power += strip_trailing(&behind); /* RULE numbers-are-compared-by-value */
    if (behind.size == 0)
        power += strip_trailing(&before);
    if (before.size + behind.size == 0) {
        put_piece(s, SLICE_LIT("0"));
        return;
    }
    if (negative)
        put_piece(s, SLICE_LIT("-"));
    strip_leading(&exponent);
    if (exponent.size <= EXPONENT_DIGITS) {
        power += lowers ? -small_number(exponent) : small_number(exponent);
        put_power(s, before, behind, power);
        return;
    }
    put_power(s, before, behind, power); /* the exponent is too large to be added to `power`, and
                                            is written behind it as it stands */
    put_piece(s, lowers ? SLICE_LIT("e-") : SLICE_LIT("e"));
    put_piece(s, exponent);
}

/* ---- arrays and objects ---- */

typedef struct member {
    slice key; /* without its quotes */
    slice part;
} member;

/* Equal keys stay in the order in which they are written. */
static int compare_members(const void *a, const void *b)
{
    const member *left = a, *right = b;
    int order = compare_text(left->key, right->key);
    return order ? order : (left->key.at > right->key.at) - (left->key.at < right->key.at);
}

static pawl_code put_value(const sink *s, slice part, int depth);

static pawl_code put_members(const sink *s, member *all, size_t count, int depth)
{
    pawl_code rc = PAWL_OK;
    qsort(all, count, sizeof *all, compare_members); /* RULE members-have-no-order */
    put_piece(s, SLICE_LIT("{"));
    for (size_t i = 0; rc == PAWL_OK && i < count; i++) {
        /* RULE of-equal-keys-the-first-counts */
        if (i > 0 && compare_text(all[i - 1].key, all[i].key) == 0)
            continue;
        put_piece(s, i > 0 ? SLICE_LIT(",") : SLICE_LIT(""));
        put_string(s, (slice){all[i].key.at - 1, all[i].key.size + 2});
        put_piece(s, SLICE_LIT(":"));
        rc = put_value(s, all[i].part, depth);
    }
    put_piece(s, SLICE_LIT("}"));
    return rc;
}

static pawl_code put_object(const sink *s, slice part, int depth)
{
    int64_t room = value_count(part);
    size_t at = 0, count = 0;
    slice key;
    if (room < 0)
        return PAWL_INVALID;
    member *all = calloc((size_t)room + 1, sizeof *all);
    if (!all)
        return PAWL_NOMEM;
    while (count < (size_t)room && value_member(part, &at, &key, &all[count].part)) {
        all[count].key = (slice){key.at + 1, key.size - 2};
        count++;
    }
    pawl_code rc = put_members(s, all, count, depth);
    free(all);
    return rc;
}

static pawl_code put_array(const sink *s, slice part, int depth)
{
    size_t at = 0;
    slice element;
    pawl_code rc = PAWL_OK;
    put_piece(s, SLICE_LIT("["));
    for (int first = 1; rc == PAWL_OK && value_element(part, &at, &element); first = 0) {
        put_piece(s, first ? SLICE_LIT("") : SLICE_LIT(","));
        rc = put_value(s, element, depth);
    }
    put_piece(s, SLICE_LIT("]"));
    return rc;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than a value may be nested
static pawl_code put_value(const sink *s, slice part, int depth)
{
    /* RULE a-canonical-walk-is-no-deeper-than-a-value */
    if (part.size == 0 || depth > PAWL_MAX_DEPTH)
        return PAWL_INVALID;
    switch (part.at[0]) {
    case '{':
        return put_object(s, part, depth + 1);
    case '[':
        return put_array(s, part, depth + 1);
    case '"':
        put_string(s, part);
        return PAWL_OK;
    case 't':
    case 'f':
    case 'n':
        put_piece(s, part);
        return PAWL_OK;
    default:
        put_number(s, part);
        return PAWL_OK;
    }
}

/* ---- the whole ---- */

static pawl_code put_text(const sink *s, slice json)
{
    slice whole;
    if (value_find(json, SLICE_LIT(""), &whole) == PAWL_NOTHING)
        return PAWL_INVALID;
    return put_value(s, whole, 0);
}

pawl_code value_digest(digest *d, slice json)
{
    return put_text(&(sink){.digest = d}, json);
}

pawl_code value_canonical(buf *b, slice json)
{
    return put_text(&(sink){.buf = b}, json);
}

int value_is_same(slice a, slice b)
{
    unsigned char of_a[DIGEST_SIZE], of_b[DIGEST_SIZE];
    digest d;
    if (slice_equal(a, b))
        return 1;
    digest_begin(&d);
    pawl_code rc = value_digest(&d, a);
    digest_end(&d, of_a);
    if (rc == PAWL_OK) {
        digest_begin(&d);
        rc = value_digest(&d, b);
        digest_end(&d, of_b);
    }
    if (rc != PAWL_OK)
        return rc == PAWL_NOMEM ? -1 : 0;
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}
