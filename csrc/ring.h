/*
 * ring.h - the stealable run queue: a bounded ring, pushed by its owner, popped
 * from the head by the owner and by thieves.
 *
 * After Go's runtime (proc.go, runqput, runqget, runqgrab). An entry can be
 * overwritten only after the head has moved past it, so a reader that then
 * succeeds in moving the head has read a valid one.
 */
#ifndef CFIBER_RING_H
#define CFIBER_RING_H

#include "core.h"

/*
 * False if the ring is full. The store of the tail is sequentially consistent:
 * the caller goes on to look for idle threads, and a thread that has announced
 * itself idle looks at the tails. One of the two must see the other.
 */
static inline bool ring_push(struct cfiber_thread *t, struct cfiber *f) {
  uint32_t tail = atomic_load_explicit(&t->ring_tail, memory_order_relaxed);
  uint32_t head = atomic_load_explicit(&t->ring_head, memory_order_acquire);
  if (tail - head >= RING_SIZE)
    return false;
  atomic_store_explicit(&t->ring[tail % RING_SIZE], (uintptr_t)f, memory_order_relaxed);
  CHAOS_DELAY(RING_PUSH);
  atomic_store_explicit(&t->ring_tail, tail + 1, memory_order_seq_cst);
  return true;
}

/* The owner's pop. */
static inline struct cfiber *ring_pop(struct cfiber_thread *t) {
  uint32_t tail = atomic_load_explicit(&t->ring_tail, memory_order_relaxed);
  uint32_t head = atomic_load_explicit(&t->ring_head, memory_order_acquire);
  while (head != tail) {
    uintptr_t f = atomic_load_explicit(&t->ring[head % RING_SIZE], memory_order_relaxed);
    CHAOS_DELAY(RING_POP);
    if (atomic_compare_exchange_weak_explicit(&t->ring_head, &head, head + 1, memory_order_acq_rel,
                                              memory_order_acquire))
      return (struct cfiber *)f;
  }
  return NULL;
}

/* The owner's pop of f, if it is at the head. */
static inline bool ring_pop_if(struct cfiber_thread *t, const struct cfiber *f) {
  uint32_t tail = atomic_load_explicit(&t->ring_tail, memory_order_relaxed);
  uint32_t head = atomic_load_explicit(&t->ring_head, memory_order_acquire);
  return head != tail &&
         atomic_load_explicit(&t->ring[head % RING_SIZE], memory_order_relaxed) == (uintptr_t)f &&
         atomic_compare_exchange_strong_explicit(&t->ring_head, &head, head + 1,
                                                 memory_order_acq_rel, memory_order_relaxed);
}

/* The owner takes all. out has room for RING_SIZE. */
static inline uint32_t ring_pop_all(struct cfiber_thread *t, struct cfiber **out) {
  uint32_t tail = atomic_load_explicit(&t->ring_tail, memory_order_relaxed);
  uint32_t head = atomic_load_explicit(&t->ring_head, memory_order_acquire);
  do {
    for (uint32_t i = head; i != tail; i++)
      out[i - head] =
          (struct cfiber *)atomic_load_explicit(&t->ring[i % RING_SIZE], memory_order_relaxed);
    CHAOS_DELAY(RING_POP);
  } while (!atomic_compare_exchange_weak_explicit(&t->ring_head, &head, tail, memory_order_acq_rel,
                                                  memory_order_acquire));
  return tail - head;
}

/* Whether the owner may find something; a thief may be first. */
static inline bool ring_maybe(const struct cfiber_thread *t) {
  return atomic_load_explicit(&t->ring_head, memory_order_relaxed) !=
         atomic_load_explicit(&t->ring_tail, memory_order_relaxed);
}

/* Fibers on the ring, seen from anywhere. */
static inline uint32_t ring_size(struct cfiber_thread *t) {
  uint32_t head = atomic_load_explicit(&t->ring_head, memory_order_seq_cst);
  uint32_t tail = atomic_load_explicit(&t->ring_tail, memory_order_seq_cst);
  /* The head may have passed the tail we read first by the time we read it. */
  return (int32_t)(tail - head) > 0 ? tail - head : 0;
}

/*
 * Moves up to half of `from`, rounded up, into out[]; out has room for
 * RING_SIZE / 2. Any thread, the owner included. Returns how many.
 */
static inline uint32_t ring_grab(struct cfiber_thread *from, struct cfiber **out) {
  for (;;) {
    uint32_t head = atomic_load_explicit(&from->ring_head, memory_order_acquire);
    uint32_t tail = atomic_load_explicit(&from->ring_tail, memory_order_acquire);
    uint32_t n = tail - head;
    n -= n / 2;
    if (n == 0)
      return 0;
    if (n > RING_SIZE / 2)
      continue; /* the two were read at different times */
    for (uint32_t i = 0; i < n; i++)
      out[i] = (struct cfiber *)atomic_load_explicit(&from->ring[(head + i) % RING_SIZE],
                                                     memory_order_relaxed);
    CHAOS_DELAY(RING_GRAB);
    if (atomic_compare_exchange_strong_explicit(&from->ring_head, &head, head + n,
                                                memory_order_acq_rel, memory_order_relaxed))
      return n;
  }
}

#endif /* CFIBER_RING_H */
