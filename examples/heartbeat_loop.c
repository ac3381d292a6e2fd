/* A run without an end: it beats every ten seconds, listens to messages, and keeps its journal
 * short by beginning a new generation now and then.
 *
 *     heartbeat_loop                        drive it until Ctrl-C; the count goes on next time
 *     heartbeat_loop '{"every_ms":1000}'    from elsewhere: faster
 *     heartbeat_loop '{"pause_ms":60000}'   not at all for a minute
 *     heartbeat_loop '{"stop":true}'        the end */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <pawl.h>

static const char *beat(pawl_work *work, const char *count)
{
    (void)work;
    printf("beat %s\n", count);
    fflush(stdout);
    return "null";
}

/* The state of the loop is its input: count and rhythm, handed on from generation to generation. */
static const char *heart(pawl_run *run, const char *state)
{
    long long count = pawl_get_int(state, "/count", 0);
    int64_t every_ms = pawl_get_int(state, "/every_ms", PAWL_SECONDS(10));

    while (!pawl_should_continue_as_new(run)) {
        const char *message;
        if (pawl_receive(run, "control", every_ms, &message) == PAWL_OK) {
            if (pawl_get_bool(message, "/stop", 0))
                return pawl_json(run, "{'beats':%lld}", count);
            every_ms = pawl_get_int(message, "/every_ms", every_ms);
            pawl_sleep(run, pawl_get_int(message, "/pause_ms", 0));
        }
        pawl_step(run, "beat", beat, pawl_json(run, "%lld", ++count), NULL);
    }
    return pawl_continue_as_new(
        run, pawl_json(run, "{'count':%lld,'every_ms':%lld}", count, (long long)every_ms), NULL);
}

static pawl *volatile serving; /* for the handler only */

static void on_signal(int number)
{
    (void)number;
    pawl_stop(serving);
}

static pawl_code serve(pawl *p)
{
    pawl_code rc = pawl_register_workflow(p, "heart", heart, NULL);
    if (rc == PAWL_OK)
        rc = pawl_start(p, "heart", "heart", "{}", NULL);
    if (rc != PAWL_OK)
        return rc;
    serving = p;
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
    return pawl_serve(p);
}

int main(int argc, char **argv)
{
    pawl *p;
    pawl_code rc = pawl_open(&p, "heartbeat.db", NULL);
    if (rc == PAWL_OK)
        rc = argc > 1 ? pawl_send(p, "heart", "control", argv[1], NULL) : serve(p);
    if (rc != PAWL_OK)
        fprintf(stderr, "heartbeat_loop: %s\n", pawl_errtext(p));
    pawl_close(p);
    return rc != PAWL_OK;
}
