// cfiberbench: name=libuv pkg=libuv1-dev flags=-luv -pthread workloads=wake,timers,echo
//
// libuv: callbacks on a loop, so there is nothing to switch or to spawn.
//
// wake    mode=sleeping: two threads, a loop each, that uv_async_send to each
//         other. pin=1 puts them on two CPUs.
// timers  One uv_timer_t per sleeper. It counts in whole milliseconds; a
//         deadline is rounded up, and that shows as lateness.
// echo    A loop per thread, each with a socket of its own on the same port,
//         among which the kernel deals out the connections. A loop has one
//         buffer, and uv_try_write comes before uv_write, so that a request
//         allocates nothing.
#include "bench.h"
#include "server.h"
#include "timers.h"
#include <uv.h>

// wake

struct player {
  uv_loop_t loop;
  uv_async_t woken;
  uint64_t rounds;
};

static struct player players[2];
static int pin;

static struct player *other(const struct player *self) {
  return &players[self == &players[0]];
}

// The first player's last wake has no answer; each ends its loop by itself.
static void on_woken(uv_async_t *woken) {
  struct player *self = (struct player *)woken->data;
  int last = --self->rounds == 0;
  if (self != &players[0] || !last)
    uv_async_send(&other(self)->woken);
  if (last)
    uv_stop(&self->loop);
}

static void *play(void *argument) {
  struct player *self = (struct player *)argument;
  if (pin)
    bench_pin((unsigned)(self - players));
  uv_run(&self->loop, UV_RUN_DEFAULT);
  return NULL;
}

static void run_wake(void) {
  int mode = bench_choice("mode", "sleeping|awake|same");
  uint64_t rounds = bench_number("n", 200000) / 2;
  pin = bench_number("pin", 0) != 0;
  bench_arguments_done();
  if (mode != 0)
    bench_unsupported("wake: libuv wakes a loop that waits, nothing else");
  for (int i = 0; i < 2; i++) {
    BENCH_CHECK(uv_loop_init(&players[i].loop) == 0);
    BENCH_CHECK(uv_async_init(&players[i].loop, &players[i].woken, on_woken) == 0);
    players[i].woken.data = &players[i];
    players[i].rounds = rounds;
  }
  pthread_t second;
  uint64_t from = bench_now();
  BENCH_CHECK(pthread_create(&second, NULL, play, &players[1]) == 0);
  uv_async_send(&players[1].woken);
  play(&players[0]);
  pthread_join(second, NULL);
  bench_time(from, 2 * rounds);
  BENCH_CHECK(players[0].rounds == 0 && players[1].rounds == 0);
}

// timers

static struct timers timers;

struct timer {
  uv_timer_t handle;
  struct sleeper sleeper;
};

static void start_timer(uv_timer_t *handle, uv_timer_cb callback, uint64_t deadline) {
  uint64_t due = (deadline + 999999) / 1000000, now = uv_now(handle->loop);
  uv_timer_start(handle, callback, due > now ? due - now : 0, 0);
}

static void on_timer(uv_timer_t *handle) {
  struct timer *timer = (struct timer *)handle->data;
  start_timer(handle, on_timer, timers_woke(&timers, &timer->sleeper));
}

static void on_edge(uv_timer_t *handle) {
  timers_edge(&timers);
  start_timer(handle, on_edge, timers_next_edge(&timers));
}

static void run_timers(void) {
  timers_init(&timers, 1000);
  uv_loop_t *loop = uv_default_loop();
  struct timer *all = (struct timer *)calloc(timers.sleepers, sizeof *all);
  BENCH_CHECK(all);
  for (uint64_t i = 0; i < timers.sleepers; i++) {
    uv_timer_init(loop, &all[i].handle);
    all[i].handle.data = &all[i];
    start_timer(&all[i].handle, on_timer, timers_begin(&timers, &all[i].sleeper, i));
  }
  uv_timer_t edge;
  uv_timer_init(loop, &edge);
  start_timer(&edge, on_edge, timers_next_edge(&timers));
  uv_run(loop, UV_RUN_DEFAULT);
}

// echo

struct server {
  uv_loop_t loop;
  uv_tcp_t listener;
  unsigned thread;
  char buffer[SERVER_BUFFER];
};

// What did not fit into the socket's buffer.
struct rest {
  uv_write_t request;
  char bytes[];
};

static struct server *servers;

static void on_closed(uv_handle_t *handle) {
  free(handle);
}

static void on_written(uv_write_t *request, int status) {
  (void)status; // the reader sees the end too
  free(request);
}

static void write_rest(uv_stream_t *connection, const char *bytes, size_t length) {
  struct rest *rest = (struct rest *)malloc(sizeof *rest + length);
  BENCH_CHECK(rest);
  memcpy(rest->bytes, bytes, length);
  uv_buf_t buffer = uv_buf_init(rest->bytes, (unsigned)length);
  if (uv_write(&rest->request, connection, &buffer, 1, on_written) != 0)
    free(rest);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  (void)suggested;
  struct server *server = (struct server *)handle->loop->data;
  *buffer = uv_buf_init(server->buffer, sizeof server->buffer);
}

static void on_read(uv_stream_t *connection, ssize_t n, const uv_buf_t *read) {
  if (n == 0)
    return; // EAGAIN
  if (n < 0) {
    uv_close((uv_handle_t *)connection, on_closed);
    return;
  }
  server_request(((struct server *)connection->loop->data)->thread);
  uv_buf_t buffer = uv_buf_init(read->base, (unsigned)n);
  int written = uv_try_write(connection, &buffer, 1);
  if (written < 0 && written != UV_EAGAIN) {
    uv_close((uv_handle_t *)connection, on_closed);
    return;
  }
  if (written < 0)
    written = 0;
  if (written < n)
    write_rest(connection, read->base + written, (size_t)(n - written));
}

static void on_connection(uv_stream_t *listener, int status) {
  uv_tcp_t *connection = (uv_tcp_t *)malloc(sizeof *connection);
  BENCH_CHECK(status == 0 && connection);
  uv_tcp_init(listener->loop, connection);
  if (uv_accept(listener, (uv_stream_t *)connection) != 0) {
    uv_close((uv_handle_t *)connection, on_closed);
    return;
  }
  uv_tcp_nodelay(connection, 1);
  uv_read_start((uv_stream_t *)connection, on_allocate, on_read);
}

static void prepare(struct server *server, unsigned thread, int fd) {
  server->thread = thread;
  BENCH_CHECK(uv_loop_init(&server->loop) == 0);
  server->loop.data = server;
  uv_tcp_init(&server->loop, &server->listener);
  BENCH_CHECK(uv_tcp_open(&server->listener, fd) == 0);
  BENCH_CHECK(uv_listen((uv_stream_t *)&server->listener, 4096, on_connection) == 0);
}

static void *serve(void *argument) {
  uv_run(&((struct server *)argument)->loop, UV_RUN_DEFAULT);
  return NULL;
}

static void run_echo(void) {
  unsigned threads;
  uint16_t port = server_arguments(&threads);
  servers = (struct server *)calloc(threads, sizeof *servers);
  BENCH_CHECK(servers);
  int first = server_bind(port, threads > 1);
  prepare(&servers[0], 0, first);
  for (unsigned i = 1; i < threads; i++)
    prepare(&servers[i], i, server_bind(server_port(first), 1));
  server_announce(first);
  for (unsigned i = 1; i < threads; i++) {
    pthread_t thread;
    BENCH_CHECK(pthread_create(&thread, NULL, serve, &servers[i]) == 0);
  }
  serve(&servers[0]);
}

int main(int argc, char **argv) {
  static const struct bench_workload table[] = {
      {"wake", run_wake}, {"timers", run_timers}, {"echo", run_echo}, {NULL, NULL}};
  bench_main(argc, argv, table);
}
