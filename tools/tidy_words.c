/*
 * Words and names that say too little. A comment or a message whose subject is a pronoun, or a
 * helper function that is named by a bare verb, cannot be understood without the code around it,
 * and cannot be found with grep. Which ones these are is in a plain list (tools/words):
 *
 *     text WORD...     not in comments and strings: WORD, in any case, in this order; a word
 *                      alone between quotes is a name, and may stand there
 *     name NAME        no name of a static function
 *
 * Both are counted per file.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy.h"

enum { PLACES_ROOM = 400 };

/* What was found in a file, and where, for the message. */
struct places {
    size_t count;
    size_t length;
    char text[PLACES_ROOM];
};

static void add_place(struct places *places, size_t line, const char *what)
{
    places->count++;
    int length = snprintf(places->text + places->length, PLACES_ROOM - places->length,
                          "%s %s (line %zu)", places->count > 1 ? "," : "", what, line);
    if (places->length + (size_t)length < PLACES_ROOM)
        places->length += (size_t)length;
    places->text[places->length] = '\0';
}

/* ---- text ----------------------------------------------------------------------------------- */

/* A word of a comment or a string, in small letters. */
struct text_word {
    size_t line;
    bool apart; /* there is more than blanks, or a new line, between it and the one before */
    char text[32];
};

struct text_words {
    size_t count;
    struct text_word *at;
};

/* With hyphens: the words of a name like the tag of a mutation are not words of a sentence. */
static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || ((unsigned char)c & 0x80) != 0;
}

/* A word alone between quotes is a name, such as that of a user, and no word of a sentence. */
static bool is_quoted(const char *text, size_t at, size_t end)
{
    return at > 0 && (text[at - 1] == '"' || text[at - 1] == '`') && text[end] == text[at - 1];
}

/* All words of comments and strings, one after the other, so that a line may end between two. */
static void gather_words(const struct source *source, struct text_words *out)
{
    bool apart = true;
    for (size_t i = 0; i < source->line_count; i++) {
        const char *text = source->text.lines[i];
        const char *code = source->code.lines[i];
        for (size_t at = 0; text[at] != '\0';) {
            size_t end = at;
            while (is_letter(text[end]) && code[end] == ' ')
                end++;
            if (end == at) {
                apart |= strchr(" \t*/\"", text[at++]) == NULL;
                continue;
            }
            if (is_quoted(text, at, end)) {
                at = end;
                apart = true;
                continue;
            }
            struct text_word word = {.line = i + 1, .apart = apart};
            for (size_t k = 0; k < end - at && k + 1 < sizeof word.text; k++)
                word.text[k] = (char)tolower((unsigned char)text[at + k]);
            out->at = grow(out->at, out->count + 1, sizeof word);
            out->at[out->count++] = word;
            at = end;
            apart = false;
        }
    }
}

static bool stands_at(const struct text_words *words, size_t at, const struct list_line *line)
{
    for (size_t i = 1; i < line->count; i++, at++)
        if (at == words->count || strcmp(words->at[at].text, line->words[i]) != 0 ||
            (i > 1 && words->at[at].apart))
            return false;
    return line->count > 1;
}

static void find_text(struct tidy *tidy, const struct source *source, struct places *places)
{
    struct text_words words = {0};
    gather_words(source, &words);
    for (size_t i = 0; i < words.count; i++)
        for (size_t k = 0; k < tidy->words.count; k++) {
            const struct list_line *line = &tidy->words.lines[k];
            if (strcmp(line->words[0], "text") == 0 && stands_at(&words, i, line))
                add_place(places, words.at[i].line, line->words[1]);
        }
    free(words.at);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Does the static declaration on this line define something, and not merely announce it? */
static bool is_definition(const struct source *source, size_t line)
{
    for (; line < source->line_count; line++) {
        const char *code = source->code.lines[line];
        if (code[0] == '{')
            return true;
        if (strchr(code, ';') != NULL || code[0] == '\0')
            return false;
    }
    return false;
}

static void find_names(struct tidy *tidy, const struct source *source, struct places *places)
{
    for (size_t i = 0; i < source->line_count; i++) {
        const char *code = source->code.lines[i];
        if (!starts_with(code, "static "))
            continue;
        for (size_t k = 0; k < tidy->words.count; k++) {
            const struct list_line *line = &tidy->words.lines[k];
            if (strcmp(line->words[0], "name") != 0 || line->count != 2)
                continue;
            const char *name = find_word(code, line->words[1]);
            if (name != NULL && name[strlen(line->words[1])] == '(' && is_definition(source, i))
                add_place(places, i + 1, line->words[1]);
        }
    }
}

void check_words(struct tidy *tidy, const struct source *source)
{
    static const char *const FOLDERS[] = {"src/", "include/", "tools/", "test/support/"};
    struct places text = {0};
    struct places names = {0};
    struct home room;
    bool ours = false;
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        ours |= starts_with(source->path, FOLDERS[i]);
    if (!ours)
        return;

    find_text(tidy, source, &text);
    find_names(tidy, source, &names);
    const char *subject = list_name(tidy, source->path, &room);
    if (text.count > 0)
        ratchet_count(&tidy->ratchet, "text", subject, text.count,
                      "%s:1: words that name nothing:%s (the subject is a noun of the code)",
                      source->path, text.text);
    if (names.count > 0)
        ratchet_count(&tidy->ratchet, "name", subject, names.count,
                      "%s:1: names that say too little:%s (say what is done to what)", source->path,
                      names.text);
}
