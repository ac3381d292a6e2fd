/* Which build of the program this is: a text that another build of it does not have. By it a run
 * that this build cannot go on with is left to others. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

#include "base/arena.h"

/* The build id that the linker has left in the executable, in hexadecimal; where it has none, the
 * size and date of its file. In the arena; NULL when that is full. */
const char *build_id(arena *a);

#endif
