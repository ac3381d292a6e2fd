/* The smallest durable program: one step, one sleep, one result.
 *
 *     hello            kill it while it sleeps, and start it again
 *
 * The greeting is made once. A second start finds the run, sleeps for what is left of the ten
 * seconds and prints the recorded greeting; a third one prints it at once. */
#include <stdio.h>
#include <pawl.h>

static const char *greet(pawl_work *work, const char *name)
{
    return pawl_work_json(work, "'Hello, %s!'", pawl_work_text(work, name, "", "you"));
}

static const char *hello(pawl_run *run, const char *name)
{
    const char *greeting = pawl_step(run, "greet", greet, name, NULL);
    pawl_sleep(run, PAWL_SECONDS(10));
    return greeting;
}

int main(void)
{
    pawl *p;
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_open(&p, "hello.db", NULL);
    if (rc == PAWL_OK)
        rc = pawl_register_workflow(p, "hello", hello, NULL);
    if (rc == PAWL_OK)
        rc = pawl_start(p, "hello", "hello-1", "\"world\"", NULL);
    if (rc == PAWL_OK)
        rc = pawl_finish(p, "hello-1", PAWL_FOREVER, &end);

    if (rc == PAWL_OK)
        puts(pawl_outcome_value(end));
    else
        fprintf(stderr, "hello: %s\n", pawl_errtext(p));
    pawl_outcome_free(end);
    pawl_close(p);
    return rc != PAWL_OK;
}
