// cfiberbench: name=pthreads pkg= flags=-pthread workloads=spawn,memory,wake,timers,mutex,echo
//
// One OS thread per unit, as the C library makes them.
//
// Stacks are of 64 KiB, with the library's guard of a page, which is what one
// sets for many threads (the default, 8 MiB, takes address space, not memory).
// The library keeps the stacks of threads that ended, so that all but the first
// spawn are warm. A machine has a limit of threads, some 30,000.
//
// wake    mode=sleeping: two threads take turns under a mutex with a condition
//         variable. mode=awake: they spin on the turn under a spin lock. pin=1
//         puts them on two CPUs.
// timers  clock_nanosleep to an absolute time.
// mutex   Two threads contend for one mutex and do nothing else; it is not
//         handed over, so the one that runs mostly takes it again. mode=free:
//         one thread.
// echo    A thread per connection and blocking calls; `threads` has no meaning.
#include "bench.h"
#include "server.h"
#include "timers.h"

enum { STACK = 64 * 1024 };

static pthread_attr_t attributes;

static void set_attributes(uint64_t stack, int detached) {
  BENCH_CHECK(pthread_attr_init(&attributes) == 0);
  if (pthread_attr_setstacksize(&attributes, stack) != 0)
    bench_fail(2, "stack=%" PRIu64 ": too small", stack);
  if (detached)
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
}

// The machine's limit of threads comes first for many n.
static pthread_t start(void *(*entry)(void *), void *argument) {
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, entry, argument);
  if (error)
    bench_unsupported("pthread_create: %s", strerror(error));
  return thread;
}

// spawn

static uint64_t ran;

static void *count_run(void *unused) {
  __atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
  return unused;
}

static pthread_barrier_t all_begun;

static void *run_after_all(void *unused) {
  pthread_barrier_wait(&all_begun);
  return count_run(unused);
}

static void spawn_cold(uint64_t n) {
  pthread_t *threads = (pthread_t *)calloc(n, sizeof *threads);
  BENCH_CHECK(threads && pthread_barrier_init(&all_begun, NULL, (unsigned)n) == 0);
  for (uint64_t i = 0; i < n; i++)
    threads[i] = start(run_after_all, NULL);
  for (uint64_t i = 0; i < n; i++)
    pthread_join(threads[i], NULL);
}

static void run_spawn(void) {
  int cold = bench_choice("mode", "warm|cold");
  uint64_t n = bench_number("n", cold ? 5000 : 50000);
  if (bench_number("threads", 1) != 1)
    bench_unsupported("spawn: the kernel chooses on how many CPUs threads run");
  bench_arguments_done();
  set_attributes(STACK, 0);
  uint64_t from = bench_now();
  if (cold)
    spawn_cold(n);
  for (uint64_t i = 0; !cold && i < n; i++)
    pthread_join(start(count_run, NULL), NULL);
  bench_time(from, n);
  BENCH_CHECK(ran == n);
}

// memory

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER, one_more = PTHREAD_COND_INITIALIZER;
static uint64_t parked;

static void *park(void *unused) {
  pthread_mutex_lock(&mutex);
  parked++;
  pthread_cond_signal(&one_more);
  for (;;)
    pthread_cond_wait(&never, &mutex);
  return unused;
}

static void run_memory(void) {
  uint64_t n = bench_number("n", 1000), stack = bench_number("stack", STACK);
  bench_arguments_done();
  set_attributes(stack, 1);
  for (uint64_t i = 0; i < n; i++)
    start(park, NULL);
  pthread_mutex_lock(&mutex);
  while (parked < n)
    pthread_cond_wait(&one_more, &mutex);
  pthread_mutex_unlock(&mutex);
  bench_parked();
}

// wake

static struct {
  uint64_t rounds;
  int pin, turn;
  pthread_cond_t changed[2];
} game = {.changed = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER}};

static void *play_asleep(void *argument) {
  int self = (int)(intptr_t)argument;
  if (game.pin)
    bench_pin((unsigned)self);
  for (uint64_t i = 0; i < game.rounds; i++) {
    pthread_mutex_lock(&mutex);
    while (game.turn != self)
      pthread_cond_wait(&game.changed[self], &mutex);
    game.turn = !self;
    pthread_mutex_unlock(&mutex); // first, so that the other one finds it free
    pthread_cond_signal(&game.changed[!self]);
  }
  return NULL;
}

#ifdef __APPLE__
static void *play_awake(void *argument) {
  (void)argument;
  bench_unsupported("wake mode=awake: no spin locks on this system");
}
static void prepare_awake(void) {
}
#else
static pthread_spinlock_t spin;

static void prepare_awake(void) {
  BENCH_CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
}

static void *play_awake(void *argument) {
  int self = (int)(intptr_t)argument;
  if (game.pin)
    bench_pin((unsigned)self);
  for (uint64_t i = 0; i < game.rounds;) {
    pthread_spin_lock(&spin);
    if (game.turn == self) {
      game.turn = !self;
      i++;
    }
    pthread_spin_unlock(&spin);
  }
  return NULL;
}
#endif

static void run_wake(void) {
  int mode = bench_choice("mode", "sleeping|awake|same");
  game.rounds = bench_number("n", 200000) / 2;
  game.pin = bench_number("pin", 0) != 0;
  bench_arguments_done();
  if (mode == 2)
    bench_unsupported("wake mode=same: a thread has nobody to wake on itself");
  set_attributes(STACK, 0);
  prepare_awake();
  void *(*play)(void *) = mode == 0 ? play_asleep : play_awake;
  uint64_t from = bench_now();
  pthread_t other = start(play, (void *)1);
  play(NULL);
  pthread_join(other, NULL);
  bench_time(from, 2 * game.rounds);
}

// timers

static struct timers timers;

static void sleep_until(uint64_t deadline) {
  struct timespec time = {.tv_sec = (time_t)(deadline / 1000000000),
                          .tv_nsec = (long)(deadline % 1000000000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
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
  set_attributes(STACK, 1);
  for (uint64_t i = 0; i < timers.sleepers; i++)
    start(sleep_again, (void *)(uintptr_t)i);
  for (;; timers_edge(&timers))
    sleep_until(timers_next_edge(&timers));
}

// mutex

static uint64_t count, goal;

static void *lock_unlock(void *unused) {
  for (int more = 1; more;) {
    pthread_mutex_lock(&mutex);
    more = count < goal;
    count += (uint64_t)more;
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

static void run_mutex(void) {
  int free_mode = bench_choice("mode", "contended|free");
  goal = bench_number("n", 10000000);
  bench_arguments_done();
  set_attributes(STACK, 0);
  uint64_t from = bench_now();
  pthread_t second = free_mode ? 0 : start(lock_unlock, NULL);
  lock_unlock(NULL);
  if (!free_mode)
    pthread_join(second, NULL);
  bench_time(from, goal);
  BENCH_CHECK(count == goal);
}

// echo

static int write_all(int fd, const char *bytes, ssize_t length) {
  while (length > 0) {
    ssize_t n = write(fd, bytes, (size_t)length);
    if (n <= 0)
      return 0;
    bytes += n;
    length -= n;
  }
  return 1;
}

static void *serve(void *argument) {
  int fd = (int)(intptr_t)argument;
  char buffer[SERVER_BUFFER];
  for (;;) {
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0)
      break;
    server_request((unsigned)fd);
    if (!write_all(fd, buffer, n))
      break;
  }
  close(fd);
  return NULL;
}

static void run_echo(void) {
  unsigned threads;
  uint16_t port = server_arguments(&threads);
  int listener = server_bind(port, 0);
  set_attributes(STACK, 1);
  server_announce(listener);
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
      continue;
    server_no_delay(fd);
    start(serve, (void *)(intptr_t)fd);
  }
}

int main(int argc, char **argv) {
  static const struct bench_workload table[] = {
      {"spawn", run_spawn}, {"memory", run_memory}, {"wake", run_wake}, {"timers", run_timers},
      {"mutex", run_mutex}, {"echo", run_echo},     {NULL, NULL}};
  bench_main(argc, argv, table);
}
