/* pawl and jansson: JSON values as trees, for programs that walk trees instead of using pointers.
 *
 * A header and nothing more: pawl itself does not need jansson, your program links it (-ljansson).
 *
 *     static const char *total(pawl_run *run, const char *input)
 *     {
 *         json_t *order = pawl_jansson_own(run, pawl_jansson_load(input));
 *         json_t *item, *out = pawl_jansson_own(run, json_object());
 *         json_int_t cents = 0;
 *         size_t i;
 *         json_array_foreach(json_object_get(order, "items"), i, item)
 *             cents += json_integer_value(json_object_get(item, "cents"));
 *         json_object_set_new(out, "cents", json_integer(cents));
 *         return pawl_jansson_dump(run, out);
 *     }
 *
 * pawl may leave a workflow function at any durable call, so the function hands each tree to
 * pawl_jansson_own() before its next durable call. Work functions always return: json_decref() is
 * enough there.
 *
 * pawl accepts an object with the same key twice, and numbers of any size. jansson can represent
 * neither: pawl_jansson_load() gives NULL for such a value. */
#ifndef PAWL_JANSSON_H
#define PAWL_JANSSON_H

#include <jansson.h>
#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tree of a JSON text, to be freed by json_decref(), or by pawl_jansson_own(). NULL if the text
 * has a key twice or a number that jansson cannot hold, if it is NULL or not JSON, or if memory is
 * out. */
static inline json_t *pawl_jansson_load(const char *json)
{
    return json ? json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL) : NULL;
}

static inline void pawl_jansson_release(void *tree)
{
    json_decref((json_t *)tree);
}

/* Have the tree freed when the workflow function ends or pawl leaves it. Takes over the caller's
 * reference and returns the tree; if memory is out, frees the tree and returns NULL. `tree` may be
 * NULL. */
static inline json_t *pawl_jansson_own(pawl_run *run, json_t *tree)
{
    if (!tree || pawl_defer(run, pawl_jansson_release, tree) == PAWL_OK)
        return tree;
    json_decref(tree);
    return NULL;
}

/* The length of a tree as JSON text, in bytes; 0 if the tree is NULL. If `out` is not NULL the text
 * is written there, with a NUL; it has room for `size` bytes and the NUL. Members keep the order in
 * which they were set. */
static inline size_t pawl_jansson_write(const json_t *tree, char *out, size_t size)
{
    size_t written = tree ? json_dumpb(tree, out, size, JSON_COMPACT | JSON_ENCODE_ANY) : 0;
    if (out)
        out[written <= size ? written : 0] = '\0';
    return written;
}

/* A tree as JSON text, in the memory of the run; the caller keeps the tree. NULL if the tree is
 * NULL or memory is out. */
static inline const char *pawl_jansson_dump(pawl_run *run, const json_t *tree)
{
    size_t size = pawl_jansson_write(tree, NULL, 0);
    char *out = size > 0 ? (char *)pawl_alloc(run, size + 1) : NULL;
    return out && pawl_jansson_write(tree, out, size) == size ? out : NULL;
}

/* The same as pawl_jansson_dump(), with the text in the memory of the work function. */
static inline const char *pawl_work_jansson_dump(pawl_work *work, const json_t *tree)
{
    size_t size = pawl_jansson_write(tree, NULL, 0);
    char *out = size > 0 ? (char *)pawl_work_alloc(work, size + 1) : NULL;
    return out && pawl_jansson_write(tree, out, size) == size ? out : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
