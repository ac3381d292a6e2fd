/*
 * Reads the list of floors and answers from it. There are some twenty floors and a hundred files:
 * looking through all lines for each question is quick enough.
 */
#include "floors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

static bool is_kind(const struct list_line *line, const char *kind)
{
    return strcmp(line->words[0], kind) == 0;
}

static const char *word(const struct list_line *line, size_t index)
{
    return index < line->count ? line->words[index] : "";
}

bool floors_open(struct floors *floors, const char *path)
{
    *floors = (struct floors){0};
    bool there = list_open(&floors->list, path);
    floors->used = calloc(floors->list.count + 1, sizeof *floors->used);
    assert(floors->used != NULL);
    return there;
}

void floors_close(struct floors *floors)
{
    free(floors->used);
    list_close(&floors->list);
}

static const struct list_line *find_floor(const struct floors *floors, const char *name)
{
    for (size_t i = 0; i < floors->list.count; i++) {
        const struct list_line *line = &floors->list.lines[i];
        if ((is_kind(line, "floor") || is_kind(line, "outside")) &&
            strcmp(word(line, 1), name) == 0)
            return line;
    }
    return NULL;
}

/* Are these the same path, the second one with or without its ending? */
static bool is_path_of(const char *path, const char *written)
{
    size_t stem = strcspn(path, ".");
    return strcmp(path, written) == 0 ||
           (strlen(written) == stem && strncmp(path, written, stem) == 0);
}

static const struct list_line *find_file(struct floors *floors, const char *path)
{
    size_t found = floors->list.count;
    for (size_t i = 0; i < floors->list.count; i++) {
        const struct list_line *line = &floors->list.lines[i];
        if (!is_kind(line, "file") || !is_path_of(path, word(line, 1)))
            continue;
        if (found == floors->list.count || strcmp(path, word(line, 1)) == 0)
            found = i;
    }
    if (found == floors->list.count)
        return NULL;
    floors->used[found] = true;
    return &floors->list.lines[found];
}

static bool is_flat(const struct floors *floors, const char *folder)
{
    for (size_t i = 0; i < floors->list.count; i++)
        if (is_kind(&floors->list.lines[i], "flat") &&
            strcmp(word(&floors->list.lines[i], 1), folder) == 0)
            return true;
    return false;
}

bool floors_know(const struct floors *floors, const char *path)
{
    char folder[FLOOR_ROOM];
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(path, "/"), path);
    return find_floor(floors, folder) != NULL || is_flat(floors, folder);
}

bool floors_home(struct floors *floors, const char *path, struct home *out)
{
    assert(starts_with(path, "src/"));
    const char *below = path + strlen("src/");
    const struct list_line *line = find_file(floors, path);

    snprintf(out->floor, sizeof out->floor, "%.*s", (int)strcspn(below, "/"), below);
    snprintf(out->place, sizeof out->place, "%s", below);
    if (line == NULL)
        return !is_flat(floors, out->floor);

    const char *name = strrchr(path, '/') + 1;
    const char *end = name + strcspn(name, ".");
    snprintf(out->floor, sizeof out->floor, "%s", word(line, 2));
    snprintf(out->place, sizeof out->place, "%s/%.*s%s", out->floor,
             line->count > 3 ? PLACE_ROOM : (int)(end - name),
             line->count > 3 ? word(line, 3) : name, end);
    return true;
}

bool floors_allow(const struct floors *floors, const char *from, const char *to)
{
    const struct list_line *line = find_floor(floors, from);
    size_t first = 2;
    if (strcmp(from, to) == 0)
        return true;
    for (size_t i = 0; line == NULL && i < floors->list.count; i++)
        if (is_kind(&floors->list.lines[i], "module")) {
            line = &floors->list.lines[i];
            first = 1;
        }
    for (size_t i = first; line != NULL && i < line->count; i++)
        if (strcmp(line->words[i], to) == 0)
            return true;
    return false;
}

bool floors_is_outside(const struct floors *floors, const char *floor)
{
    const struct list_line *line = find_floor(floors, floor);
    return line != NULL && is_kind(line, "outside");
}

/* What is wrong with this line; NULL: nothing. */
static const char *wrong(const struct floors *floors, size_t index)
{
    const struct list_line *line = &floors->list.lines[index];
    bool lists_floors = is_kind(line, "floor") || is_kind(line, "module");
    size_t first = is_kind(line, "module") ? 1 : 2;

    if (is_kind(line, "file") && line->count >= 3 && line->count <= 4) {
        if (find_floor(floors, line->words[2]) == NULL)
            return "no line \"floor\" has this floor (correct the name)";
        return floors->used[index] ? NULL : "there is no such file (remove the line)";
    }
    for (size_t i = first; lists_floors && i < line->count; i++)
        if (find_floor(floors, line->words[i]) == NULL)
            return "a floor that no line \"floor\" has (correct the name)";
    if (lists_floors || ((is_kind(line, "outside") || is_kind(line, "flat")) && line->count == 2))
        return NULL;
    return "no line of this list (floor, outside, module, flat or file)";
}

size_t floors_judge(const struct floors *floors)
{
    size_t findings = 0;
    for (size_t i = 0; i < floors->list.count; i++) {
        const char *text = wrong(floors, i);
        if (text == NULL)
            continue;
        printf("%s:%zu: %s\n", floors->list.path, floors->list.lines[i].number, text);
        findings++;
    }
    return findings;
}
