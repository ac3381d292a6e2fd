/* Opens a file beside the database in the way that sidecar.h describes: its kind is checked before
 * it is opened, a new file gets the database's mode and owner, and no link is followed. */
#include "db/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 1: there is no such file, or it is an ordinary file and not the database. 0: errno says why it
 * cannot be used. This is checked before the file is opened: if it is the database, even closing it
 * again drops SQLite's locks. */
static int is_a_file_of_its_own(const char *path, const char *db_path)
{
    struct stat st, db;
    if (lstat(path, &st) != 0)
        return errno == ENOENT;
    int same = stat(db_path, &db) == 0 && st.st_dev == db.st_dev && st.st_ino == db.st_ino;
    errno = EINVAL;
    return S_ISREG(st.st_mode) && !same; /* RULE locks-never-land-on-a-link */
}

int sidecar_open(const char *path, const char *db_path)
{
    /* RULE A10-nor-does-an-executed-program, locks-never-land-on-a-link */
    const int how = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat st;
    if (!is_a_file_of_its_own(path, db_path))
        return -1;
    int fd = open(path, how);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open(path, how | O_CREAT, 0600);
    if (fd < 0 || stat(db_path, &st) != 0)
        return fd;
    (void)!fchmod(fd, st.st_mode & 0666);
    if (geteuid() == 0)
        (void)!fchown(fd, st.st_uid, st.st_gid);
    return fd;
}

int sidecar_look(const char *path, const char *db_path)
{
    if (!is_a_file_of_its_own(path, db_path))
        return -1;
    /* RULE A10-nor-does-an-executed-program, locks-never-land-on-a-link */
    return open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

pawl_code sidecar_error(const char *path, const char *what, error *err)
{
    int why = errno;
    pawl_code code = PAWL_CANTOPEN;
    if (why == EROFS || why == EACCES || why == EPERM)
        code = PAWL_READONLY;
    else if (why == ENOSPC || why == EDQUOT || why == EFBIG)
        code = PAWL_FULL;
    else if (why == EIO)
        code = PAWL_IO;
    error_set(err, code, "the file %s", what);
    error_detail(err, "%s: %s", path, strerror(why));
    error_hint(err, "it must be an ordinary file that this user may write, and no link");
    return code;
}
