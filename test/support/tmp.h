/* What a test needs around it: a folder of its own, child processes, and waiting.
 *
 * No function here sleeps for a while and hopes. A test waits for a condition, or for a byte from a
 * pipe. The time limit of such a wait is so long that reaching it means that it would never come,
 * and fails the test. */
#ifndef SUPPORT_TMP_H
#define SUPPORT_TMP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TMP_PATH 512

/* Returns the seconds after which a wait fails the test: 90, or PAWL_TEST_PATIENCE, for very slow
 * machines. */
int tmp_patience(void);

/* ---- Folders and files ---- */

/* Makes an empty folder under $TMPDIR. */
void tmp_dir_make(char path[TMP_PATH]);

/* Makes an empty folder under /tmp, to which other users have access. */
void tmp_dir_make_open(char path[TMP_PATH]);

/* Removes a folder with everything in it. */
void tmp_dir_remove(const char *path);

/* "dir/name". */
void tmp_path(char out[TMP_PATH], const char *dir, const char *name);

/* Writes a file of these bytes, and replaces one that exists. */
void tmp_file(const char *path, const void *bytes, size_t size);

/* Returns the size of a file; -1: it does not exist. */
int64_t tmp_size(const char *path);

/* ---- Awaiting ---- */

/* Waits until other threads or processes have brought about the condition. */
#define TMP_AWAIT(condition)                                                                       \
    do {                                                                                           \
        int64_t tmp_until_ = tmp_deadline();                                                       \
        while (!(condition))                                                                       \
            tmp_pause(tmp_until_, #condition, __FILE__, __LINE__);                                 \
    } while (0)

int64_t tmp_deadline(void);
void tmp_pause(int64_t until, const char *condition, const char *file, int line);

/* Ends the program if it is still in this test after a long time, and prints `name`. NULL switches
 * that off. */
void tmp_watchdog(const char *name);

/* Returns 1 under valgrind. While a thread waits for a lock of an open file description there, all
 * other threads stand still, since valgrind does not know that this call may take long. */
int tmp_under_valgrind(void);

/* 1 in a build with ThreadSanitizer, which ends a child of a process with threads that starts a
 * thread of its own. */
int tmp_under_tsan(void);

/* ---- Other processes ---- */

/* A child process, with a pipe to it and one from it. */
typedef struct tmp_child {
    pid_t pid;
    int to;
    int from;
} tmp_child;

/* Forks a child, which calls body(in, out, arg) and ends with exit code 0 when that returns. `body`
 * must not use the assertions of cmocka, which would jump into the parent's test, but
 * TMP_CHECK(). */
tmp_child tmp_fork(void (*body)(int in, int out, void *arg), void *arg);

/* tmp_tell() sends one byte over a pipe. tmp_hear() receives one; it returns -1 if the other side
 * has closed the pipe. */
void tmp_tell(int fd, char what);
int tmp_hear(int fd);

/* Receives a byte from a child, and expects that it is this one. */
void tmp_expect(const tmp_child *c, char what);

/* Waits until the child has ended, and expects exit code 0. */
void tmp_join(tmp_child *c);

/* Waits until the child has ended, and returns its status, as waitpid(2) has it. */
int tmp_reap(tmp_child *c);

/* Kills the child and reaps it. */
void tmp_kill(tmp_child *c);

/* Ends the children that a failed test has left behind, also those that are stopped (SIGSTOP). */
void tmp_end_children(void);

/* Waits until the child is stopped by SIGSTOP. */
void tmp_await_stop(const tmp_child *c);

/* For children: if the condition does not hold, the child prints that and ends with exit code
 * 99. */
#define TMP_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            tmp_child_fail(#condition, __FILE__, __LINE__);                                        \
    } while (0)

_Noreturn void tmp_child_fail(const char *what, const char *file, int line);

/* Returns zeroed memory that this process shares with the children that it makes later. */
void *tmp_shared(size_t size);
void tmp_shared_free(void *at, size_t size);

#endif
