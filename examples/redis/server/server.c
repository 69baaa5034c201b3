/* The accept loop, and the list of open connections that it ends with. */
#define _GNU_SOURCE
#define CFIBER_REDEFINE_ERRNO /* the runtime may have been opened to migrate fibers */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "conn.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define BACKOFF_NS INT64_C(10000000)

/* ---- Open connections ---------------------------------------------------------- */

/* Called under the lock. */
static void link_conn(struct server *s, struct conn *c) {
  c->next = s->open;
  if (s->open)
    s->open->prev = c;
  s->open = c;
  s->conns++;
}

/* Called under the lock. */
static void unlink_conn(struct server *s, struct conn *c) {
  if (c->next)
    c->next->prev = c->prev;
  if (c->prev)
    c->prev->next = c->next;
  else
    s->open = c->next;
  s->conns--;
}

void server_close_conn(struct conn *c) {
  struct server *s = c->server;
  int fd = c->fd;

  /* First out of the reach of end_conns: once closed, the number may be another's. */
  pthread_mutex_lock(&s->lock);
  c->fd = -1;
  pthread_mutex_unlock(&s->lock);
  cfiber_close(fd);

  pthread_mutex_lock(&s->lock);
  bool ours = !s->stopping;
  if (ours) {
    unlink_conn(s, c);
    cfiber_detach(cfiber_self()); /* nobody is going to join us */
  }
  pthread_mutex_unlock(&s->lock); /* s may be freed from here on, unless it joins us */
  if (ours)
    free(c);
}

/*
 * Ends the connections that are left. Their sockets are shut down and not
 * closed: only the fiber that uses a descriptor may close it.
 */
static void end_conns(struct server *s) {
  pthread_mutex_lock(&s->lock);
  s->stopping = true; /* from here on the list does not change but by us */
  for (struct conn *c = s->open; c; c = c->next)
    if (c->fd >= 0)
      shutdown(c->fd, SHUT_RDWR);
  pthread_mutex_unlock(&s->lock);

  struct conn *c;
  while ((c = s->open) != NULL) {
    cfiber_join(c->fiber, NULL);
    pthread_mutex_lock(&s->lock);
    unlink_conn(s, c);
    pthread_mutex_unlock(&s->lock);
    free(c);
  }
}

/* ---- Accepting ------------------------------------------------------------------- */

/* Starts a fiber for the connection. */
static bool start_conn(struct server *s, int fd) {
  static const struct cfiber_attr attr = {.name = "redis connection"};
  struct conn *c = calloc(1, sizeof *c);
  if (!c)
    return false;
  c->server = s;
  c->fd = fd;

  /* Spawned under the lock, which cfiber_spawn allows: the fiber may end before we go on. */
  pthread_mutex_lock(&s->lock);
  bool full = s->options.max_conns > 0 && s->conns >= s->options.max_conns;
  c->fiber = full ? NULL : cfiber_spawn(conn_main, c, &attr);
  bool started = c->fiber != NULL;
  if (started)
    link_conn(s, c);
  pthread_mutex_unlock(&s->lock);

  if (!started)
    free(c);
  return started;
}

static void refuse_conn(struct server *s, int fd) {
  static const char reply[] = "-ERR max number of clients reached\r\n";
  send(fd, reply, sizeof reply - 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* if it fits, which it does */
  cfiber_close(fd);
  atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
}

/* Deals with a failed accept. Returns 0 to go on, or the errno to stop with. */
static int accept_failed(struct server *s, int err) {
  switch (err) {
  case ECANCELED:
  case EBADF:
  case EINVAL:
  case ENOTSOCK:
  case EOPNOTSUPP:
    return err;
  case ECONNABORTED:
    return 0; /* gone before it was accepted: there may be others */
  default:
    /*
     * EMFILE and its kind. The connection stays in the backlog, so accepting
     * again at once would spin: wait for others to end.
     */
    atomic_fetch_add_explicit(&s->backoffs, 1, memory_order_relaxed);
    return cfiber_sleep(BACKOFF_NS) == 0 ? 0 : errno;
  }
}

/* Returns the errno that ended it. */
static int accept_loop(struct server *s) {
  for (;;) {
    int fd = cfiber_accept(s->fd, NULL, NULL);
    if (fd < 0) {
      int err = accept_failed(s, errno);
      if (err)
        return err;
      continue;
    }
    atomic_fetch_add_explicit(&s->accepted, 1, memory_order_relaxed);
    if (!start_conn(s, fd))
      refuse_conn(s, fd);
  }
}

intptr_t server_run(void *arg) {
  struct server *s = arg;
  int err = accept_loop(s);
  cfiber_shield(1); /* we may be cancelled, and still have to wait for the others */
  cfiber_close(s->fd);
  s->fd = -1;
  end_conns(s);
  return err == ECANCELED ? 0 : err;
}

/* ---- The server -------------------------------------------------------------------- */

struct server *server_new(int fd, const struct server_options *options) {
  struct server *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->options = *options;
  s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  s->store = store_new(options->seed);
  pthread_mutex_init(&s->lock, NULL);
  if (s->fd < 0 || !s->store) {
    int err = s->fd < 0 ? errno : ENOMEM;
    server_free(s);
    errno = err;
    return NULL;
  }
  return s;
}

void server_free(struct server *s) {
  if (s->fd >= 0)
    close(s->fd);
  store_free(s->store);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

struct server_stats server_stats(struct server *s) {
  pthread_mutex_lock(&s->lock);
  int conns = s->conns;
  pthread_mutex_unlock(&s->lock);
  return (struct server_stats){
      .conns = conns,
      .accepted = atomic_load(&s->accepted),
      .refused = atomic_load(&s->refused),
      .commands = atomic_load(&s->commands),
      .backoffs = atomic_load(&s->backoffs),
      .keys = store_size(s->store),
  };
}
