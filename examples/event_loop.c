/* pawl inside a program's own event loop: no threads of pawl's, one epoll, two sources.
 *
 *     event_loop          then type "20 the tea is ready"; stop it, start it: no reminder is lost
 *
 * The descriptor of pawl_fd() becomes readable when there is something to do, pawl_timeout() says
 * when something will be due, and pawl_poll() does it, in this thread, and returns. Another process
 * may start reminders too, and is heard at once:
 *
 *     PAWL_DB=reminders.db pawl start reminder "the bread is ready" '{"seconds":5}'
 *
 * Linux. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <pawl.h>

static const char *ring(pawl_work *work, const char *text)
{
    printf("\a%s\n", pawl_work_text(work, text, "", ""));
    fflush(stdout);
    return "null";
}

static const char *reminder(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_SECONDS(pawl_get_int(input, "/seconds", 0)));
    return pawl_step(run, "ring", ring, pawl_json(run, "%s", pawl_run_id(run)), NULL);
}

/* "20 the tea is ready": the text is the run's id, so that the same line twice is one reminder. */
static pawl_code remind(pawl *p, char *line)
{
    char *text;
    long seconds = strtol(line, &text, 10);
    text += strspn(text, " ");
    text[strcspn(text, "\n")] = '\0';
    if (seconds < 0 || !*text) {
        fprintf(stderr, "SECONDS TEXT, please\n");
        return PAWL_OK;
    }
    char *input = pawl_json_new("{'seconds':%ld}", seconds);
    pawl_code rc = input ? pawl_start(p, "reminder", text, input, NULL) : PAWL_NOMEM;
    pawl_free(input);
    return rc;
}

static pawl_code loop(pawl *p, int epoll)
{
    struct epoll_event tasks = {.events = EPOLLIN, .data.fd = pawl_fd(p)};
    struct epoll_event input = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, tasks.data.fd, &tasks) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, input.data.fd, &input) != 0)
        return PAWL_IO;

    char line[PAWL_MAX_ID];
    setvbuf(stdin, NULL, _IONBF, 0); /* what stdio has read already, epoll does not see */
    pawl_code rc;
    while ((rc = pawl_poll(p, NULL)) == PAWL_OK || pawl_code_retryable(rc)) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, pawl_timeout(p)) < 1 || event.data.fd != STDIN_FILENO)
            continue;
        if (!fgets(line, sizeof line, stdin))
            return PAWL_OK;
        if (remind(p, line) != PAWL_OK)
            fprintf(stderr, "event_loop: %s\n", pawl_errtext(p));
    }
    return rc;
}

int main(void)
{
    pawl *p;
    pawl_code rc = pawl_open(&p, "reminders.db", PAWL_OPTIONS(.threads = -1));
    if (rc == PAWL_OK)
        rc = pawl_register_workflow(p, "reminder", reminder, NULL);
    if (rc == PAWL_OK) {
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        rc = loop(p, epoll);
        close(epoll);
    }
    if (rc != PAWL_OK)
        fprintf(stderr, "event_loop: %s\n",
                pawl_errcode(p) == rc ? pawl_errtext(p) : pawl_code_text(rc));
    pawl_close(p);
    return rc != PAWL_OK;
}
