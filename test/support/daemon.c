/* Starting servers for tests. See daemon.h. Between fork and exec only system calls are made: the
 * test may have threads, and a lock that another thread holds at the fork is never released in the
 * child. */
#define _GNU_SOURCE
#include "support/daemon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* PLACE_MAX: how long the path of a folder may be, so that the path of a socket in it fits into 107
 * bytes. */
enum { PLACE_MAX = 80, DESCRIPTORS = 4096, VARIABLES = 16 };

/* ---- User and folder ---- */

static const struct passwd *server_user(void)
{
    const struct passwd *user = getpwnam("postgres");
    return user ? user : getpwnam("nobody");
}

void daemon_user(uid_t *uid, gid_t *gid)
{
    *uid = geteuid();
    *gid = getegid();
    if (*uid != 0)
        return;
    const struct passwd *user = server_user();
    assert_non_null(user);
    *uid = user->pw_uid;
    *gid = user->pw_gid;
}

/* A folder of root's own $TMPDIR is often closed to all others; /tmp never is. $PAWL_TEST_SERVERS
 * names a folder that is open to all, such as one in memory, where the thousand files of a server
 * are made and removed more quickly than on a disk. */
static void place_name(char out[TMP_PATH], const char *what)
{
    const char *given = getenv("PAWL_TEST_SERVERS");
    const char *base = geteuid() == 0 ? "/tmp" : getenv("TMPDIR");
    if (given && *given)
        base = given;
    if (!base || !*base || strlen(base) + strlen(what) + 13 > PLACE_MAX)
        base = "/tmp";
    int n = snprintf(out, TMP_PATH, "%s/pawl-%s-XXXXXX", base, what);
    assert_in_range(n, 1, TMP_PATH - 1);
}

/* The janitor runs another program (sh): a forked copy of the test would keep the memory of the
 * test for as long. */
static void start_janitor(daemon_place *p)
{
    static const char *const SCRIPT =
        "trap '' HUP INT TERM; read -r end; "
        "for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- \"$1\" && break; sleep 0.2; done";
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        int nothing = open("/dev/null", O_RDWR);
        dup2(ends[0], STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        for (int fd = 3; fd < DESCRIPTORS; fd++)
            close(fd);
        char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
        execle("/bin/sh", "sh", "-c", SCRIPT, "janitor", p->dir, (char *)NULL, environment);
        _exit(127);
    }
    close(ends[0]);
    p->janitor = pid;
    p->alive = ends[1];
}

void daemon_place_make(daemon_place *p, const char *what)
{
    uid_t uid;
    gid_t gid;
    daemon_user(&uid, &gid);
    place_name(p->dir, what);
    assert_non_null(mkdtemp(p->dir));
    start_janitor(p);
    assert_int_equal(chmod(p->dir, 0755), 0);
    assert_int_equal(chown(p->dir, uid, gid), 0);
}

void daemon_place_remove(daemon_place *p)
{
    tmp_dir_remove(p->dir);
    kill(p->janitor, SIGKILL);
    daemon_wait(p->janitor);
    close(p->alive);
}

/* ---- Processes ---- */

/* The program, the environment and the user of a child, gathered before the fork. */
typedef struct plan {
    char *const *argv;
    char *environment[VARIABLES];
    int log;
    int at_death;
    pid_t parent;
    int change; /* 1: the child changes its user, since the test is root */
    uid_t uid;
    gid_t gid;
    gid_t groups[64];
    int group_count;
} plan;

static void plan_user(plan *p)
{
    daemon_user(&p->uid, &p->gid);
    p->change = geteuid() == 0;
    if (!p->change)
        return;
    p->group_count = (int)(sizeof p->groups / sizeof *p->groups);
    const struct passwd *user = server_user();
    if (getgrouplist(user->pw_name, p->gid, p->groups, &p->group_count) < 0)
        p->group_count = 0;
}

static int become_user(const plan *p)
{
    if (!p->change)
        return 1;
    return setgroups((size_t)p->group_count, p->groups) == 0 && setgid(p->gid) == 0 &&
           setuid(p->uid) == 0;
}

static void forget_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < 32; number++)
        if (number != SIGKILL && number != SIGSTOP)
            sigaction(number, &action, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child. PR_SET_PDEATHSIG comes after the change of the user, which would reset it; and the
 * parent is compared after that, since it may have died before. The child has a process group of
 * its own, so that Ctrl-C reaches the test only. */
static _Noreturn void become_program(const plan *p)
{
    forget_signals();
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(p->log, STDOUT_FILENO);
    dup2(p->log, STDERR_FILENO);
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        close(fd);
    if (!become_user(p) || chdir("/") != 0 || prctl(PR_SET_PDEATHSIG, p->at_death) != 0)
        _exit(126);
    if (getppid() != p->parent)
        _exit(125);
    execve(p->argv[0], p->argv, p->environment);
    _exit(127);
}

static void plan_environment(plan *p, const char *const *more)
{
    size_t n = 0;
    p->environment[n++] = "PATH=/usr/bin:/bin";
    p->environment[n++] = "LC_ALL=C";
    p->environment[n++] = "TZ=UTC";
    for (; more && *more; more++) {
        assert_true(n < VARIABLES - 1);
        p->environment[n++] = (char *)(uintptr_t)*more; /* execve() does not write to it */
    }
}

pid_t daemon_spawn(const char *const argv[], const char *log, int at_death)
{
    return daemon_spawn_with(argv, NULL, log, at_death);
}

pid_t daemon_spawn_with(const char *const argv[], const char *const *environment, const char *log,
                        int at_death)
{
    plan p = {.at_death = at_death, .parent = getpid()};
    p.argv = (char *const *)(uintptr_t)argv; /* execve() does not write to it */
    plan_environment(&p, environment);
    plan_user(&p);
    p.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    assert_true(p.log >= 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become_program(&p);
    close(p.log);
    return pid;
}

int daemon_ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}

int daemon_wait(pid_t pid)
{
    int status = 0;
    pid_t got;
    do {
        got = waitpid(pid, &status, 0);
    } while (got < 0 && errno == EINTR);
    assert_int_equal(got, pid);
    return status;
}

void daemon_run(const char *const argv[], const char *log)
{
    int status = daemon_wait(daemon_spawn(argv, log, SIGKILL));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    daemon_log_show(log);
    fail_msg("%s ended with status %#x", argv[0], (unsigned)status);
}

/* ---- Files ---- */

static int copy_bytes(int in, int out)
{
    char bytes[64 * 1024];
    for (;;) {
        ssize_t got = read(in, bytes, sizeof bytes);
        if (got <= 0)
            return got == 0;
        for (ssize_t put = 0; put < got;) {
            ssize_t n = write(out, bytes + put, (size_t)(got - put));
            if (n < 0)
                return 0;
            put += n;
        }
    }
}

static int copy_file(const char *from, const char *to, uid_t uid, gid_t gid)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int ok = out >= 0 && copy_bytes(in, out) && fchown(out, uid, gid) == 0;
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0)
        ok = 0;
    return ok;
}

static int copy_entry(const char *from, const char *to, uid_t uid, gid_t gid)
{
    struct stat info;
    if (lstat(from, &info) != 0)
        return 0;
    if (S_ISDIR(info.st_mode))
        return daemon_copy(from, to, uid, gid);
    return S_ISREG(info.st_mode) && copy_file(from, to, uid, gid);
}

int daemon_copy(const char *from, const char *to, uid_t uid, gid_t gid)
{
    DIR *dir = opendir(from);
    if (!dir)
        return 0;
    int ok = mkdir(to, 0700) == 0 && chown(to, uid, gid) == 0;
    struct dirent *entry;
    while (ok && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char source[TMP_PATH];
        char target[TMP_PATH];
        tmp_path(source, from, entry->d_name);
        tmp_path(target, to, entry->d_name);
        ok = copy_entry(source, target, uid, gid);
    }
    closedir(dir);
    return ok;
}

/* ---- Logs ---- */

static char *read_log(const char *log)
{
    FILE *f = fopen(log, "r");
    if (!f)
        return NULL;
    char *text = NULL;
    size_t room = 0;
    ssize_t got = getdelim(&text, &room, '\0', f);
    fclose(f);
    if (got >= 0)
        return text;
    free(text);
    return NULL;
}

int daemon_log_has(const char *log, const char *text)
{
    char *all = read_log(log);
    int has = all && strstr(all, text);
    free(all);
    return has;
}

void daemon_log_show(const char *log)
{
    char *all = read_log(log);
    if (!all)
        return;
    size_t size = strlen(all);
    fprintf(stderr, "… the end of %s:\n%s\n", log, all + (size > 4000 ? size - 4000 : 0));
    free(all);
}
