/* timers.h - fibers that sleep to random deadlines. */
#ifndef BENCH_TIMERS_H
#define BENCH_TIMERS_H

#include <stdatomic.h>
#include <stdint.h>

enum { HISTOGRAM_SUB_BITS = 5, HISTOGRAM_SIZE = 64 << HISTOGRAM_SUB_BITS };

/* As Go has it: subjects.Window. */
struct window {
  _Atomic(uint64_t) late[HISTOGRAM_SIZE];
  _Atomic(uint32_t) open;
};

struct timers {
  int64_t n, length;   /* of a window, in ns */
  int64_t base;        /* out: when the first one began */
  struct window *late; /* which is measured */
};

/* Starts the sleepers; returns when all sleep. */
intptr_t bench_timers(void *timers);

#endif
