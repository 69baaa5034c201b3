// cfiberbench: name=pth pkg=libpth-dev flags=-lpth -pthread workloads=yield,spawn,memory,echo
//
// GNU Pth 2.0.7: all on one OS thread. Each switch goes through its scheduler,
// which asks the kernel for the time and for pending signals; no setting turns
// that off. Stacks are of 16 KiB where there are many, else the library's 64;
// they come from malloc, and only debug builds guard them.
//
// spawn   pth_spawn and pth_join.
// memory  Threads are suspended; to wait for an event is worse, as the library
//         goes through all that wait at each turn. stack=BYTES. It goes through
//         a queue to add to it, so that n threads take n*n steps to park, and
//         beyond 20,000 this gives up.
// echo    A thread per connection, pth_read and pth_write. It waits in
//         select(), so connections beyond FD_SETSIZE are closed. One OS thread
//         serves all, whatever `threads` says.
#include "bench.h"
#include "server.h"
#include <pth.h>
#include <sys/select.h>

enum { MANY_STACK = 16 * 1024 };

static pth_attr_t attributes;

static void begin(uint64_t stack, int joinable) {
  BENCH_CHECK(pth_init());
  attributes = pth_attr_new();
  BENCH_CHECK(attributes && pth_attr_set(attributes, PTH_ATTR_STACK_SIZE, (unsigned)stack) &&
              pth_attr_set(attributes, PTH_ATTR_JOINABLE, joinable));
}

static void one_thread(void) {
  if (bench_number("threads", 1) != 1)
    bench_unsupported("Pth has one OS thread");
}

static pth_t start(void *(*entry)(void *), void *argument) {
  pth_t thread = pth_spawn(attributes, entry, argument);
  if (!thread)
    bench_unsupported("pth_spawn: %s", strerror(errno));
  return thread;
}

// yield

static uint64_t yields, yielding;

static void *yield_often(void *argument) {
  uint64_t rounds = *(uint64_t *)argument;
  yielding++;
  pth_yield(NULL);
  for (uint64_t i = 0; i < rounds; i++)
    pth_yield(NULL);
  yields += rounds;
  return NULL;
}

static void run_yield(void) {
  uint64_t count = bench_number("fibers", 2), n = bench_number("n", 500000);
  one_thread();
  bench_arguments_done();
  uint64_t rounds = n / count;
  begin(MANY_STACK, 1);
  pth_t *threads = (pth_t *)calloc(count, sizeof *threads);
  BENCH_CHECK(threads && rounds > 0);
  for (uint64_t i = 0; i < count; i++)
    threads[i] = start(yield_often, &rounds);
  while (yielding < count)
    pth_yield(NULL);
  uint64_t from = bench_now();
  for (uint64_t i = 0; i < count; i++)
    BENCH_CHECK(pth_join(threads[i], NULL));
  bench_time(from, yields);
  BENCH_CHECK(yields == rounds * count);
}

// spawn

static uint64_t begun, ran;

static void *count_run(void *unused) {
  ran++;
  return unused;
}

static void *spawn_warm(void *argument) {
  uint64_t n = *(uint64_t *)argument;
  for (uint64_t i = 0; i < n; i++)
    BENCH_CHECK(pth_join(start(count_run, NULL), NULL));
  return NULL;
}

static void *run_after_all(void *argument) {
  begun++;
  pth_yield(NULL);
  BENCH_CHECK(begun == *(uint64_t *)argument);
  ran++;
  return NULL;
}

static void spawn_cold(uint64_t n) {
  pth_t *threads = (pth_t *)calloc(n, sizeof *threads);
  BENCH_CHECK(threads);
  for (uint64_t i = 0; i < n; i++)
    threads[i] = start(run_after_all, &n);
  for (uint64_t i = 0; i < n; i++)
    BENCH_CHECK(pth_join(threads[i], NULL));
}

static void run_spawn(void) {
  int cold = bench_choice("mode", "warm|cold");
  uint64_t n = bench_number("n", cold ? 20000 : 200000);
  one_thread();
  bench_arguments_done();
  begin(MANY_STACK, 1);
  uint64_t from = bench_now();
  if (cold)
    spawn_cold(n);
  else
    BENCH_CHECK(pth_join(start(spawn_warm, &n), NULL));
  bench_time(from, n);
  BENCH_CHECK(ran == n);
}

// memory

static pth_t starter;

static void *park(void *unused) {
  ran++;
  pth_yield(starter); // which suspends this one
  return unused;
}

static void run_memory(void) {
  uint64_t n = bench_number("n", 1000), stack = bench_number("stack", MANY_STACK);
  bench_arguments_done();
  if (n > 20000)
    bench_unsupported("memory: Pth takes too long to park that many");
  begin(stack, 0);
  starter = pth_self();
  for (uint64_t i = 0; i < n; i++) {
    pth_t thread = start(park, NULL);
    while (ran == i)
      pth_yield(thread);
    BENCH_CHECK(pth_suspend(thread));
  }
  BENCH_CHECK(ran == n);
  bench_parked();
}

// echo

static void *serve(void *argument) {
  int fd = (int)(intptr_t)argument;
  char buffer[SERVER_BUFFER];
  for (;;) {
    ssize_t n = pth_read(fd, buffer, sizeof buffer);
    if (n <= 0)
      break;
    server_request(0);
    if (pth_write(fd, buffer, (size_t)n) != n)
      break;
  }
  close(fd);
  return NULL;
}

static void run_echo(void) {
  unsigned threads;
  uint16_t port = server_arguments(&threads);
  begin(MANY_STACK, 0);
  int listener = server_bind(port, 0);
  server_announce(listener);
  for (;;) {
    int fd = pth_accept(listener, NULL, NULL);
    if (fd >= FD_SETSIZE)
      close(fd);
    if (fd < 0 || fd >= FD_SETSIZE)
      continue;
    server_no_delay(fd);
    start(serve, (void *)(intptr_t)fd);
  }
}

int main(int argc, char **argv) {
  static const struct bench_workload table[] = {{"yield", run_yield},
                                                {"spawn", run_spawn},
                                                {"memory", run_memory},
                                                {"echo", run_echo},
                                                {NULL, NULL}};
  bench_main(argc, argv, table);
}
