/*
 * attempt.h - one system call of an I/O operation, tried without blocking.
 *
 * The descriptor may be in blocking mode and shared with other processes, so
 * O_NONBLOCK is not an option. Sockets take MSG_DONTWAIT; other files take
 * RWF_NOWAIT where the kernel has it, and else are asked with poll first.
 */
#ifndef CFIBER_ATTEMPT_H
#define CFIBER_ATTEMPT_H

#include "core.h"

/* An operation to be tried until it does not fail with EAGAIN. */
struct io {
  int fd;
  enum direction dir;
  /* Returns the result or a negative errno value. */
  ssize_t (*attempt)(struct io *io);
  bool may_block; /* let the system call block the thread */
  bool drains;    /* takes what there is, up to the length of iov, which is not 0 */
  bool no_wait;   /* MSG_DONTWAIT was given: EAGAIN is the caller's */
  bool socket;    /* in: try first as a socket; out: it has been read as one */
  bool begun;     /* a part of it is done; `closes` is that of its fd_attempt */
  uint32_t closes;
  int64_t until; /* out, if not 0: when a read of a terminal is over though nothing has come */
  int flags;
  const struct iovec *iov;
  int iovcnt;
  struct msghdr *msg;
  struct sockaddr *addr;
  socklen_t *addrlen;
  socklen_t addrlen_value;
};

ssize_t cfiber_attempt_read(struct io *io);  /* iov */
ssize_t cfiber_attempt_write(struct io *io); /* iov */
ssize_t cfiber_attempt_write_nothing(struct io *io);
ssize_t cfiber_attempt_recv(struct io *io);    /* iov[0], flags, addr, addrlen */
ssize_t cfiber_attempt_send(struct io *io);    /* iov[0], flags, addr, addrlen_value */
ssize_t cfiber_attempt_recvmsg(struct io *io); /* msg, flags */
ssize_t cfiber_attempt_sendmsg(struct io *io); /* msg, flags */
ssize_t cfiber_attempt_accept(struct io *io);  /* addr, addrlen */

/* Whether fd never waits for anybody, but may be slow. */
bool cfiber_is_storage(int fd);

/*
 * Starts connecting without blocking. 0, EINPROGRESS: wait until writable and
 * ask for the outcome, EAGAIN: not even begun, try later; or another errno.
 */
int cfiber_attempt_connect(int fd, const struct sockaddr *addr, socklen_t len);

#endif /* CFIBER_ATTEMPT_H */
