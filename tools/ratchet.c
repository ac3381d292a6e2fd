/*
 * Compares today's counts with the lines of a list that may only shrink. The subject of a line is
 * everything behind the number, with single blanks in between.
 */
#include "ratchet.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

enum { ROOM = 4096 };

void ratchet_open(struct ratchet *ratchet, const char *path)
{
    *ratchet = (struct ratchet){0};
    list_open(&ratchet->list, path); /* none is an empty one */
}

void ratchet_close(struct ratchet *ratchet)
{
    for (size_t i = 0; i < ratchet->count; i++) {
        free(ratchet->counts[i].subject);
        free(ratchet->counts[i].message);
    }
    free(ratchet->counts);
    list_close(&ratchet->list);
}

static void join_subject(const struct list_line *line, char out[ROOM])
{
    out[0] = '\0';
    for (size_t i = 2, at = 0; i < line->count; i++) {
        int length = snprintf(out + at, ROOM - at, "%s%s", i > 2 ? " " : "", line->words[i]);
        assert(length > 0 && at + (size_t)length < ROOM);
        at += (size_t)length;
    }
}

static const struct list_line *find_line(const struct ratchet *ratchet, const char *kind,
                                         const char *subject)
{
    char own[ROOM];
    for (size_t i = 0; i < ratchet->list.count; i++) {
        const struct list_line *line = &ratchet->list.lines[i];
        if (strcmp(line->words[0], kind) != 0)
            continue;
        join_subject(line, own);
        if (strcmp(own, subject) == 0)
            return line;
    }
    return NULL;
}

static size_t number_of(const struct list_line *line)
{
    char *end = NULL;
    unsigned long number = line->count > 2 ? strtoul(line->words[1], &end, 10) : 0;
    return end != NULL && *end == '\0' ? number : 0;
}

void ratchet_count(struct ratchet *ratchet, const char *kind, const char *subject, size_t number,
                   const char *format, ...)
{
    char message[ROOM];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    const struct list_line *line = find_line(ratchet, kind, subject);
    ratchet->counts = grow(ratchet->counts, ratchet->count + 1, sizeof *ratchet->counts);
    ratchet->counts[ratchet->count++] = (struct ratchet_count){
        .kind = kind,
        .subject = copy_text(subject),
        .message = copy_text(message),
        .number = number,
        .allowed = line != NULL ? number_of(line) : 0,
        .line = line != NULL ? line->number : 0,
    };
}

void ratchet_skip(struct ratchet *ratchet, const char *kind)
{
    assert(ratchet->skip_count < sizeof ratchet->skipped / sizeof *ratchet->skipped);
    ratchet->skipped[ratchet->skip_count++] = kind;
}

/* What there is today of a line of the list. A kind that was not counted is as the line says. */
static size_t today(const struct ratchet *ratchet, const struct list_line *line)
{
    for (size_t i = 0; i < ratchet->skip_count; i++)
        if (strcmp(ratchet->skipped[i], line->words[0]) == 0)
            return number_of(line);
    for (size_t i = 0; i < ratchet->count; i++)
        if (ratchet->counts[i].line == line->number)
            return ratchet->counts[i].number;
    return 0;
}

static size_t judge_line(const struct ratchet *ratchet, const struct list_line *line)
{
    char subject[ROOM];
    size_t now = today(ratchet, line);
    join_subject(line, subject);

    if (number_of(line) == 0)
        printf("%s:%zu: no line of this list (write KIND NUMBER SUBJECT)\n", ratchet->list.path,
               line->number);
    else if (now == 0)
        printf("%s:%zu: %s of %s is no longer needed (remove the line, or run tidy --shrink)\n",
               ratchet->list.path, line->number, line->words[0], subject);
    else if (now < number_of(line))
        printf("%s:%zu: %s of %s is only %zu (lower the number, or run tidy --shrink)\n",
               ratchet->list.path, line->number, line->words[0], subject, now);
    else
        return 0;
    return 1;
}

size_t ratchet_judge(struct ratchet *ratchet, bool whole)
{
    size_t findings = 0;
    for (size_t i = 0; i < ratchet->count; i++) {
        const struct ratchet_count *count = &ratchet->counts[i];
        if (count->number <= count->allowed)
            continue;
        findings++;
        printf("%s", count->message);
        if (count->allowed > 0)
            printf(" [%zu; the list allows %zu]", count->number, count->allowed);
        putchar('\n');
    }
    for (size_t i = 0; whole && i < ratchet->list.count; i++)
        findings += judge_line(ratchet, &ratchet->list.lines[i]);
    return findings;
}

static int compare_counts(const void *a, const void *b)
{
    const struct ratchet_count *left = a;
    const struct ratchet_count *right = b;
    int order = strcmp(left->kind, right->kind);
    return order != 0 ? order : strcmp(left->subject, right->subject);
}

void ratchet_print(struct ratchet *ratchet)
{
    if (ratchet->count > 0)
        qsort(ratchet->counts, ratchet->count, sizeof *ratchet->counts, compare_counts);
    for (size_t i = 0; i < ratchet->count; i++)
        printf("%s %zu %s\n", ratchet->counts[i].kind, ratchet->counts[i].number,
               ratchet->counts[i].subject);
}

/* The line as it is to be, with what it was in `text`; NULL: it goes. */
static const char *shrunk(const struct ratchet *ratchet, size_t number, const char *text,
                          char out[ROOM])
{
    for (size_t i = 0; i < ratchet->list.count; i++) {
        const struct list_line *line = &ratchet->list.lines[i];
        if (line->number != number || number_of(line) == 0)
            continue;
        size_t now = today(ratchet, line);
        char subject[ROOM];
        join_subject(line, subject);
        if (now == 0)
            return NULL;
        if (now >= number_of(line))
            return text;
        int length = snprintf(out, ROOM, "%s %zu %s", line->words[0], now, subject);
        assert(length > 0 && length < ROOM);
        return out;
    }
    return text;
}

bool ratchet_shrink(struct ratchet *ratchet)
{
    size_t size = 0;
    char *bytes = read_all(ratchet->list.path, &size);
    FILE *file = bytes != NULL ? fopen(ratchet->list.path, "w") : NULL;
    if (file == NULL) {
        free(bytes);
        return false;
    }
    char *next = bytes;
    for (size_t number = 1; *next != '\0'; number++) {
        char *line = next;
        char out[ROOM];
        next += strcspn(next, "\n");
        if (*next != '\0')
            *next++ = '\0';
        const char *text = shrunk(ratchet, number, line, out);
        if (text != NULL)
            fprintf(file, "%s\n", text);
    }
    free(bytes);
    return fclose(file) == 0;
}
