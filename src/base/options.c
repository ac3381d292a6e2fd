/* Bytes behind what this library knows must be zero: a caller that was compiled with a newer header
 * and asks for something new must hear that it is not there, and one that does not ask must not
 * notice. A size that no struct can have is refused before a byte behind it is read, since it comes
 * from a struct that was not filled in. */
#include "base/options.h"

#include <string.h>

#include "base/text.h"

static pawl_code refuse_options(error *err, const char *what)
{
    error_set(err, PAWL_INVALID, "%s", what);
    error_hint(err, "fill options in with their macro, as PAWL_OPTIONS() does, and link with the "
                    "library of that header");
    return PAWL_INVALID;
}

pawl_code options_read(void *out, size_t known, const void *given, error *err)
{
    memset(out, 0, known);
    if (!given)
        return PAWL_OK;
    size_t size;
    memcpy(&size, given, sizeof size);
    /* RULE options-without-a-size-are-refused */
    if (size < sizeof size || size > OPTIONS_MOST || size % sizeof(void *) != 0) {
        refuse_options(err, "the options do not say their size");
        error_detail(err, "their first member says %zu; this library knows %zu bytes", size, known);
        return PAWL_INVALID;
    }
    const unsigned char *bytes = given;
    for (size_t i = known; i < size; i++) {
        if (bytes[i]) { /* RULE options-that-are-not-known-are-refused */
            refuse_options(err, "there are options that this library does not know");
            error_detail(err, "at byte %zu; this library knows %zu", i, known);
            return PAWL_INVALID;
        }
    }
    memcpy(out, given, size < known ? size : known); /* RULE options-end-where-the-caller-says */
    return PAWL_OK;
}

pawl_code options_text(slice text, size_t max, const char *what, error *err)
{
    if (!text.at)
        return PAWL_OK;
    pawl_code rc = text_check(text, max, what, err);
    if (rc != PAWL_OK)
        error_hint(err, "give UTF-8 of at most %zu bytes, or NULL for the default", max);
    return rc;
}

pawl_code options_number(int64_t number, int64_t least, const char *what, error *err)
{
    if (number >= least)
        return PAWL_OK;
    error_set(err, PAWL_INVALID, "the option %s is too small", what);
    error_detail(err, "%lld; at least %lld is allowed", (long long)number, (long long)least);
    error_hint(err, "leave it 0 for the default");
    return PAWL_INVALID;
}

pawl_code options_unbuilt(const char *what, error *err)
{
    error_set(err, PAWL_UNSUPPORTED, "the option %s is not built into this library yet", what);
    error_hint(err, "leave it out: 0, or NULL");
    return PAWL_UNSUPPORTED;
}
