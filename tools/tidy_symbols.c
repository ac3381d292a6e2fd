/*
 * The direction of calls, by the symbols of the objects: an object that has a symbol undefined uses
 * the file that defines it. That is exact where includes are not, since one header may declare what
 * several files define. It needs objects of a build without link-time optimisation, in which every
 * call of another file stands as an undefined symbol.
 *
 * Knots are looked for inside each floor: files that all reach each other cannot be understood, or
 * tested, one at a time.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tidy.h"

enum { PATH_ROOM = 512, SUBJECT_ROOM = 2 * PLACE_ROOM, NAMES_ROOM = 400 };

struct symbol {
    const char *name;
    size_t file;
};

struct symbol_table {
    size_t count;
    struct symbol *at;
};

/* ---- reading the objects -------------------------------------------------------------------- */

static void object_path(const struct tidy *tidy, const char *path, char out[PATH_ROOM])
{
    int length = snprintf(out, PATH_ROOM, "%s/%.*s.o", tidy->objects, (int)strlen(path) - 2, path);
    assert(length > 0 && length < PATH_ROOM);
}

static bool is_newer(const char *path, const struct stat *than)
{
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mtim.tv_sec > than->st_mtim.tv_sec ||
                                      (info.st_mtim.tv_sec == than->st_mtim.tv_sec &&
                                       info.st_mtim.tv_nsec > than->st_mtim.tv_nsec));
}

/* Was the object made of the file as it is, and of the headers that the file sees? */
static bool is_fresh(const struct tidy *tidy, const struct tree_file *file)
{
    char object[PATH_ROOM];
    struct stat info;
    object_path(tidy, file->path, object);
    if (stat(object, &info) != 0 || is_newer(file->path, &info))
        return false;
    for (size_t i = 0; i < tidy->tree.count; i++)
        if (file->sees[i] && is_newer(tidy->tree.files[i].path, &info))
            return false;
    return true;
}

/* A folder that was not built at all, because a library is missing, says nothing. */
static bool is_built(const struct tidy *tidy, const struct tree_file *file)
{
    char folder[PATH_ROOM];
    struct stat info;
    int length = (int)(strrchr(file->path, '/') - file->path);
    snprintf(folder, sizeof folder, "%s/%.*s", tidy->objects, length, file->path);
    return ends_with(file->path, ".c") && stat(folder, &info) == 0;
}

/* Prints why the symbols cannot be read, and counts it if they have to be. */
static bool report_trouble(struct tidy *tidy, const char *what)
{
    fprintf(tidy->needs_objects ? stdout : stderr,
            "%s: %s, so symbols were not looked at (build it: make)\n", tidy->objects, what);
    tidy->findings += tidy->needs_objects;
    return false;
}

/* The command that lists the symbols of all objects; NULL: they are not all there. */
static char *nm_command(struct tidy *tidy)
{
    size_t room = tidy->tree.count * PATH_ROOM + PATH_ROOM;
    char *command = calloc(room, 1);
    assert(command != NULL);
    size_t at = (size_t)snprintf(command, room, "nm -A -g 2>/dev/null");
    size_t objects = 0;

    for (size_t i = 0; i < tidy->tree.count; i++) {
        const struct tree_file *file = &tidy->tree.files[i];
        char path[PATH_ROOM];
        if (!is_built(tidy, file))
            continue;
        object_path(tidy, file->path, path);
        if (!is_fresh(tidy, file)) {
            char what[PATH_ROOM + 64];
            snprintf(what, sizeof what, "%s is missing or older than its source", path);
            report_trouble(tidy, what);
            free(command);
            return NULL;
        }
        at += (size_t)snprintf(command + at, room - at, " %s", path);
        objects++;
    }
    if (objects > 0)
        return command;
    report_trouble(tidy, "no objects");
    free(command);
    return NULL;
}

static char *run_command(const char *command)
{
    FILE *pipe = popen(command, "r");
    char *output = NULL;
    size_t size = 0;
    size_t got = 0;
    if (pipe == NULL)
        return NULL;
    do {
        output = grow(output, size + 65537, 1);
        got = fread(output + size, 1, 65536, pipe);
        size += got;
    } while (got > 0);
    output[size] = '\0';
    return pclose(pipe) == 0 ? output : (free(output), NULL);
}

/* The file of a line "FOLDER/src/x/y.o: ADDRESS KIND NAME", cut behind the path. */
static size_t file_of(const struct tidy *tidy, char *line)
{
    size_t length = strlen(tidy->objects) + 1;
    char *end = strstr(line, ".o:");
    if (end == NULL || strlen(line) < length)
        return tidy->tree.count;
    end[1] = 'c';
    end[2] = '\0';
    return tree_find(&tidy->tree, line + length);
}

static int compare_symbols(const void *a, const void *b)
{
    return strcmp(((const struct symbol *)a)->name, ((const struct symbol *)b)->name);
}

/* Sorts the lines of nm into what is defined and what is used. */
static void read_lines(const struct tidy *tidy, char *output, struct symbol_table *defined,
                       struct symbol_table *used)
{
    for (char *line = strtok_r(output, "\n", &output); line != NULL;
         line = strtok_r(NULL, "\n", &output)) {
        char *name = strrchr(line, ' ');
        if (name == NULL || name - line < 2)
            continue;
        struct symbol_table *table = name[-1] == 'U' ? used : defined;
        *name++ = '\0';
        struct symbol symbol = {name, file_of(tidy, line)};
        if (symbol.file == tidy->tree.count)
            continue;
        table->at = grow(table->at, table->count + 1, sizeof symbol);
        table->at[table->count++] = symbol;
    }
    qsort(defined->at, defined->count, sizeof *defined->at, compare_symbols);
}

static bool read_symbols(struct tidy *tidy)
{
    struct symbols *symbols = &tidy->symbols;
    struct symbol_table defined = {0};
    struct symbol_table used = {0};
    char *command = nm_command(tidy);
    if (command == NULL)
        return false;
    symbols->output = run_command(command);
    free(command);
    if (symbols->output == NULL)
        return report_trouble(tidy, "nm cannot read the objects");

    read_lines(tidy, symbols->output, &defined, &used);
    for (size_t i = 0; i < used.count; i++) {
        const struct symbol *there =
            bsearch(&used.at[i], defined.at, defined.count, sizeof *defined.at, compare_symbols);
        if (there == NULL || there->file == used.at[i].file)
            continue;
        symbols->uses = grow(symbols->uses, symbols->count + 1, sizeof *symbols->uses);
        symbols->uses[symbols->count++] =
            (struct symbol_use){used.at[i].file, there->file, there->name};
    }
    free(defined.at);
    free(used.at);
    return true;
}

/* ---- direction ------------------------------------------------------------------------------ */

/* All symbols of one file that another one uses; gives how many. */
static size_t name_uses(const struct tidy *tidy, size_t from, size_t to, char out[NAMES_ROOM])
{
    size_t count = 0;
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < tidy->symbols.count; i++) {
        const struct symbol_use *use = &tidy->symbols.uses[i];
        if (use->from != from || use->to != to)
            continue;
        count++;
        if (at + strlen(use->symbol) + 2 < NAMES_ROOM)
            at += (size_t)snprintf(out + at, NAMES_ROOM - at, " %s", use->symbol);
    }
    return count;
}

/* Is there no earlier use between the same two files? */
static bool is_first(const struct tidy *tidy, size_t index)
{
    const struct symbol_use *uses = tidy->symbols.uses;
    for (size_t i = 0; i < index; i++)
        if (uses[i].from == uses[index].from && uses[i].to == uses[index].to)
            return false;
    return true;
}

static void check_pair(struct tidy *tidy, size_t from, size_t to)
{
    const struct tree_file *ours = &tidy->tree.files[from];
    const struct tree_file *theirs = &tidy->tree.files[to];
    char names[NAMES_ROOM];
    char subject[SUBJECT_ROOM];

    if (floors_is_outside(&tidy->floors, ours->home.floor) || /* it links the public ones only */
        floors_allow(&tidy->floors, ours->home.floor, theirs->home.floor))
        return;
    size_t count = name_uses(tidy, from, to, names);
    snprintf(subject, sizeof subject, "%s %s", ours->home.place, theirs->home.place);
    ratchet_count(&tidy->ratchet, "symbol", subject, count,
                  "%s:1: %s must not use %s:%s in %s (calls point down: hand the function in, or "
                  "move it)",
                  ours->path, ours->home.floor, theirs->home.floor, names, theirs->path);
}

/* ---- knots ---------------------------------------------------------------------------------- */

/* Which files of the floor reach which, by number: a matrix that the caller frees. */
static bool *reach_of(const struct tidy *tidy, const char *floor)
{
    size_t n = tidy->tree.count;
    bool *reach = calloc(n * n, sizeof *reach);
    assert(reach != NULL);
    for (size_t i = 0; i < tidy->symbols.count; i++) {
        const struct symbol_use *use = &tidy->symbols.uses[i];
        reach[use->from * n + use->to] =
            strcmp(tidy->tree.files[use->from].home.floor, floor) == 0 &&
            strcmp(tidy->tree.files[use->to].home.floor, floor) == 0;
    }
    for (size_t via = 0; via < n; via++)
        for (size_t from = 0; from < n; from++)
            for (size_t to = 0; reach[from * n + via] && to < n; to++)
                reach[from * n + to] |= reach[via * n + to];
    return reach;
}

size_t largest_knot(const struct tidy *tidy, const char *floor, bool *in_knot)
{
    size_t n = tidy->tree.count;
    size_t largest = 0;
    size_t member = 0;
    bool *reach = reach_of(tidy, floor);

    for (size_t i = 0; i < n; i++) {
        size_t size = 0;
        for (size_t k = 0; k < n; k++)
            size += reach[i * n + k] && reach[k * n + i];
        if (size > largest) {
            largest = size;
            member = i;
        }
    }
    for (size_t k = 0; k < n; k++)
        in_knot[k] = largest > 0 && reach[member * n + k] && reach[k * n + member];
    free(reach);
    return largest;
}

static void check_knot(struct tidy *tidy, const char *floor)
{
    char names[NAMES_ROOM];
    size_t at = 0;
    bool *in_knot = calloc(tidy->tree.count, sizeof *in_knot);
    assert(in_knot != NULL);
    size_t size = largest_knot(tidy, floor, in_knot);

    names[0] = '\0';
    for (size_t i = 0; i < tidy->tree.count; i++) {
        const char *name = strrchr(tidy->tree.files[i].path, '/') + 1;
        if (in_knot[i] && at + strlen(name) + 2 < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, " %s", name);
    }
    if (size > MAX_KNOT)
        ratchet_count(
            &tidy->ratchet, "knot", floor, size,
            "%s:1: %zu files call each other in circles, at most %d may:%s (cut a circle)", floor,
            size, MAX_KNOT, names);
    free(in_knot);
}

void check_symbols(struct tidy *tidy)
{
    tidy->symbols.known = read_symbols(tidy);
    if (!tidy->symbols.known) {
        ratchet_skip(&tidy->ratchet, "symbol");
        ratchet_skip(&tidy->ratchet, "knot");
        return;
    }
    for (size_t i = 0; i < tidy->symbols.count; i++)
        if (is_first(tidy, i))
            check_pair(tidy, tidy->symbols.uses[i].from, tidy->symbols.uses[i].to);
    for (size_t i = 0; i < tidy->floors.list.count; i++)
        if (strcmp(tidy->floors.list.lines[i].words[0], "floor") == 0)
            check_knot(tidy, tidy->floors.list.lines[i].words[1]);
}
