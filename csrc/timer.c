/*
 * timer.c - timers: a heap per thread, and the timeout of its wait.
 *
 * A four-ary heap of (deadline, slot), whose four children share a cache line. The
 * slot says whose timer it is and stays the same while the heap moves; `places`
 * tells where in the heap it is, so that a timer can be taken out when its wait ends
 * some other way. So no move touches a fiber, whose memory is cold. The heap has a
 * lock, since a migratable fiber may end its wait on another thread.
 */
#include "fault.h"
#include "poller.h"

#include <stdlib.h>

#define ARITY 4u
/* Of those that are due, so many are taken at once: their memory is fetched meanwhile. */
#define BATCH 16u

static void place(struct timer_heap *h, uint32_t i, struct timer_entry e) {
  h->entries[i] = e;
  h->places[e.slot] = i;
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
static struct timer_target take(struct timer_heap *h, uint32_t i) {
  uint32_t slot = h->entries[i].slot;
  struct timer_target target = h->targets[slot];
  h->targets[slot].fiber = NULL;
  h->places[slot] = h->free_slot;
  h->free_slot = slot;
  struct timer_entry last = h->entries[--h->n];
  if (i < h->n) {
    if (i > 0 && h->entries[(i - 1) / ARITY].when > last.when)
      sift_up(h, i, last);
    else
      sift_down(h, i, last);
  }
  publish_earliest(h);
  return target;
}

/* entries[1], the first of four children, is to begin a cache line. */
#define ENTRIES_OFFSET (CACHE_LINE - sizeof(struct timer_entry))

static struct timer_entry *copy_entries(const struct timer_heap *h, uint32_t cap) {
  void *p = NULL;
  size_t size = ENTRIES_OFFSET + cap * sizeof(struct timer_entry);
  if (TRY(MALLOC, cfiber_errno(), posix_memalign(&p, CACHE_LINE, size)))
    return NULL;
  struct timer_entry *entries = (struct timer_entry *)((char *)p + ENTRIES_OFFSET);
  if (h->n)
    memcpy(entries, h->entries, h->n * sizeof *entries);
  return entries;
}

static void free_entries(struct timer_heap *h) {
  if (h->entries)
    free((char *)h->entries - ENTRIES_OFFSET);
}

static int grow(struct timer_heap *h) {
  uint32_t cap = h->cap ? h->cap * 2 : 64;
  /* Those that succeed may stay when the next one fails: they are only larger than needed. */
  void *places = TRY(MALLOC, NULL, realloc(h->places, cap * sizeof *h->places));
  if (!places)
    return ENOMEM;
  h->places = places;
  void *targets = TRY(MALLOC, NULL, realloc(h->targets, cap * sizeof *h->targets));
  if (!targets)
    return ENOMEM;
  h->targets = targets;
  struct timer_entry *entries = copy_entries(h, cap);
  if (!entries)
    return ENOMEM;
  free_entries(h);
  h->entries = entries;
  for (uint32_t slot = h->cap; slot < cap; slot++)
    h->places[slot] = slot + 1;
  h->free_slot = h->cap;
  h->cap = cap;
  return 0;
}

int cfiber_timer_set(struct cfiber_thread *t, struct cfiber *f, uint64_t epoch, int64_t when) {
  struct timer_heap *h = &t->timers;
  int e = 0;
  cfiber_lock(&h->lock);
  if (h->n < h->cap || (e = grow(h)) == 0) {
    uint32_t slot = h->free_slot;
    h->free_slot = h->places[slot];
    h->targets[slot] = (struct timer_target){f, epoch};
    f->timer_slot = slot;
    f->timer_thread = t;
    sift_up(h, h->n++, (struct timer_entry){when, slot});
    publish_earliest(h);
  }
  cfiber_unlock(&h->lock);
  return e;
}

void cfiber_timer_clear(struct cfiber *f, uint64_t epoch) {
  struct timer_heap *h = &f->timer_thread->timers;
  CHAOS_DELAY(CLEAR_TIMER);
  cfiber_lock(&h->lock);
  /* It may have been taken meanwhile, and the slot be another's. */
  struct timer_target *target = &h->targets[f->timer_slot];
  if (target->fiber == f && target->epoch == epoch)
    take(h, h->places[f->timer_slot]);
  cfiber_unlock(&h->lock);
}

uint32_t cfiber_timers_fire(struct cfiber_thread *t, int64_t now) {
  struct timer_heap *h = &t->timers;
  struct cfiber_thread *self = cfiber_thread_self();
  uint32_t fired = 0;
  while (atomic_load_explicit(&h->earliest, memory_order_relaxed) <= now) {
    struct timer_target due[BATCH];
    uint32_t n = 0;
    cfiber_lock(&h->lock);
    while (n < BATCH && h->n && h->entries[0].when <= now) {
      __builtin_prefetch(h->targets[h->entries[0].slot].fiber, 1);
      due[n++] = take(h, 0);
    }
    cfiber_unlock(&h->lock);
    CHAOS_DELAY(TIMER);
    for (uint32_t i = 0; i < n; i++)
      cfiber_wake(self, due[i].fiber, due[i].epoch, WAKE_TIMEOUT);
    fired += n;
  }
  return fired;
}

/*
 * To sleep and wake costs a thread as much as some eight timers. Where they are dense, it sleeps
 * until there are enough for a batch.
 */
int64_t cfiber_timer_spacing(uint32_t fired, int64_t elapsed) {
  enum { DENSE = 4, ENOUGH = 32 }; /* in the least spacing */
  const int64_t least = 100 * NS_PER_US, most = 500 * NS_PER_US;
  if (fired * least < DENSE * elapsed || !fired)
    return least;
  int64_t spacing = elapsed * ENOUGH / fired;
  return spacing < least ? least : spacing > most ? most : spacing;
}

void cfiber_timers_free(struct cfiber_thread *t) {
  struct timer_heap *h = &t->timers;
  free_entries(h);
  free(h->places);
  free(h->targets);
  h->entries = NULL;
  h->places = NULL;
  h->targets = NULL;
  h->n = h->cap = 0;
}
