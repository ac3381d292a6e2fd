/* Options may stand anywhere, as --name value or --name=value; "--" ends them, for ids that begin
 * with a dash. Each command takes some of them and says so in the table of commands. */
#include "cli/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pawl.h>

#include "cli/commands.h"
#include "cli/out.h"

enum { USAGE = 2, PHASES = 6 };

static int complain(const char *what, const char *word)
{
    fputs("pawl: ", stderr);
    fputs(what, stderr);
    if (word) {
        fputs(": ", stderr);
        out_text(stderr, word, 200);
    }
    fputs("\n  try pawl --help\n", stderr);
    return USAGE;
}

static int read_number(int64_t *out, const char *text)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end || number < 0)
        return complain("not a number from 0 on", text);
    *out = number;
    return 0;
}

/* A list of phases with commas between. */
static int read_phases(int64_t *out, const char *text)
{
    for (;;) {
        size_t size = strcspn(text, ",");
        int phase = 0;
        while (phase < PHASES && (strlen(pawl_phase_name((pawl_phase)phase)) != size ||
                                  strncmp(text, pawl_phase_name((pawl_phase)phase), size) != 0))
            phase++;
        if (phase == PHASES)
            return complain("a phase is live, done, failed, cancelled, failing or held, not", text);
        *out |= INT64_C(1) << phase;
        if (!text[size])
            return 0;
        text += size + 1;
    }
}

/* NAME=VALUE, the value as JSON. */
static int read_attribute(arguments *a, char *text)
{
    char *mark = strchr(text, '=');
    if (!mark)
        return complain("an attribute is NAME=JSON, not", text);
    *mark = '\0';
    a->attribute = text;
    a->attribute_value = mark + 1;
    return 0;
}

/* Options without a value. 1: it was one. */
static int read_switch(arguments *a, const char *name)
{
    int *where = strcmp(name, "json") == 0     ? &a->json
                 : strcmp(name, "help") == 0   ? &a->help
                 : strcmp(name, "oldest") == 0 ? &a->oldest_first
                                               : NULL;
    if (strcmp(name, "version") == 0)
        where = &a->version;
    if (where)
        *where = 1;
    return where != NULL;
}

static int read_value(arguments *a, const char *name, char *value)
{
    if (strcmp(name, "db") == 0)
        a->db = value;
    else if (strcmp(name, "tenant") == 0)
        a->tenant = value;
    else if (strcmp(name, "workflow") == 0)
        a->workflow = value;
    else if (strcmp(name, "prefix") == 0)
        a->prefix = value;
    else if (strcmp(name, "after") == 0)
        a->after = value;
    else if (strcmp(name, "attribute") == 0)
        return read_attribute(a, value);
    else if (strcmp(name, "phase") == 0)
        return read_phases(&a->phases, value);
    else if (strcmp(name, "limit") == 0)
        return read_number(&a->limit, value);
    else if (strcmp(name, "generation") == 0)
        return read_number(&a->generation, value);
    else
        return complain("there is no such option", name);
    return 0;
}

/* argv[*i] is an option; its value may be the next word. */
static int read_option(arguments *a, int argc, char **argv, int *i)
{
    char *name = argv[*i] + 2;
    char *value = strchr(name, '=');
    if (!value && read_switch(a, name))
        return 0;
    if (value)
        *value++ = '\0';
    else if (*i + 1 < argc)
        value = argv[++*i];
    else
        return complain("an option without its value, or no option", name);
    return read_value(a, name, value);
}

static int read_word(arguments *a, const char *word)
{
    if (!a->command) {
        a->command = command_find(word);
        return a->command ? 0 : complain("there is no such command", word);
    }
    if (a->id || !a->command->takes_id)
        return complain("one word too many", word);
    a->id = word;
    return 0;
}

static int takes(const command *c, const char *option)
{
    const char *at = c->options;
    size_t size = strlen(option);
    while ((at = strstr(at, option)) && (at[-1] != ' ' || at[size] != ' '))
        at++;
    return at != NULL;
}

/* What was given must be what the command takes. */
static int check(arguments *a)
{
    const struct {
        const char *name;
        int given;
    } given[] = {
        {"workflow", a->workflow != NULL},  {"prefix", a->prefix != NULL},
        {"after", a->after != NULL},        {"attribute", a->attribute != NULL},
        {"phase", a->phases != 0},          {"limit", a->limit != 0},
        {"generation", a->generation != 0}, {"oldest", a->oldest_first},
    };
    if (!a->command)
        return complain("which command?", NULL);
    if (a->command->takes_id && !a->id)
        return complain("which run? Give its id", NULL);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].given && !takes(a->command, given[i].name))
            return complain("this command does not take the option", given[i].name);
    if (a->command->takes_id && a->after && read_number(&a->after_seq, a->after) != 0)
        return USAGE;
    if (!a->db)
        return complain("which database? Give --db URL, or set PAWL_DB", NULL);
    return 0;
}

int arguments_read(arguments *a, int argc, char **argv)
{
    int only_words = 0;
    *a = (arguments){0};
    for (int i = 1; i < argc; i++) {
        int failed;
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = 1;
            continue;
        }
        if (!only_words && strcmp(argv[i], "-h") == 0)
            failed = !read_switch(a, "help");
        else if (!only_words && strncmp(argv[i], "--", 2) == 0)
            failed = read_option(a, argc, argv, &i);
        else
            failed = read_word(a, argv[i]);
        if (failed)
            return failed;
    }
    if (!a->db)
        a->db = getenv("PAWL_DB");
    return a->help || a->version ? 0 : check(a);
}

void arguments_help(const arguments *a)
{
    if (a->command) {
        fputs(a->command->usage, stdout);
        return;
    }
    fputs("usage: pawl COMMAND [OPTION…]\n"
          "  ls           list runs\n"
          "  show ID      what is known about a run\n"
          "  history ID   what a run has recorded\n"
          "  why ID       what a run waits for, and what would make it go on\n"
          "options of all commands:\n"
          "  --db URL       the database: a file name, sqlite:PATH, postgres://…; or set PAWL_DB,\n"
          "                 which other users of this machine do not see\n"
          "  --tenant NAME  the name space of ids\n"
          "  --json         for programs: one JSON document, or one to a line\n"
          "  --help         of a command: its own options\n"
          "  --version      of the library\n"
          "The exit code is 0, or tells the kind of error; stderr has it in words.\n",
          stdout);
}
