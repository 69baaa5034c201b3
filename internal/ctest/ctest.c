#define CFIBER_REDEFINE_ERRNO /* these run on migratable fibers too */
#include "ctest.h"
#include "cfiber.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

extern uintptr_t ctestCallback(uintptr_t arg);

/* The result of a call: its value, or -errno. */
static intptr_t outcome(intptr_t r) {
  return r < 0 ? -errno : r;
}

/* Its argument. */
intptr_t ct_return(void *arg) {
  return (intptr_t)arg;
}

/* Sleeps as many ns as the argument says. */
intptr_t ct_sleep_ns(void *arg) {
  return outcome(cfiber_sleep((intptr_t)arg));
}

/* arg: int64_t[2], a time to sleep and a number that is incremented after it. */
intptr_t ct_sleep_array(void *arg) {
  int64_t *a = arg;
  if (cfiber_sleep(a[0]) < 0)
    return -errno;
  a[1]++;
  return 0;
}

/* Sleeps arg ns three times and calls Go once. */
intptr_t ct_sleep_thrice(void *arg) {
  for (int i = 0; i < 3; i++) {
    if (cfiber_sleep((intptr_t)arg) < 0)
      return -errno;
  }
  return (intptr_t)ctestCallback((uintptr_t)arg);
}

/* Sets errno to arg, lets others run, returns errno. */
intptr_t ct_errno(void *arg) {
  for (int i = 0; i < 100; i++) {
    errno = (int)(intptr_t)arg;
    cfiber_yield();
    if (errno != (int)(intptr_t)arg)
      return -1;
    if (cfiber_sleep(1000) < 0)
      return -2;
  }
  return (intptr_t)arg;
}

intptr_t ct_call_go(void *arg) {
  return (intptr_t)ctestCallback((uintptr_t)arg);
}

static __attribute__((noinline)) intptr_t deep(int n, void *arg) {
  volatile char frame[1024];
  frame[0] = (char)n;
  if (n == 0)
    return ct_call_go(arg);
  return deep(n - 1, arg) + (frame[0] - (char)n);
}

/* Calls Go from the bottom of most of a default stack. */
intptr_t ct_call_go_deep(void *arg) {
  return deep(200, arg);
}

/* Reads one byte from fd arg: the byte, 1000 at the end of the file, or -errno. */
intptr_t ct_read_fd(void *arg) {
  unsigned char c;
  ssize_t n = cfiber_read((int)(intptr_t)arg, &c, 1);
  return n < 0 ? -errno : n == 0 ? 1000 : c;
}

static __attribute__((noinline)) intptr_t recurse(intptr_t n) {
  volatile char frame[512];
  frame[n % 512] = 1;
  return n == 0 ? 0 : recurse(n - 1) + frame[n % 512];
}

intptr_t ct_recurse(void *arg) {
  return recurse((intptr_t)arg);
}

/* Goes arg frames deep, comes back, and waits a moment, so that others do the same. */
intptr_t ct_recurse_and_sleep(void *arg) {
  recurse((intptr_t)arg);
  return cfiber_sleep(1000000);
}

/* The same with frames of 60 KiB, which touch only their far end. */
static __attribute__((noinline)) intptr_t recurse_large(intptr_t n) {
  volatile char frame[60 * 1024];
  frame[0] = (char)n;
  return n == 0 ? 0 : recurse_large(n - 1) + (frame[0] != (char)n);
}

intptr_t ct_recurse_large(void *arg) {
  return recurse_large((intptr_t)arg);
}

/* Computes until the int that arg points to is not zero. Never parks. */
intptr_t ct_spin(void *arg) {
  _Atomic int *stop = arg;
  while (!atomic_load(stop))
    continue;
  return 0;
}

/* Blocks its thread in a plain read of fd arg. */
intptr_t ct_block_read(void *arg) {
  char c;
  ssize_t n;
  while ((n = read((int)(intptr_t)arg, &c, 1)) < 0 && errno == EINTR)
    continue;
  return n;
}

intptr_t ct_fib(void *arg) {
  intptr_t n = (intptr_t)arg, a, b;
  if (n < 2)
    return n;
  cfiber_t *f = cfiber_spawn(ct_fib, (void *)(n - 1), NULL);
  cfiber_t *g = cfiber_spawn(ct_fib, (void *)(n - 2), NULL);
  if (!f || !g || cfiber_join(f, &a) || cfiber_join(g, &b))
    return -100000;
  return a + b;
}

/* Waits for ever, or until cancelled; increments the int arg points to first. */
intptr_t ct_park_forever(void *arg) {
  if (arg)
    atomic_fetch_add((_Atomic int *)arg, 1);
  return outcome(cfiber_sleep(INT64_MAX));
}

/* Increments the int that arg points to. */
intptr_t ct_count(void *arg) {
  return atomic_fetch_add((_Atomic int *)arg, 1);
}

/* Yields arg times. */
intptr_t ct_yield_loop(void *arg) {
  for (intptr_t n = (intptr_t)arg; n > 0; n--)
    cfiber_yield();
  return 0;
}

/* Two fibers that yield arg times in all. */
intptr_t ct_yield_pair(void *arg) {
  void *half = (void *)((intptr_t)arg / 2);
  cfiber_t *f = cfiber_spawn(ct_yield_loop, half, NULL);
  cfiber_t *g = cfiber_spawn(ct_yield_loop, half, NULL);
  return cfiber_join(f, NULL) || cfiber_join(g, NULL);
}

/* Spawns and joins arg fibers, one after the other. */
intptr_t ct_spawn_join(void *arg) {
  for (intptr_t n = (intptr_t)arg; n > 0; n--) {
    if (cfiber_join(cfiber_spawn(ct_return, NULL, NULL), NULL))
      return -1;
  }
  return 0;
}

/* Calls Go arg times. */
intptr_t ct_call_go_loop(void *arg) {
  for (intptr_t n = (intptr_t)arg; n > 0; n--)
    ctestCallback(0);
  return 0;
}

intptr_t ct_close_fd(void *arg) {
  return outcome(cfiber_close((int)(intptr_t)arg));
}

/* Yields until the int that arg points to is not zero. */
intptr_t ct_yield_until(void *arg) {
  while (!atomic_load((_Atomic int *)arg))
    cfiber_yield();
  return 0;
}

/* arg: int[2], a descriptor to read from and a number that is not zero at the end. */
intptr_t ct_read_until(void *arg) {
  int *a = arg;
  char c;
  while (!atomic_load((_Atomic int *)&a[1])) {
    if (cfiber_read(a[0], &c, 1) != 1)
      return -1;
  }
  return 0;
}

static intptr_t set_flag(void *arg) {
  atomic_store((_Atomic int *)arg, 1);
  return 0;
}

/* Spawns a fiber and computes until it has run. */
intptr_t ct_spawn_and_spin(void *arg) {
  (void)arg;
  _Atomic int flag = 0;
  cfiber_t *f = cfiber_spawn(set_flag, &flag, NULL);
  if (!f)
    return -1;
  while (!atomic_load(&flag))
    continue;
  return cfiber_join(f, NULL);
}

/* A thread-local that no compiler may keep over a switch. */
static _Thread_local char here;
static __attribute__((noinline)) void *where(void) {
  void *p = &here;
  __asm__ volatile("" : "+r"(p)::"memory");
  return p;
}

/* How often the fiber was on another thread after a wait than before. */
intptr_t ct_count_moves(void *arg) {
  (void)arg;
  intptr_t moves = 0;
  for (int i = 0; i < 200; i++) {
    void *before = where();
    if (i % 2)
      cfiber_yield();
    else if (cfiber_sleep(10000))
      return -1;
    moves += where() != before;
  }
  return moves;
}

/* Sleeps five times 10 ms. */
intptr_t ct_sleep_five(void *arg) {
  (void)arg;
  for (int i = 0; i < 5; i++) {
    if (cfiber_sleep(10000000))
      return -errno;
  }
  return 0;
}

/* arg: int64_t[n], the first being n. Stores how late each of n sleeps of 1 ms ended, in ns. */
intptr_t ct_sleep_late(void *arg) {
  int64_t *late = arg;
  int64_t n = late[0];
  for (int64_t i = 0; i < n; i++) {
    int64_t begin = cfiber_now();
    if (cfiber_sleep(1000000))
      return -errno;
    late[i] = cfiber_now() - begin - 1000000;
  }
  return 0;
}

/* arg: a function and a number. Calls the one with the other. */
intptr_t ct_apply(void *arg) {
  struct {
    intptr_t (*fn)(void *);
    intptr_t n;
  } *a = arg;
  return a->fn((void *)a->n);
}

intptr_t ct_call(intptr_t (*fn)(void *), void *arg) {
  return fn(arg);
}
