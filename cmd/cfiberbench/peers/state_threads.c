// cfiberbench: name=state-threads pkg=libst-dev flags=-Wl,-Bstatic -lst -Wl,-Bdynamic -Wl,-z,noexecstack -pthread workloads=yield,spawn,memory,wake,timers,mutex,echo
//
// State Threads 1.9: all on one OS thread. Linked statically, for cheaper calls.
//
// Stacks are of 16 KiB where there are many, else the library's default. It
// keeps free stacks and has no guards outside of debug builds. Debian builds it
// without epoll, so that poll() is the best that it has: what it costs grows
// with the number of connections. (Where the package has epoll it is used.)
//
// yield   1.9 cannot yield. Threads in a ring hand on: each signals the next
//         one's condition variable and waits on its own. (st_usleep(0) goes
//         through the clock and the heap of timers and takes longer.)
// spawn   st_thread_create and st_thread_join.
// memory  Threads wait on a condition variable. stack=BYTES.
// wake    mode=same is the ring of two.
// timers  st_usleep.
// mutex   Two threads that hold the mutex over a hand-over, so that each finds
//         it taken. mode=free: one thread that finds it free.
// echo    A thread per connection, st_read and st_write. One OS thread serves
//         all, whatever `threads` says: requests per CPU-second can be compared.
#include "bench.h"
#include "server.h"
#include "timers.h"
#include <st.h>

enum { MANY_STACK = 16 * 1024 };

static st_utime_t monotonic_us(void) {
  return bench_now() / 1000;
}

// The library's own clock is the time of day, which may jump.
static void begin(void) {
  st_set_eventsys(ST_EVENTSYS_ALT); // epoll or kqueue; says 0 without having either
  if (st_get_eventsys() != ST_EVENTSYS_ALT)
    BENCH_CHECK(st_set_eventsys(ST_EVENTSYS_POLL) == 0);
  st_set_utime_function(monotonic_us);
  BENCH_CHECK(st_init() == 0);
}

static void one_thread(void) {
  if (bench_number("threads", 1) != 1)
    bench_unsupported("State Threads has one OS thread");
}

static st_thread_t start(void *(*entry)(void *), void *argument, int joinable, uint64_t stack) {
  st_thread_t thread = st_thread_create(entry, argument, joinable, (int)stack);
  if (!thread)
    bench_unsupported("st_thread_create: %s", strerror(errno));
  return thread;
}

// yield, wake

static struct {
  st_cond_t *conditions;
  uint64_t count, done, goal;
} ring;

static void *member(void *argument) {
  uint64_t self = (uintptr_t)argument, next = (self + 1) % ring.count;
  while (ring.done < ring.goal) {
    st_cond_wait(ring.conditions[self]);
    ring.done++;
    st_cond_signal(ring.conditions[next]);
  }
  return NULL;
}

static void run_ring(uint64_t count, uint64_t n) {
  begin();
  BENCH_CHECK(count >= 2);
  ring.count = count;
  ring.goal = n;
  ring.conditions = (st_cond_t *)calloc(count, sizeof *ring.conditions);
  st_thread_t *threads = (st_thread_t *)calloc(count, sizeof *threads);
  BENCH_CHECK(ring.conditions && threads);
  for (uint64_t i = 0; i < count; i++) {
    ring.conditions[i] = st_cond_new();
    threads[i] = start(member, (void *)(uintptr_t)i, 1, count > 64 ? MANY_STACK : 0);
  }
  st_usleep(0); // until all wait
  uint64_t from = bench_now();
  st_cond_signal(ring.conditions[0]);
  for (uint64_t i = 0; i < count; i++)
    BENCH_CHECK(st_thread_join(threads[i], NULL) == 0);
  bench_time(from, ring.done);
  BENCH_CHECK(ring.done >= n && ring.done < n + count);
}

static void run_yield(void) {
  uint64_t count = bench_number("fibers", 2), n = bench_number("n", 10000000);
  one_thread();
  bench_arguments_done();
  run_ring(count, n);
}

static void run_wake(void) {
  int mode = bench_choice("mode", "same|awake|sleeping");
  uint64_t n = bench_number("n", 10000000);
  (void)bench_number("pin", 0);
  bench_arguments_done();
  if (mode != 0)
    bench_unsupported("wake: State Threads has one OS thread");
  run_ring(2, n);
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
    st_thread_join(start(count_run, NULL, 1, MANY_STACK), NULL);
  return NULL;
}

static st_cond_t all_begun;

// The last to come lets the others go on.
static void *run_after_all(void *argument) {
  if (++begun == *(uint64_t *)argument)
    st_cond_broadcast(all_begun);
  else
    st_cond_wait(all_begun);
  ran++;
  return NULL;
}

static void spawn_cold(uint64_t n) {
  st_thread_t *threads = (st_thread_t *)calloc(n, sizeof *threads);
  BENCH_CHECK(threads && (all_begun = st_cond_new()));
  for (uint64_t i = 0; i < n; i++)
    threads[i] = start(run_after_all, &n, 1, MANY_STACK);
  for (uint64_t i = 0; i < n; i++)
    st_thread_join(threads[i], NULL);
}

static void run_spawn(void) {
  int cold = bench_choice("mode", "warm|cold");
  uint64_t n = bench_number("n", cold ? 20000 : 5000000);
  one_thread();
  bench_arguments_done();
  begin();
  uint64_t from = bench_now();
  if (cold)
    spawn_cold(n);
  else
    st_thread_join(start(spawn_warm, &n, 1, 0), NULL);
  bench_time(from, n);
  BENCH_CHECK(ran == n);
}

// memory

static st_cond_t never;

static void *park(void *unused) {
  ran++;
  st_cond_wait(never);
  return unused;
}

static void run_memory(void) {
  uint64_t n = bench_number("n", 1000), stack = bench_number("stack", MANY_STACK);
  bench_arguments_done();
  begin();
  never = st_cond_new();
  for (uint64_t i = 0; i < n; i++)
    start(park, NULL, 0, stack);
  st_usleep(0);
  BENCH_CHECK(ran == n);
  bench_parked();
}

// timers

static struct timers timers;

// The library counts from its cached clock, in whole microseconds.
static void sleep_until(uint64_t deadline) {
  for (uint64_t now; (now = bench_now()) < deadline;)
    st_usleep((deadline - now) / 1000 + 1);
}

static void *sleep_again(void *argument) {
  struct sleeper sleeper;
  uint64_t deadline = timers_begin(&timers, &sleeper, (uintptr_t)argument);
  for (;; deadline = timers_woke(&timers, &sleeper))
    sleep_until(deadline);
  return NULL;
}

static void run_timers(void) {
  timers_init(&timers, 1000);
  begin();
  for (uint64_t i = 0; i < timers.sleepers; i++)
    start(sleep_again, (void *)(uintptr_t)i, 0, MANY_STACK);
  for (;; timers_edge(&timers))
    sleep_until(timers_next_edge(&timers));
}

// mutex

static struct {
  st_mutex_t mutex;
  uint64_t count, goal;
} locked;

// A thread that waits for the mutex is handed it with the unlock and made
// ready, so the one that unlocks finds it taken at its next lock.
static void *lock_unlock(void *unused) {
  while (locked.count < locked.goal) {
    st_mutex_lock(locked.mutex);
    locked.count++;
    st_mutex_unlock(locked.mutex);
  }
  return unused;
}

static void run_mutex(void) {
  int free_mode = bench_choice("mode", "contended|free");
  locked.goal = bench_number("n", 10000000);
  bench_arguments_done();
  begin();
  locked.mutex = st_mutex_new();
  st_mutex_lock(locked.mutex); // until both are there
  st_thread_t first = start(lock_unlock, NULL, 1, 0);
  st_thread_t second = free_mode ? NULL : start(lock_unlock, NULL, 1, 0);
  st_usleep(0);
  uint64_t from = bench_now();
  st_mutex_unlock(locked.mutex);
  st_thread_join(first, NULL);
  if (second)
    st_thread_join(second, NULL);
  bench_time(from, locked.count);
  BENCH_CHECK(locked.count == locked.goal || locked.count == locked.goal + 1);
}

// echo

static void *serve(void *argument) {
  st_netfd_t connection = (st_netfd_t)argument;
  char buffer[SERVER_BUFFER];
  for (;;) {
    ssize_t n = st_read(connection, buffer, sizeof buffer, ST_UTIME_NO_TIMEOUT);
    if (n <= 0)
      break;
    server_request(0);
    if (st_write(connection, buffer, (size_t)n, ST_UTIME_NO_TIMEOUT) != n)
      break;
  }
  st_netfd_close(connection);
  return NULL;
}

static void run_echo(void) {
  unsigned threads;
  uint16_t port = server_arguments(&threads);
  begin();
  int fd = server_bind(port, 0);
  st_netfd_t listener = st_netfd_open_socket(fd);
  BENCH_CHECK(listener);
  server_announce(fd);
  for (;;) {
    st_netfd_t connection = st_accept(listener, NULL, NULL, ST_UTIME_NO_TIMEOUT);
    if (!connection)
      continue;
    server_no_delay(st_netfd_fileno(connection));
    start(serve, connection, 0, MANY_STACK);
  }
}

int main(int argc, char **argv) {
  static const struct bench_workload table[] = {
      {"yield", run_yield},   {"spawn", run_spawn}, {"memory", run_memory}, {"wake", run_wake},
      {"timers", run_timers}, {"mutex", run_mutex}, {"echo", run_echo},     {NULL, NULL}};
  bench_main(argc, argv, table);
}
