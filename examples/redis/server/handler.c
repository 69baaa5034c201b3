/*
 * The fiber of a connection. It reads as a thread of its own would be written:
 * receive, parse, run, send, in a loop. Each cfiber_ call here that has to
 * wait lets the thread serve other connections meanwhile.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "conn.h"

#define IN_MIN ((size_t)2 * 1024)    /* held while at rest */
#define IN_BATCH ((size_t)16 * 1024) /* read at once from a busy client */
#define LINGER_NS INT64_C(1000000000)
#define BATCHES_PER_TURN 4

static void set_option(int fd, int level, int option) {
  int on = 1;
  setsockopt(fd, level, option, &on, sizeof on); /* a failure costs only speed */
}

static void conn_setup(struct conn *c) {
  set_option(c->fd, IPPROTO_TCP, TCP_NODELAY); /* replies are batched already */
#ifdef SO_NOSIGPIPE
  set_option(c->fd, SOL_SOCKET, SO_NOSIGPIPE);
#endif
}

/*
 * Makes room to receive into. The buffer grows with what has arrived, never
 * with what was announced: to IN_BATCH for a client that keeps it full, beyond
 * that for a single large request, which RESP_MAX_REQUEST bounds.
 */
static bool make_room(struct buffer *in) {
  size_t used = in->end - in->start;
  if (used == 0 && (in->end < in->cap || in->cap > IN_BATCH)) {
    /* The last read did not fill it, so it emptied the socket: be small while we wait. */
    if (in->cap > IN_MIN)
      buffer_free(in);
    in->start = in->end = 0;
  }
  size_t cap = in->cap ? in->cap : IN_MIN;
  if (used == in->cap || (in->end == in->cap && cap < IN_BATCH))
    cap *= in->cap ? 2 : 1;
  return buffer_reserve(in, cap);
}

/* When the next bytes must have come; 0: any time will do. */
static int64_t read_deadline(struct conn *c) {
  const struct server_options *options = &c->server->options;
  if (c->in.start == c->in.end)
    return options->idle_ns ? cfiber_now() + options->idle_ns : 0;
  /* One deadline for the whole request, so that a byte now and then does not extend it. */
  if (c->frame_deadline == 0)
    c->frame_deadline = cfiber_now() + options->io_ns;
  return c->frame_deadline;
}

/* Waits for more input. False when there will be none. */
static bool conn_fill(struct conn *c) {
  struct buffer *in = &c->in;
  if (!make_room(in))
    return false;
  cfiber_deadline(read_deadline(c));
  ssize_t n = cfiber_recv(c->fd, in->data + in->end, in->cap - in->end, 0);
  if (n <= 0)
    return false;
  in->end += (size_t)n;
  return true;
}

/* Runs the requests that are whole. */
static void run_requests(struct conn *c) {
  uint64_t n = 0;
  enum resp_status status = RESP_COMMAND;
  while (status == RESP_COMMAND && !c->closing && !c->broken) {
    char *frame = c->in.data + c->in.start;
    status = resp_parse(&c->parser, frame, c->in.end - c->in.start);
    if (status != RESP_COMMAND)
      break;
    command_run(c, frame);
    c->in.start += c->parser.pos;
    c->frame_deadline = 0;
    resp_next(&c->parser);
    n++;
  }
  atomic_fetch_add_explicit(&c->server->commands, n, memory_order_relaxed);

  if (status == RESP_INVALID)
    reply_error(c, "ERR Protocol error: %s", c->parser.error);
  else if (status == RESP_NOMEM)
    reply_error(c, "ERR out of memory");
  c->closing |= status == RESP_INVALID || status == RESP_NOMEM;
}

/*
 * Ends a connection whose client may still be sending. Closing it with unread
 * input would reset it, and the reset may overtake the reply that says why.
 */
static void conn_linger(struct conn *c) {
  char sink[512];
  int64_t patience = c->server->options.io_ns < LINGER_NS ? c->server->options.io_ns : LINGER_NS;
  int64_t end = cfiber_now() + patience;
  shutdown(c->fd, SHUT_WR);
  cfiber_deadline(end);
  /* The deadline ends a wait only: a client that keeps sending lets us have none. */
  while (cfiber_recv(c->fd, sink, sizeof sink, 0) > 0 && cfiber_now() < end)
    cfiber_yield();
}

static void conn_serve(struct conn *c) {
  for (unsigned batch = 1; conn_fill(c); batch++) {
    run_requests(c);
    conn_flush(c);
    if (c->closing || c->broken)
      return;
    /* A client that always has more for us must not keep the thread to itself. */
    if (batch % BATCHES_PER_TURN == 0)
      cfiber_yield();
  }
}

static void conn_close(struct conn *c) {
  buffer_free(&c->in);
  buffer_free(&c->out);
  resp_reset(&c->parser);
  server_close_conn(c);
}

intptr_t conn_main(void *arg) {
  struct conn *c = arg;
  conn_setup(c);
  conn_serve(c);
  if (c->closing && !c->broken)
    conn_linger(c);
  conn_close(c);
  return 0;
}
