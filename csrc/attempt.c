/*
 * attempt.c - see attempt.h. The only file that makes the I/O system calls.
 */
#include "attempt.h"
#include "fault.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#ifndef PIPE_BUF
#define PIPE_BUF 512
#endif

static ssize_t outcome(ssize_t n) {
  if (n >= 0)
    return n;
  return cfiber_errno() == EWOULDBLOCK ? -EAGAIN : -cfiber_errno();
}

/*
 * 0: ready, or a negative errno value. A descriptor that is not open for this
 * direction is never ready; the call itself would say EBADF.
 */
static int readiness(int fd, short events) {
  int mode = TRY(FILE_MODE, -1, fcntl(fd, F_GETFL));
  if (mode < 0)
    return -cfiber_errno();
  if ((mode & O_ACCMODE) == (events == POLLIN ? O_WRONLY : O_RDONLY))
    return -EBADF;
  struct pollfd p = {.fd = fd, .events = events};
  int n = TRY(POLL, -1, poll(&p, 1, 0));
  if (n < 0)
    return -cfiber_errno();
  if (n == 0)
    return -EAGAIN;
  return p.revents & POLLNVAL ? -EBADF : 0;
}

bool cfiber_is_storage(int fd) {
  struct stat st;
  return TRY(FILE_KIND, -1, fstat(fd, &st)) == 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
}

/*
 * Runs poll and the call that relies on it as one: else another fiber, on another
 * thread, takes what poll has seen, and the call blocks this thread. Mutexes, not
 * spin locks, since another process may do the same.
 */
static ssize_t in_turn(struct io *io, ssize_t (*poll_and_call)(struct io *io)) {
  static pthread_mutex_t turns[2][32] = {{[0 ... 31] = PTHREAD_MUTEX_INITIALIZER},
                                         {[0 ... 31] = PTHREAD_MUTEX_INITIALIZER}};
  pthread_mutex_t *turn = &turns[io->dir][(unsigned)io->fd % 32];
  pthread_mutex_lock(turn);
  ssize_t n = poll_and_call(io);
  pthread_mutex_unlock(turn);
  return n;
}

/*
 * macOS and NetBSD look at MSG_DONTWAIT in calls that receive, not in those that
 * send. There a blocking socket is asked with poll first, like a pipe.
 */
#if defined(__APPLE__) || defined(__NetBSD__)
#define SEND_MAY_BLOCK 1

/*
 * Whether, and how much of n bytes, the descriptor takes without blocking: 0 or
 * a negative errno value, and *n. Of a stream that poll calls writable that is
 * the low-water mark, of other files PIPE_BUF. A datagram goes as a whole.
 */
static int sendable(int fd, size_t *n) {
  int mode = TRY(FILE_MODE, -1, fcntl(fd, F_GETFL)), type = SOCK_STREAM, mark = PIPE_BUF;
  if (mode < 0)
    return -cfiber_errno();
  if (mode & O_NONBLOCK)
    return 0;
  socklen_t len = sizeof type;
  TRY(SOCKET_TYPE, -1, getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len));
  len = sizeof mark;
  TRY(SOCKET_TYPE, -1, getsockopt(fd, SOL_SOCKET, SO_SNDLOWAT, &mark, &len));
  if (type == SOCK_STREAM && mark > 0 && *n > (size_t)mark)
    *n = (size_t)mark;
  return readiness(fd, POLLOUT);
}
#endif

/* ---- Files of any kind ------------------------------------------------------- */

#if defined(__linux__) && defined(RWF_NOWAIT)
#define HAVE_NOWAIT 1
/* What says that this file or kernel does not know RWF_NOWAIT. */
static bool nowait_unknown(ssize_t n) {
  return n < 0 && (cfiber_errno() == EOPNOTSUPP || cfiber_errno() == ENOSYS);
}
#endif

/*
 * There is nothing to read. A terminal may be set to say so at once (MIN and TIME are 0), or after
 * a while (MIN is 0): then that is no end of file, but what its user waits for.
 */
static ssize_t nothing_to_read(struct io *io) {
  struct termios tio;
  if (!io->until) {
    if (tcgetattr(io->fd, &tio) || (tio.c_lflag & ICANON) || tio.c_cc[VMIN])
      return -EAGAIN;
    io->until = cfiber_now() + tio.c_cc[VTIME] * 100 * NS_PER_MS;
  }
  return cfiber_now() < io->until ? -EAGAIN : 0;
}

static ssize_t read_after_poll(struct io *io) {
  int e = readiness(io->fd, POLLIN);
  if (e == -EAGAIN)
    return nothing_to_read(io);
  return e ? e : outcome(TRY(READ, -1, readv(io->fd, io->iov, io->iovcnt)));
}

/* A read as of a socket. False: it is none. */
static bool received(struct io *io, ssize_t *n) {
  struct msghdr msg = {.msg_iov = (struct iovec *)io->iov, .msg_iovlen = io->iovcnt};
  *n = TRY(READ, -1, recvmsg(io->fd, &msg, MSG_DONTWAIT));
  return io->socket = *n >= 0 || cfiber_errno() != ENOTSOCK;
}

ssize_t cfiber_attempt_read(struct io *io) {
  if (io->may_block)
    return outcome(TRY(READ, -1, readv(io->fd, io->iov, io->iovcnt)));
  ssize_t n;
#ifdef HAVE_NOWAIT
  if (io->socket && received(io, &n))
    return outcome(n);
  n = TRY(READ, -1, preadv2(io->fd, io->iov, io->iovcnt, -1, RWF_NOWAIT));
  if (!nowait_unknown(n))
    return outcome(n);
#else
  if (received(io, &n))
    return outcome(n);
#endif
  if (cfiber_is_storage(io->fd))
    return outcome(TRY(READ, -1, readv(io->fd, io->iov, io->iovcnt)));
  return in_turn(io, read_after_poll);
}

static bool is_control(char c) {
  return (unsigned char)c < ' ';
}

/*
 * How much of n bytes a terminal takes that poll calls writable. It may have room for as little
 * as a buffer of 256 bytes, looks again before each character that it may write as another or as
 * several (a line's end), and blocks if there is no room then: so these go alone.
 */
static size_t terminal_piece(const char *s, size_t n) {
  enum { MOST = 256 };
  if (n > MOST)
    n = MOST;
  size_t k = 0;
  while (k < n && !is_control(s[k]))
    k++;
  return k == 0 && n > 0 ? 1 : k;
}

/* Writes of the first element that is not empty, and no more than `most`. */
static ssize_t write_some(const struct io *io, size_t most) {
  const struct iovec *v = io->iov;
  while (v->iov_len == 0 && v + 1 < io->iov + io->iovcnt)
    v++;
  size_t n = v->iov_len < most ? v->iov_len : most;
  if (isatty(io->fd))
    n = terminal_piece(v->iov_base, n);
  return outcome(TRY(WRITE, -1, write(io->fd, v->iov_base, n)));
}

/*
 * A pipe that poll calls writable takes PIPE_BUF bytes without blocking; more
 * might block, and of a terminal less.
 */
static ssize_t write_after_poll(struct io *io) {
  size_t most = PIPE_BUF;
#ifdef SEND_MAY_BLOCK
  most = SIZE_MAX;
  int e = sendable(io->fd, &most);
#else
  int e = readiness(io->fd, POLLOUT);
#endif
  if (e)
    return e;
  return most == SIZE_MAX ? outcome(TRY(WRITE, -1, writev(io->fd, io->iov, io->iovcnt)))
                          : write_some(io, most);
}

ssize_t cfiber_attempt_write(struct io *io) {
  if (io->may_block)
    return outcome(TRY(WRITE, -1, writev(io->fd, io->iov, io->iovcnt)));
#ifdef HAVE_NOWAIT
  ssize_t n = TRY(WRITE, -1, pwritev2(io->fd, io->iov, io->iovcnt, -1, RWF_NOWAIT));
  if (!nowait_unknown(n))
    return outcome(n);
#elif !defined(SEND_MAY_BLOCK)
  struct msghdr msg = {.msg_iov = (struct iovec *)io->iov, .msg_iovlen = io->iovcnt};
  ssize_t n = TRY(WRITE, -1, sendmsg(io->fd, &msg, MSG_DONTWAIT));
  if (n >= 0 || cfiber_errno() != ENOTSOCK)
    return outcome(n);
#endif
  if (cfiber_is_storage(io->fd))
    return outcome(TRY(WRITE, -1, writev(io->fd, io->iov, io->iovcnt)));
  return in_turn(io, write_after_poll);
}

/* To a socket of messages write(2) sends an empty one, which vectors of nothing do not. */
ssize_t cfiber_attempt_write_nothing(struct io *io) {
  if (!io->may_block) {
    ssize_t n = TRY(WRITE, -1, sendto(io->fd, "", 0, MSG_DONTWAIT, NULL, 0));
    if (n == 0 || cfiber_errno() != ENOTSOCK)
      return outcome(n);
  }
  return outcome(TRY(WRITE, -1, write(io->fd, "", 0)));
}

/* ---- Sockets ------------------------------------------------------------------- */

static int flags(const struct io *io) {
  return io->may_block ? io->flags : io->flags | MSG_DONTWAIT;
}

ssize_t cfiber_attempt_recv(struct io *io) {
  return outcome(TRY(
      READ, -1,
      recvfrom(io->fd, io->iov[0].iov_base, io->iov[0].iov_len, flags(io), io->addr, io->addrlen)));
}

#ifdef SEND_MAY_BLOCK

static ssize_t send_after_poll(struct io *io) {
  size_t n = io->iov[0].iov_len;
  int e = sendable(io->fd, &n);
  if (e)
    return e;
  return outcome(TRY(
      WRITE, -1, sendto(io->fd, io->iov[0].iov_base, n, io->flags, io->addr, io->addrlen_value)));
}

/* Of a stream, at most a part of the first element that is not empty. */
static ssize_t sendmsg_after_poll(struct io *io) {
  struct msghdr msg = *io->msg;
  struct iovec first;
  size_t most = SIZE_MAX;
  int e = sendable(io->fd, &most);
  if (e)
    return e;
  if (most != SIZE_MAX && msg.msg_iovlen > 0) {
    while (msg.msg_iov->iov_len == 0 && msg.msg_iovlen > 1)
      msg.msg_iov++, msg.msg_iovlen--;
    first = *msg.msg_iov;
    if (first.iov_len > most)
      first.iov_len = most;
    msg.msg_iov = &first;
    msg.msg_iovlen = 1;
  }
  return outcome(TRY(WRITE, -1, sendmsg(io->fd, &msg, io->flags)));
}

#endif

ssize_t cfiber_attempt_send(struct io *io) {
#ifdef SEND_MAY_BLOCK
  if (!io->may_block)
    return in_turn(io, send_after_poll);
#endif
  return outcome(TRY(WRITE, -1,
                     sendto(io->fd, io->iov[0].iov_base, io->iov[0].iov_len, flags(io), io->addr,
                            io->addrlen_value)));
}

ssize_t cfiber_attempt_recvmsg(struct io *io) {
  return outcome(TRY(READ, -1, recvmsg(io->fd, io->msg, flags(io))));
}

ssize_t cfiber_attempt_sendmsg(struct io *io) {
#ifdef SEND_MAY_BLOCK
  if (!io->may_block)
    return in_turn(io, sendmsg_after_poll);
#endif
  return outcome(TRY(WRITE, -1, sendmsg(io->fd, io->msg, flags(io))));
}

static ssize_t accept_after_poll(struct io *io) {
  int e = readiness(io->fd, POLLIN);
  return e ? e : outcome(TRY(ACCEPT, -1, accept(io->fd, io->addr, io->addrlen)));
}

/* There is no MSG_DONTWAIT for accept. */
ssize_t cfiber_attempt_accept(struct io *io) {
  int mode = io->may_block ? O_NONBLOCK : TRY(FILE_MODE, -1, fcntl(io->fd, F_GETFL));
  if (mode < 0)
    return -cfiber_errno();
  if (mode & O_NONBLOCK)
    return outcome(TRY(ACCEPT, -1, accept(io->fd, io->addr, io->addrlen)));
  return in_turn(io, accept_after_poll);
}

/* A socket being connected is nobody else's yet: its flag may change for a moment. */
int cfiber_attempt_connect(int fd, const struct sockaddr *addr, socklen_t len) {
  int mode = TRY(FILE_MODE, -1, fcntl(fd, F_GETFL));
  if (mode < 0)
    return cfiber_errno();
  if (!(mode & O_NONBLOCK) && TRY(FILE_MODE, -1, fcntl(fd, F_SETFL, mode | O_NONBLOCK)))
    return cfiber_errno();
  int e = TRY(CONNECT, -1, connect(fd, addr, len)) ? cfiber_errno() : 0;
  if (!(mode & O_NONBLOCK))
    TRY_DONE(MODE_BACK, -1, fcntl(fd, F_SETFL, mode));
  /* Interrupted, or begun by an earlier call: it goes on by itself. */
  return e == EINTR || e == EALREADY ? EINPROGRESS : e;
}
