/*
 * sched.c - who runs what: the data plane's half of schedule(), the search for
 * work, and idling.
 *
 * The protocol is stated once, in docs/design.md, "Hand-over"; sched.go and
 * kqueue.go follow the same text for work that comes from Go. In short:
 *
 *   - `ready_queue` of a thread is READY_IDLE exactly while the thread is
 *     about to wait or waiting; a compare-and-swap from there to a list hands
 *     the list over, to READY_BUSY asks the thread to search. Whoever does
 *     either sends the one wake-up.
 *   - A producer publishes, then looks for idle threads. An idler announces
 *     itself, then looks for work. Both are sequentially consistent, so they
 *     cannot miss each other.
 *   - At most one thread searches at a time; when it finds something and there
 *     is more, it wakes the next.
 */
#include "poller.h"
#include "ring.h"
#include "sanitizer.h"
#include "switch.h"

#include <sched.h>

/* The scheduler looks around after at most so many switches ... */
#define TICK_SPAN 61
/* ... or, where switches are slow, about this often ... */
#define LOOK_INTERVAL (50 * NS_PER_US)
/* ... and asks the poller when this long has passed since the last time. */
#define POLL_INTERVAL (100 * NS_PER_US)

/*
 * To sleep and be woken costs both sides about as much as so long a wait. A thread that is handed
 * something within twice this time of falling idle, its waking included, lingers for it the next
 * time.
 */
#define LINGER (50 * NS_PER_US)
/* At most so many short waits make good for one in vain. */
#define LINGER_PENALTY_MAX 1023

#ifdef CFIBER_MIGRATE_ALWAYS /* see migrates */
#define MIGRATE_ALWAYS 1
#else
#define MIGRATE_ALWAYS 0
#endif

/* ---- Switching ----------------------------------------------------------- */

/*
 * A fiber that waits inside a C++ catch handler, or in a destructor during
 * unwinding, has its exceptions on the thread's list. They are the fiber's.
 */
static void save_exceptions(struct cfiber_thread *t, struct cfiber *f) {
  f->caught_exceptions = t->exceptions->caught;
  f->uncaught_exceptions = t->exceptions->uncaught;
  f->flags |= FIBER_EXCEPTIONS;
  t->exceptions->caught = NULL;
  t->exceptions->uncaught = 0;
}

#define FIBER_STATE (CFIBER_KEEP_FP | FIBER_EXCEPTIONS)

__attribute__((noinline)) static struct cfiber_thread *resumed_slowly(struct cfiber_thread *t) {
  struct cfiber *f = t->current;
  if (t->post)
    cfiber_post(t);
  if (!f)
    return t;
  *t->errno_address = f->saved_errno;
  if (f->flags & CFIBER_KEEP_FP)
    cfiber_fp_set(f->fp_control);
  if (f->flags & FIBER_EXCEPTIONS) {
    t->exceptions->caught = f->caught_exceptions;
    t->exceptions->uncaught = f->uncaught_exceptions;
    f->flags &= ~FIBER_EXCEPTIONS;
  }
  return t;
}

/* Where every switch arrives: t->current (NULL: the scheduler) has been resumed on t. */
struct cfiber_thread *cfiber_resumed(struct cfiber_thread *t) {
  struct cfiber *f = t->current;
  sanitizer_after(t, f);
  if (t->post || !f || UNLIKELY(f->flags & FIBER_STATE))
    return resumed_slowly(t);
  *t->errno_address = f->saved_errno;
  return t;
}

static bool in_handler(const struct cfiber_thread *t) {
  return t->exceptions && UNLIKELY(t->exceptions->caught || t->exceptions->uncaught);
}

static inline void enter(struct cfiber_thread *t, struct cfiber *next) {
  t->current = next;
  atomic_store_explicit(&t->running, (uintptr_t)next, memory_order_relaxed);
}

static inline struct cfiber_thread *switch_to(struct cfiber_thread *t, struct cfiber *f,
                                              struct cfiber *next, enum post_action post) {
  if (f) {
    f->saved_errno = *t->errno_address;
    if (in_handler(t))
      save_exceptions(t, f);
    if (UNLIKELY(f->flags & CFIBER_KEEP_FP)) {
      f->fp_control = cfiber_fp_get();
      cfiber_fp_set(t->fp_shared);
    }
  }
  /* The thread's own word is what the last fiber without one of its own has left. */
  if (next && UNLIKELY(next->flags & CFIBER_KEEP_FP) && !(f && f->flags & CFIBER_KEEP_FP))
    t->fp_shared = cfiber_fp_get();
  t->left = f;
  t->post = post;
  if (next) {
    cfiber_count(&t->switches);
    if (next->thread != t)
      next->thread = t;
  }
  sanitizer_before(t, f, next, post >= POST_FINISH);
  enter(t, next);
  void **from = f ? &f->sp : &t->native_sp, *to = next ? next->sp : t->native_sp;
  if (UNLIKELY(!to)) { /* it begins */
    struct stack *s = next->stack;
    return SANITIZER_NO_TAIL(cfiber_switch_begin(from, s->lo, s->hi - s->color, t));
  }
  return SANITIZER_NO_TAIL(cfiber_switch_resume(from, to, t));
}

struct cfiber_thread *cfiber_switch_away(struct cfiber_thread *t, struct cfiber *f,
                                         struct cfiber *next, enum post_action post) {
  if (f && next == f) {
    cfiber_count(&t->switches); /* for the watchdog: it has come back to the scheduler */
    return t;
  }
  return switch_to(t, f, next, post);
}

void cfiber_call(struct cfiber_thread *t, struct cfiber *f, struct cfiber *callee) {
  switch_to(t, f, callee, POST_NONE);
}

struct cfiber_thread *cfiber_reschedule(struct cfiber_thread *t) {
  struct cfiber *f = t->current;
  t->ops = 0;
  if (UNLIKELY(f->flags & FIBER_CALLED))
    cfiber_settle(t, f);
  if (fiber_migratable(f)) {
    struct cfiber *next = cfiber_next(t);
    if (!next && t->tick > 0 && !MIGRATE_ALWAYS) {
      cfiber_count(&t->switches);
      return t;
    }
    return cfiber_switch_away(t, f, next, POST_YIELD);
  }
  list_push(&t->local, f);
  return cfiber_switch_away(t, f, cfiber_next(t), POST_NONE);
}

/*
 * The short way of cfiber_reschedule, for the case that has nothing to save but
 * the context: a fiber at home on the thread, as are all on the list `local`.
 */
static inline bool yields_shortly(struct cfiber_thread *t, struct cfiber *f) {
  return t->local.head && t->local.head->sp &&
         !(f->flags & (CFIBER_MIGRATABLE | CFIBER_KEEP_FP | FIBER_CALLED)) &&
         !(t->local.head->flags & CFIBER_KEEP_FP) && t->tick > 1 && !in_handler(t) &&
         ((t->picks + 1) & 3 || !ring_maybe(t));
}

void cfiber_yield(void) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t)
    return;
  struct cfiber *f = t->current;
  if (!yields_shortly(t, f)) {
    cfiber_reschedule(t);
    return;
  }
  t->ops = 0;
  t->tick--;
  t->picks++;
  struct cfiber *next = list_pop(&t->local);
  list_push(&t->local, f);
  f->saved_errno = *t->errno_address;
  cfiber_count(&t->switches);
  sanitizer_before(t, f, next, false);
  enter(t, next);
  SANITIZER_NO_TAIL(cfiber_switch_resume(&f->sp, next->sp, t));
}

/* ---- Making ready ---------------------------------------------------------- */

void cfiber_thread_wake(struct cfiber_thread *self, struct cfiber_thread *t) {
  if (self)
    cfiber_count(&self->wakes);
  cfiber_poller_wake(&t->poller);
}

/* Pushes the chain first ... last, newest first, on t's ready queue. */
static void hand_over(struct cfiber_thread *self, struct cfiber_thread *t, struct cfiber *first,
                      struct cfiber *last) {
  uintptr_t old = atomic_load_explicit(&t->ready_queue, memory_order_relaxed);
  do {
    last->next = old > READY_BUSY ? (struct cfiber *)old : NULL;
    CHAOS_DELAY(HAND_OVER);
  } while (!atomic_compare_exchange_weak_explicit(&t->ready_queue, &old, (uintptr_t)first,
                                                  memory_order_seq_cst, memory_order_relaxed));
  CHAOS_DELAY(HANDED_OVER);
  if (old == READY_IDLE)
    cfiber_thread_wake(self, t);
}

/*
 * Hands the chain (NULL: an order to look for work) to one idle thread among the
 * next `tries`, and returns it; the caller wakes it.
 */
static struct cfiber_thread *idle_search(struct cfiber_runtime *rt, struct cfiber_thread *self,
                                         struct cfiber *first, struct cfiber *last,
                                         uint32_t tries) {
  uint32_t active = atomic_load_explicit(&rt->active, memory_order_acquire);
  if (tries > active)
    tries = active;
  uint32_t start = atomic_fetch_add_explicit(&rt->idle_search_index, 1, memory_order_relaxed);
  if (first)
    last->next = NULL;
  for (uint32_t i = 0; i < tries; i++) {
    struct cfiber_thread *t = &rt->threads[(start + i) % active];
    uintptr_t idle = READY_IDLE;
    CHAOS_DELAY(IDLE_FOUND);
    if (t != self && atomic_load_explicit(&t->ready_queue, memory_order_relaxed) == READY_IDLE &&
        atomic_compare_exchange_strong_explicit(&t->ready_queue, &idle,
                                                first ? (uintptr_t)first : READY_BUSY,
                                                memory_order_seq_cst, memory_order_relaxed))
      return t;
  }
  return NULL;
}

/* Asks the host for one more thread, if there may be one. */
static void want_thread(struct cfiber_runtime *rt) {
  if (atomic_load_explicit(&rt->reserved, memory_order_relaxed) >=
      atomic_load_explicit(&rt->limit, memory_order_relaxed))
    return;
  if (!atomic_load_explicit(&rt->want_thread, memory_order_relaxed) &&
      !atomic_exchange(&rt->want_thread, 1))
    cfiber_notify(rt);
}

/*
 * Work that any thread may take has been published. Wakes a thread to look for
 * it, unless one is looking already: it will find it, since it looks again
 * after it has announced that it no longer does.
 */
static bool any_idle(struct cfiber_runtime *rt, const struct cfiber_thread *but) {
  uint32_t active = atomic_load(&rt->active);
  for (uint32_t i = 0; i < active; i++)
    if (&rt->threads[i] != but && atomic_load(&rt->threads[i].ready_queue) == READY_IDLE)
      return true;
  return false;
}

static void wake_searcher(struct cfiber_runtime *rt, struct cfiber_thread *self) {
  do {
    if (atomic_load_explicit(&rt->searching, memory_order_seq_cst) != SEARCHING_NOBODY)
      return;
    if (!atomic_load_explicit(&rt->idle, memory_order_seq_cst)) {
      want_thread(rt);
      return;
    }
    uint32_t nobody = SEARCHING_NOBODY;
    CHAOS_DELAY(NOBODY);
    if (!atomic_compare_exchange_strong_explicit(&rt->searching, &nobody, SEARCHING_CHOOSING,
                                                 memory_order_seq_cst, memory_order_relaxed))
      return;
    CHAOS_DELAY(CHOOSING);
    struct cfiber_thread *t = idle_search(rt, self, NULL, NULL, UINT32_MAX);
    CHAOS_DELAY(CHOSEN);
    /* Before the wake: a thread must not fall asleep again as the one who searches. */
    CFIBER_ANNOUNCE(&rt->searching, t ? t->index + 1 : SEARCHING_NOBODY);
    if (t) {
      CHAOS_DELAY(CHOICE_NOTED);
      cfiber_thread_wake(self, t);
      return;
    }
    CHAOS_DELAY(NONE_CHOSEN);
    /* Others may have relied on the choice meanwhile, and a thread that was passed
     * over may have fallen idle since, before their work was there. */
  } while (any_idle(rt, self));
}

static void inject(struct cfiber_runtime *rt, struct cfiber *first, struct cfiber *last) {
  uintptr_t old = atomic_load_explicit(&rt->injected, memory_order_relaxed);
  do {
    last->next = (struct cfiber *)old;
    CHAOS_DELAY(INJECT);
  } while (!atomic_compare_exchange_weak_explicit(&rt->injected, &old, (uintptr_t)first,
                                                  memory_order_seq_cst, memory_order_relaxed));
}

/*
 * An entry has been taken off a ring. Returns its fiber, which nobody can claim any
 * more, or NULL if somebody has.
 */
static struct cfiber *void_or_fiber(struct cfiber_thread *t, struct cfiber *f) {
  if (atomic_load_explicit(&f->queued, memory_order_relaxed) == QUEUE_NONE)
    return f;
  CHAOS_DELAY(VOID);
  switch (atomic_exchange_explicit(&f->queued, QUEUE_NONE, memory_order_acq_rel)) {
  case QUEUE_CLAIMED:
    return NULL;
  case QUEUE_ENDED:
    cfiber_fiber_release(t, f);
    return NULL;
  }
  return f;
}

/* Whether the entry is void. It may become so at any time. */
static bool is_void(const struct cfiber *f) {
  return atomic_load_explicit(&f->queued, memory_order_relaxed) >= QUEUE_CLAIMED;
}

/*
 * A full ring is cleared of void entries. If that does not help it sheds the older
 * half to the global queue.
 */
__attribute__((noinline)) static void make_room(struct cfiber_thread *t) {
  struct cfiber *all[RING_SIZE], *f;
  uint32_t n = ring_pop_all(t, all), kept = 0;
  CHAOS_DELAY(TAKEN);
  for (uint32_t i = 0; i < n; i++)
    if (!is_void(all[i]))
      all[kept++] = all[i];
    else
      void_or_fiber(t, all[i]);
  uint32_t shed = kept > RING_SIZE / 2 ? RING_SIZE / 2 : 0;
  for (uint32_t i = 0; i < shed; i++)
    if ((f = void_or_fiber(t, all[i])) != NULL)
      inject(t->runtime, f, f);
  for (uint32_t i = shed; i < kept; i++)
    ring_push(t, all[i]);
  wake_searcher(t->runtime, t); /* as in steal: they were on no queue for a moment */
}

static void push_movable(struct cfiber_thread *t, struct cfiber *f) {
  while (UNLIKELY(!ring_push(t, f)))
    make_room(t);
}

void cfiber_schedule(struct cfiber_runtime *rt, struct cfiber_thread *self,
                     struct fiber_list list) {
  /* Queues that take whole lists are newest first. */
  struct cfiber *first = NULL, *last = list.head, *f;
  while ((f = list_pop(&list)) != NULL) {
    f->next = first;
    first = f;
  }
  struct cfiber_thread *t = NULL;
  /* One who searches is awake, and there sooner than any who sleeps. */
  if (atomic_load_explicit(&rt->idle, memory_order_relaxed) &&
      atomic_load_explicit(&rt->searching, memory_order_relaxed) == SEARCHING_NOBODY)
    t = idle_search(rt, self, first, last, MAX_IDLE_SEARCH);
  if (t) {
    cfiber_thread_wake(self, t);
    return;
  }
  inject(rt, first, last);
  CHAOS_DELAY(PUBLISHED);
  wake_searcher(rt, self);
}

void cfiber_ready(struct cfiber_thread *self, struct cfiber *f) {
  if (self && self->runtime != f->runtime)
    self = NULL;
  if (!fiber_movable(f)) {
    __builtin_prefetch(f->sp, 1); /* its stack is cold, most likely */
    __builtin_prefetch((char *)f->sp + CACHE_LINE, 1);
    if (f->thread == self)
      list_push(&self->local, f);
    else
      hand_over(self, f->thread, f, f);
    return;
  }
  if (!self) {
    f->next = NULL;
    cfiber_schedule(f->runtime, NULL, (struct fiber_list){f, f});
    return;
  }
  push_movable(self, f);
  CHAOS_DELAY(PUBLISHED);
  if (self->runtime->allocated > 1)
    wake_searcher(self->runtime, self);
}

/* ---- Finding ----------------------------------------------------------------- */

/*
 * t has just put n fibers on its ring that it has not told of one by one. It
 * need not tell of the only one if that is what it runs next. Whatever else its
 * queues hold may be run first, and for long.
 */
static void offer(struct cfiber_thread *t, uint32_t n) {
  if (n > 1 || (n > 0 && (t->local.head || ring_size(t) > 1)))
    wake_searcher(t->runtime, t);
}

void cfiber_offer_ring(struct cfiber_thread *t) {
  if (ring_maybe(t) && t->runtime->allocated > 1)
    wake_searcher(t->runtime, t);
}

/* Sorts a list, newest first, into t's queues. */
static void accept_list(struct cfiber_thread *t, uintptr_t head) {
  struct cfiber *f = (struct cfiber *)head, *oldest = NULL, *next;
  for (; f; f = next) {
    next = f->next;
    f->next = oldest;
    oldest = f;
  }
  uint32_t movable = 0;
  for (f = oldest; f; f = next) {
    next = f->next;
    if (fiber_movable(f)) {
      push_movable(t, f);
      movable++;
    } else {
      list_push(&t->local, f);
    }
  }
  offer(t, movable);
}

static bool handed_over(const struct cfiber_thread *t) {
  return atomic_load_explicit(&t->ready_queue, memory_order_relaxed) > READY_BUSY;
}

static bool take_handed_over(struct cfiber_thread *t) {
  if (!handed_over(t))
    return false;
  CHAOS_DELAY(TAKE_LIST);
  uintptr_t list = atomic_exchange_explicit(&t->ready_queue, READY_BUSY, memory_order_seq_cst);
  if (list == READY_BUSY)
    return false; /* the watchdog, which took the thread for stuck, was faster */
  CHAOS_DELAY(RETURNED);
  accept_list(t, list);
  return true;
}

/*
 * -DCFIBER_MIGRATE_ALWAYS, for tests: a migratable fiber goes on on another thread after
 * each switch, where there is one. True: f, which t has run last, has been sent there.
 */
static inline bool migrates(struct cfiber_thread *t, struct cfiber *f) {
#ifdef CFIBER_MIGRATE_ALWAYS
  struct cfiber_runtime *rt = t->runtime;
  uint32_t active = atomic_load(&rt->active);
  if (active < 2 || !fiber_migratable(f) || f->thread != t)
    return false;
  struct cfiber_thread *to = idle_search(rt, t, f, f, active);
  if (to)
    cfiber_thread_wake(t, to);
  else
    hand_over(t, &rt->threads[(t->index + 1 + t->picks % (active - 1)) % active], f, f);
  return true;
#else
  (void)t, (void)f;
  return false;
#endif
}

static struct cfiber *pop_movable(struct cfiber_thread *t) {
  struct cfiber *f;
  t->ring_served = t->now;
  while ((f = ring_pop(t)) != NULL && (!(f = void_or_fiber(t, f)) || migrates(t, f)))
    continue;
  return f;
}

/*
 * A fiber from t's own queues, with a stack. Those that stay here and those
 * that may move have a queue each; every fourth pick favours the latter, so
 * neither starves the other.
 */
static struct cfiber *own(struct cfiber_thread *t) {
  CHAOS_REORDER(t);
  for (;;) {
    struct cfiber *f = NULL;
    if ((++t->picks & 3) == 0)
      f = pop_movable(t);
    if (!f && !(f = list_pop(&t->local)) && !(f = pop_movable(t))) {
      if (take_handed_over(t))
        continue;
      return NULL;
    }
    if (LIKELY(f->flags & FIBER_STARTED) || cfiber_fiber_prepare(t, f))
      return f;
  }
}

struct cfiber *cfiber_next(struct cfiber_thread *t) {
  return --t->tick > 0 ? own(t) : NULL;
}

/* Moves what was injected to the global queue, whose lock is held. Returns its new length. */
static uint32_t admit_injected(struct cfiber_runtime *rt) {
  struct cfiber *f = (struct cfiber *)atomic_exchange(&rt->injected, 0), *oldest = NULL, *next;
  CHAOS_DELAY(GLOBAL);
  uint32_t size = atomic_load_explicit(&rt->global_size, memory_order_relaxed);
  for (; f; f = next) {
    next = f->next;
    f->next = oldest;
    oldest = f;
  }
  for (f = oldest; f; f = next) {
    next = f->next;
    list_push(&rt->global, f);
    size++;
  }
  return size;
}

/*
 * Takes a fair share of the global queue, at most `max`. Returns how many, and in
 * *was how many there were.
 */
static uint32_t take_global(struct cfiber_thread *t, struct cfiber **taken, uint32_t max,
                            uint32_t *was) {
  struct cfiber_runtime *rt = t->runtime;
  if (!atomic_load_explicit(&rt->injected, memory_order_relaxed) &&
      !atomic_load_explicit(&rt->global_size, memory_order_relaxed))
    return 0;
  cfiber_lock(&rt->global_lock);
  struct cfiber *f;
  uint32_t size = admit_injected(rt);
  uint32_t share = size / atomic_load_explicit(&rt->active, memory_order_relaxed) + 1;
  uint32_t n = 0;
  while (n < share && n < max && (f = list_pop(&rt->global)) != NULL)
    taken[n++] = f;
  atomic_store_explicit(&rt->global_size, size - n, memory_order_seq_cst);
  cfiber_unlock(&rt->global_lock);
  *was = size;
  return n;
}

/* To the ring, for a thread that has nothing to do. */
static bool refill_from_global(struct cfiber_thread *t) {
  struct cfiber *taken[RING_SIZE / 2];
  uint32_t size = 0, n = take_global(t, taken, RING_SIZE / 2, &size);
  CHAOS_DELAY(TAKEN);
  for (uint32_t i = 0; i < n; i++)
    push_movable(t, taken[i]);
  offer(t, size);
  return n > 0;
}

/*
 * A few, for a thread that has others on its ring: these come from outside, or have waited longer.
 * The first is what the thread runs next. The others may not be put there too: once that one
 * blocks the thread, nobody could take them.
 */
static void admit_from_global(struct cfiber_thread *t) {
  enum { FEW = 4 };
  struct cfiber *taken[FEW];
  uint32_t size = 0, n = take_global(t, taken, FEW, &size);
  CHAOS_DELAY(TAKEN);
  for (uint32_t i = 0; i < n; i++) {
    if (t->local.head || (taken[i]->flags & FIBER_STARTED)) {
      push_movable(t, taken[i]);
    } else if (cfiber_fiber_prepare(t, taken[i])) {
      list_push(&t->local, taken[i]);
      t->picks = 0;
    }
  }
  offer(t, size);
}

/*
 * True if there is something on the victim's ring to take. A lone fiber is most
 * likely about to be run by the thread that has just made it ready; taking it
 * away costs both threads more than it gains, so the owner is given a moment
 * first. One that is pushed meanwhile does not get lost: its producer looks
 * for idle threads by itself.
 */
static bool worth_stealing(struct cfiber_thread *victim) {
  uint32_t size = ring_size(victim);
  if (size != 1)
    return size > 1;
  uint32_t head = atomic_load_explicit(&victim->ring_head, memory_order_relaxed);
  for (unsigned i = 0; i < 32; i++)
    cfiber_relax();
  return atomic_load_explicit(&victim->ring_head, memory_order_relaxed) == head;
}

/* Takes half of another thread's ring. */
static bool steal(struct cfiber_thread *t) {
  struct cfiber_runtime *rt = t->runtime;
  uint32_t active = atomic_load_explicit(&rt->active, memory_order_acquire);
  for (uint32_t i = 0; i < MAX_STEAL_READY_SEARCH && i < active; i++) {
    struct cfiber_thread *victim = &rt->threads[t->steal_index++ % active];
    if (victim == t || !worth_stealing(victim))
      continue;
    struct cfiber *taken[RING_SIZE / 2];
    uint32_t n = ring_grab(victim, taken);
    CHAOS_DELAY(TAKEN);
    for (uint32_t k = 0; k < n; k++)
      push_movable(t, taken[k]);
    if (n) {
      t->steal_index--; /* there may be more where this came from */
      cfiber_count(&t->steals);
      CHAOS_DELAY(PUBLISHED);
      /* While they moved they were on no queue, and a searcher may have looked in vain. */
      if (n > 1)
        wake_searcher(rt, t);
      return true;
    }
  }
  return false;
}

/* True if there is something that t could take. Sequentially consistent reads. */
static bool work_elsewhere(struct cfiber_thread *t) {
  struct cfiber_runtime *rt = t->runtime;
  if (atomic_load(&rt->injected) || atomic_load(&rt->global_size))
    return true;
  uint32_t active = atomic_load(&rt->active);
  for (uint32_t i = 0; i < active; i++) {
    if (&rt->threads[i] != t && worth_stealing(&rt->threads[i])) {
      t->steal_index = i;
      return true;
    }
  }
  return false;
}

/* ---- What is queued behind a fiber that does not come back ------------------------- */

void cfiber_shed_ring(struct cfiber_thread *t) {
  struct cfiber *taken[RING_SIZE / 2], *f;
  for (uint32_t n; (n = ring_grab(t, taken)) > 0;)
    for (uint32_t i = 0; i < n; i++)
      if ((f = void_or_fiber(NULL, taken[i])) != NULL)
        inject(t->runtime, f, f);
}

static bool canceled_unstarted(const struct cfiber *f) {
  return (f->flags & (FIBER_GO | FIBER_STARTED)) == FIBER_GO &&
         (atomic_load_explicit(&f->wait, memory_order_acquire) & WAIT_CANCEL);
}

struct cfiber *cfiber_take_canceled(struct cfiber_runtime *rt) {
  struct cfiber *f, *canceled = NULL;
  struct fiber_list kept = {0};
  cfiber_lock(&rt->global_lock);
  uint32_t size = admit_injected(rt);
  while ((f = list_pop(&rt->global)) != NULL) {
    if (canceled_unstarted(f)) {
      f->next = canceled;
      canceled = f;
      size--;
    } else {
      list_push(&kept, f);
    }
  }
  rt->global = kept;
  atomic_store_explicit(&rt->global_size, size, memory_order_seq_cst);
  cfiber_unlock(&rt->global_lock);
  if (size)
    wake_searcher(rt, NULL); /* as in steal: they were on no queue for a moment */
  return canceled;
}

/* ---- Looking around and idling ------------------------------------------------ */

/* Chooses the next tick so that the scheduler looks around every LOOK_INTERVAL. */
static void set_tick(struct cfiber_thread *t, int64_t elapsed) {
  int64_t used = t->tick_span - t->tick;
  int64_t span = elapsed > 0 ? used * LOOK_INTERVAL / elapsed : TICK_SPAN;
  t->tick_span = span < 1 ? 1 : span > TICK_SPAN ? TICK_SPAN : (int32_t)span;
  /* cfiber_next counts down before it looks. */
  t->tick = ++t->tick_span;
}

/* Tells the host of completions that it has not been told of. */
static void tell_rest(struct cfiber_thread *t) {
  t->told = t->tell;
  if (t->tell) {
    t->tell = false;
    cfiber_notify(t->runtime);
  }
}

/* What must happen now and then while there are fibers to run. */
void cfiber_look_around(struct cfiber_thread *t) {
  int64_t now = cfiber_now();
  set_tick(t, now - t->now);
  t->now = now;
  tell_rest(t);
  if (now - t->last_poll >= POLL_INTERVAL) {
    t->last_poll = now;
    cfiber_poller_wait(t, 0);
  }
  cfiber_timers_fire(t, now);
  take_handed_over(t);
  if (!ring_maybe(t))
    refill_from_global(t);
  else if (!t->local.head)
    admit_from_global(t);
}

/* How long the thread may wait: until its first timer, or there are stacks to trim. Negative: for
 * ever. */
static int64_t patience(struct cfiber_thread *t) {
  int64_t earliest = atomic_load_explicit(&t->timers.earliest, memory_order_relaxed);
  int64_t trim_at = atomic_load_explicit(&t->runtime->trim_at, memory_order_relaxed);
  if (trim_at < earliest)
    earliest = trim_at;
  if (earliest < t->last_poll + t->timer_spacing)
    earliest = t->last_poll + t->timer_spacing;
  if (earliest == INT64_MAX)
    return -1;
  int64_t left = earliest - cfiber_now();
  return left > 0 ? left : 0;
}

/* Whether t is the thread that was woken to look for work. */
static bool is_searching(const struct cfiber_thread *t) {
  return atomic_load_explicit(&t->runtime->searching, memory_order_seq_cst) == t->index + 1;
}

static void stop_searching(struct cfiber_thread *t) {
  CFIBER_ANNOUNCE(&t->runtime->searching, SEARCHING_NOBODY);
}

/* Makes t the one who searches, unless there is one. */
static void take_up_search(struct cfiber_thread *t) {
  uint32_t nobody = SEARCHING_NOBODY;
  atomic_compare_exchange_strong(&t->runtime->searching, &nobody, t->index + 1);
}

/*
 * Somebody may have just chosen this thread to search, and not have noted it
 * yet. The thread must know before it runs a fiber, however long that takes.
 */
static void await_choice(struct cfiber_runtime *rt) {
  for (unsigned spins = 0;
       atomic_load_explicit(&rt->searching, memory_order_seq_cst) == SEARCHING_CHOOSING;) {
    if (++spins < 64)
      cfiber_relax();
    else
      sched_yield(); /* the chooser may be descheduled */
  }
}

/*
 * Whether lingering pays: each short wait speaks for it, and each time in vain requires
 * twice as many of them, until it has paid as often.
 */
static void waited(struct cfiber_thread *t, bool shortly) {
  if (shortly && t->linger < 1)
    t->linger++;
}

static void lingered(struct cfiber_thread *t, bool in_vain) {
  if (!in_vain) {
    t->linger_penalty -= t->linger_penalty > 0;
    return;
  }
  if (t->linger_penalty < LINGER_PENALTY_MAX)
    t->linger_penalty = 2 * t->linger_penalty + 1;
  t->linger = -t->linger_penalty;
}

/* Waits for something to come, awake, as the one who searches. */
static bool linger_until(struct cfiber_thread *t, int64_t until) {
  struct cfiber_runtime *rt = t->runtime;
  do {
    for (unsigned i = 0; i < 32; i++) {
      if (handed_over(t) || atomic_load_explicit(&rt->injected, memory_order_relaxed))
        return true;
      cfiber_relax();
    }
    if (work_elsewhere(t) || atomic_load_explicit(&rt->stop, memory_order_relaxed))
      return true;
  } while (cfiber_now() < until);
  return false;
}

/* True: there is something, and t need not sleep. */
static bool linger(struct cfiber_thread *t) {
  int64_t until = (t->idle_since = cfiber_now()) + LINGER;
  if (t->linger <= 0 || !t->runtime->may_linger ||
      atomic_load_explicit(&t->timers.earliest, memory_order_relaxed) < until)
    return false;
  take_up_search(t);
  if (!is_searching(t))
    return false;
  CHAOS_DELAY(LINGER);
  bool came = linger_until(t, until);
  CHAOS_DELAY(LINGERED);
  lingered(t, !came);
  return came;
}

/* Sleeps until there is something to do. */
static void idle(struct cfiber_thread *t) {
  struct cfiber_runtime *rt = t->runtime;
  /* Asked before the announcement: once idle, t may be chosen anew, and keeps that order. */
  bool searching = is_searching(t);
  uintptr_t expected = READY_BUSY;
  CHAOS_DELAY(ANNOUNCE);
  if (!atomic_compare_exchange_strong_explicit(&t->ready_queue, &expected, READY_IDLE,
                                               memory_order_seq_cst, memory_order_relaxed))
    return; /* something has been handed over */
  CHAOS_DELAY(ANNOUNCED);
  atomic_fetch_add_explicit(&rt->idle, 1, memory_order_seq_cst);
  CHAOS_DELAY(COUNTED);
  if (searching)
    stop_searching(t);
  CHAOS_DELAY(LAST_LOOK);

  /* Announced; now look again. */
  if (work_elsewhere(t)) {
    /* Others relied on t when it gave the search up. If it took some of that work as one
     * who does not search, nobody would look for the rest. */
    CHAOS_DELAY(FOUND);
    if (searching)
      take_up_search(t);
  } else if (!atomic_load(&rt->stop)) {
    if (atomic_load(&rt->draining))
      cfiber_notify(rt);
    cfiber_count(&t->waits);
    CHAOS_DELAY(SLEEP);
    cfiber_poller_wait(t, patience(t));
  }
  CHAOS_DELAY(AWAKE);

  uintptr_t handed = atomic_exchange_explicit(&t->ready_queue, READY_BUSY, memory_order_seq_cst);
  CHAOS_DELAY(BUSY);
  atomic_fetch_sub_explicit(&rt->idle, 1, memory_order_seq_cst);
  CHAOS_DELAY(RETURNED);
  /* Counted first: the watchdog tells that it sleeps, then counts the idle. */
  if (atomic_load(&rt->watchdog_asleep) && atomic_exchange(&rt->watchdog_asleep, 0))
    cfiber_notify(rt);
  if (handed != READY_IDLE)
    await_choice(rt);
  int64_t since = t->last_poll;
  t->now = t->last_poll = cfiber_now();
  if (handed > READY_BUSY) /* an order to search is no reason to: others' rings are theirs first */
    waited(t, t->now - t->idle_since < 2 * LINGER);
  t->tick = t->tick_span;
  uint32_t fired = cfiber_timers_fire(t, t->now);
  t->timer_spacing = cfiber_timer_spacing(fired, t->now - since);
  if (handed > READY_BUSY)
    accept_list(t, handed); /* last, for it tells of what may have to wait for the others */
}

struct cfiber *cfiber_find_ready_fiber(struct cfiber_thread *t) {
  for (;;) {
    if (t->tick <= 0)
      cfiber_look_around(t);
    struct cfiber *f = own(t);
    if (!f && (refill_from_global(t) || steal(t)))
      f = own(t);
    if (f) {
      if (UNLIKELY(is_searching(t))) {
        CHAOS_DELAY(FOUND);
        stop_searching(t);
        CHAOS_DELAY(GIVEN_UP);
        if (ring_size(t) || work_elsewhere(t))
          wake_searcher(t->runtime, t);
      }
      return f;
    }
    tell_rest(t);
    if (atomic_load_explicit(&t->runtime->stop, memory_order_acquire)) {
      if (is_searching(t))
        stop_searching(t);
      return NULL;
    }
    if (cfiber_stacks_trim(t->runtime, t->now))
      cfiber_look_around(t); /* it has taken a while */
    else if (!linger(t))
      idle(t);
  }
}
