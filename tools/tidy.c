/*
 * tidy: reads the project's sources and reports what a compiler does not look at: the direction
 * of includes and calls, lengths, calls that are not welcome here, missing explanations, shared
 * state, words that say too little.
 *
 * It works on lines, not on a syntax tree. That is enough because clang-format has been there
 * before (a function's braces stand in column 0) and because source.h tells code from comments.
 * It is run from the top folder of the project, and prints "file:line: what (way out)".
 */
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tidy.h"

enum { MAX_PATH = 4096 };

struct options {
    bool figures;
    bool counts;
    bool shrink;
};

static int read_options(int argc, char **argv, struct options *options, struct tidy *tidy);
static void open_lists(struct tidy *tidy);
static void close_lists(struct tidy *tidy);
static void judge_files(struct tidy *tidy, const struct options *options, bool whole);
static void check_places(struct tidy *tidy);

static void visit(const char *path, struct tidy *tidy);
static void visit_folder(const char *folder, struct tidy *tidy);
static void visit_file(const char *path, struct tidy *tidy);
static void visit_prose(const char *path, struct tidy *tidy);
static void check_floors(struct tidy *tidy, struct source *source);
static bool is_source(const char *name);
static bool is_prose(const char *path);

int main(int argc, char **argv)
{
    static const char *const FOLDERS[] = {"include", "src", "test", "bench", "tools", "examples"};
    struct tidy tidy = {.objects = "build/release-gcc"};
    struct options options = {0};
    int first = read_options(argc, argv, &options, &tidy);
    if (first == 0)
        return 2;

    open_lists(&tidy);
    for (int i = first; i < argc; i++)
        visit(starts_with(argv[i], "./") ? argv[i] + 2 : argv[i], &tidy);
    for (size_t i = 0; first == argc && i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        visit(FOLDERS[i], &tidy);
    judge_files(&tidy, &options, first == argc);
    close_lists(&tidy);

    printf("%zu findings in %zu files\n", tidy.findings, tidy.files);
    /* Without any file there is no success either: tidy was started in the wrong folder. */
    return tidy.findings > 0 || tidy.files == 0;
}

/* Gives the number of the first argument that is a path; 0: an option cannot be understood. */
static int read_options(int argc, char **argv, struct options *options, struct tidy *tidy)
{
    int i = 1;
    for (; i < argc && starts_with(argv[i], "--"); i++) {
        if (strcmp(argv[i], "--figures") == 0) {
            options->figures = true;
        } else if (strcmp(argv[i], "--counts") == 0) {
            options->counts = true;
        } else if (strcmp(argv[i], "--shrink") == 0) {
            options->shrink = true;
        } else if (strcmp(argv[i], "--objects") == 0 && i + 1 < argc) {
            tidy->objects = argv[++i];
            tidy->needs_objects = true;
        } else {
            fprintf(stderr,
                    "usage: tidy [--figures] [--counts] [--shrink] [--objects FOLDER] [PATH...]\n"
                    "  --figures  print how the floors are doing\n"
                    "  --counts   print what there is, as tools/ratchet has it\n"
                    "  --shrink   lower the numbers of tools/ratchet to what there is\n"
                    "  --objects  the build whose symbols are read, and must be there;\n"
                    "             otherwise build/release-gcc, if it is there\n");
            return 0;
        }
    }
    return i;
}

static void open_lists(struct tidy *tidy)
{
    static const char *const WORDS = "tools/words";
    if (!floors_open(&tidy->floors, "tools/floors")) {
        printf("tools/floors:1: cannot be read (it says which folder may use which)\n");
        tidy->findings++;
    }
    if (!list_open(&tidy->words, WORDS)) {
        printf("%s:1: cannot be read (it says which words are not welcome)\n", WORDS);
        tidy->findings++;
    }
    ratchet_open(&tidy->ratchet, "tools/ratchet");
}

static void close_lists(struct tidy *tidy)
{
    floors_close(&tidy->floors);
    list_close(&tidy->words);
    ratchet_close(&tidy->ratchet);
    tree_close(&tidy->tree);
    free(tidy->symbols.uses);
    free(tidy->symbols.output);
}

/* Checks over all files, once they were read; given only some of them, fewer checks. */
static void judge_files(struct tidy *tidy, const struct options *options, bool whole)
{
    if (whole) {
        tree_connect(&tidy->tree);
        check_places(tidy);
        check_symbols(tidy);
        check_structs(tidy);
        tidy->findings += floors_judge(&tidy->floors);
    }
    if (whole && options->figures)
        print_figures(tidy);
    if (whole && options->counts)
        ratchet_print(&tidy->ratchet);
    if (whole && options->shrink && !ratchet_shrink(&tidy->ratchet))
        printf("tools/ratchet:1: cannot be written (mind its permissions)\n");
    tidy->findings += ratchet_judge(&tidy->ratchet, whole && !options->shrink);
}

/* No two files may be meant for the same place. */
static void check_places(struct tidy *tidy)
{
    for (size_t i = 0; i < tidy->tree.count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct tree_file *file = &tidy->tree.files[i];
            struct source itself = {.path = file->path};
            if (strcmp(file->home.place, tidy->tree.files[k].home.place) != 0)
                continue;
            report(&itself, 1, "src/%s is the place of %s too (change a name in tools/floors)",
                   file->home.place, tidy->tree.files[k].path);
            tidy->findings += itself.findings;
        }
}

const char *list_name(struct tidy *tidy, const char *path, struct home *room)
{
    if (!starts_with(path, "src/"))
        return path;
    floors_home(&tidy->floors, path, room);
    return room->place;
}

/* ---- finding the files ---------------------------------------------------------------------- */

static void visit(const char *path, struct tidy *tidy)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    if (S_ISDIR(info.st_mode))
        visit_folder(path, tidy);
    else if (S_ISREG(info.st_mode) && is_source(path))
        visit_file(path, tidy);
    else if (S_ISREG(info.st_mode) && is_prose(path))
        visit_prose(path, tidy);
}

static void visit_folder(const char *folder, struct tidy *tidy)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    bool has_sources = false;
    bool has_readme = false;

    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char path[MAX_PATH];
        int length = snprintf(path, sizeof path, "%s/%s", folder, name);
        assert(length > 0 && (size_t)length < sizeof path);

        has_sources |= is_source(name);
        has_readme |= strcmp(name, "README.md") == 0;
        if (name[0] != '.')
            visit(path, tidy);
        free(entries[i]);
    }
    free(entries);

    /* The public headers are explained in docs. */
    if (has_sources && !has_readme && strcmp(folder, "include") != 0) {
        struct source itself = {.path = folder};
        report(&itself, 1, "no README.md (say what the folder is for, a line per file)");
        tidy->findings += itself.findings;
    }
}

static void visit_file(const char *path, struct tidy *tidy)
{
    struct source source;

    if (source_open(&source, path)) {
        check_rules(&source);
        check_floors(tidy, &source);
        check_words(tidy, &source);
        check_sql(&source);
        source_close(&source);
    } else {
        report(&source, 1, "cannot be read (mind its permissions)");
    }
    tidy->files++;
    tidy->findings += source.findings;
}

/* Of a list of mutants the remarks count, and the names of rules, whose words have hyphens between
 * them; not the scripts. */
static void keep_prose_of_mutants(struct source *source)
{
    for (size_t i = 0; i < source->line_count; i++) {
        char *line = source->text.lines[i];
        if (starts_with(line, "rule:"))
            for (; *line != '\0'; line++)
                *line = *line == '-' ? ' ' : *line;
        else if (*line != '#')
            *line = '\0';
    }
}

static void visit_prose(const char *path, struct tidy *tidy)
{
    struct source source;
    if (source_open_prose(&source, path)) {
        if (ends_with(path, "/mutants"))
            keep_prose_of_mutants(&source);
        check_words(tidy, &source);
        source_close(&source);
    } else {
        report(&source, 1, "cannot be read (mind its permissions)");
    }
    tidy->files++;
    tidy->findings += source.findings;
}

/* A file of src is noted down in the tree, with its floor and its includes. */
static void check_floors(struct tidy *tidy, struct source *source)
{
    struct home home;
    struct tree_file *file = NULL;
    if (starts_with(source->path, "src/")) {
        if (!floors_home(&tidy->floors, source->path, &home))
            report(source, 1, "no floor (add a line to tools/floors: where will the file lie?)");
        else
            file = tree_add(&tidy->tree, source, &home);
    }
    check_includes(tidy, source, file);
}

static bool is_source(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0);
}

/* What is written about src beside its sources. */
static bool is_prose(const char *path)
{
    return starts_with(path, "src/") &&
           (ends_with(path, "/README.md") || ends_with(path, "/mutants"));
}

void report(struct source *source, size_t line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%zu: ", source->path, line);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    source->findings++;
}
