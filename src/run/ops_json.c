/* JSON texts of a workflow function: made from a format, and taken apart. The texts are in the
 * memory of the function, which goes with its fiber. */
#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "run/ops.h"

slice run_number(pawl_run *run, int64_t number)
{
    char *text = run_alloc(run, 24);
    buf b;
    buf_init_fixed(&b, text, 24);
    buf_printf(&b, "%lld", (long long)number);
    return (slice){text, b.size};
}

const char *run_json_text(pawl_run *run, slice part)
{
    char *text = run_alloc(run, part.size + 1);
    value_unescape(part, text, part.size + 1);
    return text;
}

const char *pawl_json(pawl_run *run, const char *format, ...)
{
    if (!run_is_inside(run))
        return NULL;
    buf b;
    va_list args;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    va_start(args, format);
    error err; /* large, and filled in only where something is wrong */
    pawl_code rc = value_write_why(&b, format, args, &err);
    va_end(args);
    const char *text = NULL;
    if (rc == PAWL_OK)
        text = run_text(run, (slice){b.at, b.size});
    buf_free(&b);
    if (rc == PAWL_NOMEM) /* the function could take another branch for NULL than its replay does */
        run_trouble(run, rc, "%s", err.message);
    if (rc != PAWL_OK)
        run->code.json_wrong = run_text(run, slice_of(err.message));
    return text;
}

const char *pawl_part(pawl_run *run, const char *json, const char *pointer)
{
    slice part;
    if (!run_is_inside(run) || value_get(json, pointer, &part) == PAWL_NOTHING)
        return NULL;
    return run_text(run, part);
}

const char *pawl_text(pawl_run *run, const char *json, const char *pointer, const char *fallback)
{
    slice part;
    if (!run_is_inside(run) || value_get(json, pointer, &part) != PAWL_STRING)
        return fallback;
    return run_json_text(run, part);
}
