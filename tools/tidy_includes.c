/*
 * The direction of includes. Code of src may include its own floor and those that the list of
 * floors allows it; code outside of the library, public headers and examples use public headers
 * only. Inline functions and macros are seen here and nowhere else: symbols do not show them.
 */
#include <stdio.h>
#include <string.h>

#include "tidy.h"

enum { NAME_ROOM = 256, SUBJECT_ROOM = 2 * PLACE_ROOM };

/* An include of src, with its folder: is it allowed, and if not, is it in the list? */
static void check_direction(struct tidy *tidy, struct source *source, size_t line,
                            struct tree_file *file, const char *name)
{
    char path[NAME_ROOM + sizeof "src/"];
    char subject[SUBJECT_ROOM];
    struct home theirs;
    const struct home *ours = &file->home;

    snprintf(path, sizeof path, "src/%s", name);
    tree_add_include(file, path);
    if (!floors_home(&tidy->floors, path, &theirs))
        return; /* the header itself has no floor: that is said there */
    if (floors_allow(&tidy->floors, ours->floor, theirs.floor))
        return;
    snprintf(subject, sizeof subject, "%s %s", ours->place, theirs.place);
    bool outside = floors_is_outside(&tidy->floors, ours->floor);
    ratchet_count(&tidy->ratchet, "include", subject, 1,
                  "%s:%zu: %s must not include \"%s\" of %s (%s)", source->path, line, ours->floor,
                  name, theirs.floor,
                  outside ? "use only <pawl.h> and its like" : "includes point down");
}

static void check_include(struct tidy *tidy, struct source *source, size_t line,
                          struct tree_file *file, char delimiter, const char *name)
{
    const char *slash = strchr(name, '/');
    bool in_src = starts_with(source->path, "src/");

    if (delimiter == '<' && (slash == NULL || !floors_know(&tidy->floors, name))) {
        return; /* the system's, or a public one */
    } else if (starts_with(source->path, "include/")) {
        report(source, line, "public header includes \"%s\" (use only public headers)", name);
    } else if (starts_with(source->path, "examples/") && slash != NULL) {
        report(source, line, "example includes \"%s\" (use only <pawl.h> and its like)", name);
    } else if (in_src && (slash == NULL || name[0] == '.')) {
        report(source, line, "\"%s\" has no folder (write \"folder/%s\", or <pawl.h>)", name, name);
    } else if (file != NULL) {
        check_direction(tidy, source, line, file, name);
    }
}

void check_includes(struct tidy *tidy, struct source *source, struct tree_file *file)
{
    for (size_t i = 0; i < source->line_count; i++) {
        const char *code = source->code.lines[i] + strspn(source->code.lines[i], " \t");
        if (*code != '#' || !starts_with(code + 1 + strspn(code + 1, " \t"), "include"))
            continue;

        const char *delimiter = strpbrk(source->text.lines[i], "<\"");
        if (delimiter == NULL)
            continue;
        char name[NAME_ROOM];
        int length = (int)strcspn(delimiter + 1, ">\"");
        snprintf(name, sizeof name, "%.*s", length, delimiter + 1);
        check_include(tidy, source, i + 1, file, *delimiter, name);
    }
}
