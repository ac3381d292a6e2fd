/* Has this process been forked?
 *
 * A child has everything of its parent but its threads: its connections, which are still the
 * parent's, and code that believes to be the parent. Asking the system who one is costs as much as
 * a short step; a number that every child counts up costs nothing. */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

/* A number that is another one in every child of fork() than in its parent. The first call must
 * come before the fork. */
int forks_count(void);

#endif
