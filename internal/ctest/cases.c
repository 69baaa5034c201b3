/*
 * cases.c - tests of the C interface, in C. Each runs on a fiber and returns 0,
 * or the line of the check that failed.
 */
#define _GNU_SOURCE
#define CFIBER_REDEFINE_ERRNO /* these run on migratable fibers too */
#include "cases.h"
#include "cfiber.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define CHECK(x)                                                                                   \
  do {                                                                                             \
    if (!(x))                                                                                      \
      return __LINE__;                                                                             \
  } while (0)
#define FAILS(call, e) CHECK((call) == -1 && errno == (e))

static cfiber_t *go(cfiber_func fn, void *arg) {
  return cfiber_spawn(fn, arg, NULL);
}

/* The result of f, or what join failed with, negative. */
static intptr_t joined(cfiber_t *f) {
  intptr_t r;
  return cfiber_join(f, &r) ? -errno : r;
}

/* ---- Helpers on fibers of their own --------------------------------------------- */

struct transfer {
  int fd;
  char *buf;
  size_t n;
};

static intptr_t write_all(void *p) {
  struct transfer *t = p;
  ssize_t n = cfiber_write(t->fd, t->buf, t->n);
  return n < 0 ? -errno : n;
}

static intptr_t read_all(void *p) {
  struct transfer *t = p;
  size_t got = 0;
  while (got < t->n) {
    ssize_t n = cfiber_read(t->fd, t->buf + got, t->n - got);
    if (n < 0)
      return -errno;
    if (n == 0)
      break;
    got += (size_t)n;
  }
  return (intptr_t)got;
}

static intptr_t read_one(void *p) {
  char c;
  ssize_t n = cfiber_read(*(int *)p, &c, 1);
  return n < 0 ? -errno : n;
}

static intptr_t accept_one(void *p) {
  int fd = cfiber_accept(*(int *)p, NULL, NULL);
  return fd < 0 ? -errno : fd;
}

static intptr_t sleep_long(void *p) {
  (void)p;
  return cfiber_sleep(INT64_MAX) ? -errno : 0;
}

static intptr_t poll_one(void *p) {
  struct pollfd pfd = {.fd = *(int *)p, .events = POLLIN};
  int n = cfiber_poll(&pfd, 1, -1);
  return n < 0 ? -errno : pfd.revents;
}

static void fill(char *buf, size_t n) {
  for (size_t i = 0; i < n; i++)
    buf[i] = (char)(i * 31 + i / 251);
}

/* Lets the others get to their waits: each yield lets each of them run once. */
static void settle(void) {
  for (int i = 0; i < 50; i++)
    cfiber_sleep(MS / 10);
}

static int listener(struct sockaddr_in *addr, int backlog) {
  socklen_t len = sizeof *addr;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  memset(addr, 0, sizeof *addr);
  addr->sin_family = AF_INET;
  addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || bind(fd, (struct sockaddr *)addr, len) || listen(fd, backlog) ||
      getsockname(fd, (struct sockaddr *)addr, &len))
    return -1;
  return fd;
}

static bool blocking(int fd) {
  return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* ---- Transfers --------------------------------------------------------------------- */

enum { BIG = 1 << 20 };

/* A megabyte through a descriptor pair, in whatever mode it is in. */
static intptr_t through(int r, int w, bool nonblocking) {
  char *from = malloc(BIG), *to = malloc(BIG);
  fill(from, BIG);
  if (nonblocking) {
    fcntl(r, F_SETFL, O_NONBLOCK);
    fcntl(w, F_SETFL, O_NONBLOCK);
  }
  struct transfer wt = {w, from, BIG}, rt = {r, to, BIG};
  cfiber_t *g = go(read_all, &rt);
  cfiber_t *f = go(write_all, &wt);
  CHECK(joined(f) == BIG);
  CHECK(joined(g) == BIG);
  CHECK(memcmp(from, to, BIG) == 0);
  CHECK(blocking(r) == !nonblocking && blocking(w) == !nonblocking);
  close(w);
  char c;
  CHECK(cfiber_read(r, &c, 1) == 0); /* end of file */
  close(r);
  free(from);
  free(to);
  return 0;
}

intptr_t case_pipe(void *p) {
  (void)p;
  for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    intptr_t line = through(fds[0], fds[1], nonblocking);
    if (line)
      return line;
  }
  return 0;
}

intptr_t case_stream(void *p) {
  (void)p;
  for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    intptr_t line = through(fds[0], fds[1], nonblocking);
    if (line)
      return line;
  }
  return 0;
}

/* More than a terminal has room for, while another fiber of the thread, maybe, reads. */
static intptr_t through_terminal(int r, int w) {
  enum { LONG = 100000 };
  char *from = malloc(LONG), *to = malloc(LONG);
  for (int i = 0; i < LONG; i++) /* control characters go one by one */
    from[i] = (char)(i % 701 ? 'a' + i % 26 : i % 32);
  struct transfer wt = {w, from, LONG}, rt = {r, to, LONG};
  cfiber_t *g = go(read_all, &rt), *f = go(write_all, &wt);
  CHECK(joined(f) == LONG && joined(g) == LONG);
  CHECK(memcmp(from, to, LONG) == 0);
  free(from);
  free(to);
  return 0;
}

intptr_t case_terminal(void *p) {
  (void)p;
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0)
    return 0; /* a machine without terminals */
  CHECK(grantpt(master) == 0 && unlockpt(master) == 0);
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  CHECK(slave >= 0);
  struct termios tio;
  CHECK(tcgetattr(slave, &tio) == 0);
  cfmakeraw(&tio);
  CHECK(tcsetattr(slave, TCSANOW, &tio) == 0);
  cfiber_t *f = go(read_one, &slave);
  settle();
  CHECK(cfiber_write(master, "x", 1) == 1);
  CHECK(joined(f) == 1);
  CHECK(through_terminal(slave, master) == 0);
  CHECK(through_terminal(master, slave) == 0);
  CHECK(blocking(slave) && blocking(master));
  close(slave);
  close(master);
  return 0;
}

intptr_t case_regular_file(void *p) {
  (void)p;
  FILE *file = tmpfile();
  CHECK(file);
  int fd = fileno(file);
  char from[10000], to[10000] = {0};
  fill(from, sizeof from);
  struct iovec out[3] = {{from, 100}, {from + 100, 0}, {from + 100, sizeof from - 100}};
  CHECK(cfiber_writev(fd, out, 3) == (ssize_t)sizeof from);
  CHECK(cfiber_read(fd, to, 1) == 0);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  struct iovec in[2] = {{to, 5000}, {to + 5000, 5000}};
  CHECK(cfiber_readv(fd, in, 2) == (ssize_t)sizeof to);
  CHECK(memcmp(from, to, sizeof to) == 0);
  CHECK(cfiber_wait_fd(fd, POLLIN) & POLLIN);
  fclose(file);
  return 0;
}

/* A number by which a socket was read that had to be waited for, and which is fd's now, though
 * nobody has told us. */
static int once_a_socket(int fd) {
  int pair[2];
  char c[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
    return -1;
  cfiber_deadline(cfiber_now() + MS);
  bool right = cfiber_read(pair[0], c, sizeof c) < 0 && errno == ETIMEDOUT;
  cfiber_deadline(0);
  right = right && write(pair[1], "x", 1) == 1 && cfiber_read(pair[0], c, sizeof c) == 1;
  close(pair[1]);
  return right ? dup2(fd, pair[0]) : -1;
}

/* A read takes all that it has room for, also of a file of which a part is in memory. */
intptr_t case_file_in_part(void *p) {
  (void)p;
  FILE *file = tmpfile();
  char *from = malloc(BIG), *to = calloc(1, BIG + 1);
  CHECK(file && from && to);
  int fd = fileno(file);
  fill(from, BIG);
  CHECK(cfiber_write(fd, from, BIG) == BIG);
  struct iovec in[3] = {{to, 100}, {to + 100, BIG / 2}, {to + 100 + BIG / 2, BIG / 2 - 100 + 1}};
  int known = cfiber_self() ? once_a_socket(fd) : dup(fd);
  CHECK(known >= 0);
  for (int i = 0; i < 3; i++) {
    memset(to, 0, BIG);
#ifdef POSIX_FADV_DONTNEED
    CHECK(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
#endif
    CHECK(pread(fd, to, 1, 0) == 1 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK((i == 1 ? cfiber_readv(fd, in, 3) : cfiber_read(i ? known : fd, to, BIG + 1)) == BIG);
    CHECK(memcmp(from, to, BIG) == 0);
  }
  close(known);
  fclose(file);
  free(from);
  free(to);
  return 0;
}

intptr_t case_flags(void *p) {
  (void)p;
  int fds[2];
  char buf[8] = {0};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  FAILS(cfiber_recv(fds[0], buf, 8, MSG_DONTWAIT), EAGAIN);
  CHECK(cfiber_send(fds[1], "abcd", 4, 0) == 4);
  CHECK(cfiber_recv(fds[0], buf, 8, MSG_PEEK) == 4);
  CHECK(cfiber_recv(fds[0], buf, 2, 0) == 2 && memcmp(buf, "ab", 2) == 0);
  /* MSG_WAITALL: two pieces, then the end of the stream. */
  char to[6];
  struct transfer t = {fds[1], "efgh", 4};
  cfiber_t *f = go(write_all, &t);
  CHECK(cfiber_recv(fds[0], to, 6, MSG_WAITALL) == 6 && memcmp(to, "cdefgh", 6) == 0);
  CHECK(joined(f) == 4);
  CHECK(cfiber_send(fds[1], "ij", 2, 0) == 2);
  close(fds[1]);
  CHECK(cfiber_recv(fds[0], to, 6, MSG_WAITALL) == 2);
  close(fds[0]);
  return 0;
}

static intptr_t send_message(void *p) {
  struct transfer *t = p;
  struct iovec iov[3] = {{t->buf, 10}, {t->buf + 10, 100000}, {t->buf + 100010, t->n - 100010}};
  struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};
  ssize_t n = cfiber_sendmsg(t->fd, &msg, MSG_NOSIGNAL);
  return n < 0 ? -errno : n;
}

intptr_t case_messages(void *p) {
  (void)p;
  int fds[2];
  char *from = malloc(BIG), *to = calloc(1, BIG);
  fill(from, BIG);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  struct transfer t = {fds[1], from, BIG};
  cfiber_t *f = go(send_message, &t);
  struct iovec iov[2] = {{to, 1000}, {to + 1000, BIG - 1000}};
  struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
  CHECK(cfiber_recvmsg(fds[0], &msg, MSG_WAITALL) == BIG);
  CHECK(joined(f) == BIG);
  CHECK(memcmp(from, to, BIG) == 0);
  close(fds[0]);
  close(fds[1]);
  free(from);
  free(to);
  return 0;
}

intptr_t case_datagrams(void *p) {
  (void)p;
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in addr = {.sin_family = AF_INET}, from;
  socklen_t len = sizeof addr;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(a, (struct sockaddr *)&addr, len) == 0);
  CHECK(getsockname(a, (struct sockaddr *)&addr, &len) == 0);
  CHECK(cfiber_sendto(b, "hello", 5, 0, (struct sockaddr *)&addr, len) == 5);
  CHECK(cfiber_sendto(b, "", 0, 0, (struct sockaddr *)&addr, len) == 0);
  char buf[16];
  CHECK(cfiber_recvfrom(a, buf, 16, MSG_WAITALL, (struct sockaddr *)&from, &len) == 5);
  CHECK(from.sin_family == AF_INET && from.sin_port != 0);
  CHECK(cfiber_recvfrom(a, buf, 16, 0, NULL, NULL) == 0);
  cfiber_t *f = go(read_one, &a);
  settle();
  CHECK(cfiber_sendto(b, "x", 1, 0, (struct sockaddr *)&addr, len) == 1);
  CHECK(joined(f) == 1);
  close(a);
  close(b);

  /* A write of nothing is an empty message, like that of write(2); elsewhere it is nothing. */
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  CHECK(cfiber_write(pair[0], NULL, 0) == 0 && cfiber_write(pair[0], "yz", 2) == 2);
  CHECK(recv(pair[1], buf, 16, MSG_DONTWAIT) == 0 && recv(pair[1], buf, 16, MSG_DONTWAIT) == 2);
  close(pair[0]);
  close(pair[1]);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK(cfiber_write(pair[0], NULL, 0) == 0);
  FAILS(recv(pair[1], buf, 16, MSG_DONTWAIT), EAGAIN);
  close(pair[0]);
  FAILS(cfiber_write(pair[0], NULL, 0), EBADF);
  close(pair[1]);
  CHECK(pipe(pair) == 0 && cfiber_write(pair[1], NULL, 0) == 0);
  FAILS(cfiber_write(pair[0], NULL, 0), EBADF);
  close(pair[0]);
  close(pair[1]);
  return 0;
}

/* ---- Connections -------------------------------------------------------------------- */

intptr_t case_connect(void *p) {
  (void)p;
  struct sockaddr_in addr;
  int l = listener(&addr, 8);
  CHECK(l >= 0);
  for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (nonblocking)
      fcntl(c, F_SETFL, O_NONBLOCK);
    cfiber_t *f = go(accept_one, &l);
    settle();
    CHECK(cfiber_connect(c, (struct sockaddr *)&addr, sizeof addr) == 0);
    CHECK(blocking(c) == !nonblocking);
    int s = (int)joined(f);
    CHECK(s >= 0 && blocking(s) && blocking(l));
    CHECK(cfiber_write(c, "y", 1) == 1);
    CHECK(read_one(&s) == 1);
    FAILS(cfiber_connect(c, (struct sockaddr *)&addr, sizeof addr), EISCONN);
    close(s);
    CHECK(cfiber_read(c, &s, 1) == 0);
    close(c);
  }
  close(l);
  int c = socket(AF_INET, SOCK_STREAM, 0);
  FAILS(cfiber_connect(c, (struct sockaddr *)&addr, sizeof addr), ECONNREFUSED);
  close(c);
  FAILS(cfiber_connect(c, (struct sockaddr *)&addr, sizeof addr), EBADF);
  return 0;
}

/* Several fibers accept from one blocking listener; each connection wakes one. */
intptr_t case_acceptors(void *p) {
  (void)p;
  enum { N = 8 };
  struct sockaddr_in addr;
  int l = listener(&addr, N), c[N];
  cfiber_t *f[N];
  CHECK(l >= 0);
  for (int i = 0; i < N; i++)
    f[i] = go(accept_one, &l);
  settle();
  for (int i = 0; i < N; i++) {
    c[i] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(cfiber_connect(c[i], (struct sockaddr *)&addr, sizeof addr) == 0);
  }
  for (int i = 0; i < N; i++) {
    int s = (int)joined(f[i]);
    CHECK(s >= 0);
    close(s);
    close(c[i]);
  }
  cfiber_t *g = go(accept_one, &l);
  settle();
  CHECK(cfiber_close(l) == 0);
  CHECK(joined(g) == -EBADF);
  return 0;
}

/* A local listener with a full backlog: connect waits for room. */
intptr_t case_backlog(void *p) {
  (void)p;
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  snprintf(addr.sun_path, sizeof addr.sun_path, "/tmp/cfiber-test-%d-%llu", (int)getpid(),
           (unsigned long long)cfiber_id(cfiber_self()));
  unlink(addr.sun_path);
  int l = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(l, (struct sockaddr *)&addr, sizeof addr) == 0 && listen(l, 0) == 0);
  int c[3];
  for (int i = 0; i < 3; i++)
    c[i] = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(cfiber_connect(c[0], (struct sockaddr *)&addr, sizeof addr) == 0);
  cfiber_deadline(cfiber_now() + 5 * MS);
  if (cfiber_connect(c[1], (struct sockaddr *)&addr, sizeof addr) != 0)
    CHECK(errno == ETIMEDOUT);
  cfiber_deadline(0);
  int s = cfiber_accept(l, NULL, NULL);
  CHECK(s >= 0);
  CHECK(cfiber_connect(c[2], (struct sockaddr *)&addr, sizeof addr) == 0);
  for (int i = 0; i < 3; i++)
    close(c[i]);
  close(s);
  close(l);
  unlink(addr.sun_path);
  return 0;
}

/* Data that has arrived is read before the end or the reset; both wake a reader. */
static bool is_reset(intptr_t r) {
#if defined(CFIBER_KQUEUE) && defined(__linux__)
  if (r == 0) /* libkqueue has read SO_ERROR for its event, which takes the error away */
    return true;
#endif
  return r == -ECONNRESET;
}

intptr_t case_end_of_stream(void *p) {
  (void)p;
  struct sockaddr_in addr;
  int l = listener(&addr, 8);
  for (int reset = 0; reset < 2; reset++) {
    int c = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(cfiber_connect(c, (struct sockaddr *)&addr, sizeof addr) == 0);
    int s = cfiber_accept(l, NULL, NULL);
    CHECK(s >= 0);
    cfiber_t *f = go(read_one, &s);
    settle();
    struct linger hard = {1, 0};
    if (reset)
      CHECK(setsockopt(c, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
    else
      CHECK(cfiber_write(c, "z", 1) == 1);
    close(c);
    if (reset) {
      CHECK(is_reset(joined(f)));
    } else {
      CHECK(joined(f) == 1);
      CHECK(read_one(&s) == 0);
    }
    close(s);
  }
  close(l);
  return 0;
}

/* ---- Time ------------------------------------------------------------------------------ */

intptr_t case_sleep(void *p) {
  (void)p;
  CHECK(cfiber_sleep(0) == 0 && cfiber_sleep(-5) == 0 && cfiber_sleep(INT64_MIN) == 0);
  int64_t before = cfiber_now();
  CHECK(cfiber_sleep(2 * MS) == 0);
  CHECK(cfiber_now() - before >= 2 * MS);
  return 0;
}

intptr_t case_deadline(void *p) {
  (void)p;
  int fds[2];
  char c;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  int64_t when = cfiber_now() + 3 * MS;
  CHECK(cfiber_deadline(when) == 0);
  FAILS(cfiber_read(fds[0], &c, 1), ETIMEDOUT);
  CHECK(cfiber_now() >= when);
  FAILS(cfiber_sleep(MS), ETIMEDOUT);
  FAILS(cfiber_wait_fd(fds[0], POLLIN), ETIMEDOUT);
  CHECK(cfiber_deadline(INT64_C(-1)) == when); /* long past */
  FAILS(cfiber_recv(fds[0], &c, 1, 0), ETIMEDOUT);
  CHECK(cfiber_deadline(0) != 0);
  CHECK(cfiber_write(fds[1], "a", 1) == 1);
  CHECK(cfiber_read(fds[0], &c, 1) == 1); /* nothing is left of it */
  /* A deadline that is not met takes its timer along. */
  CHECK(cfiber_deadline(cfiber_now() + 1000 * MS) == 0);
  CHECK(cfiber_write(fds[1], "b", 1) == 1);
  CHECK(cfiber_read(fds[0], &c, 1) == 1);
  CHECK(cfiber_sleep(MS) == 0);
  cfiber_t *f = go(sleep_long, NULL); /* deadlines are not inherited */
  cfiber_deadline(cfiber_now() + MS);
  FAILS(cfiber_join(f, NULL), ETIMEDOUT);
  cfiber_deadline(0);
  CHECK(cfiber_cancel(f) == 0);
  CHECK(joined(f) == -ECANCELED);
  close(fds[0]);
  close(fds[1]);
  return 0;
}

static intptr_t sleep_until(void *p) {
  int64_t *when = p;
  if (cfiber_sleep(*when - cfiber_now()))
    return -errno;
  return cfiber_now() >= *when;
}

/* Ten thousand timers, set in disorder; none fires early. */
intptr_t case_many_timers(void *p) {
  (void)p;
  enum { N = 10000 };
  static const unsigned prime = 7919;
  int64_t *when = malloc(N * sizeof *when), base = cfiber_now() + 5 * MS;
  cfiber_t **f = malloc(N * sizeof *f);
  for (unsigned i = 0; i < N; i++) {
    when[i] = base + (int64_t)(i * prime % N) * 2000;
    f[i] = go(sleep_until, &when[i]);
    CHECK(f[i]);
  }
  for (unsigned i = 0; i < N; i++)
    CHECK(joined(f[i]) == 1);
  free(when);
  free(f);
  return 0;
}

/* ---- Readiness ---------------------------------------------------------------------------- */

intptr_t case_poll(void *p) {
  (void)p;
  enum { N = 20 };
  int r[N], w[N];
  struct pollfd pfds[N + 1];
  for (int i = 0; i < N; i++) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    r[i] = fds[0];
    w[i] = fds[1];
    pfds[i] = (struct pollfd){.fd = r[i], .events = POLLIN};
  }
  pfds[N] = (struct pollfd){.fd = -1, .events = POLLIN}; /* ignored, as by poll */
  CHECK(cfiber_poll(pfds, N + 1, 0) == 0);
  int64_t before = cfiber_now();
  CHECK(cfiber_poll(pfds, N + 1, 3) == 0);
  CHECK(cfiber_now() - before >= 3 * MS);
  CHECK(cfiber_poll(NULL, 0, 1) == 0);
  struct transfer t = {w[13], "q", 1};
  cfiber_t *f = go(write_all, &t);
  CHECK(cfiber_poll(pfds, N + 1, -1) == 1 && pfds[13].revents == POLLIN);
  CHECK(joined(f) == 1);
  CHECK(cfiber_wait_fd(w[0], POLLOUT) == POLLOUT);
  close(w[5]);
  CHECK(cfiber_wait_fd(r[5], POLLIN) & POLLHUP);
  FAILS(cfiber_wait_fd(-1, POLLIN), EBADF);
  FAILS(cfiber_wait_fd(r[0], 0), EINVAL);
  FAILS(cfiber_wait_fd(w[5], POLLIN), EBADF);
  for (int i = 0; i < N; i++) {
    close(r[i]);
    if (i != 5)
      close(w[i]);
  }
  struct pollfd bad = {.fd = r[0], .events = POLLIN};
  CHECK(cfiber_poll(&bad, 1, -1) == 1 && bad.revents == POLLNVAL);
  return 0;
}

intptr_t case_close_wakes_poll(void *p) {
  (void)p;
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  cfiber_t *f = go(poll_one, &fds[0]), *g = go(read_one, &fds[0]);
  settle();
  CHECK(cfiber_close(fds[0]) == 0);
  CHECK(joined(f) == POLLNVAL);
  CHECK(joined(g) == -EBADF);
  FAILS(cfiber_close(fds[0]), EBADF);
  close(fds[1]);
  return 0;
}

/* A reader and a poller on one descriptor both hear of one byte. */
intptr_t case_poll_beside_read(void *p) {
  (void)p;
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  cfiber_t *r1 = go(read_one, &fds[0]), *r2 = go(read_one, &fds[0]);
  settle();
  cfiber_t *f = go(poll_one, &fds[0]);
  settle();
  CHECK(cfiber_write(fds[1], "123", 3) == 3); /* one is left for poll to see */
  CHECK(joined(r1) == 1 && joined(r2) == 1);
  CHECK(joined(f) & POLLIN);
  close(fds[0]);
  close(fds[1]);
  return 0;
}

/* The systems that report urgent data to a poller. */
#if (defined(__linux__) && !defined(CFIBER_KQUEUE)) || defined(__APPLE__) ||                       \
    defined(__OpenBSD__) || defined(__DragonFly__)
#define URGENT_IS_REPORTED 1
#else
#define URGENT_IS_REPORTED 0
#endif

struct wanted {
  int fd, events;
};

static intptr_t wait_for(void *p) {
  struct wanted *w = p;
  int r = cfiber_wait_fd(w->fd, w->events);
  return r < 0 ? -errno : r;
}

intptr_t case_urgent(void *p) {
  (void)p;
  struct sockaddr_in addr;
  int l = listener(&addr, 1), c = socket(AF_INET, SOCK_STREAM, 0);
  char b;
  CHECK(cfiber_connect(c, (struct sockaddr *)&addr, sizeof addr) == 0);
  int s = cfiber_accept(l, NULL, NULL);
  CHECK(s >= 0);
  for (int i = 0; i < 2; i++) { /* with a new registration, and with one that is there */
    struct wanted urgent = {s, POLLPRI}, any = {s, POLLIN | POLLPRI};
    cfiber_t *f = go(wait_for, &urgent);
    if (URGENT_IS_REPORTED) {
      settle();
      CHECK(send(c, "!", 1, MSG_OOB) == 1);
      CHECK(joined(f) & POLLPRI);
      CHECK(recv(s, &b, 1, MSG_OOB) == 1 && b == '!');
    } else {
      CHECK(joined(f) == -ENOTSUP);
    }
    f = go(wait_for, &any); /* is not refused anywhere */
    settle();
    CHECK(cfiber_write(c, "n", 1) == 1);
    CHECK(joined(f) & POLLIN);
    CHECK(cfiber_read(s, &b, 1) == 1 && b == 'n');
  }
  close(c);
  close(s);
  close(l);
  return 0;
}

intptr_t case_duplicates(void *p) {
  (void)p;
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  int copy = dup(fds[0]);
  cfiber_t *f = go(read_one, &fds[0]);
  settle();
  CHECK(cfiber_close(fds[0]) == 0); /* the file stays open through the copy */
  CHECK(joined(f) == -EBADF);
  f = go(read_one, &copy);
  settle();
  CHECK(cfiber_write(fds[1], "k", 1) == 1);
  CHECK(joined(f) == 1);
  /* The old number again, for the same file. */
  CHECK(dup2(copy, fds[0]) == fds[0]);
  f = go(read_one, &fds[0]);
  settle();
  CHECK(cfiber_write(fds[1], "l", 1) == 1);
  CHECK(joined(f) == 1);
  close(copy);
  close(fds[0]);
  close(fds[1]);
  return 0;
}

/* Reads and writes at once on one socket. */
intptr_t case_full_duplex(void *p) {
  (void)p;
  int fds[2];
  char *from = malloc(BIG), *to[2] = {malloc(BIG), malloc(BIG)};
  fill(from, BIG);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  struct transfer t[4] = {
      {fds[0], from, BIG}, {fds[1], to[0], BIG}, {fds[1], from, BIG}, {fds[0], to[1], BIG}};
  cfiber_t *f[4] = {go(write_all, &t[0]), go(read_all, &t[1]), go(write_all, &t[2]),
                    go(read_all, &t[3])};
  for (int i = 0; i < 4; i++)
    CHECK(joined(f[i]) == BIG);
  CHECK(memcmp(from, to[0], BIG) == 0 && memcmp(from, to[1], BIG) == 0);
  close(fds[0]);
  close(fds[1]);
  free(from);
  free(to[0]);
  free(to[1]);
  return 0;
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static intptr_t join_long(void *p) {
  return cfiber_join(p, NULL) ? -errno : 0;
}

intptr_t case_cancel(void *p) {
  (void)p;
  struct sockaddr_in addr;
  int fds[2], l = listener(&addr, 1);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  cfiber_t *target = go(sleep_long, NULL);
  cfiber_t *f[] = {go(sleep_long, NULL), go(read_one, &fds[0]), go(accept_one, &l),
                   go(poll_one, &fds[0]), go(join_long, target)};
  settle();
  for (int i = 0; i < 5; i++) {
    CHECK(cfiber_cancel(f[i]) == 0);
    CHECK(cfiber_cancel(f[i]) == 0);
  }
  for (int i = 0; i < 5; i++)
    CHECK(joined(f[i]) == -ECANCELED);
  CHECK(cfiber_cancel(target) == 0); /* the joiner gave it back */
  CHECK(joined(target) == -ECANCELED);
  close(fds[0]);
  close(fds[1]);
  close(l);
  return 0;
}

static intptr_t clean_up(void *p) {
  int *fds = p;
  char c;
  FAILS(cfiber_sleep(INT64_MAX), ECANCELED);
  CHECK(cfiber_canceled() == 1);
  FAILS(cfiber_sleep(1), ECANCELED); /* it stays */
  FAILS(cfiber_read(fds[0], &c, 1), ECANCELED);
  CHECK(cfiber_shield(1) == 0);
  CHECK(cfiber_sleep(MS) == 0); /* under the shield one may wait */
  CHECK(cfiber_write(fds[1], "c", 1) == 1 && cfiber_read(fds[0], &c, 1) == 1);
  CHECK(cfiber_shield(0) == 1);
  FAILS(cfiber_sleep(1), ECANCELED);
  return 0;
}

static intptr_t shielded(void *p) {
  (void)p;
  cfiber_shield(1);
  while (!cfiber_canceled())
    CHECK(cfiber_sleep(MS / 10) == 0); /* cancelled in one of these */
  CHECK(cfiber_sleep(MS) == 0);
  cfiber_shield(0);
  FAILS(cfiber_sleep(1), ECANCELED);
  return 0;
}

static intptr_t cancel_self(void *p) {
  (void)p;
  CHECK(cfiber_canceled() == 0);
  CHECK(cfiber_cancel(cfiber_self()) == 0);
  FAILS(cfiber_sleep(MS), ECANCELED);
  return 0;
}

intptr_t case_shield(void *p) {
  (void)p;
  int fds[2];
  CHECK(pipe(fds) == 0);
  cfiber_t *f = go(clean_up, fds), *g = go(shielded, NULL);
  settle();
  cfiber_cancel(f);
  cfiber_cancel(g);
  intptr_t line = joined(f);
  if (!line)
    line = joined(g);
  if (!line)
    line = joined(go(cancel_self, NULL));
  close(fds[0]);
  close(fds[1]);
  return line;
}

/* ---- Fibers ------------------------------------------------------------------------------------
 */

static intptr_t identity(void *p) {
  return (intptr_t)p;
}

static intptr_t my_name(void *p) {
  return strcmp(cfiber_name(cfiber_self()), p);
}

static intptr_t set_flag(void *p) {
  atomic_store((_Atomic int *)p, 1);
  return 0;
}

intptr_t case_fibers(void *p) {
  (void)p;
  struct cfiber_attr bad_flag = {.flags = 0x80}, small = {.stack_size = 100},
                     large = {.stack_size = CFIBER_STACK_MAX + 1};
  CHECK(!cfiber_spawn(NULL, NULL, NULL) && errno == EINVAL);
  CHECK(!cfiber_spawn(identity, NULL, &bad_flag) && errno == EINVAL);
  CHECK(!cfiber_spawn(identity, NULL, &small) && errno == EINVAL);
  CHECK(!cfiber_spawn(identity, NULL, &large) && errno == EINVAL);
  FAILS(cfiber_join(NULL, NULL), EINVAL);
  FAILS(cfiber_join(cfiber_self(), NULL), EDEADLK);
  FAILS(cfiber_detach(NULL), EINVAL);
  FAILS(cfiber_cancel(NULL), EINVAL);
  CHECK(cfiber_id(NULL) == 0 && cfiber_id(cfiber_self()) != 0);

  cfiber_t *f = go(sleep_long, NULL), *g = go(join_long, f);
  settle();
  FAILS(cfiber_join(f, NULL), EINVAL); /* g does */
  FAILS(cfiber_detach(f), EINVAL);
  cfiber_cancel(f);
  CHECK(joined(g) == 0);

  struct cfiber_attr named = {.name = "a name that is longer than is kept"};
  f = cfiber_spawn(my_name, "a name that is longer than is k", &named);
  CHECK(strlen(cfiber_name(f)) == CFIBER_NAME_MAX - 1);
  CHECK(joined(f) == 0);

  _Atomic int flag = 0, flag2 = 0;
  struct cfiber_attr detached = {.flags = CFIBER_DETACHED};
  CHECK((f = cfiber_spawn(set_flag, &flag, &detached)));
  CHECK((g = go(set_flag, &flag2)) && cfiber_detach(g) == 0);
  while (!atomic_load(&flag) || !atomic_load(&flag2))
    cfiber_sleep(MS / 10);
  f = go(identity, (void *)77);
  settle();
  CHECK(cfiber_detach(f) == 0); /* it has ended: freed at once */

  struct cfiber_attr big = {.stack_size = 1 << 20}, tiny = {.stack_size = CFIBER_STACK_MIN};
  CHECK(joined(cfiber_spawn(identity, (void *)5, &big)) == 5);
  CHECK(joined(cfiber_spawn(identity, (void *)6, &tiny)) == 6);
  CHECK(joined(go(identity, (void *)-1)) == -1);
  return 0;
}

static intptr_t take_over(void *f) {
  cfiber_deadline(cfiber_now() + 100 * MS); /* a join that is not refused ends so */
  FAILS(cfiber_join(f, NULL), EINVAL);
  FAILS(cfiber_detach(f), EINVAL);
  return 0;
}

/* What the host has started is the host's: C can neither join nor detach it. */
intptr_t case_host_fiber(void *p) {
  (void)p;
  return joined(go(take_over, cfiber_self()));
}

intptr_t case_bad_io(void *p) {
  (void)p;
  char c = 0;
  struct iovec iov = {&c, 1};
  FAILS(cfiber_read(-1, &c, 1), EBADF);
  FAILS(cfiber_write(-1, &c, 1), EBADF);
  FAILS(cfiber_read(1 << 28, &c, 1), EBADF);
  FAILS(cfiber_recv(-1, &c, 1, 0), EBADF);
  FAILS(cfiber_accept(-1, NULL, NULL), EBADF);
  FAILS(cfiber_readv(0, NULL, 1), EINVAL);
  FAILS(cfiber_writev(0, &iov, 0), EINVAL);
  FAILS(cfiber_writev(0, &iov, 5000), EINVAL);
  FAILS(cfiber_close(-1), EBADF);
  FAILS(cfiber_recvmsg(0, NULL, 0), EFAULT);
  int fds[2];
  CHECK(pipe(fds) == 0);
  FAILS(cfiber_recv(fds[0], &c, 1, 0), ENOTSOCK);
  FAILS(cfiber_read(fds[1], &c, 1), EBADF); /* open for writing only */
  close(fds[0]);
  close(fds[1]);
  return 0;
}
