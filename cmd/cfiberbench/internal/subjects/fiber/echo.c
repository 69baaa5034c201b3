#include "echo.h"
#include "cfiber.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 4096, CRUNCH_NS = 5000000 };

int bench_echo_listen(struct echo *e) {
  struct sockaddr_in a;
  socklen_t length = sizeof a;
  int on = 1;
  memset(&a, 0, sizeof a);
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)e->port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  e->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (e->fd < 0)
    return errno;
  setsockopt(e->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(e->fd, (struct sockaddr *)&a, sizeof a) || listen(e->fd, 4096) ||
      getsockname(e->fd, (struct sockaddr *)&a, &length))
    return errno;
  e->port = ntohs(a.sin_port);
  return 0;
}

/* Computes, as a handler might that does too much at once. */
static void compute(void) {
  int64_t end = cfiber_now() + CRUNCH_NS;
  while (cfiber_now() < end)
    continue;
}

static void echo_all(int fd, int crunch) {
  char buffer[BUFFER];
  ssize_t n;
  while ((n = cfiber_recv(fd, buffer, sizeof buffer, 0)) > 0) {
    if (crunch && buffer[0] == 'C')
      compute();
    if (cfiber_send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n)
      return;
  }
}

/* The argument: the descriptor, above one bit that says whether to crunch. */
static intptr_t connection(void *arg) {
  int fd = (int)((intptr_t)arg >> 1), on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  echo_all(fd, (intptr_t)arg & 1);
  return cfiber_close(fd);
}

intptr_t bench_echo_serve(void *arg) {
  static const struct cfiber_attr detached = {.flags = CFIBER_DETACHED};
  struct echo *e = arg;
  for (;;) {
    int fd = cfiber_accept(e->fd, NULL, NULL);
    if (fd < 0)
      return -errno;
    if (!cfiber_spawn(connection, (void *)((intptr_t)fd << 1 | e->crunch), &detached))
      cfiber_close(fd);
  }
}
