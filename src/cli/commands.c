/* The commands that only read (ls, show, history, why, tree, nodes), and the table of all commands.
 * They print text for people, or JSON for programs. The keys of the JSON never change.
 *
 * The commands use the public header only. Times are ISO 8601 in UTC. A value that is not there is
 * left out of text, and null in JSON. */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "cli/cmd_write.h"
#include "cli/out.h"
#include "cli/print.h"

enum { LIMIT = 100, DATA = 200, COLUMN_PHASE = 10, COLUMN_WORKFLOW = 24, COLUMN_KIND = 12 };

/* ---- Pieces ---- */

/* Prints an info as a JSON object, without the closing brace. */
static void put_info(const pawl_info *i)
{
    fputs("{\"id\":", stdout);
    out_string(stdout, pawl_info_id(i));
    put_member("workflow", pawl_info_workflow(i));
    put_member("version", pawl_info_version(i));
    put_member("phase", pawl_phase_name(pawl_info_phase(i)));
    printf(",\"generation\":%lld,\"status\":", (long long)pawl_info_generation(i));
    out_json(stdout, pawl_info_status(i));
    printf(",\"status_seq\":%lld", (long long)pawl_info_status_seq(i));
    put_member("held", pawl_info_held(i));
    put_member("parent", pawl_info_parent(i));
    put_member("by", pawl_info_by(i));
    put_time("created", pawl_info_created_ms(i));
    put_time("updated", pawl_info_updated_ms(i));
    put_time("finished", pawl_info_finished_ms(i));
    put_time("wakes", pawl_info_wake_ms(i));
}

/* ---- ls ---- */

typedef struct listing {
    const arguments *arguments;
    int64_t left;
    int64_t told;
    char last[PAWL_MAX_ID + 1];
    int more;
} listing;

static void list_text(listing *l, const pawl_info *i)
{
    char time[OUT_TIME];
    if (l->told == 0) {
        fputs("created                   ", stdout);
        out_column(stdout, "phase", COLUMN_PHASE);
        out_column(stdout, "workflow", COLUMN_WORKFLOW);
        fputs(" id\n", stdout);
    }
    out_time(time, pawl_info_created_ms(i));
    printf("%s  ", time);
    out_column(stdout, pawl_phase_name(pawl_info_phase(i)), COLUMN_PHASE);
    out_column(stdout, pawl_info_workflow(i), COLUMN_WORKFLOW);
    fputc(' ', stdout);
    out_text(stdout, pawl_info_id(i), 0);
    if (pawl_info_held(i)[0]) {
        fputs("  (", stdout);
        out_text(stdout, pawl_info_held(i), DATA);
        fputc(')', stdout);
    }
    fputc('\n', stdout);
}

static int list_one(const pawl_info *i, void *arg)
{
    listing *l = arg;
    if (l->left == 0) {
        l->more = 1;
        return 1;
    }
    l->left--;
    if (l->arguments->json) {
        put_info(i);
        fputs("}\n", stdout);
    } else {
        list_text(l, i);
    }
    l->told++;
    snprintf(l->last, sizeof l->last, "%s", pawl_info_id(i));
    return 0;
}

/* One run more than the limit is read, to know whether the list is complete. */
static pawl_code ls(pawl *p, const arguments *a)
{
    listing l = {.arguments = a, .left = a->limit ? a->limit : LIMIT};
    pawl_code rc = pawl_list(p,
                             PAWL_FILTER(.workflow = a->workflow, .id_prefix = a->prefix,
                                         .attribute = a->attribute,
                                         .attribute_value = a->attribute_value, .phases = a->phases,
                                         .after_id = a->after, .oldest_first = a->oldest_first,
                                         .limit = l.left < INT64_MAX ? l.left + 1 : l.left),
                             list_one, &l);
    if (rc == PAWL_OK && l.more && !a->json) {
        fflush(stdout);
        fputs("there are more; go on with --after '", stderr);
        out_text(stderr, l.last, 0);
        fputs("'\n", stderr);
    }
    return rc;
}

/* ---- show ---- */

static void show_json(const pawl_info *i, const pawl_outcome *end)
{
    put_info(i);
    fputs(",\"outcome\":", stdout);
    put_outcome(end);
    fputs("}\n", stdout);
}

static void show_text(const pawl_info *i, const pawl_outcome *end)
{
    put_line("id", pawl_info_id(i));
    put_line("workflow", pawl_info_workflow(i));
    put_line("version", pawl_info_version(i));
    put_line("phase", pawl_phase_name(pawl_info_phase(i)));
    printf("generation  %lld\n", (long long)pawl_info_generation(i));
    if (strcmp(pawl_info_status(i), "null") != 0)
        put_line("status", pawl_info_status(i));
    put_line("held", pawl_info_held(i));
    put_line("parent", pawl_info_parent(i));
    put_line("by", pawl_info_by(i));
    put_time_line("created", pawl_info_created_ms(i));
    put_time_line("updated", pawl_info_updated_ms(i));
    put_time_line("finished", pawl_info_finished_ms(i));
    put_time_line("wakes", pawl_info_wake_ms(i));
    put_outcome_lines(end);
}

static int has_ended(const pawl_info *i)
{
    pawl_phase phase = pawl_info_phase(i);
    return phase == PAWL_RUN_DONE || phase == PAWL_RUN_FAILED || phase == PAWL_RUN_CANCELLED;
}

static pawl_code show(pawl *p, const arguments *a)
{
    pawl_info *i = NULL;
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_inspect(p, a->words[0], &i);
    if (rc != PAWL_OK)
        return rc;
    if (has_ended(i)) /* If pawl_wait() fails, for example because the run was deleted after
                         pawl_inspect(), `end` stays NULL, and the run is shown without an
                         outcome. */
        pawl_wait(p, a->words[0], 0, &end);
    if (a->json)
        show_json(i, end);
    else
        show_text(i, end);
    pawl_outcome_free(end);
    pawl_info_free(i);
    return PAWL_OK;
}

/* ---- history ---- */

static int event_json(const pawl_event *e, void *arg)
{
    (void)arg;
    printf("{\"seq\":%lld,\"generation\":%lld,\"op\":%lld", (long long)pawl_event_seq(e),
           (long long)pawl_event_generation(e), (long long)pawl_event_op(e));
    put_member("kind", pawl_event_kind(e));
    put_member("name", pawl_event_name(e));
    put_time("at", pawl_event_at_ms(e));
    fputs(",\"data\":", stdout);
    out_json(stdout, pawl_event_data(e));
    fputs("}\n", stdout);
    return 0;
}

/* Prints the data of an event; the time until which a run sleeps is printed as a date. */
static void event_data(const pawl_event *e)
{
    char time[OUT_TIME];
    int64_t until =
        strcmp(pawl_event_kind(e), "sleep") ? 0 : pawl_get_int(pawl_event_data(e), "", 0);
    if (until == 0) {
        out_text(stdout, pawl_event_data(e), DATA);
        return;
    }
    out_time(time, until);
    printf("until %s", time);
}

static int event_text(const pawl_event *e, void *arg)
{
    char time[OUT_TIME];
    (void)arg;
    out_time(time, pawl_event_at_ms(e));
    printf("%6lld  %s  ", (long long)pawl_event_seq(e), time);
    out_column(stdout, pawl_event_kind(e), COLUMN_KIND);
    if (pawl_event_op(e))
        printf("of %lld  ", (long long)pawl_event_op(e));
    out_text(stdout, pawl_event_name(e), 0);
    fputs(pawl_event_name(e)[0] ? "  " : "", stdout);
    event_data(e);
    fputc('\n', stdout);
    return 0;
}

static pawl_code history(pawl *p, const arguments *a)
{
    return pawl_history(p, a->words[0], a->generation, a->after_seq,
                        a->json ? event_json : event_text, NULL);
}

/* ---- why ---- */

static void put_sentences(char *text, int json)
{
    const char *between = "";
    while (*text) {
        char *end = text + strcspn(text, "\n");
        int last = !*end;
        *end = '\0';
        if (json) {
            fputs(between, stdout);
            out_string(stdout, text);
            between = ",";
        } else {
            out_sentence(stdout, text);
            fputc('\n', stdout);
        }
        text = last ? end : end + 1;
    }
}

static pawl_code why(pawl *p, const arguments *a)
{
    char *text = NULL;
    pawl_code rc = pawl_why(p, a->words[0], &text);
    if (rc != PAWL_OK)
        return rc;
    if (a->json) {
        fputs("{\"id\":", stdout);
        out_string(stdout, a->words[0]);
        fputs(",\"why\":[", stdout);
    }
    put_sentences(text, a->json);
    if (a->json)
        fputs("]}\n", stdout);
    pawl_free(text);
    return PAWL_OK;
}

/* ---- tree, nodes ---- */

static int tree_one(const pawl_info *i, void *arg)
{
    const arguments *a = arg;
    if (a->json) {
        put_info(i);
        printf(",\"depth\":%lld}\n", (long long)pawl_info_depth(i));
        return 0;
    }
    for (int64_t depth = pawl_info_depth(i); depth > 0; depth--)
        fputs("  ", stdout);
    out_text(stdout, pawl_info_id(i), 0);
    fputs("  ", stdout);
    out_text(stdout, pawl_info_workflow(i), 0);
    printf("  %s", pawl_phase_name(pawl_info_phase(i)));
    if (pawl_info_held(i)[0]) {
        fputs("  (", stdout);
        out_text(stdout, pawl_info_held(i), DATA);
        fputc(')', stdout);
    }
    fputc('\n', stdout);
    return 0;
}

static pawl_code tree(pawl *p, const arguments *a)
{
    return pawl_tree(p, a->words[0], tree_one, (void *)a);
}

static int node_one(int64_t node, const char *name, const char *build, int64_t since_ms,
                    int64_t still_ms, void *arg)
{
    const arguments *a = arg;
    char time[OUT_TIME];
    if (a->json) {
        printf("{\"node\":%lld", (long long)node);
        put_member("name", name);
        put_member("build", build);
        put_time("since", since_ms);
        put_time("not_moved_since", still_ms);
        fputs("}\n", stdout);
        return 0;
    }
    out_time(time, since_ms);
    printf("%6lld  %s  ", (long long)node, time);
    out_text(stdout, name, 0);
    fputs("  ", stdout);
    out_text(stdout, build, 0);
    if (still_ms) {
        out_time(time, still_ms);
        printf("  (has not moved since %s)", time);
    }
    fputc('\n', stdout);
    return 0;
}

static pawl_code nodes(pawl *p, const arguments *a)
{
    return pawl_nodes(p, node_one, (void *)a);
}

/* ---- The table ---- */

static const command COMMANDS[] = {
    {"ls", ls, 0, 0, 1, " workflow phase prefix attribute limit after oldest ",
     "usage: pawl ls [OPTION…]     list runs, the newest first\n"
     "  --workflow NAME         of this workflow\n"
     "  --phase PHASE[,PHASE…]  live, done, failed, cancelled, failing, held\n"
     "  --prefix TEXT           whose id begins with this\n"
     "  --attribute NAME=JSON   that have this attribute\n"
     "  --limit N               at most so many (100)\n"
     "  --after ID              go on behind this run of an earlier list\n"
     "  --oldest                the oldest first\n"
     "  --json                  a JSON object to a line\n"},
    {"show", show, 1, 1, 1, " ",
     "usage: pawl show ID     what is known about a run\n"
     "  --json                one JSON object\n"},
    {"history", history, 1, 1, 1, " generation after ",
     "usage: pawl history ID   what a run has recorded\n"
     "  --generation N         of this generation (the current one)\n"
     "  --after SEQ            from behind this row\n"
     "  --json                 a JSON object to a line, with all of its data\n"},
    {"why", why, 1, 1, 1, " ",
     "usage: pawl why ID   what a run waits for, and what would make it go on\n"
     "  --json             one JSON object with the sentences\n"},
    {"tree", tree, 1, 1, 1, " ",
     "usage: pawl tree ID   a run and its children, parents first\n"
     "  --json              a JSON object to a line, with the depth of each\n"},
    {"nodes", nodes, 0, 0, 1, " ",
     "usage: pawl nodes   the live nodes: number, since when, name, build; and since when one of\n"
     "                    them, whose process is stopped or gets no processor, has not moved\n"
     "  --json            a JSON object to a line\n"},
    {"start", act_start, 2, 3, 0, " pin attributes delay deadline ",
     "usage: pawl start WORKFLOW ID [INPUT]   start a run, unless it is there already\n"
     "  ID may be -: a fresh one, which is printed. INPUT is JSON (null); -: from stdin\n"
     "  --pin VERSION      of the workflow (what the nodes have)\n"
     "  --attributes JSON  an object: what the run is found by\n"
     "  --delay TIME       not before: 500ms, 30s, 5m, 2h, 1d\n"
     "  --deadline TIME    cancelled, with its clean-ups, so long after its start\n"
     "  --json             one JSON object\n"},
    {"send", act_send, 2, 3, 0, " key start input pin attributes ",
     "usage: pawl send ID MAILBOX [MESSAGE]   send a message to a run\n"
     "  MESSAGE is JSON (null); -: from stdin\n"
     "  --key KEY          delivered once, however often it is sent\n"
     "  --start WORKFLOW   start the run with it, if there is none\n"
     "  --input JSON       of that start (null); also --pin, --attributes as of start\n"
     "  --json             one JSON object\n"},
    {"wait", act_wait, 1, 1, 0, " timeout ",
     "usage: pawl wait ID   wait for the end of a run, and print how it has ended\n"
     "  --timeout TIME      not longer than: 500ms, 30s, 5m, 2h, 1d, or 0 (for ever)\n"
     "  --json              one JSON object\n"},
    {"cancel", act_cancel, 1, 1, 0, " reason ",
     "usage: pawl cancel ID   ask a run to stop; its clean-ups are carried out\n"
     "  --reason TEXT         for people\n"
     "  --json                one JSON object\n"},
    {"redrive", act_redrive, 1, 1, 0, " key from whole pin ",
     "usage: pawl redrive ID   have a failed, cancelled or held run go on, as a new "
     "generation\n"
     "  What it waits for is begun anew, without the pause of a retry, and with a\n"
     "  new idempotency key. A held run keeps its keys if pawl release lets it go on.\n"
     "  --from OP              from this op on (the first that has failed)\n"
     "  --whole                everything anew\n"
     "  --pin VERSION          in this version of the workflow (the one it has)\n"
     "  --key KEY              once, however often it is asked\n"
     "  --json                 one JSON object\n"},
    {"hold", act_hold, 1, 1, 0, " reason ",
     "usage: pawl hold ID   stop driving a run until pawl release; what it is in ends first\n"
     "  --reason TEXT       for people\n"
     "  --json              one JSON object\n"},
    {"release", act_release, 1, 1, 0, " ",
     "usage: pawl release ID   let a held run go on where it was\n"
     "  What was under way is tried again with the same idempotency key.\n"
     "  --json                 one JSON object\n"},
    {"rm", act_rm, 1, 1, 0, " force ",
     "usage: pawl rm ID   delete a run that has ended, with its children and all their "
     "records\n"
     "  --force           a live one too, without any clean-up\n"
     "  --json            one JSON object\n"},
};

const command *command_find(const char *name)
{
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (strcmp(name, COMMANDS[i].name) == 0)
            return &COMMANDS[i];
    return NULL;
}
