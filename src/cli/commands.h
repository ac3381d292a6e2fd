/* The commands of the tool. Each prints to stdout and gives the code of the call that ended it; the
 * message of an error is with the handle. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <pawl.h>

#include "cli/arguments.h"

struct command {
    const char *name;
    pawl_code (*run)(pawl *p, const arguments *a);
    int least;           /* positional arguments … */
    int most;            /* … at most ARGUMENTS_WORDS */
    int looks;           /* 1: it only reads, and the database is opened read-only */
    const char *options; /* names of those that it takes, with blanks around */
    const char *usage;
};

/* NULL: there is none of that name. */
const command *command_find(const char *name);

#endif
