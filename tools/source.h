/*
 * A C source file in three views of the same layout: as written, the code alone, the comments
 * alone. A search for a call then does not stumble over a comment that talks about it.
 *
 * Knows the lexical rules of C and nothing of what is searched.
 */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* Lines end with a NUL, without their newline. */
struct view {
    char *bytes;
    char **lines;
};

struct source {
    const char *path;
    size_t findings; /* a count for the checks */
    size_t line_count;
    struct view text;  /* as written */
    struct view code;  /* comments and literals blanked */
    struct view notes; /* all but comments blanked */
};

/* Keeps path. Returns false when the file cannot be read; then there is nothing to close. */
bool source_open(struct source *source, const char *path);

/* The same for a file that is no C: all of it counts as comment. */
bool source_open_prose(struct source *source, const char *path);
void source_close(struct source *source);

/* All bytes of a file, with a NUL behind them; NULL: it cannot be read. Adds to *size. */
char *read_all(const char *path, size_t *size);

bool starts_with(const char *text, const char *prefix);
bool is_blank(const char *text);
bool has_letters(const char *text);

/* The first place where word stands alone, not as a part of a longer name; or NULL. */
const char *find_word(const char *text, const char *word);

#endif
