/*
 * clock.c - the monotonic clock and sleeping.
 */
#include "core.h"
#include "fault.h"

#include <time.h>

int64_t cfiber_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Blocks the thread; used where there is no fiber. */
static void sleep_on_thread(int64_t ns) {
  struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
  while (TRY(SLEEP, -1, nanosleep(&left, &left)) && cfiber_errno() == EINTR)
    continue;
}

int cfiber_sleep(int64_t ns) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t) {
    if (ns > 0)
      sleep_on_thread(ns);
    return 0;
  }
  CHAOS_YIELD(t);
  struct cfiber *f = t->current;
  int e = cfiber_pending(f);
  if (e)
    return cfiber_fail(e);
  if (ns <= 0) {
    cfiber_reschedule(t);
    return 0;
  }
  int64_t now = cfiber_now();
  int64_t until = ns > INT64_MAX - now ? INT64_MAX : now + ns;
  bool cut = f->deadline && f->deadline < until;
  uint64_t epoch = cfiber_arm(f);
  if (!epoch)
    return cfiber_fail(ECANCELED);
  enum wake_reason reason = cfiber_park_until(t, f, epoch, cut ? f->deadline : until, &e);
  if (e)
    return cfiber_fail(e);
  if (reason == WAKE_CANCEL)
    return cfiber_fail(ECANCELED);
  return cut ? cfiber_fail(ETIMEDOUT) : 0;
}
