/* conn.h - a connection, the server it belongs to, and what its commands use. */
#ifndef CONN_H
#define CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cfiber.h"
#include "resp.h"
#include "server.h"
#include "store.h"

struct server {
  int fd;
  struct server_options options;
  struct store *store;

  atomic_uint_fast64_t accepted, refused, commands, backoffs;

  pthread_mutex_t lock; /* of the fields below; never held over a waiting call */
  struct conn *open;    /* doubly linked by next and prev */
  int conns;            /* its length */
  bool stopping;        /* server_run joins the fibers that are left and frees their conns */
};

/* data[start] to data[end] are in use. No memory is held until the first byte. */
struct buffer {
  char *data;
  size_t start, end, cap;
};

struct conn {
  struct server *server;
  struct conn *next, *prev;
  cfiber_t *fiber;
  int fd; /* changes under the server's lock */

  struct buffer in, out;
  struct resp_parser parser;
  int64_t frame_deadline; /* when the request begun in `in` must be whole; 0: none begun */
  bool closing;           /* QUIT, or a request that cannot be understood */
  bool broken;            /* nothing can be sent any more */
};

/* ---- handler.c ---- */

/* Serves one connection: what its fiber runs. arg is the struct conn. */
intptr_t conn_main(void *arg);

/* ---- server.c ---- */

/* Closes the socket of c and gives c up. The last thing that the fiber of c does. */
void server_close_conn(struct conn *c);

/* ---- command.c ---- */

/* Runs the request just parsed at frame and writes its reply. */
void command_run(struct conn *c, const char *frame);

/* ---- reply.c ---- */

/*
 * Replies collect in c->out, which conn_flush sends. They send it themselves
 * only when it is full. After a failure c->broken is set and they do nothing.
 */
void reply_status(struct conn *c, const char *text);
void reply_error(struct conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reply_integer(struct conn *c, int64_t n);
void reply_bulk(struct conn *c, const void *data, size_t len);
void reply_nil(struct conn *c);
void reply_array(struct conn *c, size_t len); /* the header; its elements follow */

/* Sends what has collected and gives the buffer's memory back. */
void conn_flush(struct conn *c);

/* ---- buffer.c ---- */

/* Moves what is in use to the front and makes the capacity at least cap. False: no memory. */
bool buffer_reserve(struct buffer *b, size_t cap);
void buffer_free(struct buffer *b);

#endif
