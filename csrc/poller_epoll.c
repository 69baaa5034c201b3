/*
 * poller_epoll.c - the poller on Linux: epoll, and an eventfd for wake-ups.
 *
 * The eventfd is edge triggered and never read: each write is an edge, and its
 * counter takes 2^64 - 2 of them.
 */
#include "fault.h"
#include "poller.h"

#ifdef CFIBER_POLLER_EPOLL

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the wake event carries: no descriptor. */
#define WAKE_DATA UINT64_MAX

static enum readiness readiness(uint32_t events, uint32_t once, uint32_t for_good) {
  return events & for_good ? READY_FOR_GOOD : events & once ? READY : NOT_READY;
}

int cfiber_poller_open(struct poller *p) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE_DATA};
  p->fd = TRY(POLLER_OPEN, -1, epoll_create1(EPOLL_CLOEXEC));
  p->wake_fd = p->fd < 0 ? -1 : TRY(POLLER_OPEN, -1, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (p->wake_fd >= 0 &&
      TRY(POLLER_OPEN, -1, epoll_ctl(p->fd, EPOLL_CTL_ADD, p->wake_fd, &event)) == 0)
    return 0;
  int e = cfiber_errno();
  cfiber_poller_close(p);
  return e;
}

void cfiber_poller_close(struct poller *p) {
  if (p->fd >= 0)
    TRY_DONE(CLOSE, -1, close(p->fd));
  if (p->wake_fd >= 0)
    TRY_DONE(CLOSE, -1, close(p->wake_fd));
  p->fd = p->wake_fd = -1;
}

static int control(struct poller *p, int op, int fd, uint32_t generation) {
  struct epoll_event event = {
      .events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET,
      .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd,
  };
  return TRY(POLLER_ADD, -1, epoll_ctl(p->fd, op, fd, &event)) ? cfiber_errno() : 0;
}

int cfiber_poller_add(struct poller *p, int fd, uint32_t generation) {
  int e = control(p, EPOLL_CTL_ADD, fd, generation);
  return e == EEXIST ? control(p, EPOLL_CTL_MOD, fd, generation) : e;
}

int cfiber_poller_add_urgent(struct poller *p, int fd, uint32_t generation) {
  (void)p, (void)fd, (void)generation;
  return 0; /* EPOLLPRI is in every registration */
}

bool cfiber_poller_confirm(struct poller *p, int fd, uint32_t generation) {
  return control(p, EPOLL_CTL_MOD, fd, generation) == 0;
}

static int wait_events(int fd, struct epoll_event *events, int64_t timeout) {
#ifdef SYS_epoll_pwait2
  /* Nanoseconds, where the kernel (5.11) has it, and no filter of system calls that does not know
   * it refuses it, with EPERM. */
  static _Atomic(bool) missing;
  if (timeout > 0 && !atomic_load_explicit(&missing, memory_order_relaxed)) {
    /* The kernel's own timespec: that of a 32-bit C library may be smaller. */
    struct {
      int64_t sec, nsec;
    } ts = {timeout / NS_PER_S, timeout % NS_PER_S};
    int n =
        TRY(POLLER_WAIT, -1,
            (int)syscall(SYS_epoll_pwait2, fd, events, CHAOS_MOST(POLLER_EVENTS), &ts, NULL, 0));
    if (n >= 0 || (cfiber_errno() != ENOSYS && cfiber_errno() != EPERM))
      return n;
    atomic_store_explicit(&missing, true, memory_order_relaxed);
  }
#endif
  int64_t ms = timeout <= 0 ? timeout : (timeout + NS_PER_MS - 1) / NS_PER_MS;
  int most = ms < 0 ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
  return TRY(POLLER_WAIT, -1, epoll_wait(fd, events, CHAOS_MOST(POLLER_EVENTS), most));
}

int cfiber_poller_wait(struct cfiber_thread *t, int64_t timeout) {
  struct epoll_event events[POLLER_EVENTS];
  int n = wait_events(t->poller.fd, events, timeout);
  if (n < 0)
    return cfiber_errno() == EINTR ? 0 : cfiber_errno();
  for (int i = 0; i < n; i++) {
    if (events[i].data.u64 == WAKE_DATA)
      continue;
    uint32_t what = events[i].events;
    cfiber_fd_event(t, (int)(uint32_t)events[i].data.u64, (uint32_t)(events[i].data.u64 >> 32),
                    readiness(what, EPOLLIN, EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR),
                    readiness(what, EPOLLOUT, EPOLLHUP | EPOLLERR));
  }
  return 0;
}

void cfiber_poller_wake(struct poller *p) {
  static const uint64_t one = 1;
  ssize_t n;
  do
    n = TRY(POLLER_WAKE, -1, write(p->wake_fd, &one, sizeof one));
  while (n < 0 && cfiber_errno() == EINTR);
}

#endif /* CFIBER_POLLER_EPOLL */
