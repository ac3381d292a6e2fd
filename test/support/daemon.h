/* Third-party servers, started by a test as children of its own.
 *
 * Database servers refuse to run as root. They must not outlive the test that started them, however
 * it ends, and must not inherit its descriptors: while a server has the write end of a pipe open,
 * the reader of that pipe waits for ever. The folders of servers lie where a user without rights
 * gets to, and have short names, since the name of a Unix socket has 107 bytes. All of this uses
 * cmocka's assertions. */
#ifndef SUPPORT_DAEMON_H
#define SUPPORT_DAEMON_H

#include <sys/types.h>

#include "support/tmp.h"

/* A folder for a server: it belongs to the user that the server runs as, and goes when the test
 * program ends, even if it is killed. */
typedef struct daemon_place {
    char dir[TMP_PATH];
    pid_t janitor; /* a process that removes the folder when the test program has ended */
    int alive;     /* the write end of the janitor's pipe: the kernel closes it at that end */
} daemon_place;

/* Make a folder with `what` in its name, and start its janitor. Remove both. */
void daemon_place_make(daemon_place *p, const char *what);
void daemon_place_remove(daemon_place *p);

/* The user and group that servers run as: those of the test; if that is root, those of `postgres`,
 * or of `nobody` where there is no user `postgres`. */
void daemon_user(uid_t *uid, gid_t *gid);

/* Start a program as the user of daemon_user(), with a small environment, without the test's
 * descriptors, and with its output appended to the file `log`. When the calling thread ends, the
 * program gets the signal `at_death`. */
pid_t daemon_spawn(const char *const argv[], const char *log, int at_death);

/* The same with more variables in its environment: a list of "NAME=value" with NULL at its end;
 * NULL: no more. */
pid_t daemon_spawn_with(const char *const argv[], const char *const *environment, const char *log,
                        int at_death);

/* 1 if the process has ended; then it is reaped, and *status is as waitpid(2) gives it. 0: it
 * runs. */
int daemon_ended(pid_t pid, int *status);

/* Wait for the end of a process, and reap it; gives its status, as waitpid(2) has it. */
int daemon_wait(pid_t pid);

/* Start a program, wait for its end, and fail the test if that is not exit code 0. */
void daemon_run(const char *const argv[], const char *log);

/* Copy a folder that has only files and folders in it; the copy belongs to this user. Gives 1; 0 if
 * it failed, and errno says why. */
int daemon_copy(const char *from, const char *to, uid_t uid, gid_t gid);

/* 1 if the file has this text in it. */
int daemon_log_has(const char *log, const char *text);

/* Show the last lines of a log on stderr. */
void daemon_log_show(const char *log);

#endif
