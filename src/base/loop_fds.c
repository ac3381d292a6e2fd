/* Opening the self-pipe, the epoll set and the eventfd. All of them are closed by exec() and never
 * block. */
#include "base/loop_fds.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pawl_code no_descriptors(error *err)
{
    error_set(err, PAWL_NOMEM, "no file descriptors are left");
    error_hint(err, "raise the limit on open files");
    return PAWL_NOMEM;
}

static int add_to_set(const loop_fds *f, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(f->set, EPOLL_CTL_ADD, fd, &e) == 0;
}

pawl_code loop_fds_open(loop_fds *f, int has_set, error *err)
{
    f->pipe[0] = f->pipe[1] = f->set = -1;
    if (pipe(f->pipe) != 0)
        return no_descriptors(err);
    for (int i = 0; i < 2; i++) {
        fcntl(f->pipe[i], F_SETFD, FD_CLOEXEC);
        fcntl(f->pipe[i], F_SETFL, O_NONBLOCK);
    }
    if (!has_set)
        return PAWL_OK;
    f->set = epoll_create1(EPOLL_CLOEXEC);
    return f->set >= 0 && add_to_set(f, f->pipe[0]) ? PAWL_OK : no_descriptors(err);
}

void loop_fds_close(loop_fds *f)
{
    const int all[] = {f->pipe[0], f->pipe[1], f->set};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}

int loop_fds_called(const loop_fds *f)
{
    return f->set >= 0 ? f->set : f->pipe[0];
}

int loop_fds_add(loop_fds *f, int fd)
{
    return f->set < 0 || add_to_set(f, fd); /* RULE H1-the-descriptor-hears-other-processes */
}

/* Closing `fd` alone would leave it in the set as long as a forked child has a copy of it open. */
void loop_fds_remove(loop_fds *f, int fd)
{
    if (f->set >= 0)
        epoll_ctl(f->set, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- Hints ---- */

void loop_hint_init(loop_hint *h)
{
    atomic_init(&h->fd, -1);
}

void loop_hint_close(loop_hint *h)
{
    int fd = atomic_exchange(&h->fd, -1);
    if (fd >= 0)
        close(fd);
}

/* Two threads may ask at a time: the eventfd that comes second is closed again. */
int loop_hint_fd(loop_hint *h, error *err)
{
    int known = atomic_load(&h->fd);
    if (known >= 0)
        return known;
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        no_descriptors(err);
        return -1;
    }
    if (atomic_compare_exchange_strong(&h->fd, &known, fd))
        return fd;
    close(fd);
    return known;
}

void loop_hint_raise(loop_hint *h)
{
    static const uint64_t ONE = 1;
    int fd = atomic_load(&h->fd);
    if (fd >= 0)
        (void)!write(fd, &ONE, sizeof ONE);
}

void loop_hint_empty(loop_hint *h)
{
    uint64_t count;
    int fd = atomic_load(&h->fd);
    if (fd >= 0)
        (void)!read(fd, &count, sizeof count);
}
