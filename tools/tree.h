/*
 * What is known of the files of src when all of them were read: homes, lengths, includes, wide
 * structs. The checks that look at more than one file (symbols, structs, figures) work on it.
 */
#ifndef TOOLS_TREE_H
#define TOOLS_TREE_H

#include "floors.h"
#include "source.h"

/* A struct that is defined in a header. */
struct tree_struct {
    char *name;
    size_t line;
    size_t fields;
};

struct tree_file {
    char *path;
    struct home home;
    size_t lines;
    size_t assertions;
    size_t include_count;
    char **includes; /* paths of the headers of src that it includes */
    size_t struct_count;
    struct tree_struct *structs;
    bool *sees; /* by the number of a file: it includes that, or what it includes does */
};

struct tree {
    size_t count;
    struct tree_file *files;
};

void tree_close(struct tree *tree);

/* The file is good until the next one is added. */
struct tree_file *tree_add(struct tree *tree, const struct source *source, const struct home *home);
void tree_add_include(struct tree_file *file, const char *path);

/* To be called when all files were added, before `sees` is looked at. */
void tree_connect(struct tree *tree);

/* The number of the file with this path; tree->count: there is none. */
size_t tree_find(const struct tree *tree, const char *path);

bool ends_with(const char *text, const char *end);

#endif
