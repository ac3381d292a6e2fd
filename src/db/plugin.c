/* Loads a driver that is a shared library of its own (a plugin). The dynamic loader searches for
 * the library beside libpawl.so, whose run path is its own folder, and in the system's folders. The
 * library is never unloaded: libpq and its libraries register functions that run at the end of the
 * process. */
#include "db/plugin.h"

#include <dlfcn.h>
#include <string.h>

static pawl_code refuse_missing(const char *file, const char *why, error *err)
{
    error_set(err, PAWL_UNSUPPORTED, "the driver for PostgreSQL is not installed");
    error_detail(err, "%s: %s", file, why ? why : "?");
    error_hint(err, "install %s beside libpawl, or use a SQLite file: \"app.db\"", file);
    return PAWL_UNSUPPORTED;
}

static pawl_code refuse_version(const char *file, const char *version, error *err)
{
    error_set(err, PAWL_UNSUPPORTED, "the driver for PostgreSQL is of another version");
    error_detail(err, "%s is of pawl %s, this library is %s", file, version, PAWL_VERSION);
    error_hint(err, "install both from the same build");
    return PAWL_UNSUPPORTED;
}

pawl_code plugin_open(db **out, const char *file, slice url, const db_options *options, error *err)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return refuse_missing(file, dlerror(), err);
    const db_plugin *p = dlsym(library, PLUGIN_SYMBOL);
    if (!p)
        return refuse_missing(file, dlerror(), err);
    if (strcmp(p->version, PAWL_VERSION) != 0 || p->sizes != DB_PLUGIN_SIZES)
        return refuse_version(file, p->version, err);
    return p->open(out, url, options, err);
}
