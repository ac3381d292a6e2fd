/*
 * Statistics of the floors: a table with a line for each of them, their largest knots by name, the
 * wide structs, and a line for each file. Nothing here is a finding.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy.h"

static int compare_sizes(const void *a, const void *b)
{
    size_t left = *(const size_t *)a;
    size_t right = *(const size_t *)b;
    return (left > right) - (left < right);
}

static bool is_of(const struct tidy *tidy, size_t index, const char *floor)
{
    return strcmp(tidy->tree.files[index].home.floor, floor) == 0;
}

/* How many headers of src does this file see? */
static size_t count_headers(const struct tidy *tidy, size_t index)
{
    size_t seen = 0;
    for (size_t k = 0; k < tidy->tree.count; k++)
        seen += tidy->tree.files[index].sees[k];
    return seen;
}

/* And the median .c file of the floor? */
static size_t median_headers(const struct tidy *tidy, const char *floor)
{
    size_t n = tidy->tree.count;
    size_t *seen = calloc(n + 1, sizeof *seen);
    size_t files = 0;
    assert(seen != NULL);
    for (size_t i = 0; i < n; i++) {
        if (!is_of(tidy, i, floor) || !ends_with(tidy->tree.files[i].path, ".c"))
            continue;
        seen[files++] = count_headers(tidy, i);
    }
    qsort(seen, files, sizeof *seen, compare_sizes);
    size_t median = seen[files / 2];
    free(seen);
    return median;
}

/* What the ratchet has counted of a kind for this floor, in files or in what they have. */
static size_t counted(const struct tidy *tidy, const char *kind, const char *floor)
{
    size_t sum = 0;
    size_t length = strlen(floor);
    for (size_t i = 0; i < tidy->ratchet.count; i++) {
        const struct ratchet_count *count = &tidy->ratchet.counts[i];
        if (strcmp(count->kind, kind) == 0 && strncmp(count->subject, floor, length) == 0 &&
            count->subject[length] == '/')
            sum += count->number;
    }
    return sum;
}

static void print_floor(const struct tidy *tidy, const char *floor)
{
    size_t files = 0;
    size_t lines = 0;
    size_t assertions = 0;
    bool *in_knot = calloc(tidy->tree.count + 1, sizeof *in_knot);
    assert(in_knot != NULL);
    for (size_t i = 0; i < tidy->tree.count; i++) {
        if (!is_of(tidy, i, floor))
            continue;
        files++;
        lines += tidy->tree.files[i].lines;
        assertions += tidy->tree.files[i].assertions;
    }
    printf("%-10s %5zu %6zu %5zu %7zu %8zu %7zu %7zu %5zu %5zu\n", floor, files, lines,
           largest_knot(tidy, floor, in_knot), counted(tidy, "symbol", floor),
           counted(tidy, "include", floor), assertions, median_headers(tidy, floor),
           counted(tidy, "text", floor), counted(tidy, "name", floor));
    free(in_knot);
}

static void print_knot(const struct tidy *tidy, const char *floor)
{
    bool *in_knot = calloc(tidy->tree.count + 1, sizeof *in_knot);
    assert(in_knot != NULL);
    size_t size = largest_knot(tidy, floor, in_knot);
    if (size > 0)
        printf("knot of %zu in %s:", size, floor);
    for (size_t i = 0; i < tidy->tree.count; i++)
        if (in_knot[i])
            printf(" %s", strrchr(tidy->tree.files[i].path, '/') + 1);
    if (size > 0)
        putchar('\n');
    free(in_knot);
}

static void print_structs(const struct tidy *tidy)
{
    for (size_t i = 0; i < tidy->tree.count; i++) {
        const struct tree_file *file = &tidy->tree.files[i];
        for (size_t k = 0; k < file->struct_count; k++)
            if (file->structs[k].fields > MAX_FIELDS)
                printf("struct %s of %zu fields in %s, %s of %s\n", file->structs[k].name,
                       file->structs[k].fields, file->path,
                       is_seen_outside(tidy, i) ? "seen outside" : "not seen outside",
                       file->home.floor);
    }
}

static void print_longest_header(const struct tidy *tidy)
{
    const struct tree_file *longest = NULL;
    for (size_t i = 0; i < tidy->tree.count; i++) {
        const struct tree_file *file = &tidy->tree.files[i];
        if (ends_with(file->path, ".h") && (longest == NULL || file->lines > longest->lines))
            longest = file;
    }
    if (longest != NULL)
        printf("longest header: %s, %zu lines\n", longest->path, longest->lines);
}

static void print_files(const struct tidy *tidy)
{
    printf("%-32s %6s %7s %7s\n", "file", "lines", "asserts", "headers");
    for (size_t i = 0; i < tidy->tree.count; i++) {
        const struct tree_file *file = &tidy->tree.files[i];
        if (ends_with(file->path, ".c"))
            printf("%-32s %6zu %7zu %7zu\n", file->path, file->lines, file->assertions,
                   count_headers(tidy, i));
    }
}

void print_figures(const struct tidy *tidy)
{
    const struct list *list = &tidy->floors.list;
    printf("%-10s %5s %6s %5s %7s %8s %7s %7s %5s %5s\n", "floor", "files", "lines", "knot",
           "symbols", "includes", "asserts", "headers", "words", "names");
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->lines[i].words[0], "floor") == 0 ||
            strcmp(list->lines[i].words[0], "outside") == 0)
            print_floor(tidy, list->lines[i].words[1]);
    printf("(symbols and includes: upward; headers: of src, seen by the median .c file)\n");
    if (!tidy->symbols.known)
        printf("(symbols and knots were not looked at)\n");
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->lines[i].words[0], "floor") == 0)
            print_knot(tidy, list->lines[i].words[1]);
    print_structs(tidy);
    print_longest_header(tidy);
    print_files(tidy);
}
