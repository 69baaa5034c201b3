/*
 * io.c - the POSIX calls: try, and park on EAGAIN only.
 *
 * Nothing here looks at errno; attempt.c returns what it was.
 */
#include "attempt.h"
#include "fault.h"

#include <stdlib.h>

/* So many operations in a row that did not park, and others get a turn. */
#define OPS_BUDGET 128u

static ssize_t result(ssize_t n) {
  return n < 0 ? cfiber_fail((int)-n) : n;
}

/* Blocks the thread until fd is ready; for callers without a fiber. */
static int wait_on_thread(int fd, enum direction dir) {
  struct pollfd p = {.fd = fd, .events = dir == DIR_READ ? POLLIN : POLLOUT};
  while (TRY(POLL, -1, poll(&p, 1, -1)) < 0) {
    if (cfiber_errno() != EINTR)
      return cfiber_errno();
  }
  return 0;
}

static ssize_t run_on_thread(struct io *io) {
  io->may_block = true;
  for (;;) {
    ssize_t n = CHAOS_ATTEMPT(io);
    if (n == -EINTR)
      continue;
    if (n != -EAGAIN || io->no_wait)
      return n;
    int e = wait_on_thread(io->fd, io->dir); /* the descriptor is non-blocking */
    if (e)
      return -e;
  }
}

static size_t length(const struct iovec *iov, size_t n) {
  size_t sum = 0;
  while (n-- > 0)
    sum += iov[n].iov_len;
  return sum;
}

/* Waits until io may be tried again. */
static int wait_ready(struct cfiber_thread *t, const struct io *io, struct fd_attempt *a) {
  struct cfiber *f = t->current;
  int64_t deadline = f->deadline;
  if (!io->until || (deadline && deadline < io->until))
    return cfiber_fd_wait(t, io->fd, io->dir, a);
  f->deadline = io->until;
  int e = cfiber_fd_wait(t, io->fd, io->dir, a);
  f->deadline = deadline;
  return e == ETIMEDOUT ? 0 : e; /* the next attempt knows that it is over */
}

/*
 * Runs one operation to its end: the result or a negative errno value. It may be a part of
 * a larger one: if fd is closed after the first part, the number is not used for the next.
 */
static ssize_t run(struct io *io) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t)
    return run_on_thread(io);
  CHAOS_YIELD(t);
  int e = cfiber_pending(t->current);
  if (e)
    return -e;
  struct cfiber_runtime *rt = t->runtime;
  struct fd_attempt a = {.begun = io->begun, .closes = io->closes};
  ssize_t n;
  for (;;) {
    if ((e = cfiber_fd_attempt(rt, io->fd, io->dir, &a)) != 0)
      return -e;
    CHAOS_DELAY(ATTEMPT);
    io->socket = a.socket;
    n = a.drained && io->drains ? -EAGAIN : CHAOS_ATTEMPT(io);
    if (n == -EINTR)
      continue;
    if (n != -EAGAIN || io->no_wait)
      break;
    CHAOS_DELAY(EMPTY);
    e = wait_ready(t, io, &a);
    t = cfiber_thread_self();
    if (e == EPERM) {
      io->may_block = true; /* storage: it does not wait for anybody */
    } else if (e == ETIMEDOUT && a.drained && io->drains) {
      n = io->attempt(io); /* it was taken on trust that nothing is there */
      if (n == -EINTR || n == -EAGAIN)
        return -e;
      break;
    } else if (e) {
      return -e;
    }
  }
  if (io->drains && n > 0 && (size_t)n < length(io->iov, (size_t)io->iovcnt))
    cfiber_fd_drained(rt, io->fd, &a);
  cfiber_fd_pass(rt, io->fd, io->dir, &a);
  io->begun = a.begun;
  io->closes = a.closes;
  CHAOS_YIELD(t);
  if (++t->ops >= OPS_BUDGET)
    cfiber_reschedule(t);
  return n;
}

/* ---- Transfers of everything -------------------------------------------------------- */

/*
 * Runs io over all of iov, as blocking calls do that do not return halfway.
 * After a transfer that ends inside an element, the rest of that element goes
 * alone. `goes_on`, if not NULL, is asked whether what is left is to follow. Returns
 * the bytes moved, or, if none, what failed.
 */
static ssize_t run_all(struct io *io, const struct iovec *iov, int iovcnt,
                       bool (*goes_on)(const struct io *)) {
  ssize_t total = 0;
  size_t inside = 0; /* bytes of iov[0] that are done */
  do {
    struct iovec part;
    io->iov = iov;
    io->iovcnt = iovcnt;
    if (inside) {
      part = (struct iovec){(char *)iov->iov_base + inside, iov->iov_len - inside};
      io->iov = &part;
      io->iovcnt = 1;
    }
    ssize_t n = run(io);
    if (n < 0)
      return total ? total : n;
    total += n;
    if (n == 0 && total)
      break; /* end of file in the middle of a read */
    inside += (size_t)n;
    while (iovcnt > 0 && inside >= iov->iov_len) {
      inside -= iov->iov_len;
      iov++;
      iovcnt--;
    }
    if (n == 0 || (goes_on && iovcnt > 0 && !goes_on(io)))
      break;
  } while (iovcnt > 0);
  return total;
}

static bool is_stream(int fd) {
  int type = 0;
  socklen_t len = sizeof type;
  return TRY(SOCKET_TYPE, -1, getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len)) == 0 &&
         type == SOCK_STREAM;
}

/* The elements of iov behind its first `done` bytes. rest has room for n. */
static size_t behind(const struct iovec *iov, size_t n, size_t done, struct iovec *rest) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    if (done >= iov[i].iov_len) {
      done -= iov[i].iov_len;
      continue;
    }
    rest[k++] = (struct iovec){(char *)iov[i].iov_base + done, iov[i].iov_len - done};
    done = 0;
  }
  return k;
}

/* ---- read and write -------------------------------------------------------------------- */

static int check_iov(const struct iovec *iov, int iovcnt) {
  return iovcnt < 1 || iovcnt > 1024 || !iov ? EINVAL : 0;
}

/* A file is tried for what is in memory; like read(2), the call takes the rest too. */
static bool is_rest_of_file(const struct io *io) {
  return !io->socket && cfiber_is_storage(io->fd);
}

ssize_t cfiber_readv(int fd, const struct iovec *iov, int iovcnt) {
  int e = check_iov(iov, iovcnt);
  if (e)
    return cfiber_fail(e);
  struct io io = {.fd = fd, .dir = DIR_READ, .attempt = cfiber_attempt_read};
  io.drains = length(iov, (size_t)iovcnt) > 0;
  io.may_block = !io.drains; /* readv of nothing does not; recvmsg would */
  return result(run_all(&io, iov, iovcnt, is_rest_of_file));
}

ssize_t cfiber_read(int fd, void *buf, size_t n) {
  struct iovec iov = {buf, n};
  return cfiber_readv(fd, &iov, 1);
}

ssize_t cfiber_writev(int fd, const struct iovec *iov, int iovcnt) {
  int e = check_iov(iov, iovcnt);
  if (e)
    return cfiber_fail(e);
  struct io io = {.fd = fd, .dir = DIR_WRITE, .attempt = cfiber_attempt_write};
  return result(run_all(&io, iov, iovcnt, NULL));
}

ssize_t cfiber_write(int fd, const void *buf, size_t n) {
  if (n == 0) {
    struct io io = {.fd = fd, .dir = DIR_WRITE, .attempt = cfiber_attempt_write_nothing};
    return result(run(&io));
  }
  struct iovec iov = {(void *)buf, n};
  return cfiber_writev(fd, &iov, 1);
}

/* ---- Sockets ----------------------------------------------------------------------------- */

/* What never waits for data, whatever the mode of the socket. */
static bool never_waits(int flags) {
  if (flags & MSG_DONTWAIT)
    return true;
#ifdef MSG_ERRQUEUE
  if (flags & MSG_ERRQUEUE)
    return true;
#endif
  return false;
}

ssize_t cfiber_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
                        socklen_t *addrlen) {
  struct iovec iov = {buf, n};
  struct io io = {.fd = fd, .dir = DIR_READ, .attempt = cfiber_attempt_recv, .flags = flags};
  io.no_wait = never_waits(flags);
  io.drains = n > 0 && !io.no_wait && !(flags & (MSG_PEEK | MSG_OOB));
  io.addr = addr;
  io.addrlen = addrlen;
  io.iov = &iov;
  io.iovcnt = 1;
  if (!(flags & MSG_WAITALL) || (flags & (MSG_PEEK | MSG_OOB)) || !is_stream(fd))
    return result(run(&io));
  return result(run_all(&io, &iov, 1, NULL));
}

ssize_t cfiber_recv(int fd, void *buf, size_t n, int flags) {
  return cfiber_recvfrom(fd, buf, n, flags, NULL, NULL);
}

ssize_t cfiber_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
                      socklen_t addrlen) {
  struct iovec iov = {(void *)buf, n};
  struct io io = {.fd = fd, .dir = DIR_WRITE, .attempt = cfiber_attempt_send, .flags = flags};
  io.no_wait = never_waits(flags);
  io.addr = (struct sockaddr *)addr;
  io.addrlen_value = addrlen;
  return result(run_all(&io, &iov, 1, NULL));
}

ssize_t cfiber_send(int fd, const void *buf, size_t n, int flags) {
  return cfiber_sendto(fd, buf, n, flags, NULL, 0);
}

/* What a message call has left over of its iov goes on as plain transfers. */
static ssize_t finish_message(struct io *io, const struct msghdr *msg, ssize_t first,
                              ssize_t (*attempt)(struct io *)) {
  size_t n = (size_t)msg->msg_iovlen;
  struct iovec few[8], *rest = few;
  if (n > sizeof few / sizeof *few && !(rest = TRY(MALLOC, NULL, malloc(n * sizeof *rest))))
    return first;
  n = behind(msg->msg_iov, n, (size_t)first, rest);
  io->attempt = attempt;
  io->addr = NULL;
  io->addrlen = NULL;
  io->addrlen_value = 0;
  for (size_t i = 0; i < n; i++) {
    ssize_t more = run_all(io, &rest[i], 1, NULL);
    if (more > 0)
      first += more;
    if (more < 0 || (size_t)more < rest[i].iov_len)
      break;
  }
  if (rest != few)
    free(rest);
  return first;
}

static bool is_partial(const struct msghdr *msg, ssize_t n) {
  return n > 0 && (size_t)n < length(msg->msg_iov, (size_t)msg->msg_iovlen);
}

ssize_t cfiber_recvmsg(int fd, struct msghdr *msg, int flags) {
  struct io io = {.fd = fd, .dir = DIR_READ, .attempt = cfiber_attempt_recvmsg, .flags = flags};
  if (!msg)
    return cfiber_fail(EFAULT);
  io.no_wait = never_waits(flags);
  io.msg = msg;
  ssize_t n = run(&io);
  if ((flags & MSG_WAITALL) && !(flags & (MSG_PEEK | MSG_OOB)) && !io.no_wait &&
      is_partial(msg, n) && is_stream(fd))
    n = finish_message(&io, msg, n, cfiber_attempt_recv);
  return result(n);
}

ssize_t cfiber_sendmsg(int fd, const struct msghdr *msg, int flags) {
  struct io io = {.fd = fd, .dir = DIR_WRITE, .attempt = cfiber_attempt_sendmsg, .flags = flags};
  if (!msg)
    return cfiber_fail(EFAULT);
  io.no_wait = never_waits(flags);
  io.msg = (struct msghdr *)msg;
  ssize_t n = run(&io);
  if (!io.no_wait && is_partial(msg, n))
    n = finish_message(&io, msg, n, cfiber_attempt_send);
  return result(n);
}

/* ---- Connections ---------------------------------------------------------------------------- */

int cfiber_accept(int fd, struct sockaddr *addr, socklen_t *addrlen) {
  struct io io = {.fd = fd, .dir = DIR_READ, .attempt = cfiber_attempt_accept};
  io.addr = addr;
  io.addrlen = addrlen;
  ssize_t n = run(&io);
  struct cfiber_thread *t = cfiber_thread_self();
  if (n >= 0 && t)
    cfiber_fd_renew(t->runtime, (int)n, WAKE_CLOSED);
  return (int)result(n);
}

static int connect_outcome(int fd) {
  int e = 0;
  socklen_t len = sizeof e;
  return TRY(SOCKET_ERROR, -1, getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len)) ? cfiber_errno() : e;
}

/* 0: fd is connected or has failed; or an errno value of the wait. */
static int wait_connected(int fd, struct fd_attempt *a) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t)
    return wait_on_thread(fd, DIR_WRITE);
  for (;;) {
    int e = cfiber_fd_attempt(t->runtime, fd, DIR_WRITE, a);
    if (e)
      return e;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (TRY(POLL, -1, poll(&p, 1, 0)) > 0) {
      cfiber_fd_pass(t->runtime, fd, DIR_WRITE, a); /* who else connects it, or sends */
      return 0;
    }
    CHAOS_DELAY(EMPTY);
    if ((e = cfiber_fd_wait(t, fd, DIR_WRITE, a)) != 0)
      return e;
    t = cfiber_thread_self();
  }
}

/*
 * Has the connection begin: 0, EINPROGRESS or another errno value. EAGAIN of a local
 * listener: its backlog is full, and nothing will tell of room. (Others have run out of
 * something.) Meanwhile fd may be closed, and its number be somebody else's.
 */
static int begin_connection(int fd, const struct sockaddr *addr, socklen_t addrlen,
                            struct fd_attempt *a) {
  int64_t pause = NS_PER_MS;
  for (;;) {
    struct cfiber_thread *t = cfiber_thread_on_fiber();
    int e = t ? cfiber_fd_attempt(t->runtime, fd, DIR_WRITE, a) : 0;
    if (!e)
      e = cfiber_attempt_connect(fd, addr, addrlen);
    if (e != EAGAIN || addr->sa_family != AF_UNIX)
      return e;
    if (cfiber_sleep(pause))
      return cfiber_errno();
    if (pause < 16 * NS_PER_MS)
      pause *= 2;
  }
}

int cfiber_connect(int fd, const struct sockaddr *addr, socklen_t addrlen) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (t)
    CHAOS_YIELD(t);
  int e = t ? cfiber_pending(t->current) : 0;
  if (e)
    return cfiber_fail(e);
  if (t)
    cfiber_fd_renew(t->runtime, fd, WAKE_RECHECK); /* most likely a fresh socket; others may wait */
  struct fd_attempt a = {0};
  e = begin_connection(fd, addr, addrlen, &a);
  if (e != EINPROGRESS)
    return e ? cfiber_fail(e) : 0;
  if ((e = wait_connected(fd, &a)) == 0 && (e = connect_outcome(fd)) == 0) {
    /* Linux notes the end only in another call. And if somebody else has fetched the error,
     * which is told once, this call still knows that there is no connection. */
    e = cfiber_attempt_connect(fd, addr, addrlen);
    if (e == EISCONN)
      e = 0;
  }
  return e ? cfiber_fail(e) : 0;
}

/* ---- Readiness ---------------------------------------------------------------------------------
 */

static int poll_now(struct pollfd *fds, nfds_t n) {
  int ready;
  while ((ready = TRY(POLL, -1, poll(fds, n, 0))) < 0 && cfiber_errno() == EINTR)
    continue;
  return ready < 0 ? -cfiber_errno() : ready;
}

static int64_t deadline_in(int timeout_ms) {
  return timeout_ms < 0 ? INT64_MAX : cfiber_now() + timeout_ms * NS_PER_MS;
}

static int poll_on_thread(struct pollfd *fds, nfds_t n, int timeout) {
  int64_t when = deadline_in(timeout);
  for (;;) {
    int ready = TRY(POLL, -1, poll(fds, n, timeout));
    if (ready >= 0 || cfiber_errno() != EINTR)
      return ready;
    if (timeout > 0) {
      int64_t left = when - cfiber_now();
      timeout = left > 0 ? (int)((left + NS_PER_MS - 1) / NS_PER_MS) : 0;
    }
  }
}

/* Some systems tell these apart, others do not; the pollers report all as writable. */
#define POLL_WRITE (POLLOUT | POLLWRNORM | POLLWRBAND)

static void set_interest(struct fd_interest *in, const struct pollfd *p) {
  *in = (struct fd_interest){.fd = p->fd};
  if (p->fd < 0)
    return;
  in->wants[DIR_WRITE] = p->events & POLL_WRITE;
  /* Errors and hang-ups, which poll always reports, come with either. */
  in->wants[DIR_READ] = !(p->events & POLL_WRITE) || (p->events & ~POLL_WRITE);
  in->urgent = p->events & POLLPRI;
  in->urgent_only = in->urgent && !(p->events & ~POLLPRI);
}

/* Before poll is asked. True: one has been closed while it was waited for. */
static bool attempt_all(struct cfiber_runtime *rt, struct fd_interest *interests, nfds_t n) {
  bool any_closed = false;
  for (nfds_t i = 0; i < n; i++) {
    struct fd_interest *in = &interests[i];
    for (int dir = 0; dir < 2; dir++)
      in->closed |= cfiber_fd_attempt(rt, in->fd, dir, &in->attempt[dir]) != 0;
    any_closed |= in->closed;
  }
  return any_closed;
}

/* What poll has said, less what it said of the next owners of numbers that are closed. */
static int without_closed(struct pollfd *fds, const struct fd_interest *interests, nfds_t n) {
  int ready = 0;
  for (nfds_t i = 0; i < n; i++) {
    if (interests[i].closed)
      fds[i].revents = POLLNVAL;
    ready += fds[i].revents != 0;
  }
  return ready;
}

/* Waits for readiness until `when`: the number ready, 0 past it, or negative errno. */
static int poll_on_fiber(struct cfiber_thread *t, struct pollfd *fds, nfds_t n, int64_t when,
                         struct fd_interest *interests) {
  struct cfiber_runtime *rt = t->runtime;
  for (nfds_t i = 0; i < n; i++)
    set_interest(&interests[i], &fds[i]);
  for (;;) {
    bool closed = attempt_all(rt, interests, n);
    int ready = poll_now(fds, n);
    if (closed && ready >= 0)
      return without_closed(fds, interests, n);
    if (ready)
      return ready;
    if (when != INT64_MAX && cfiber_now() >= when)
      return 0;
    CHAOS_DELAY(EMPTY);
    struct cfiber *f = t->current;
    int64_t deadline = f->deadline && f->deadline < when ? f->deadline : when;
    int e = cfiber_fd_wait_any(t, interests, n, deadline);
    t = cfiber_thread_self();
    /* A last look, and a closed descriptor, are the next turn's. */
    if (e && e != EBADF && !(e == ETIMEDOUT && deadline == when))
      return -e;
  }
}

int cfiber_poll(struct pollfd *fds, nfds_t n, int timeout) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!fds && n > 0)
    return cfiber_fail(EFAULT);
  if (!t)
    return poll_on_thread(fds, n, timeout);
  CHAOS_YIELD(t);
  int e = cfiber_pending(t->current);
  if (e)
    return cfiber_fail(e);
  if (timeout == 0) {
    int ready = poll_now(fds, n);
    if (++t->ops >= OPS_BUDGET)
      cfiber_reschedule(t);
    return (int)result(ready);
  }
  struct fd_interest few[4], *interests = few;
  if (n > sizeof few / sizeof *few &&
      !(interests = TRY(MALLOC, NULL, calloc(n, sizeof *interests))))
    return cfiber_fail(ENOMEM);
  int ready = poll_on_fiber(t, fds, n, deadline_in(timeout), interests);
  if (interests != few)
    free(interests);
  return (int)result(ready);
}

int cfiber_wait_fd(int fd, int events) {
  struct pollfd p = {.fd = fd, .events = (short)events};
  if (fd < 0)
    return cfiber_fail(EBADF);
  if (events == 0 || (events & ~(POLLIN | POLLOUT | POLLPRI)))
    return cfiber_fail(EINVAL);
  if (cfiber_poll(&p, 1, -1) < 0)
    return -1;
  return p.revents & POLLNVAL ? cfiber_fail(EBADF) : p.revents;
}
