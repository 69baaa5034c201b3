/*
 * litmus_test.c - the memory orders that the hand-over relies on, against the
 * processor: model/ assumes that all operations have one order.
 *
 * The pairs at the bottom of "no lost wake-up" are of one kind. A producer
 * publishes, then reads whether somebody sleeps; who falls asleep says so, then
 * reads whether there is work. Both must not read the old value. Any processor
 * that buffers stores, x86 included, breaks that if either store is only
 * released. How often it does so here is printed first: the tests can see what
 * the first one sees.
 */
#include "core.h"
#include "ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DURATION (400 * NS_PER_MS) /* of each test */
#define ROUNDS_BETWEEN_LOOKS 256   /* at the clock */

static struct cfiber_thread *owner; /* of the ring */
static _Atomic(uint32_t) searching;
static struct cfiber fiber;

/* ---- Two threads, in step ------------------------------------------------------------------- */

struct pair {
  bool (*producer)(void);
  bool (*idler)(void);
  bool producer_saw, idler_saw;
  _Atomic(uint32_t) arrived;
  _Atomic(int) over;
  uint32_t rounds, missed;
};

/* Waits for the other, for the n-th time. */
static void meet(struct pair *p, uint32_t n) {
  atomic_fetch_add(&p->arrived, 1);
  for (unsigned spins = 0; atomic_load(&p->arrived) < 2 * n; spins++) {
    if (spins < 2000)
      cfiber_relax();
    else
      sched_yield(); /* there may be one core for both */
  }
}

/* A few instructions more on one side or the other. */
static void stagger(uint32_t n) {
  for (volatile uint32_t i = n % 16; i > 0; i--)
    continue;
}

static void *idler_main(void *arg) {
  struct pair *p = arg;
  for (uint32_t n = 0;;) {
    meet(p, ++n);
    if (atomic_load(&p->over))
      return NULL;
    stagger(n);
    p->idler_saw = p->idler();
    meet(p, ++n);
  }
}

static void reset(void) {
  while (ring_pop(owner))
    continue;
  atomic_store(&owner->ready_queue, READY_BUSY);
  atomic_store(&searching, 1);
}

static void run(const char *name, struct pair *p) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, idler_main, p))
    abort();
  int64_t end = cfiber_now() + DURATION;
  for (uint32_t n = 0; !atomic_load(&p->over);) {
    reset();
    if (p->rounds % ROUNDS_BETWEEN_LOOKS == 0 && cfiber_now() > end)
      atomic_store(&p->over, 1);
    meet(p, ++n);
    if (atomic_load(&p->over))
      break;
    stagger(n / 16);
    p->producer_saw = p->producer();
    meet(p, ++n);
    p->rounds++;
    p->missed += !p->producer_saw && !p->idler_saw;
  }
  pthread_join(thread, NULL);
  printf("%s: %u of %u missed each other\n", name, p->missed, p->rounds);
}

/* ---- The pairs ------------------------------------------------------------------------------ */

static bool sees_idle(void) {
  return atomic_load_explicit(&owner->ready_queue, memory_order_seq_cst) == READY_IDLE;
}

/* cfiber_ready, then any_idle of wake_searcher. */
static bool push_then_idle(void) {
  return ring_push(owner, &fiber) && sees_idle();
}

/* cfiber_ready, then the first look of wake_searcher. */
static bool push_then_searching(void) {
  ring_push(owner, &fiber);
  return atomic_load_explicit(&searching, memory_order_seq_cst) == SEARCHING_NOBODY;
}

/* ring_push with a store of the tail that is only released. */
static bool weak_push_then_idle(void) {
  uint32_t tail = atomic_load_explicit(&owner->ring_tail, memory_order_relaxed);
  atomic_store_explicit(&owner->ring[tail % RING_SIZE], (uintptr_t)&fiber, memory_order_relaxed);
  atomic_store_explicit(&owner->ring_tail, tail + 1, memory_order_release);
  return sees_idle();
}

/* idle */
static bool announce_then_look(void) {
  uintptr_t expected = READY_BUSY;
  atomic_compare_exchange_strong_explicit(&owner->ready_queue, &expected, READY_IDLE,
                                          memory_order_seq_cst, memory_order_relaxed);
  return ring_size(owner) > 0;
}

/* stop_searching, then work_elsewhere */
static bool give_up_then_look(void) {
  atomic_store_explicit(&searching, SEARCHING_NOBODY, memory_order_seq_cst);
  return ring_size(owner) > 0;
}

/* ---- What a thief reads of a fiber is what its owner wrote before the push ------------------- */

#define THEFT_FIBERS 200000u

static struct cfiber *stolen_from;
static _Atomic(int) all_pushed;
static uint32_t wrong;

static uint32_t check(struct cfiber *f, uint32_t *sum) {
  *sum += f->index;
  return f->index != (uint32_t)(f - stolen_from) + 1;
}

static void *thief_main(void *arg) {
  uint32_t *sum = arg;
  struct cfiber *out[RING_SIZE / 2];
  for (;;) {
    int last = atomic_load(&all_pushed);
    uint32_t n = ring_grab(owner, out);
    for (uint32_t i = 0; i < n; i++)
      wrong += check(out[i], sum);
    if (!n && last)
      return NULL;
    if (!n)
      sched_yield();
  }
}

/* Every fiber is taken once, by the owner or by the thief, and is whole. */
static bool test_theft(void) {
  uint32_t sum = 0, theirs = 0, expected = 0, bad = 0;
  pthread_t thread;
  reset();
  stolen_from = aligned_alloc(CACHE_LINE, THEFT_FIBERS * sizeof *stolen_from);
  if (!stolen_from)
    abort();
  memset((void *)stolen_from, 0, THEFT_FIBERS * sizeof *stolen_from);
  if (pthread_create(&thread, NULL, thief_main, &theirs))
    abort();
  for (uint32_t i = 0; i < THEFT_FIBERS; i++) {
    stolen_from[i].index = i + 1;
    expected += i + 1;
    while (!ring_push(owner, &stolen_from[i])) {
      struct cfiber *f = ring_pop(owner);
      if (f)
        bad += check(f, &sum);
    }
  }
  atomic_store(&all_pushed, 1);
  pthread_join(thread, NULL);
  free(stolen_from);
  printf("theft: %u not whole, %u stolen or kept in excess\n", bad + wrong,
         sum + theirs - expected);
  return bad + wrong == 0 && sum + theirs == expected;
}

int main(void) {
  void *memory = NULL;
  if (posix_memalign(&memory, CACHE_LINE, sizeof *owner))
    abort();
  owner = memset(memory, 0, sizeof *owner);

  struct pair weak = {.producer = weak_push_then_idle, .idler = announce_then_look};
  struct pair announce = {.producer = push_then_idle, .idler = announce_then_look};
  struct pair give_up = {.producer = push_then_searching, .idler = give_up_then_look};
  run("a push that is only released, and falling idle (not what we do)", &weak);
  run("a push and falling idle", &announce);
  run("a push and the end of a search", &give_up);
  bool ok = test_theft() && announce.missed == 0 && give_up.missed == 0;
  free(owner);
  return !ok;
}
