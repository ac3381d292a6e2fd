/* Validation of the arguments of public functions. A text is measured with strnlen() and one byte
 * more than its limit, so that a text without an end is not read to its end. No message repeats
 * what was given: it may be secret. */
#include "base/argument.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

pawl_code argument_text(slice *out, const char *text, size_t max, const char *what, error *err)
{
    if (!text)
        return error_set(err, PAWL_INVALID, "the %s is NULL", what);
    *out = (slice){text, strnlen(text, max + 1)};
    if (out->size == 0)
        return error_set(err, PAWL_INVALID, "the %s is empty", what);
    return text_check(*out, max, what, err);
}

pawl_code argument_name(slice *out, const char *text, size_t max, const char *what, error *err)
{
    pawl_code rc = argument_text(out, text, max, what, err);
    if (rc == PAWL_OK && slice_starts(*out, SLICE_LIT("pawl.")))
        rc = error_set(err, PAWL_INVALID, "names that begin with \"pawl.\" are pawl's own");
    return rc;
}

pawl_code argument_json(slice *out, const char *json, const char *what, error *err)
{
    size_t at = 0;
    if (!json)
        return error_set(err, PAWL_INVALID, "the %s is NULL; \"null\" means nothing", what);
    *out = (slice){json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)};
    pawl_code rc = value_check(*out, &at);
    if (rc != PAWL_OK) {
        error_set(err, rc,
                  rc == PAWL_LIMIT ? "the %s is too large or too deep" : "the %s is not JSON",
                  what);
        error_detail(err, "at byte %zu", at);
    }
    return rc;
}

pawl_code argument_run_id(const char *id, slice *out, error *err)
{
    *out = slice_of(id);
    return text_check(*out, PAWL_MAX_ID, "id of the run", err);
}

pawl_code argument_no_function(error *err)
{
    return error_set(err, PAWL_INVALID, "the function to call is NULL");
}

pawl_code argument_no_place(error *err)
{
    return error_set(err, PAWL_INVALID, "there is no place for the result");
}
