/*
 * corners_test.c - what nothing else comes by: callers without a fiber on descriptors that do not
 * block, arguments that are wrong, calls of a fiber that is cancelled already, messages in many
 * pieces, and runtimes that end in another order than they began. docs/coverage.md lists what
 * even this does not reach.
 */
#define CFIBER_REDEFINE_ERRNO
#include "testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

/* ---- Without a fiber ----------------------------------------------------------------------- */

struct passing {
  int fd;
  _Atomic int begun;
};

static void *read_on_thread(void *p) {
  struct passing *r = p;
  char c = 0;
  atomic_store(&r->begun, 1);
  CHECK(cfiber_read(r->fd, &c, 1) == 1 && c == 'x');
  return NULL;
}

/* A call on a plain thread blocks, be the descriptor blocking or not. */
static void test_nonblocking_on_thread(void) {
  int fds[2];
  pthread_t thread;
  CHECK(pipe(fds) == 0);
  struct passing r = {fds[0], 0};
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  CHECK(pthread_create(&thread, NULL, read_on_thread, &r) == 0);
  while (!atomic_load(&r.begun))
    sched_yield();
  CHECK(write(fds[1], "x", 1) == 1);
  pthread_join(thread, NULL);
  CHECK(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
  close(fds[0]);
  close(fds[1]);
}

static int listen_at(struct sockaddr_in *addr) {
  socklen_t len = sizeof *addr;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  *addr = (struct sockaddr_in){.sin_family = AF_INET};
  addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(fd, (struct sockaddr *)addr, len) == 0 && listen(fd, 8) == 0);
  CHECK(getsockname(fd, (struct sockaddr *)addr, &len) == 0);
  return fd;
}

static int connected_to(const struct sockaddr_in *addr, int mode) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  fcntl(fd, F_SETFL, mode);
  CHECK(cfiber_connect(fd, (const struct sockaddr *)addr, sizeof *addr) == 0);
  CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == mode);
  return fd;
}

static void test_connect_on_thread(void) {
  struct sockaddr_in addr;
  int listener = listen_at(&addr);
  close(connected_to(&addr, O_NONBLOCK));
  close(connected_to(&addr, 0));
  close(listener);
}

/* ---- Wrong arguments ----------------------------------------------------------------------- */

static intptr_t wrong_arguments(void *unused) {
  (void)unused;
  struct iovec iov = {NULL, 0};
  FAILS(cfiber_recvmsg(0, NULL, 0), EFAULT);
  FAILS(cfiber_sendmsg(0, NULL, 0), EFAULT);
  FAILS(cfiber_poll(NULL, 1, 0), EFAULT);
  FAILS(cfiber_readv(0, &iov, 0), EINVAL);
  FAILS(cfiber_readv(0, NULL, 1), EINVAL);
  FAILS(cfiber_writev(0, &iov, 1025), EINVAL);
  FAILS(cfiber_wait_fd(-1, POLLIN), EBADF);
  FAILS(cfiber_wait_fd(0, 0), EINVAL);
  FAILS(cfiber_close(-1), EBADF);
  FAILS(cfiber_join(NULL, NULL), EINVAL);
  FAILS(cfiber_detach(NULL), EINVAL);
  FAILS(cfiber_cancel(NULL), EINVAL);
  CHECK(!cfiber_spawn(NULL, NULL, NULL) && errno == EINVAL);
  FAILS(cfiber_run(NULL, NULL, NULL, NULL), EINVAL);
  CHECK(cfiber_id(NULL) == 0 && *cfiber_name(NULL) == 0);
  return 0;
}

static intptr_t run_inside(void *unused) {
  (void)unused;
  FAILS(cfiber_run(identity, NULL, NULL, NULL), EDEADLK);
  CHECK(cfiber_thread_run(cfiber_thread_self()) == EDEADLK);
  return 0;
}

/* ---- Cancelled already ---------------------------------------------------------------------- */

static intptr_t cancelled_before(void *unused) {
  (void)unused;
  struct sockaddr_in addr;
  int listener = listen_at(&addr), fd = socket(AF_INET, SOCK_STREAM, 0);
  cfiber_t *child = go(identity, (void *)5);
  struct pollfd p = {.fd = listener, .events = POLLIN};
  char c;
  CHECK(cfiber_cancel(cfiber_self()) == 0);
  FAILS(cfiber_connect(fd, (struct sockaddr *)&addr, sizeof addr), ECANCELED);
  FAILS(cfiber_accept(listener, NULL, NULL), ECANCELED);
  FAILS(cfiber_poll(&p, 1, 0), ECANCELED);
  FAILS(cfiber_poll(&p, 1, -1), ECANCELED);
  FAILS(cfiber_recv(fd, &c, 1, 0), ECANCELED);
  FAILS(cfiber_sleep(1), ECANCELED);
  FAILS(cfiber_sleep(0), ECANCELED);
  CHECK(cfiber_shield(1) == 0);
  CHECK(joined(child) == 5);
  CHECK(cfiber_shield(0) == 1);
  close(fd);
  close(listener);
  return 0;
}

/* A terminal is looked at before it is tried, and so is what it has been opened for. */
static intptr_t terminal_one_way(void *unused) {
  (void)unused;
  char c;
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) {
    close(master); /* a machine without terminals */
    return 0;
  }
  int slave = open(ptsname(master), O_WRONLY | O_NOCTTY);
  CHECK(slave >= 0);
  FAILS(cfiber_read(slave, &c, 1), EBADF);
  CHECK(cfiber_write(slave, "x", 1) == 1);
  CHECK(cfiber_read(master, &c, 1) == 1 && c == 'x');
  close(slave);
  close(master);
  return 0;
}

/* Where a terminal is to say that nothing has come, at once or after a while, a read does. */
static intptr_t terminal_says_nothing(void *unused) {
  (void)unused;
  char c;
  struct termios tio;
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) {
    close(master); /* a machine without terminals */
    return 0;
  }
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  CHECK(slave >= 0 && tcgetattr(slave, &tio) == 0);
  cfmakeraw(&tio);
  for (tio.c_cc[VTIME] = 0; tio.c_cc[VTIME] < 2; tio.c_cc[VTIME]++) {
    tio.c_cc[VMIN] = 0;
    CHECK(tcsetattr(slave, TCSANOW, &tio) == 0);
    int64_t began = cfiber_now();
    CHECK(cfiber_read(slave, &c, 1) == 0);
    CHECK(cfiber_now() - began >= tio.c_cc[VTIME] * 100 * NS_PER_MS);
    CHECK(cfiber_write(master, "x", 1) == 1);
    tio.c_cc[VMIN] = 1; /* until it has come */
    CHECK(tcsetattr(slave, TCSANOW, &tio) == 0);
    CHECK(cfiber_wait_fd(slave, POLLIN) == POLLIN);
    tio.c_cc[VMIN] = 0;
    CHECK(tcsetattr(slave, TCSANOW, &tio) == 0);
    CHECK(cfiber_read(slave, &c, 1) == 1 && c == 'x');
  }
  /* The fiber's own deadline is still its own. */
  cfiber_deadline(cfiber_now() + NS_PER_MS);
  FAILS(cfiber_read(slave, &c, 1), ETIMEDOUT);
  cfiber_deadline(0);
  close(slave);
  close(master);
  return 0;
}

/* ---- Messages -----------------------------------------------------------------------------------
 */

enum { PIECES = 20, PIECE = 40000 };

static void in_pieces(struct msghdr *msg, struct iovec *iov, char *buf) {
  for (int i = 0; i < PIECES; i++)
    iov[i] = (struct iovec){buf + (size_t)i * PIECE, PIECE};
  *msg = (struct msghdr){.msg_iov = iov, .msg_iovlen = PIECES};
}

static intptr_t send_pieces(void *p) {
  int fd = *(int *)p;
  struct msghdr msg;
  struct iovec iov[PIECES];
  char *buf = malloc(PIECES * PIECE);
  for (size_t i = 0; i < PIECES * PIECE; i++)
    buf[i] = (char)(i / 7 ^ i / 4096);
  in_pieces(&msg, iov, buf);
  CHECK(cfiber_sendmsg(fd, &msg, 0) == PIECES * PIECE);
  free(buf);
  return 0;
}

/* More pieces than fit on the stack, and more than goes out at once. */
static intptr_t many_pieces(void *unused) {
  (void)unused;
  int fds[2];
  struct msghdr msg;
  struct iovec iov[PIECES];
  char *buf = malloc(PIECES * PIECE);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  cfiber_t *f = go(send_pieces, &fds[1]);
  in_pieces(&msg, iov, buf);
  CHECK(cfiber_recvmsg(fds[0], &msg, MSG_WAITALL) == PIECES * PIECE);
  for (size_t i = 0; i < PIECES * PIECE; i++)
    if (buf[i] != (char)(i / 7 ^ i / 4096)) {
      CHECK(!"the bytes are those that were sent");
      break;
    }
  CHECK(joined(f) == 0);
  free(buf);
  close(fds[0]);
  close(fds[1]);
  return 0;
}

/* What has been read empty is not tried again, until the deadline comes. */
static intptr_t deadline_of_drained(void *unused) {
  (void)unused;
  struct sockaddr_in addr;
  int listener = listen_at(&addr), client = connected_to(&addr, 0);
  int server = cfiber_accept(listener, NULL, NULL);
  char buf[100];
  FAILS(cfiber_recv(server, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
#ifdef MSG_ERRQUEUE
  FAILS(cfiber_recv(server, buf, sizeof buf, MSG_ERRQUEUE), EAGAIN);
#endif
  for (int i = 0; i < 3; i++) {
    cfiber_deadline(cfiber_now() + 20 * NS_PER_MS);
    FAILS(cfiber_read(server, buf, sizeof buf), ETIMEDOUT);
    cfiber_deadline(0);
    CHECK(cfiber_write(client, "abc", 3) == 3);
    CHECK(cfiber_read(server, buf, sizeof buf) == 3);
  }
  close(client);
  CHECK(cfiber_read(server, buf, sizeof buf) == 0);
  close(server);
  close(listener);
  return 0;
}

/* ---- Runtimes -----------------------------------------------------------------------------------
 */

/* The list of those that are open is right in whatever order they are closed. */
static void test_closed_in_any_order(void) {
  struct cfiber_config config = {.allocated = 1, .limit = 1, .notify_fd = -1};
  struct cfiber_runtime *rt[3];
  static const int orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}};
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++)
      CHECK(cfiber_runtime_open(&config, &rt[k]) == 0);
    for (int k = 0; k < 3; k++)
      cfiber_runtime_close(rt[orders[i][k]]);
  }
  config.limit = 2;
  CHECK(cfiber_runtime_open(&config, &rt[0]) == EINVAL);
  config.allocated = config.limit = 0;
  CHECK(cfiber_runtime_open(&config, &rt[0]) == EINVAL);
}

int main(int argc, char **argv) {
  only = argc > 1 ? argv[1] : NULL;
  alarm(PATIENCE);
  int before = open_descriptors();
  test_nonblocking_on_thread();
  test_connect_on_thread();
  test_closed_in_any_order();
  wrong_arguments(NULL); /* without a fiber, too */
  for (unsigned migrate = 0; migrate < 2; migrate++) {
    run(wrong_arguments, 1, migrate);
    run(run_inside, 2, migrate);
    run(cancelled_before, 1, migrate);
    run(terminal_one_way, 1, migrate);
    run(terminal_says_nothing, 1, migrate);
    run(many_pieces, 2, migrate);
    run(deadline_of_drained, 1, migrate);
  }
  CHECK(all_closed(before));
  return atomic_load(&failures) != 0;
}
