/*
 * The rules about one file alone: it opens with a comment, is laid out as others are, is not too
 * long, promises nothing, calls nothing that is not welcome, and shares no state.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tidy.h"

enum {
    MAX_FILE_LINES = 600,
    MAX_FUNCTION_LINES = 70,
    MAX_COLUMNS = 100,
    MIN_OPENING_LINES = 2,
};

/* Where a call is banned. */
enum where { ANYWHERE, OUTSIDE_CLOCK, IN_SRC, IN_LIBRARY, IN_SRC_AND_TEST };

struct banned {
    const char *call;
    enum where where;
    const char *way_out;
};

static const struct banned BANNED[] = {
    {"strcpy", ANYWHERE, "copy a slice of known length"},
    {"strcat", ANYWHERE, "append to a buf"},
    {"strncpy", ANYWHERE, "copy a slice of known length"},
    {"strncat", ANYWHERE, "append to a buf"},
    {"sprintf", ANYWHERE, "use snprintf and look at its result"},
    {"vsprintf", ANYWHERE, "use vsnprintf and look at its result"},
    {"gets", ANYWHERE, "use fgets or getline"},
    {"strtok", ANYWHERE, "cut slices"},
    {"atoi", ANYWHERE, "use strtol and check what it read"},
    {"atol", ANYWHERE, "use strtol and check what it read"},
    {"rand", ANYWHERE, "take random numbers from a seeded generator"},
    {"srand", ANYWHERE, "take random numbers from a seeded generator"},
    {"signal", ANYWHERE, "use sigaction"},
    {"alloca", ANYWHERE, "use an arena"},
    {"time", OUTSIDE_CLOCK, "ask the clock of src/base/clock.c"},
    {"gettimeofday", OUTSIDE_CLOCK, "ask the clock of src/base/clock.c"},
    {"system", IN_SRC, "a library starts no shells"},
    {"printf", IN_LIBRARY, "a library does not write to stdout: log it"},
    {"vprintf", IN_LIBRARY, "a library does not write to stdout: log it"},
    {"puts", IN_LIBRARY, "a library does not write to stdout: log it"},
    {"putchar", IN_LIBRARY, "a library does not write to stdout: log it"},
    {"exit", IN_LIBRARY, "a library does not end its process: return an error"},
    {"sleep", IN_SRC_AND_TEST, "await a condition"},
    {"usleep", IN_SRC_AND_TEST, "await a condition"},
};

static void check_opening(struct source *source);
static void check_layout(struct source *source);
static void check_lengths(struct source *source);
static void check_leftovers(struct source *source);
static void check_calls(struct source *source);
static bool is_banned_in(enum where where, const char *path);
static bool has_call(const char *code, const char *call);
static void check_statics(struct source *source);
static bool is_mutable(const struct source *source, size_t line);
static bool is_excused(const struct source *source, size_t line);

void check_rules(struct source *source)
{
    static void (*const CHECKS[])(struct source *) = {
        check_opening, check_layout, check_lengths, check_leftovers, check_calls, check_statics,
    };
    for (size_t i = 0; i < sizeof CHECKS / sizeof *CHECKS; i++)
        CHECKS[i](source);
}

static void check_opening(struct source *source)
{
    /* Asking for extensions has to come before everything else, so it may stand first. */
    size_t i = 0;
    while (i < source->line_count &&
           (is_blank(source->text.lines[i]) || starts_with(source->code.lines[i], "#define _")))
        i++;

    size_t said = 0;
    for (; i < source->line_count && is_blank(source->code.lines[i]); i++) {
        const char *note = source->notes.lines[i];
        if (is_blank(note))
            break;
        said += has_letters(note);
    }
    if (said < MIN_OPENING_LINES)
        report(source, 1, "no opening comment (say in two lines or more what the file is for)");
}

static void check_layout(struct source *source)
{
    for (size_t i = 0; i < source->line_count; i++) {
        const char *text = source->text.lines[i];
        size_t columns = 0;
        for (const char *at = text; *at != '\0'; at++)
            columns += ((unsigned char)*at & 0xC0) != 0x80; /* characters, not bytes of UTF-8 */

        if (columns > MAX_COLUMNS)
            report(source, i + 1, "%zu columns (wrap at %d)", columns, MAX_COLUMNS);
        if (strchr(text, '\t') != NULL)
            report(source, i + 1, "tab (indent with spaces)");
        size_t length = strlen(text);
        if (length > 0 && isspace((unsigned char)text[length - 1]))
            report(source, i + 1, "trailing white space (remove it)");
    }
}

/* A public header is the manual, and a manual is as long as what it has to say. */
static bool is_manual(const struct source *source)
{
    return strncmp(source->path, "include/", 8) == 0;
}

static void check_lengths(struct source *source)
{
    if (source->line_count > MAX_FILE_LINES && !is_manual(source))
        report(source, source->line_count, "file of %zu lines (split it, at most %d)",
               source->line_count, MAX_FILE_LINES);

    bool inside = false;
    size_t start = 0;
    for (size_t i = 0; i < source->line_count; i++) {
        char first = source->code.lines[i][0];
        if (first == '{') {
            inside = true;
            start = i;
        } else if (first == '}' && inside) {
            inside = false;
            if (i + 1 - start > MAX_FUNCTION_LINES)
                report(source, start + 1, "function of %zu lines (split it, at most %d)",
                       i + 1 - start, MAX_FUNCTION_LINES);
        }
    }
}

static void check_leftovers(struct source *source)
{
    static const char *const WORDS[] = {"TODO", "FIXME", "XXX", "HACK"};

    for (size_t i = 0; i < source->line_count; i++)
        for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++)
            if (find_word(source->notes.lines[i], WORDS[w]) != NULL)
                report(source, i + 1, "%s (do it, or leave it out)", WORDS[w]);
}

static void check_calls(struct source *source)
{
    for (size_t b = 0; b < sizeof BANNED / sizeof *BANNED; b++) {
        if (!is_banned_in(BANNED[b].where, source->path))
            continue;
        for (size_t i = 0; i < source->line_count; i++)
            if (has_call(source->code.lines[i], BANNED[b].call))
                report(source, i + 1, "call of %s (%s)", BANNED[b].call, BANNED[b].way_out);
    }
}

static bool is_banned_in(enum where where, const char *path)
{
    bool in_src = starts_with(path, "src/");
    switch (where) {
    case ANYWHERE:
        return true;
    case OUTSIDE_CLOCK:
        return strcmp(path, "src/base/clock.c") != 0;
    case IN_SRC:
        return in_src;
    case IN_LIBRARY:
        return in_src && !starts_with(path, "src/cli/");
    case IN_SRC_AND_TEST:
        return in_src || starts_with(path, "test/");
    }
    return true;
}

/* A member of that name, as in clock->sleep(), is another function. */
static bool has_call(const char *code, const char *call)
{
    for (const char *at = code; (at = find_word(at, call)) != NULL; at += strlen(call)) {
        const char *after = at + strlen(call);
        bool member =
            (at > code && at[-1] == '.') || (at - code > 1 && at[-2] == '-' && at[-1] == '>');
        if (after[strspn(after, " ")] == '(' && !member)
            return true;
    }
    return false;
}

static void check_statics(struct source *source)
{
    if (!starts_with(source->path, "src/"))
        return;
    for (size_t i = 0; i < source->line_count; i++) {
        const char *code = source->code.lines[i];
        if (starts_with(code + strspn(code, " "), "static ") && is_mutable(source, i) &&
            !is_excused(source, i))
            report(source, i + 1,
                   "variable shared by the whole process (make it const, put it into a struct, or "
                   "write a comment \"tidy: shared\" with the reason)");
    }
}

/* Is the static declaration that begins on this line a variable that can change? */
static bool is_mutable(const struct source *source, size_t line)
{
    /* Collect it up to the character that tells a variable from a function. */
    char head[512];
    size_t length = 0;
    char end = '\0';
    for (; line < source->line_count && end == '\0'; line++) {
        for (const char *at = source->code.lines[line]; *at != '\0' && end == '\0'; at++) {
            bool pointer_to_function = starts_with(at, "(*");
            if (strchr(";={()", *at) != NULL && !pointer_to_function)
                end = *at;
            else if (length < sizeof head - 2)
                head[length++] = *at;
        }
        head[length++] = ' ';
        if (length >= sizeof head - 1)
            break;
    }
    head[length] = '\0';

    /* With a pointer, it is the const behind the last star that makes the variable constant. */
    const char *star = strrchr(head, '*');
    bool constant = find_word(star != NULL ? star : head, "const") != NULL;
    return end != '(' && end != '\0' && !constant;
}

/* The reason may stand at the end of the line or in the line before. */
static bool is_excused(const struct source *source, size_t line)
{
    static const char MARK[] = "tidy: shared";
    for (size_t i = line > 0 ? line - 1 : 0; i <= line; i++) {
        const char *mark = strstr(source->notes.lines[i], MARK);
        if (mark != NULL && has_letters(mark + strlen(MARK)))
            return true;
    }
    return false;
}
