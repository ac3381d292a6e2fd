/* What a test needs around it: a folder of its own, other processes, and patience.
 *
 * Nothing here sleeps for a while and hopes. A test awaits a condition or a byte from a pipe; the
 * dead-line is so generous that reaching it means "never", and it fails the test. */
#ifndef SUPPORT_TMP_H
#define SUPPORT_TMP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TMP_PATH 512

/* Seconds until "never": 90, or what PAWL_TEST_PATIENCE says, for very slow machines. */
int tmp_patience(void);

/* ---- Folders and files ---- */

/* Make an empty folder under $TMPDIR. */
void tmp_dir_make(char path[TMP_PATH]);

/* Make an empty folder under /tmp, where other users get to as well. */
void tmp_dir_make_open(char path[TMP_PATH]);

/* Remove a folder with all that is in it. */
void tmp_dir_remove(const char *path);

/* "dir/name". */
void tmp_path(char out[TMP_PATH], const char *dir, const char *name);

/* Write a file of these bytes; an old one is replaced. */
void tmp_file(const char *path, const void *bytes, size_t size);

/* Size of a file; -1 when it is not there. */
int64_t tmp_size(const char *path);

/* ---- Awaiting ---- */

/* Await a condition that other threads or processes bring about. */
#define TMP_AWAIT(condition)                                                                       \
    do {                                                                                           \
        int64_t tmp_until_ = tmp_deadline();                                                       \
        while (!(condition))                                                                       \
            tmp_pause(tmp_until_, #condition, __FILE__, __LINE__);                                 \
    } while (0)

int64_t tmp_deadline(void);
void tmp_pause(int64_t until, const char *condition, const char *file, int line);

/* A test that hangs ends the program instead of waiting for ever. `name` is told then; NULL takes
 * the watch away. */
void tmp_watchdog(const char *name);

/* 1 under valgrind, which does not know that waiting for a lock of an open file description may
 * take long, and lets all other threads stand still meanwhile. */
int tmp_under_valgrind(void);

/* ---- Other processes ---- */

/* A child, with a pipe to it and one from it. */
typedef struct tmp_child {
    pid_t pid;
    int to;
    int from;
} tmp_child;

/* Fork a child that runs body(in, out, arg) and ends with exit code 0 when that returns. It must
 * not use the assertions of cmocka, which would jump into the parent's test; TMP_CHECK() is for
 * it. */
tmp_child tmp_fork(void (*body)(int in, int out, void *arg), void *arg);

/* One byte over a pipe. tmp_hear() gives it, or -1 when the other side has gone. */
void tmp_tell(int fd, char what);
int tmp_hear(int fd);

/* Expect this byte from a child. */
void tmp_expect(const tmp_child *c, char what);

/* Wait for the child's end and expect exit code 0. */
void tmp_join(tmp_child *c);

/* Wait for the child's end; gives its status, as waitpid(2) has it. */
int tmp_reap(tmp_child *c);

/* Kill the child and reap it. */
void tmp_kill(tmp_child *c);

/* End the children that a failed test has left behind, stopped ones included. */
void tmp_end_children(void);

/* Wait until the child stands still by SIGSTOP. */
void tmp_await_stop(const tmp_child *c);

/* In a child: what must hold there. Otherwise it says so and ends with exit code 99. */
#define TMP_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            tmp_child_fail(#condition, __FILE__, __LINE__);                                        \
    } while (0)

_Noreturn void tmp_child_fail(const char *what, const char *file, int line);

/* Memory that children made later share with this process; zeroed. */
void *tmp_shared(size_t size);
void tmp_shared_free(void *at, size_t size);

#endif
