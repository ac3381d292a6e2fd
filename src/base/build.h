/* The build id of the program: a text that another build of it does not have. By it a node
 * recognises a run that this very build could not go on with, and leaves it to other nodes. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

#include "base/arena.h"

/* Returns the build id that the linker has left in the executable, in hexadecimal; where it has
 * left none, the size and date of the executable's file. The text is in the arena; NULL: the arena
 * is full. */
const char *build_id(arena *a);

#endif
