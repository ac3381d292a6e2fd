/* Third-party servers, started by a test as children of its own.
 *
 * Database servers refuse to run as root, must not outlive the test that started them, however it
 * ends, and must not hold descriptors of it: a pipe whose other end such a server has open never
 * ends. Their folders lie where a user without rights gets to, with short names, since the name of
 * a Unix socket has 107 bytes. All of this uses cmocka's assertions. */
#ifndef SUPPORT_DAEMON_H
#define SUPPORT_DAEMON_H

#include <sys/types.h>

#include "support/tmp.h"

/* A folder for a server: it belongs to the user that the server runs as, and goes when the test
 * program ends, even if it is killed. */
typedef struct daemon_place {
    char dir[TMP_PATH];
    pid_t janitor; /* a process that waits for our end, and then removes the folder */
    int alive;     /* the end of a pipe that it sees closed then */
} daemon_place;

void daemon_place_make(daemon_place *p, const char *what);
void daemon_place_remove(daemon_place *p);

/* The user that servers run as: the test's own; for root `postgres`, else `nobody`. */
void daemon_user(uid_t *uid, gid_t *gid);

/* Start a program as that user, with a small environment, no descriptors of ours, and its output
 * at the end of the file `log`. When the calling thread ends it gets the signal `at_death`. */
pid_t daemon_spawn(const char *const argv[], const char *log, int at_death);

/* The same with more in its environment: "NAME=value", ends with NULL; NULL: nothing. */
pid_t daemon_spawn_with(const char *const argv[], const char *const *environment, const char *log,
                        int at_death);

/* 1: it has ended, and was reaped. */
int daemon_ended(pid_t pid, int *status);

/* Wait for its end; gives its status, as waitpid(2) has it. */
int daemon_wait(pid_t pid);

/* Start a program, wait for its end, and fail the test if that is not exit code 0. */
void daemon_run(const char *const argv[], const char *log);

/* Copy a folder that has files and folders only; the copy belongs to this user. 0: it did not
 * work, and errno says why. */
int daemon_copy(const char *from, const char *to, uid_t uid, gid_t gid);

/* 1 if the file has this text in it. */
int daemon_log_has(const char *log, const char *text);

/* Show the last lines of a log on stderr. */
void daemon_log_show(const char *log);

#endif
