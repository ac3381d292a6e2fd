/*
 * A plain list in a file: a line is a few words, "#" begins a remark, blank lines mean nothing.
 * The tools keep in such files what is to be read and changed by hand.
 */
#ifndef TOOLS_LIST_H
#define TOOLS_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum { LIST_WORDS = 24 };

struct list_line {
    size_t number; /* in the file, from 1 */
    size_t count;
    char *words[LIST_WORDS]; /* those that there are not, are NULL */
};

struct list {
    const char *path;
    char *bytes;
    size_t count;
    struct list_line *lines; /* those with words */
};

/* Keeps path. False: the file cannot be read, and the list is empty. */
bool list_open(struct list *list, const char *path);
void list_close(struct list *list);

/* Memory that is there: a tool that has none left ends. */
void *grow(void *memory, size_t count, size_t size);
char *copy_text(const char *text);

#endif
