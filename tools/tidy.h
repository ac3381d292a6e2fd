/*
 * What the parts of tidy share: the lists that say what is allowed, and what was read so far.
 *
 *   tidy.c           the program: finding files, reading lists
 *   tidy_rules.c     the rules about one file alone
 *   tidy_includes.c  the direction of includes
 *   tidy_symbols.c   the direction of calls, and knots, by the symbols of the objects
 *   tidy_structs.c   wide structs that other floors see
 *   tidy_words.c     words and names that say too little
 *   tidy_sql.c       numbers in SQL that have a name
 *   tidy_figures.c   numbers for people
 */
#ifndef TOOLS_TIDY_H
#define TOOLS_TIDY_H

#include "floors.h"
#include "ratchet.h"
#include "source.h"
#include "tree.h"

/* A reference from one file of the tree to a symbol of another one. */
struct symbol_use {
    size_t from;
    size_t to;
    const char *symbol;
};

/* What the objects say. */
struct symbols {
    bool known; /* there are objects, and none is older than its source */
    size_t count;
    struct symbol_use *uses;
    char *output; /* of nm: has the names */
};

struct tidy {
    struct floors floors;
    struct ratchet ratchet;
    struct list words;
    struct tree tree;
    struct symbols symbols;
    const char *objects; /* the folder of the build */
    bool needs_objects;  /* that there are none is a finding */
    size_t files;
    size_t findings;
};

void report(struct source *source, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Rules about a file. Includes of a file of src are noted down in `file`, which is NULL for all
 * others. */
void check_rules(struct source *source);
void check_includes(struct tidy *tidy, struct source *source, struct tree_file *file);
void check_words(struct tidy *tidy, const struct source *source);
void check_sql(struct source *source);

/* Rules about all of src, once the tree is connected. */
void check_symbols(struct tidy *tidy);
void check_structs(struct tidy *tidy);

enum { MAX_KNOT = 8, MAX_FIELDS = 30 };

/* The largest knot of a floor: the files of it that all reach each other, over symbols of that
 * floor alone. Sets `in_knot` for them, by the numbers of the tree; gives how many they are. */
size_t largest_knot(const struct tidy *tidy, const char *floor, bool *in_knot);

/* Is there a file of another floor that sees this one? */
bool is_seen_outside(const struct tidy *tidy, size_t index);

void print_figures(const struct tidy *tidy);

/* The name under which the lists have a file: its place, or outside of src its path. */
const char *list_name(struct tidy *tidy, const char *path, struct home *room);

#endif
