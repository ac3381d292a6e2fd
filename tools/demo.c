/* The demonstration: an order is being handled; the process is killed with SIGKILL half-way, is
 * started again, and goes on from its last recorded step. Then the parcel is refused at the door:
 * what was done is undone, last first, and another SIGKILL in the middle of that changes nothing.
 *
 * The program runs itself as the worker, reads what it prints, and kills it at the right moments.
 * In between it shows what the tool `pawl` says of the run. */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pawl.h>

#define ID "order-1"

/* ---- The worker ---- */

/* Stands for a call of another system: prints its name, and takes some time. */
static const char *outside(pawl_work *work, const char *input)
{
    printf("    %-8s called, attempt %d\n", pawl_work_name(work), (int)pawl_work_attempt(work));
    fflush(stdout);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    if (strcmp(pawl_work_name(work), "ship") == 0 && pawl_work_attempt(work) == 1)
        return pawl_work_fail(work, PAWL_TRANSIENT, "no-truck", "no truck is free");
    if (strcmp(pawl_work_name(work), "deliver") == 0)
        return pawl_work_fail(work, PAWL_PERMANENT, "refused", "anvils are sold out");
    return pawl_work_json(work, "{'%s':%j}", pawl_work_name(work), input);
}

static const char *order(pawl_run *run, const char *input)
{
    const char *stock = pawl_call(run, "reserve", input, NULL);
    pawl_undo(run, "release", stock);
    const char *paid = pawl_call(run, "charge", input, NULL);
    pawl_undo(run, "refund", paid);
    pawl_sleep(run, PAWL_SECONDS(1));
    const char *sent = pawl_call(run, "ship", input, PAWL_CALL(.backoff_ms = 500));
    pawl_undo(run, "recall", sent);
    return pawl_call(run, "deliver", input, NULL);
}

static pawl_code set_up(pawl *p)
{
    static const char *const WORK[] = {"reserve", "release", "charge", "refund",
                                       "ship",    "recall",  "deliver"};
    pawl_code rc = pawl_register_workflow(p, "order", order, NULL);
    for (size_t i = 0; rc == PAWL_OK && i < sizeof WORK / sizeof *WORK; i++)
        rc = pawl_register_work(p, WORK[i], outside, NULL);
    return rc;
}

/* The order is to fail, and to leave nothing behind. */
static int run_worker(const char *url)
{
    pawl *p;
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_open(&p, url, NULL);
    if (rc == PAWL_OK)
        rc = set_up(p);
    if (rc == PAWL_OK)
        rc = pawl_start(p, "order", ID, "{\"item\":\"anvil\",\"cents\":4200}", NULL);
    if (rc == PAWL_OK)
        rc = pawl_finish(p, ID, PAWL_FOREVER, &end);
    if (end)
        printf("    the order has ended: %s: %s\n", pawl_outcome_name(end),
               pawl_outcome_message(end));
    else
        printf("    %s\n", pawl_errtext(p));
    pawl_outcome_free(end);
    pawl_close(p);
    return rc != PAWL_FAILED;
}

/* ---- Around it ---- */

/* Where everything is. */
typedef struct stage {
    char self[PATH_MAX], tool[PATH_MAX], url[PATH_MAX], folder[64];
} stage;

static pid_t start(char *const argv[], int *from)
{
    int ends[2];
    fflush(stdout);
    if (from && pipe(ends) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        if (from) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
        }
        execv(argv[0], argv);
        _exit(127);
    }
    if (from) {
        close(ends[1]);
        *from = ends[0];
    }
    return pid;
}

static int wait_for_end(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

static void show(stage *s, const char *verb)
{
    char *argv[] = {s->tool, (char *)verb, ID, "--db", s->url, NULL};
    printf("\n$ pawl %s %s\n", verb, ID);
    wait_for_end(start(argv, NULL));
}

/* Run the worker; kill it when it has begun this step. NULL: let it end. Gives its status. */
static int run_until_step(stage *s, const char *until)
{
    char *argv[] = {s->self, "work", s->url, NULL};
    int from;
    pid_t pid = start(argv, &from);
    FILE *in = fdopen(from, "r");
    char line[512];
    while (in && fgets(line, sizeof line, in)) {
        fputs(line, stdout);
        if (until && strstr(line, until)) {
            kill(pid, SIGKILL);
            printf("    — killed with SIGKILL —\n");
        }
    }
    if (in)
        fclose(in);
    return wait_for_end(pid);
}

static void clean_up(const stage *s)
{
    char path[PATH_MAX + 32];
    DIR *all = opendir(s->folder);
    for (struct dirent *one; all && (one = readdir(all)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", s->folder, one->d_name);
        if (one->d_name[0] != '.')
            unlink(path);
    }
    if (all)
        closedir(all);
    rmdir(s->folder);
}

static void find_names(stage *s)
{
    char copy[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", s->self, sizeof s->self - 1);
    if (size <= 0)
        exit(1);
    s->self[size] = 0;
    memcpy(copy, s->self, (size_t)size + 1);
    snprintf(s->tool, sizeof s->tool, "%.4000s/../pawl", dirname(copy));
    snprintf(s->folder, sizeof s->folder, "/tmp/pawl-demo-XXXXXX");
    if (!mkdtemp(s->folder))
        exit(1);
    snprintf(s->url, sizeof s->url, "%s/demo.db", s->folder);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "work") == 0)
        return run_worker(argv[2]);
    stage s;
    find_names(&s);
    printf("An order: reserve, charge, a second's sleep, ship, deliver.\n\n");
    run_until_step(&s, "ship     called, attempt 2");
    show(&s, "history");
    show(&s, "why");
    printf("\nThe same program again, on the same database:\n\n");
    run_until_step(&s, "refund");
    show(&s, "why");
    printf("\nAnd once more:\n\n");
    int status = run_until_step(&s, NULL);
    show(&s, "history");
    clean_up(&s);
    if (status != 0) {
        printf("\nThe run did not end as it should.\n");
        return 1;
    }
    printf(
        "\nWhat was recorded was never called again; ship and refund were in flight at the kills, "
        "and\nwere. Recall, refund, release: everything is undone.\n");
    return 0;
}
