/* The commands that change runs: start, send, wait, cancel, redrive, hold, release, rm. They use
 * the public functions that any client has. The tool is not a node: the nodes carry out what these
 * commands request. */
#include "cli/cmd_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out.h"
#include "cli/print.h"

/* ---- Values ---- */

/* Reads stdin to its end, or until it is longer than PAWL_MAX_PAYLOAD, which pawl then refuses. */
static char *read_stdin(void)
{
    size_t size = 0, room = 4096;
    char *text = malloc(room + 1);
    while (text) {
        size += fread(text + size, 1, room - size, stdin);
        if (size < room || room > PAWL_MAX_PAYLOAD)
            break;
        room *= 2;
        char *larger = realloc(text, room + 1);
        if (!larger)
            free(text);
        text = larger;
    }
    if (text)
        text[size] = '\0';
    if (text && strlen(text) != size)
        text[0] = '\0'; /* the text has a NUL inside, so it is not JSON */
    return text;
}

/* The JSON text that a word stands for: no word is null, "-" is the text on stdin. The caller frees
 * it; NULL: memory is out. */
static char *value_of(const char *word)
{
    return !word ? strdup("null") : strcmp(word, "-") == 0 ? read_stdin() : strdup(word);
}

/* ---- Answers ---- */

static void open_answer(const char *id)
{
    fputs("{\"id\":", stdout);
    out_string(stdout, id);
}

/* Prints one line with the words and the id. */
static void print_line(const char *words, const char *id)
{
    printf("%s ", words);
    out_text(stdout, id, 0);
    fputc('\n', stdout);
}

/* ---- start ---- */

pawl_code act_start(pawl *p, const arguments *a)
{
    char fresh[PAWL_ID_SIZE];
    const char *id = a->words[1];
    int64_t created = 0;
    if (strcmp(id, "-") == 0) {
        pawl_code rc = pawl_id_new(fresh);
        if (rc != PAWL_OK)
            return rc;
        id = fresh;
    }
    char *input = value_of(a->words[2]);
    if (!input)
        return PAWL_NOMEM;
    pawl_code rc = pawl_start(p, a->words[0], id, input,
                              PAWL_START(.version = a->pin, .attributes = a->attributes,
                                         .delay_ms = a->delay_ms, .deadline_ms = a->deadline_ms,
                                         .created = &created));
    free(input);
    if (rc != PAWL_OK)
        return rc;
    if (a->json) {
        open_answer(id);
        printf(",\"created\":%s}\n", created ? "true" : "false");
    } else {
        print_line(created ? "started" : "there already:", id);
    }
    return PAWL_OK;
}

/* ---- send ---- */

static pawl_code send(pawl *p, const arguments *a, int64_t *seq, int64_t *created)
{
    const pawl_start_options *start =
        PAWL_START(.version = a->pin, .attributes = a->attributes, .created = created);
    char *message = value_of(a->words[2]);
    if (!message)
        return PAWL_NOMEM;
    pawl_code rc =
        pawl_send(p, a->words[0], a->words[1], message,
                  PAWL_SEND(.key = a->key, .seq = seq, .start = a->start,
                            .start_input = a->start ? a->input ? a->input : "null" : NULL,
                            .start_options = a->start ? start : NULL));
    free(message);
    return rc;
}

pawl_code act_send(pawl *p, const arguments *a)
{
    int64_t seq = 0, created = 0;
    pawl_code rc = send(p, a, &seq, &created);
    if (rc != PAWL_OK)
        return rc;
    if (a->json) {
        open_answer(a->words[0]);
        printf(",\"seq\":%lld,\"created\":%s}\n", (long long)seq, created ? "true" : "false");
    } else {
        printf("sent as %lld\n", (long long)seq);
        if (created)
            print_line("started", a->words[0]);
    }
    return PAWL_OK;
}

/* ---- wait ---- */

pawl_code act_wait(pawl *p, const arguments *a)
{
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_wait(p, a->words[0], a->timeout_ms ? a->timeout_ms : PAWL_FOREVER, &end);
    if (a->json && end) {
        open_answer(a->words[0]);
        fputs(",\"outcome\":", stdout);
        put_outcome(end);
        fputs("}\n", stdout);
    } else if (end) {
        put_outcome_lines(end);
    }
    pawl_outcome_free(end);
    return rc;
}

/* ---- cancel, redrive, hold, release, rm ---- */

static pawl_code print_answer(const arguments *a, pawl_code rc, const char *words)
{
    if (rc == PAWL_OK && a->json) {
        open_answer(a->words[0]);
        fputs("}\n", stdout);
    } else if (rc == PAWL_OK) {
        print_line(words, a->words[0]);
    }
    return rc;
}

pawl_code act_cancel(pawl *p, const arguments *a)
{
    return print_answer(a, pawl_cancel(p, a->words[0], a->reason), "asked to stop:");
}

pawl_code act_redrive(pawl *p, const arguments *a)
{
    pawl_code rc = pawl_redrive(
        p, a->words[0],
        PAWL_REDRIVE(.key = a->key, .from = a->from, .whole = a->whole, .version = a->pin));
    return print_answer(a, rc, "goes on:");
}

pawl_code act_hold(pawl *p, const arguments *a)
{
    return print_answer(a, pawl_hold(p, a->words[0], a->reason), "held:");
}

pawl_code act_release(pawl *p, const arguments *a)
{
    return print_answer(a, pawl_release(p, a->words[0]), "goes on:");
}

pawl_code act_rm(pawl *p, const arguments *a)
{
    return print_answer(a, pawl_delete(p, a->words[0], a->force), "deleted:");
}
