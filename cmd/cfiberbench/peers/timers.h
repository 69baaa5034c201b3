// The workload `timers`: n sleepers that sleep to random deadlines.
//
// Time is cut into windows of `seconds`. A sleeper has one deadline in each: it
// wakes, draws the next window's, and sleeps again. One window is measured, the
// second after all sleepers have begun. In it each of them wakes once and sets
// one timer with all the others pending, so the CPU per wake has both halves of
// a timer in it and nothing of starting n sleepers. Deadlines are spread
// evenly, so nobody wakes in a herd.
#ifndef TIMERS_H
#define TIMERS_H

#include "bench.h"

struct timers {
  uint64_t sleepers, window, base, seed;
  uint64_t armed;     // sleepers that have begun
  unsigned edges;     // of windows, since all have
  int measuring;      // within the window
  uint64_t wakes;     // in the window
  uint64_t *late;     // of those wakes, ns
  uint64_t capacity;  // of late
  uint64_t start_cpu; // at the start of the window
};

struct sleeper {
  uint64_t random, window, deadline;
};

// timers_init begins the first window and comes before the sleepers.
static inline void timers_init(struct timers *t, uint64_t fallback) {
  memset(t, 0, sizeof *t);
  t->sleepers = bench_number("n", fallback);
  const char *seconds = bench_argument("seconds"); // may be a fraction
  t->window = (uint64_t)((seconds ? strtod(seconds, NULL) : 2) * 1e9);
  t->seed = bench_number("seed", 1);
  bench_arguments_done();
  BENCH_CHECK(t->window > 0 && t->sleepers > 0);
  t->capacity = 2 * t->sleepers + 1024;
  t->late = (uint64_t *)malloc(t->capacity * sizeof *t->late);
  BENCH_CHECK(t->late);
  memset(t->late, 1, t->capacity * sizeof *t->late); // no page faults in the window
  t->base = bench_now();
}

static inline uint64_t timers_draw(const struct timers *t, struct sleeper *s) {
  uint64_t offset = bench_random(&s->random) % t->window;
  return s->deadline = t->base + s->window * t->window + offset;
}

// timers_begin gives the sleeper its first deadline, in the next window.
static inline uint64_t timers_begin(struct timers *t, struct sleeper *s, uint64_t number) {
  s->random = t->seed + (number << 20);
  s->window = (bench_now() - t->base) / t->window + 1;
  __atomic_add_fetch(&t->armed, 1, __ATOMIC_RELAXED);
  return timers_draw(t, s);
}

// timers_woke notes how late the sleeper is and gives its next deadline.
static inline uint64_t timers_woke(struct timers *t, struct sleeper *s) {
  if (__atomic_load_n(&t->measuring, __ATOMIC_RELAXED)) {
    uint64_t i = __atomic_fetch_add(&t->wakes, 1, __ATOMIC_RELAXED), now = bench_now();
    BENCH_CHECK(now >= s->deadline);
    if (i < t->capacity)
      t->late[i] = now - s->deadline;
  }
  s->window++;
  return timers_draw(t, s);
}

// A controlling unit sleeps until timers_next_edge, calls timers_edge, and so
// on, until that ends the process.

static inline uint64_t timers_next_edge(const struct timers *t) {
  return t->base + ((bench_now() - t->base) / t->window + 1) * t->window;
}

// timers_report ends the process, with the sleepers where they are.
__attribute__((noreturn)) static inline void timers_report(struct timers *t) {
  uint64_t cpu = bench_cpu() - t->start_cpu;
  __atomic_store_n(&t->measuring, 0, __ATOMIC_RELAXED);
  uint64_t wakes = __atomic_load_n(&t->wakes, __ATOMIC_RELAXED);
  BENCH_CHECK(wakes > 0 && wakes <= t->capacity);
  bench_metric("cpu", (double)cpu / (double)wakes, "ns/op");
  bench_metric("late_p99", (double)bench_percentile(t->late, wakes, 990), "ns");
  bench_metric("wakes", (double)wakes, "count");
  fflush(stdout);
  _exit(0);
}

// The window in which the last sleeper began is followed by one to settle and
// one that is measured.
static inline void timers_edge(struct timers *t) {
  if (__atomic_load_n(&t->armed, __ATOMIC_RELAXED) < t->sleepers)
    return;
  t->edges++;
  if (t->edges == 2) {
    t->start_cpu = bench_cpu();
    __atomic_store_n(&t->measuring, 1, __ATOMIC_RELAXED);
  } else if (t->edges == 3) {
    timers_report(t);
  }
}

#endif
