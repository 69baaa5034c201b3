/*
 * event.h - what one fiber waits for and another sets, on the core's park and
 * wake: the least that anything which wakes a fiber has to do.
 */
#ifndef BENCH_EVENT_H
#define BENCH_EVENT_H

#include "core.h"

struct event {
  _Atomic(uintptr_t) state; /* EVENT_CLEAR, EVENT_SET, or the struct waiter that waits */
};

#define EVENT_CLEAR ((uintptr_t)0)
#define EVENT_SET ((uintptr_t)1)

struct waiter {
  struct cfiber *fiber;
  uint64_t epoch;
};

/* Waits until the event is set, and clears it. Only one fiber may wait. */
static inline void event_wait(struct event *e) {
  struct cfiber_thread *t = cfiber_thread_self();
  struct waiter w = {t->current, cfiber_arm(t->current)};
  uintptr_t state = EVENT_CLEAR;
  if (atomic_compare_exchange_strong(&e->state, &state, (uintptr_t)&w)) {
    cfiber_park(t, w.fiber);
  } else {
    atomic_store(&e->state, EVENT_CLEAR);
    cfiber_disarm(w.fiber, w.epoch);
  }
}

/* Wakes who waits, or lets who comes go on. From anywhere. */
static inline void event_set(struct event *e) {
  uintptr_t state = atomic_load(&e->state);
  if (state == EVENT_CLEAR && atomic_compare_exchange_strong(&e->state, &state, EVENT_SET))
    return;
  if (state == EVENT_SET)
    return;
  struct waiter w = *(struct waiter *)state; /* it cannot go before it is woken */
  atomic_store(&e->state, EVENT_CLEAR);
  cfiber_wake(cfiber_thread_self(), w.fiber, w.epoch, WAKE_EVENT);
}

#endif
