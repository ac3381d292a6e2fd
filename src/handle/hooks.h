/* Time and randomness from a program that embeds pawl (pawl_hooks), as the sources that the rest
 * of the library takes them from. What the program leaves out is the system's. */
#ifndef HANDLE_HOOKS_H
#define HANDLE_HOOKS_H

#include "base/clock.h"
#include "base/error.h"

typedef struct hooks {
    clock_source clock;
    random_source random;
    pawl_hooks given;
} hooks;

/* Read the hooks of the options; NULL: the system's. `h` stays where it is as long as it is used.
 * PAWL_INVALID as options_read(). */
pawl_code hooks_read(hooks *h, const pawl_hooks *given, error *err);

/* 1: the time is the program's, and not the system's. */
int hooks_have_clock(const hooks *h);

#endif
