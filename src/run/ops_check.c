/* Checking arguments of ops: names, and JSON. A wrong argument is a mistake in the workflow
 * function: the function is left, and the run is held with words that name the argument. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "run/ops.h"

_Noreturn void ops_refuse(pawl_run *run, const error *err)
{
    run_trouble(run, err->code, "%s%s%s", err->message, err->detail[0] ? ": " : "", err->detail);
}

slice ops_name(pawl_run *run, const char *name, const char *what)
{
    error err = {0};
    slice s = slice_of(name);
    if (!name)
        error_set(&err, PAWL_INVALID, "the %s is NULL", what);
    else
        text_check(s, PAWL_MAX_NAME, what, &err);
    if (err.code != PAWL_OK)
        ops_refuse(run, &err);
    return s;
}

slice ops_own_name(pawl_run *run, const char *name, const char *what)
{
    slice s = ops_name(run, name, what);
    if (s.size == 0) /* RULE names-of-steps-are-not-empty */
        run_trouble(run, PAWL_INVALID, "the %s is empty", what);
    if (slice_starts(s, SLICE_LIT("pawl."))) /* RULE names-of-steps-are-not-pawls-own */
        run_trouble(run, PAWL_INVALID,
                    "the %s is %s: names that begin with \"pawl.\" are pawl's own", what, name);
    return s;
}

/* Refuses a value that is NULL. The words tell of an earlier pawl_json() that has failed, since the
 * NULL often comes from that. */
static _Noreturn void refuse_null(pawl_run *run, const char *what, const char *between,
                                  const char *name)
{
    run_trouble(run, PAWL_INVALID, "the %s%s%s is NULL; \"null\" means nothing%s%s", what, between,
                name, run->code.json_wrong ? ". An earlier pawl_json() failed: " : "",
                run->code.json_wrong ? run->code.json_wrong : "");
}

slice ops_json(pawl_run *run, const char *json, const char *what, const char *name)
{
    size_t at = 0;
    const char *between = *name ? " " : "";
    if (!json)
        refuse_null(run, what, between, name);
    slice s = {json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)};
    pawl_code rc = value_check(s, &at);
    if (rc == PAWL_LIMIT)
        run_trouble(run, rc, "the %s%s%s is larger than %d bytes, or nested too deeply", what,
                    between, name, PAWL_MAX_PAYLOAD);
    if (rc != PAWL_OK)
        run_trouble(run, rc, "the %s%s%s is not JSON (at byte %zu)", what, between, name, at);
    return s;
}
