/* Telling whether this process has been forked.
 *
 * A child of fork() has everything of its parent but its threads: also connections, which are still
 * the parent's, and state that says that it is the parent. Asking getpid() at each step would cost
 * as much as a short step; reading a number that every child raises costs nothing. */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

/* A number that is another one in every child of fork() than in its parent. The first call must
 * come before the fork. */
int forks_count(void);

/* A descriptor that every child of fork() closes before it does anything else, since the other side
 * is to notice when the parent ends. The struct is the caller's, and stays where it is. */
typedef struct forks_fd {
    struct forks_fd *next;
    int fd;
} forks_fd;

/* forks_close(): the descriptor is open, and children close it from now on. forks_keep(): they do
 * not any more; called before it is closed here. */
void forks_close(forks_fd *f, int fd);
void forks_keep(forks_fd *f);

#endif
