/*
 * Gathers facts about the files of src. Fields of a struct are counted as the source lays them out:
 * clang-format puts the braces of a struct that is not nested into column 0.
 */
#include "tree.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count_calls(const struct source *source, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < source->line_count; i++)
        for (const char *at = source->code.lines[i]; (at = find_word(at, name)) != NULL;
             at += strlen(name))
            count += at[strlen(name)] == '(';
    return count;
}

/* Fields on this line of a struct, and the depth of braces and parentheses behind it. A nested
 * struct is one field, and so is each of several names behind one type. */
static size_t count_fields(const char *code, int *depth)
{
    size_t count = 0;
    for (; *code != '\0'; code++) {
        *depth += *code == '{' || *code == '(';
        *depth -= *code == '}' || *code == ')';
        count += *depth == 1 && (*code == ';' || *code == ',');
    }
    return count;
}

static bool begins_struct(const char *code)
{
    const char *head = starts_with(code, "typedef ") ? code + strlen("typedef ") : code;
    return starts_with(head, "struct ") && strchr(code, '{') != NULL && strchr(code, '(') == NULL &&
           strchr(code, ';') == NULL;
}

/* The name is behind "struct", or where there is none, behind the closing brace. */
static char *struct_name(const char *first, const char *last)
{
    char name[FLOOR_ROOM];
    const char *at = strstr(first, "struct ") + strlen("struct ");
    if (*at == '{')
        at = last + 1 + strspn(last + 1, " ");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " ;{"), at);
    return copy_text(name);
}

static void add_structs(struct tree_file *file, const struct source *source)
{
    for (size_t i = 0; i < source->line_count; i++) {
        const char *first = source->code.lines[i];
        int depth = 0;
        if (!begins_struct(first))
            continue;
        struct tree_struct found = {.line = i + 1, .fields = count_fields(first, &depth)};
        while (depth > 0 && ++i < source->line_count)
            found.fields += count_fields(source->code.lines[i], &depth);
        if (i == source->line_count)
            return;
        const char *close = strrchr(source->code.lines[i], '}');
        found.name = struct_name(first, close != NULL ? close : "} ");
        file->structs = grow(file->structs, file->struct_count + 1, sizeof found);
        file->structs[file->struct_count++] = found;
    }
}

struct tree_file *tree_add(struct tree *tree, const struct source *source, const struct home *home)
{
    tree->files = grow(tree->files, tree->count + 1, sizeof *tree->files);
    struct tree_file *file = &tree->files[tree->count++];
    *file = (struct tree_file){
        .path = copy_text(source->path),
        .home = *home,
        .lines = source->line_count,
        .assertions = count_calls(source, "assert"),
    };
    if (ends_with(source->path, ".h"))
        add_structs(file, source);
    return file;
}

void tree_add_include(struct tree_file *file, const char *path)
{
    file->includes = grow(file->includes, file->include_count + 1, sizeof *file->includes);
    file->includes[file->include_count++] = copy_text(path);
}

static void mark_seen(const struct tree *tree, bool *sees, size_t index)
{
    const struct tree_file *file = &tree->files[index];
    for (size_t i = 0; i < file->include_count; i++) {
        size_t next = tree_find(tree, file->includes[i]);
        if (next == tree->count || sees[next])
            continue;
        sees[next] = true;
        mark_seen(tree, sees, next);
    }
}

void tree_connect(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        tree->files[i].sees = calloc(tree->count, sizeof(bool));
        assert(tree->files[i].sees != NULL);
        mark_seen(tree, tree->files[i].sees, i);
    }
}

size_t tree_find(const struct tree *tree, const char *path)
{
    size_t i = 0;
    while (i < tree->count && strcmp(tree->files[i].path, path) != 0)
        i++;
    return i;
}

void tree_close(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        struct tree_file *file = &tree->files[i];
        for (size_t k = 0; k < file->include_count; k++)
            free(file->includes[k]);
        for (size_t k = 0; k < file->struct_count; k++)
            free(file->structs[k].name);
        free(file->includes);
        free(file->structs);
        free(file->sees);
        free(file->path);
    }
    free(tree->files);
}

bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}
