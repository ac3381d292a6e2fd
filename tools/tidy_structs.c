/*
 * Wide structs that other floors see. A struct of many fields is several things at once; as long as
 * only its own floor sees the header, that is a matter of a few files. Where others see it,
 * everything may come to depend on everything.
 */
#include <stdio.h>
#include <string.h>

#include "tidy.h"

bool is_seen_outside(const struct tidy *tidy, size_t index)
{
    const char *floor = tidy->tree.files[index].home.floor;
    for (size_t i = 0; i < tidy->tree.count; i++)
        if (tidy->tree.files[i].sees[index] && strcmp(tidy->tree.files[i].home.floor, floor) != 0)
            return true;
    return false;
}

void check_structs(struct tidy *tidy)
{
    for (size_t i = 0; i < tidy->tree.count; i++) {
        const struct tree_file *file = &tidy->tree.files[i];
        for (size_t k = 0; k < file->struct_count; k++) {
            const struct tree_struct *found = &file->structs[k];
            char subject[PLACE_ROOM + FLOOR_ROOM + 1];
            if (found->fields <= MAX_FIELDS || !is_seen_outside(tidy, i))
                continue;
            snprintf(subject, sizeof subject, "%s %s", file->home.place, found->name);
            ratchet_count(
                &tidy->ratchet, "struct", subject, found->fields,
                "%s:%zu: struct %s has %zu fields and is seen outside of %s (split it, at "
                "most %d; or hide it)",
                file->path, found->line, found->name, found->fields, file->home.floor, MAX_FIELDS);
        }
    }
}
