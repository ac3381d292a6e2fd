/* Has this process been forked?
 *
 * A child has everything of its parent but its threads: connections, which are still the parent's,
 * and state that says that it is the parent. A getpid() for each step would cost as much as a short
 * step; a number that every child counts up costs nothing. */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

/* A number that is another one in every child of fork() than in its parent. The first call must
 * come before the fork. */
int forks_count(void);

#endif
