/* The command line, parsed and checked: the command, the database, and the command's options. These
 * functions do not open the database. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <stdint.h>

typedef struct command command;

enum { ARGUMENTS_WORDS = 3 };

typedef struct arguments {
    const command *command;
    const char *words[ARGUMENTS_WORDS]; /* positional arguments of the command; NULL: not given */
    int count;
    unsigned given; /* bit mask of the options that were given */
    const char *db; /* must not be printed, since it may hold a password */
    const char *tenant;
    const char *workflow;
    const char *prefix;
    const char *after;
    const char *attribute;
    const char *attribute_value;
    const char *pin;
    const char *attributes;
    const char *key;
    const char *start;
    const char *input;
    const char *reason;
    const char *from;
    int64_t delay_ms;
    int64_t deadline_ms;
    int64_t timeout_ms; /* 0: for ever */
    int64_t phases;
    int64_t limit;
    int64_t generation;
    int64_t after_seq;
    int oldest_first;
    int whole;
    int force;
    int json;
    int help;
    int version;
} arguments;

/* Reads the command line. Gives 0, or the exit code after it has printed the reason to stderr. */
int arguments_read(arguments *a, int argc, char **argv);

/* Prints the help text, of the command if one was given. */
void arguments_help(const arguments *a);

#endif
