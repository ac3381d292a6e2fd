/*
 * Reads a plain list: cuts the file into lines and the lines into words. What a word means is left
 * to the reader of the list.
 */
#include "list.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

static void add_line(struct list *list, char *text, size_t number)
{
    struct list_line line = {.number = number};
    text[strcspn(text, "#")] = '\0';
    for (char *at = text + strspn(text, " \t"); *at != '\0' && line.count < LIST_WORDS;) {
        size_t length = strcspn(at, " \t");
        bool last = at[length] == '\0';
        at[length] = '\0';
        line.words[line.count++] = at;
        at += length;
        if (!last)
            at += 1 + strspn(at + 1, " \t");
    }
    if (line.count == 0)
        return;
    list->lines = grow(list->lines, list->count + 1, sizeof *list->lines);
    list->lines[list->count++] = line;
}

bool list_open(struct list *list, const char *path)
{
    size_t size = 0;
    *list = (struct list){.path = path};
    list->bytes = read_all(path, &size);
    if (list->bytes == NULL)
        return false;

    char *next = list->bytes;
    for (size_t number = 1; *next != '\0'; number++) {
        char *line = next;
        next += strcspn(next, "\n");
        if (*next != '\0')
            *next++ = '\0';
        add_line(list, line, number);
    }
    return true;
}

void list_close(struct list *list)
{
    free(list->lines);
    free(list->bytes);
}

void *grow(void *memory, size_t count, size_t size)
{
    memory = realloc(memory, count * size);
    assert(memory != NULL);
    return memory;
}

char *copy_text(const char *text)
{
    char *copy = strdup(text);
    assert(copy != NULL);
    return copy;
}
