/* Parsing the command line. Options may stand anywhere, as --name value or --name=value; "--" ends
 * them, for ids that begin with a dash. The table of commands says which options a command
 * takes. */
#include "cli/arguments.h"

#include <errno.h>
#include <stddef.h>
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

/* Reads a list of phases, separated by commas, into a bit mask. */
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

/* Reads a duration with its unit: 500ms, 30s, 5m, 2h, 1d. 0 needs no unit. */
static int read_time(int64_t *out, const char *text)
{
    static const struct {
        const char *name;
        int64_t ms;
    } UNITS[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno == 0 && end > text && number >= 0) {
        *out = number;
        if (number == 0 && !*end)
            return 0;
        for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++) {
            if (strcmp(end, UNITS[i].name) != 0)
                continue;
            *out = number > INT64_MAX / UNITS[i].ms ? INT64_MAX : number * UNITS[i].ms;
            return 0;
        }
    }
    return complain("a time is 500ms, 30s, 5m, 2h or 1d, not", text);
}

/* Reads NAME=VALUE, whose value is JSON. */
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

/* ---- Options ---- */

typedef enum { SWITCH, TEXT, NUMBER, TIME, PHASE, ATTRIBUTE } option_kind;

typedef struct option {
    const char *name;
    size_t at; /* offset of the field in the struct arguments */
    option_kind kind;
    int of_all;
} option;

#define AT(member) offsetof(arguments, member)

static const option OPTIONS[] = {
    {"json", AT(json), SWITCH, 1},
    {"help", AT(help), SWITCH, 1},
    {"version", AT(version), SWITCH, 1},
    {"db", AT(db), TEXT, 1},
    {"tenant", AT(tenant), TEXT, 1},
    {"oldest", AT(oldest_first), SWITCH, 0},
    {"whole", AT(whole), SWITCH, 0},
    {"force", AT(force), SWITCH, 0},
    {"workflow", AT(workflow), TEXT, 0},
    {"prefix", AT(prefix), TEXT, 0},
    {"after", AT(after), TEXT, 0},
    {"attribute", 0, ATTRIBUTE, 0},
    {"phase", AT(phases), PHASE, 0},
    {"limit", AT(limit), NUMBER, 0},
    {"generation", AT(generation), NUMBER, 0},
    {"pin", AT(pin), TEXT, 0},
    {"attributes", AT(attributes), TEXT, 0},
    {"delay", AT(delay_ms), TIME, 0},
    {"deadline", AT(deadline_ms), TIME, 0},
    {"timeout", AT(timeout_ms), TIME, 0},
    {"key", AT(key), TEXT, 0},
    {"start", AT(start), TEXT, 0},
    {"input", AT(input), TEXT, 0},
    {"reason", AT(reason), TEXT, 0},
    {"from", AT(from), TEXT, 0},
};

enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static const option *find_option(const char *name, size_t size)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strlen(OPTIONS[i].name) == size && strncmp(OPTIONS[i].name, name, size) == 0)
            return &OPTIONS[i];
    return NULL;
}

static int read_value(arguments *a, const option *o, char *value)
{
    void *where = (char *)a + o->at;
    switch (o->kind) {
    case SWITCH:
        *(int *)where = 1;
        return 0;
    case TEXT:
        *(const char **)where = value;
        return 0;
    case NUMBER:
        return read_number(where, value);
    case TIME:
        return read_time(where, value);
    case PHASE:
        return read_phases(where, value);
    case ATTRIBUTE:
        return read_attribute(a, value);
    }
    return USAGE;
}

/* Reads the option argv[*i], whose value may be the next word. */
static int read_option(arguments *a, int argc, char **argv, int *i)
{
    char *name = argv[*i] + 2;
    size_t size = strcspn(name, "=");
    char *value = name[size] ? name + size + 1 : NULL;
    const option *o = find_option(name, size);
    name[size] = '\0';
    if (o)
        a->given |= 1U << (o - OPTIONS);
    if (!o || (o->kind == SWITCH && value))
        return complain("there is no such option", name);
    if (o->kind != SWITCH && !value && *i + 1 == argc)
        return complain("an option without its value", name);
    if (o->kind != SWITCH && !value)
        value = argv[++*i];
    return read_value(a, o, value);
}

static int read_word(arguments *a, const char *word)
{
    if (!a->command) {
        a->command = command_find(word);
        return a->command ? 0 : complain("there is no such command", word);
    }
    if (a->count == a->command->most)
        return complain("one word too many", word);
    a->words[a->count++] = word;
    return 0;
}

static int takes_option(const command *c, const char *name)
{
    const char *at = c->options;
    size_t size = strlen(name);
    while ((at = strstr(at, name)) && (at[-1] != ' ' || at[size] != ' '))
        at++;
    return at != NULL;
}

/* Checks that the command takes the words and options that were given. */
static int check_arguments(arguments *a)
{
    if (!a->command)
        return complain("which command?", NULL);
    if (a->count < a->command->least)
        return a->command->least == 1 ? complain("which run? Give its id", NULL)
                                      : complain("words are missing behind", a->command->name);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (a->given & 1U << i && !OPTIONS[i].of_all && !takes_option(a->command, OPTIONS[i].name))
            return complain("this command does not take the option", OPTIONS[i].name);
    if (a->count > 0 && a->after && read_number(&a->after_seq, a->after) != 0)
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
        int failed = 0;
        if (!only_words && strcmp(argv[i], "--") == 0)
            only_words = 1;
        else if (!only_words && strcmp(argv[i], "-h") == 0)
            a->help = 1;
        else if (!only_words && strncmp(argv[i], "--", 2) == 0)
            failed = read_option(a, argc, argv, &i);
        else
            failed = read_word(a, argv[i]);
        if (failed)
            return failed;
    }
    if (!a->db)
        a->db = getenv("PAWL_DB");
    return a->help || a->version ? 0 : check_arguments(a);
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
          "  tree ID      a run and its children\n"
          "  nodes        the processes that drive runs\n"
          "  start WORKFLOW ID [INPUT]   start a run\n"
          "  send ID MAILBOX [MESSAGE]   send a message to a run\n"
          "  wait ID      wait for the end of a run\n"
          "  cancel ID    ask a run to stop\n"
          "  hold ID      stop driving a run\n"
          "  release ID   let a held run go on where it was, with the same idempotency keys\n"
          "  redrive ID   have a failed, cancelled or held run go on as a new generation\n"
          "  rm ID        delete a run that has ended, with its children\n"
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
