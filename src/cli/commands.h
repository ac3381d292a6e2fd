/* The commands of the tool. Each prints to stdout and gives the code of the call that ended it; the
 * caller gets the error message from the handle. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <pawl.h>

#include "cli/arguments.h"

struct command {
    const char *name;
    pawl_code (*run)(pawl *p, const arguments *a);
    int least;           /* the fewest positional arguments */
    int most;            /* the most positional arguments, at most ARGUMENTS_WORDS */
    int looks;           /* 1: the command only reads, and the database is opened read-only */
    const char *options; /* names of the options that it takes, with a blank before and after
                            each */
    const char *usage;
};

/* Finds a command by its name. NULL: there is none. */
const command *command_find(const char *name);

#endif
