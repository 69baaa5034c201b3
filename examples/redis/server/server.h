/* server.h - the C side of package server, as its Go side sees it. */
#ifndef SERVER_H
#define SERVER_H

#include <stdint.h>

#include "store.h"

struct server;

struct server_options {
  int64_t idle_ns; /* how long a connection may be silent between requests; 0: for ever */
  int64_t io_ns;   /* how long a request may take to arrive, and a reply to be taken */
  int max_conns;   /* 0: no limit */
  uint8_t seed[STORE_SEED];
};

struct server_stats {
  int conns;
  uint64_t accepted, refused, commands, backoffs, keys;
};

/*
 * A server on the listening socket fd, which it owns a duplicate of. NULL with
 * errno set if it cannot be made.
 */
struct server *server_new(int fd, const struct server_options *options);

/* Frees a server that is not running. */
void server_free(struct server *s);

struct server_stats server_stats(struct server *s);

/*
 * Accepts connections until its fiber is cancelled, then ends those that are
 * left and waits for their fibers. arg is the struct server. Returns 0, or the
 * errno that made it stop by itself. To be run on a fiber, once.
 */
intptr_t server_run(void *arg);

#endif
