/* echo.h - an echo server: a fiber for each connection. */
#ifndef BENCH_ECHO_H
#define BENCH_ECHO_H

#include <stdint.h>

struct echo {
  int port; /* in: 0 is any; out: which */
  int fd;   /* out: listens */
  int crunch;
};

/* Opens the listening socket: 0 or an errno. */
int bench_echo_listen(struct echo *e);

/* A fiber's: accepts for good. */
intptr_t bench_echo_serve(void *echo);

#endif
