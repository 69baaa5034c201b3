// What every peer needs: arguments, clocks, metrics, random numbers and
// percentiles, for C11 and C++17.
//
// A peer is called as `PROGRAM WORKLOAD [key=value]...` and answers with lines
// `METRIC VALUE UNIT`. It exits with 0; with 1 if a check of its own failed,
// with 2 for an argument that it does not know, with 3 for what its library or
// this machine cannot do.
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // thread affinity
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

// NDEBUG takes assert() away; a check of a result has to stay.
#define BENCH_CHECK(condition)                                                                     \
  ((condition) ? (void)0 : bench_fail(1, "%s:%d: check failed: %s", __FILE__, __LINE__, #condition))

__attribute__((noreturn, format(printf, 2, 3))) static inline void
bench_fail(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  fflush(NULL);
  _exit(status); // no destructors: units may be parked anywhere
}

// bench_unsupported is for what the library or the machine's limits rule out.
#define bench_unsupported(...) bench_fail(3, __VA_ARGS__)

// Arguments.

static struct {
  int count;
  char **values;
  uint32_t used; // a bit for each that somebody asked for
} bench_arguments;

static inline const char *bench_argument(const char *key) {
  size_t length = strlen(key);
  for (int i = 0; i < bench_arguments.count; i++) {
    const char *value = bench_arguments.values[i];
    if (strncmp(value, key, length) == 0 && value[length] == '=') {
      bench_arguments.used |= UINT32_C(1) << i;
      return value + length + 1;
    }
  }
  return NULL;
}

static inline uint64_t bench_number(const char *key, uint64_t fallback) {
  const char *text = bench_argument(key);
  if (!text)
    return fallback;
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end || *text == '-' || errno)
    bench_fail(2, "%s=%s: not a number", key, text);
  return value;
}

// bench_choice returns the index of the value of key in choices, "a|b|c"; 0
// where it is not given.
static inline int bench_choice(const char *key, const char *choices) {
  const char *text = bench_argument(key);
  if (!text)
    return 0;
  int index = 0;
  for (const char *choice = choices;; index++) {
    size_t length = strcspn(choice, "|");
    if (strlen(text) == length && strncmp(text, choice, length) == 0)
      return index;
    if (!choice[length])
      bench_fail(2, "%s=%s: not one of %s", key, text, choices);
    choice += length + 1;
  }
}

// bench_arguments_done comes after the last question: what nobody asked for is
// an error, not ignored.
static inline void bench_arguments_done(void) {
  for (int i = 0; i < bench_arguments.count; i++)
    if (!(bench_arguments.used & UINT32_C(1) << i))
      bench_fail(2, "unknown argument: %s", bench_arguments.values[i]);
}

struct bench_workload {
  const char *name;
  void (*run)(void);
};

// bench_main runs the workload that the command line names and ends the
// process; the table ends with a NULL name.
__attribute__((noreturn)) static inline void bench_main(int argc, char **argv,
                                                        const struct bench_workload *table) {
  if (argc < 2 || argc - 2 > 32)
    bench_fail(2, "usage: %s WORKLOAD [key=value]...", argv[0]);
  bench_arguments.count = argc - 2;
  bench_arguments.values = argv + 2;
  for (; table->name; table++) {
    if (strcmp(table->name, argv[1]) != 0)
      continue;
    table->run();
    fflush(stdout);
    _exit(0); // units and threads may still be anywhere
  }
  bench_unsupported("%s: no such workload here", argv[1]);
}

// Clocks, in nanoseconds.

static inline uint64_t bench_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t bench_now(void) {
  return bench_clock(CLOCK_MONOTONIC);
}

// bench_cpu is the CPU time of the process, user and system.
static inline uint64_t bench_cpu(void) {
  return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

// Metrics.

static inline void bench_metric(const char *metric, double value, const char *unit) {
  printf("%s %.6g %s\n", metric, value, unit);
}

// bench_time reports what one of `operations` took since `start`.
static inline void bench_time(uint64_t start, uint64_t operations) {
  bench_metric("time", (double)(bench_now() - start) / (double)operations, "ns/op");
}

// Random numbers: Vigna's splitmix64, so that a seed means the same deadlines
// in every language.
static inline uint64_t bench_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static inline int bench_compare(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

// bench_percentile sorts the values and returns the one at permille/1000.
static inline uint64_t bench_percentile(uint64_t *values, size_t count, unsigned permille) {
  if (count == 0)
    return 0;
  qsort(values, count, sizeof *values, bench_compare);
  return values[(count - 1) * permille / 1000];
}

// Parking many units, for `memory`.

// bench_parked tells the harness to look at /proc/PID now, waits until it has
// closed stdin, and ends the process with its units where they are.
__attribute__((noreturn)) static inline void bench_parked(void) {
  puts("PARKED");
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0)
    ;
  _exit(0);
}

// bench_pin binds the calling thread to one CPU, the index-th of those that
// the process may use. Elsewhere than on Linux it does nothing.
static inline void bench_pin(unsigned index) {
#ifdef __linux__
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  BENCH_CHECK(sched_getaffinity(getpid(), sizeof allowed, &allowed) == 0);
  index %= (unsigned)CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && index-- == 0)
      CPU_SET(cpu, &one);
  BENCH_CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
#else
  (void)index;
#endif
}

#endif
