/*
 * Reads a C source file and deals its characters out into code and comments. What belongs
 * elsewhere becomes a blank, so that a line and a column mean the same in every view.
 */
#include "source.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void separate(const char *text, size_t size, char *code, char *notes);
static size_t cut(struct view *view, size_t size);

static bool open_views(struct source *source, const char *path, bool is_code)
{
    size_t size = 0;
    *source = (struct source){.path = path};
    source->text.bytes = read_all(path, &size);
    if (source->text.bytes == NULL)
        return false;

    source->code.bytes = calloc(size + 1, 1);
    source->notes.bytes = calloc(size + 1, 1);
    assert(source->code.bytes != NULL && source->notes.bytes != NULL);

    if (is_code)
        separate(source->text.bytes, size, source->code.bytes, source->notes.bytes);
    for (size_t i = 0; i < size && !is_code; i++) {
        source->notes.bytes[i] = source->text.bytes[i];
        source->code.bytes[i] = source->text.bytes[i] == '\n' ? '\n' : ' ';
    }
    source->line_count = cut(&source->text, size);
    cut(&source->code, size);
    cut(&source->notes, size);
    return true;
}

bool source_open(struct source *source, const char *path)
{
    return open_views(source, path, true);
}

bool source_open_prose(struct source *source, const char *path)
{
    return open_views(source, path, false);
}

void source_close(struct source *source)
{
    struct view *views[] = {&source->text, &source->code, &source->notes};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        free(views[i]->bytes);
        free(views[i]->lines);
    }
}

char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;

    char *bytes = NULL;
    size_t room = 0;
    do {
        room = room * 2 + 65536;
        bytes = realloc(bytes, room + 1);
        assert(bytes != NULL);
        *size += fread(bytes + *size, 1, room - *size, file);
    } while (*size == room);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

static void separate(const char *text, size_t size, char *code, char *notes)
{
    enum { CODE, LINE_COMMENT, COMMENT, STRING, CHARACTER } state = CODE;

    for (size_t i = 0; i < size;) {
        const char *at = text + i;
        size_t step = 1;
        bool ends = false;

        if (state == CODE && (starts_with(at, "/*") || starts_with(at, "//"))) {
            state = at[1] == '*' ? COMMENT : LINE_COMMENT;
            step = 2;
        } else if (state == CODE && (*at == '"' || *at == '\'')) {
            state = *at == '"' ? STRING : CHARACTER;
        } else if (state == COMMENT && starts_with(at, "*/")) {
            ends = true;
            step = 2;
        } else if (state == STRING || state == CHARACTER) {
            ends = *at == (state == STRING ? '"' : '\'') || *at == '\n';
            step = *at == '\\' && i + 1 < size ? 2 : 1;
        } else if (state == LINE_COMMENT) {
            ends = *at == '\n';
        }

        bool is_note = state == COMMENT || state == LINE_COMMENT;
        for (size_t end = i + step; i < end; i++) {
            bool stays = text[i] == '\n' || text[i] == '\t';
            code[i] = stays || state == CODE ? text[i] : ' ';
            notes[i] = stays || is_note ? text[i] : ' ';
        }
        if (ends)
            state = CODE;
    }
}

/* Ends each line with a NUL in place of its newline; returns how many there are. */
static size_t cut(struct view *view, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += view->bytes[i] == '\n' || i + 1 == size;

    view->lines = calloc(count + 1, sizeof *view->lines);
    assert(view->lines != NULL);

    char *next = view->bytes;
    for (size_t i = 0; i < count; i++) {
        view->lines[i] = next;
        next += strcspn(next, "\n");
        *next++ = '\0';
    }
    return count;
}

bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_word_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const char *find_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if ((at == text || !is_word_character(at[-1])) && !is_word_character(at[length]))
            return at;
    return NULL;
}

bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r")] == '\0';
}

bool has_letters(const char *text)
{
    while (*text != '\0' && !isalpha((unsigned char)*text))
        text++;
    return *text != '\0';
}
