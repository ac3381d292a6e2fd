/* Waiting for a person: a run asks for a decision and gives up after 48 hours.
 *
 *     approval start holiday-7      make the request
 *     approval wait holiday-7       drive it, here, until it has ended; stop and start at will
 *     approval approve holiday-7    decide, from another terminal, also before the run waits
 *
 * The three are separate processes with nothing in common but the database. */
#include <stdio.h>
#include <string.h>
#include <pawl.h>

static const char *book(pawl_work *work, const char *request)
{
    printf("booking %s\n", pawl_work_run_id(work));
    return request;
}

static const char *holiday(pawl_run *run, const char *request)
{
    const char *verdict;
    pawl_set_status(run, "\"waiting for a decision\"");
    if (pawl_receive(run, "decision", PAWL_HOURS(48), &verdict) == PAWL_TIMEOUT)
        return pawl_fail(run, "expired", "no decision about %s", pawl_run_id(run));
    if (!pawl_get_bool(verdict, "/approved", 0))
        return pawl_fail(run, "rejected", "%s said no",
                         pawl_text(run, verdict, "/by", "a manager"));

    pawl_set_status(run, "\"approved\"");
    return pawl_step(run, "book", book, request, NULL);
}

static pawl_code wait_for(pawl *p, const char *id)
{
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_register_workflow(p, "holiday", holiday, NULL);
    if (rc == PAWL_OK)
        rc = pawl_finish(p, id, PAWL_FOREVER, &end);
    if (rc == PAWL_OK)
        printf("%s: %s\n", id, pawl_outcome_value(end));
    else if (end)
        printf("%s: %s: %s\n", id, pawl_outcome_name(end), pawl_outcome_message(end));
    pawl_outcome_free(end);
    return rc;
}

static pawl_code carry_out(pawl *p, const char *verb, const char *id)
{
    if (strcmp(verb, "start") == 0)
        return pawl_start(p, "holiday", id, "{\"days\":14}", NULL);
    if (strcmp(verb, "wait") == 0)
        return wait_for(p, id);
    /* The key makes a second "approve" harmless: the run gets one message. */
    return pawl_send(p, id, "decision", "{\"approved\":true,\"by\":\"the boss\"}",
                     PAWL_SEND(.key = "the boss"));
}

int main(int argc, char **argv)
{
    const char *verb = argc == 3 ? argv[1] : "";
    if (strcmp(verb, "start") != 0 && strcmp(verb, "wait") != 0 && strcmp(verb, "approve") != 0) {
        fprintf(stderr, "usage: approval start|approve|wait ID\n");
        return 2;
    }
    pawl *p;
    pawl_code rc = pawl_open(&p, "approval.db", NULL);
    if (rc == PAWL_OK)
        rc = carry_out(p, verb, argv[2]);
    if (rc != PAWL_OK)
        fprintf(stderr, "approval: %s\n", pawl_errtext(p));
    pawl_close(p);
    return rc != PAWL_OK;
}
