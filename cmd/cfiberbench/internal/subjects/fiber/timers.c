#include "timers.h"
#include "cfiber.h"

static struct timers timers;
static _Atomic(int64_t) asleep;

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* As bucketOf in internal/histogram. */
static unsigned bucket_of(uint64_t n) {
  int bits = n ? 64 - __builtin_clzll(n) : 0;
  int shift = bits - HISTOGRAM_SUB_BITS - 1;
  if (shift < 0)
    shift = 0;
  return (unsigned)(shift << HISTOGRAM_SUB_BITS) + (unsigned)(n >> shift);
}

static void woke(int64_t late) {
  if (!atomic_load_explicit(&timers.late->open, memory_order_relaxed))
    return;
  unsigned i = bucket_of(late > 0 ? (uint64_t)late : 0);
  atomic_fetch_add_explicit(&timers.late->late[i], 1, memory_order_relaxed);
}

/* Has a deadline in each window, from that on in which it starts. */
static intptr_t sleeper(void *arg) {
  uint64_t random = (uintptr_t)arg << 20;
  atomic_fetch_add_explicit(&asleep, 1, memory_order_relaxed);
  int64_t now = cfiber_now();
  for (int64_t window = (now - timers.base) / timers.length;; window++) {
    int64_t within = (int64_t)(next_random(&random) % (uint64_t)timers.length);
    int64_t deadline = timers.base + window * timers.length + within;
    if (cfiber_sleep(deadline - now))
      return -1;
    now = cfiber_now();
    woke(now - deadline);
  }
}

intptr_t bench_timers(void *arg) {
  static const struct cfiber_attr detached = {.flags = CFIBER_DETACHED};
  timers = *(struct timers *)arg;
  ((struct timers *)arg)->base = timers.base = cfiber_now();
  for (int64_t i = 0; i < timers.n; i++) {
    if (!cfiber_spawn(sleeper, (void *)(intptr_t)i, &detached))
      return -1;
  }
  while (atomic_load_explicit(&asleep, memory_order_relaxed) < timers.n) {
    if (cfiber_sleep(1000000))
      return -1;
  }
  return 0;
}
