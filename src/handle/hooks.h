/* Time and randomness that the program provides (pawl_hooks), as a clock_source and a random_source
 * for the rest of the library. The system's are used for hooks that the program leaves out. */
#ifndef HANDLE_HOOKS_H
#define HANDLE_HOOKS_H

#include "base/clock.h"
#include "base/error.h"

typedef struct hooks {
    clock_source clock;
    random_source random;
    pawl_hooks given;
} hooks;

/* Reads the hooks of the options; NULL: all are left out. The caller must not move `h` while its
 * sources are used. PAWL_INVALID as of options_read(). */
pawl_code hooks_read(hooks *h, const pawl_hooks *given, error *err);

/* Returns 1 if the program provides a clock. */
int hooks_have_clock(const hooks *h);

#endif
