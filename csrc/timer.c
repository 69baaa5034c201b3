/*
 * timer.c - timers: a heap per thread, and the timeout of its wait.
 *
 * A four-ary heap of (deadline, fiber, epoch), so that comparing does not touch
 * the fibers. A fiber has at most one timer; its place in the heap stands in
 * the fiber, so that it can be taken out when the wait ends some other way. The
 * heap has a lock, since a migratable fiber may end its wait on another thread.
 */
#include "fault.h"
#include "poller.h"

#include <stdlib.h>

#define ARITY 4u

static void place(struct timer_heap *h, uint32_t i, struct timer_entry e) {
  h->entries[i] = e;
  e.fiber->timer_pos = i;
}

static void sift_up(struct timer_heap *h, uint32_t i, struct timer_entry e) {
  while (i > 0) {
    uint32_t parent = (i - 1) / ARITY;
    if (h->entries[parent].when <= e.when)
      break;
    place(h, i, h->entries[parent]);
    i = parent;
  }
  place(h, i, e);
}

static void sift_down(struct timer_heap *h, uint32_t i, struct timer_entry e) {
  for (;;) {
    uint32_t first = i * ARITY + 1, least = first;
    if (first >= h->n)
      break;
    for (uint32_t c = first + 1; c < first + ARITY && c < h->n; c++)
      if (h->entries[c].when < h->entries[least].when)
        least = c;
    if (e.when <= h->entries[least].when)
      break;
    place(h, i, h->entries[least]);
    i = least;
  }
  place(h, i, e);
}

static void publish_earliest(struct timer_heap *h) {
  atomic_store_explicit(&h->earliest, h->n ? h->entries[0].when : INT64_MAX, memory_order_relaxed);
}

/* Takes the entry at i out. Lock held. */
static void take(struct timer_heap *h, uint32_t i) {
  h->entries[i].fiber->timer_pos = TIMER_NONE;
  struct timer_entry last = h->entries[--h->n];
  if (i < h->n) {
    if (i > 0 && h->entries[(i - 1) / ARITY].when > last.when)
      sift_up(h, i, last);
    else
      sift_down(h, i, last);
  }
  publish_earliest(h);
}

static int grow(struct timer_heap *h) {
  uint32_t cap = h->cap ? h->cap * 2 : 64;
  void *p =
      cfiber_fault(FAULT_MALLOC) ? NULL : realloc(h->entries, cap * sizeof(struct timer_entry));
  if (!p)
    return ENOMEM;
  h->entries = p;
  h->cap = cap;
  return 0;
}

int cfiber_timer_set(struct cfiber_thread *t, struct cfiber *f, uint64_t epoch, int64_t when) {
  struct timer_heap *h = &t->timers;
  int e = 0;
  cfiber_lock(&h->lock);
  if (h->n < h->cap || (e = grow(h)) == 0) {
    atomic_store_explicit(&f->timer_thread, t, memory_order_relaxed);
    sift_up(h, h->n++, (struct timer_entry){when, f, epoch});
    publish_earliest(h);
  }
  cfiber_unlock(&h->lock);
  return e;
}

void cfiber_timer_clear(struct cfiber *f) {
  struct timer_heap *h = &atomic_load_explicit(&f->timer_thread, memory_order_relaxed)->timers;
  cfiber_lock(&h->lock);
  if (f->timer_pos != TIMER_NONE)
    take(h, f->timer_pos);
  cfiber_unlock(&h->lock);
}

void cfiber_timers_fire(struct cfiber_thread *t, int64_t now) {
  struct timer_heap *h = &t->timers;
  while (atomic_load_explicit(&h->earliest, memory_order_relaxed) <= now) {
    struct timer_entry due = {0};
    cfiber_lock(&h->lock);
    if (h->n && h->entries[0].when <= now) {
      due = h->entries[0];
      take(h, 0);
    }
    cfiber_unlock(&h->lock);
    if (due.fiber)
      cfiber_wake(cfiber_thread_self(), due.fiber, due.epoch, WAKE_TIMEOUT);
  }
}

void cfiber_timers_free(struct cfiber_thread *t) {
  free(t->timers.entries);
  t->timers.entries = NULL;
  t->timers.n = t->timers.cap = 0;
}
