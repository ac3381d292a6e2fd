/* The command line, parsed and checked: which command, for which database, with which of its
 * options. Nothing here opens anything. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <stdint.h>

typedef struct command command;

enum { ARGUMENTS_WORDS = 3 };

typedef struct arguments {
    const command *command;
    const char *words[ARGUMENTS_WORDS]; /* its positional arguments; NULL: not given */
    int count;
    unsigned given; /* bits: which options */
    const char *db; /* never to be printed: it may hold a password */
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

/* Read them. 0; otherwise the exit code, and stderr has the reason. */
int arguments_read(arguments *a, int argc, char **argv);

/* What --help says. */
void arguments_help(const arguments *a);

#endif
