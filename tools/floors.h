/*
 * The floors of src: which folder may use which, and the floor of each file that does not lie in
 * its folder yet. Both are in a plain list (tools/floors):
 *
 *     floor rows base db journal       src/rows may use these, and itself
 *     outside cli                      src/cli may use the public headers only
 *     module base db handle            a folder that no line names may use these, and itself
 *     flat core                        files of src/core belong elsewhere, and each has a line:
 *     file src/core/birth rows run_insert     it belongs into src/rows, as run_insert.c and .h
 *
 * The path of a `file` line stands for all files of that name, whatever they end with, unless a
 * line has the whole name. The last word may be left out: then the name stays.
 */
#ifndef TOOLS_FLOORS_H
#define TOOLS_FLOORS_H

#include "list.h"

enum { FLOOR_ROOM = 64, PLACE_ROOM = 256 };

struct floors {
    struct list list;
    bool *used; /* the lines that were asked for: one that is not is about a file that is gone */
};

/* Where a file of src belongs. */
struct home {
    char floor[FLOOR_ROOM];
    char place[PLACE_ROOM]; /* its path below src, once it lies there */
};

bool floors_open(struct floors *floors, const char *path);
void floors_close(struct floors *floors);

/* The home of src/FOLDER/NAME. False: the folder is flat, and there is no line for the file. */
bool floors_home(struct floors *floors, const char *path, struct home *out);

/* Does a line name the folder in which src/PATH lies? */
bool floors_know(const struct floors *floors, const char *path);

/* May the first floor use the second one? */
bool floors_allow(const struct floors *floors, const char *from, const char *to);

/* May this floor use nothing of the library but its public headers? */
bool floors_is_outside(const struct floors *floors, const char *floor);

/* Prints what is wrong with the list itself, to be called when every file was asked for: a line
 * that cannot be read, names no floor, or is about no file. Gives the number of findings. */
size_t floors_judge(const struct floors *floors);

#endif
