/*
 * poller.h - waiting for events: one contract, one file per kernel interface.
 *
 * Each thread has a poller of its own. A descriptor is registered once, edge
 * triggered, for reading and writing together, and stays registered for its
 * life; each event carries its (fd, generation), never a pointer. The wake
 * event carries nothing at all: why a thread was woken stands in memory, and
 * is looked at after every wait.
 *
 * The host makes the descriptors (kqueue.go, or cfiber_poller_open for a
 * program without Go), the thread uses them.
 *
 *   poller_epoll.c   epoll and an eventfd (Linux)
 *   poller_kqueue.c  kqueue and EVFILT_USER, or a pipe where there is none
 */
#ifndef CFIBER_POLLER_H
#define CFIBER_POLLER_H

#include "core.h"

#if defined(__linux__) && !defined(CFIBER_KQUEUE)
#define CFIBER_POLLER_EPOLL 1
#else
#define CFIBER_POLLER_KQUEUE 1
#endif

#define POLLER_EVENTS 64 /* taken from the kernel at once */

/* Makes the descriptors, with the wake event registered. */
int cfiber_poller_open(struct poller *p);
void cfiber_poller_close(struct poller *p);

/*
 * Registers fd. 0, or an errno value: EPERM means that it cannot be waited for
 * (regular files, which never block).
 */
int cfiber_poller_add(struct poller *p, int fd, uint32_t generation);

/*
 * Sees to it that urgent data (POLLPRI) of an fd that is registered is an event
 * for reading. ENOTSUP: the system reports none, at all or for this kind of file.
 */
int cfiber_poller_add_urgent(struct poller *p, int fd, uint32_t generation);

/* True if fd is still registered; reports its readiness once more. */
bool cfiber_poller_confirm(struct poller *p, int fd, uint32_t generation);

/*
 * Waits up to timeout ns (negative: for ever), delivers what came to
 * cfiber_fd_event. Returns 0, also when interrupted or woken, or an errno.
 */
int cfiber_poller_wait(struct cfiber_thread *t, int64_t timeout);

/* Makes the wait of the poller's thread return, now or the next time. */
void cfiber_poller_wake(struct poller *p);

#endif /* CFIBER_POLLER_H */
