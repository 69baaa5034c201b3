/*
 * fiber.c - the life of a fiber: spawn, first entry, end.
 *
 * The record of a fiber (struct cfiber) is taken at spawn, its stack only when
 * it first runs: of a million fibers spawned, those that wait for their turn
 * cost 192 bytes each, and the stack that one has just left is warm for the
 * next.
 */
#include "sanitizer.h"
#include "switch.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Records ------------------------------------------------------------- */

uint64_t cfiber_id_block(uint32_t n) {
  static _Atomic(uint64_t) next = 1;
  return atomic_fetch_add_explicit(&next, n, memory_order_relaxed);
}

static uint64_t new_id(struct cfiber_thread *t) {
  enum { BLOCK = 1024 };
  if (t->next_id == t->last_id) {
    t->next_id = cfiber_id_block(BLOCK);
    t->last_id = t->next_id + BLOCK;
  }
  return t->next_id++;
}

struct cfiber *cfiber_fiber_at(struct cfiber_runtime *rt, uint32_t index) {
  return &rt->slabs[index / FIBERS_PER_SLAB][index % FIBERS_PER_SLAB];
}

/* The next record of the slabs, mapping a slab where needed. Lock held. */
static struct cfiber *new_record(struct cfiber_runtime *rt, int *error) {
  if (rt->nfibers >= rt->max_fibers) {
    *error = EAGAIN;
    return NULL;
  }
  uint32_t index = rt->nfibers, slab = index / FIBERS_PER_SLAB;
  if (!rt->slabs[slab]) {
    rt->slabs[slab] = cfiber_map_zeroed(FIBERS_PER_SLAB * sizeof(struct cfiber));
    if (!rt->slabs[slab]) {
      *error = ENOMEM;
      return NULL;
    }
  }
  struct cfiber *f = cfiber_fiber_at(rt, index);
  f->index = index;
  f->runtime = rt;
  rt->nfibers++;
  return f;
}

uint32_t cfiber_fiber_alloc(struct cfiber_runtime *rt, uint32_t n, struct cfiber **out,
                            int *error) {
  uint32_t got = 0;
  cfiber_lock(&rt->memory_lock);
  while (got < n) {
    struct cfiber *f = rt->free_fibers;
    if (f)
      rt->free_fibers = f->next;
    else if (!(f = new_record(rt, error)))
      break;
    out[got++] = f;
  }
  cfiber_unlock(&rt->memory_lock);
  return got;
}

void cfiber_fiber_free(struct cfiber_runtime *rt, uint32_t n, struct cfiber **fibers) {
  cfiber_lock(&rt->memory_lock);
  for (uint32_t i = 0; i < n; i++) {
    fibers[i]->next = rt->free_fibers;
    rt->free_fibers = fibers[i];
  }
  cfiber_unlock(&rt->memory_lock);
}

/* Fills or empties a thread's own list of records, a batch at a time. */
static int refill_records(struct cfiber_thread *t) {
  struct cfiber *batch[FIBER_CACHE];
  uint32_t want = t->runtime->fiber_batch ? t->runtime->fiber_batch : 1;
  int error = 0;
  uint32_t n = cfiber_fiber_alloc(t->runtime, want, batch, &error);
  while (n > 0) {
    struct cfiber *f = batch[--n];
    f->next = t->free_fibers;
    t->free_fibers = f;
    t->nfree_fibers++;
  }
  return t->free_fibers ? 0 : error;
}

static void spill_records(struct cfiber_thread *t) {
  struct cfiber *batch[FIBER_CACHE];
  uint32_t n = 0, spill = t->runtime->fiber_batch ? t->runtime->fiber_batch : 1;
  while (n < spill && t->free_fibers) {
    batch[n++] = t->free_fibers;
    t->free_fibers = t->free_fibers->next;
  }
  t->nfree_fibers -= n;
  cfiber_fiber_free(t->runtime, n, batch);
}

void cfiber_fiber_release(struct cfiber_thread *t, struct cfiber *f) {
  uint8_t claimed = QUEUE_CLAIMED;
  if (UNLIKELY(atomic_load_explicit(&f->queued, memory_order_relaxed) == QUEUE_CLAIMED) &&
      atomic_compare_exchange_strong_explicit(&f->queued, &claimed, QUEUE_ENDED,
                                              memory_order_acq_rel, memory_order_relaxed))
    return; /* its entry is still on a queue: who finds it there releases the fiber */
  if (!t || t->runtime != f->runtime) {
    cfiber_fiber_free(f->runtime, 1, &f);
    return;
  }
  f->next = t->free_fibers;
  t->free_fibers = f;
  if (++t->nfree_fibers > 2 * t->runtime->fiber_batch)
    spill_records(t);
}

/* ---- Spawn ----------------------------------------------------------------- */

static int check_attr(const struct cfiber_attr *attr) {
  if (attr->flags & ~(CFIBER_MIGRATABLE | CFIBER_KEEP_FP | CFIBER_DETACHED))
    return EINVAL;
  if (attr->stack_size &&
      (attr->stack_size < CFIBER_STACK_MIN || attr->stack_size > CFIBER_STACK_MAX))
    return EINVAL;
  return 0;
}

static void set_name(struct cfiber *f, const char *name) {
  size_t n = strnlen(name, CFIBER_NAME_MAX - 1);
  memcpy(f->name, name, n);
  f->name[n] = 0;
}

static void init_record(struct cfiber *f, cfiber_func fn, void *arg, const struct cfiber_attr *attr,
                        uint32_t flags, uint64_t id) {
  uint64_t epoch = atomic_load_explicit(&f->wait, memory_order_relaxed) >> WAIT_EPOCH_SHIFT;
  f->flags = attr->flags | flags | (f->runtime->migrate ? CFIBER_MIGRATABLE : 0);
  f->error = 0;
  f->thread = NULL;
  f->stack = NULL;
  f->fn = fn;
  f->arg = arg;
  f->id = id;
  f->stack_size = attr->stack_size;
  f->deadline = 0;
  f->shield = 0;
  atomic_store_explicit(&f->queued, QUEUE_NONE, memory_order_relaxed);
  f->name[0] = 0;
  if (attr->name)
    set_name(f, attr->name);
  /* A fiber of the host is the host's to collect: for C it is a detached one. */
  bool detached = (attr->flags & CFIBER_DETACHED) || (flags & FIBER_GO);
  atomic_store_explicit(&f->joiner, detached ? JOINER_DETACHED : JOINER_NONE, memory_order_relaxed);
  atomic_store_explicit(&f->wait, epoch << WAIT_EPOCH_SHIFT | WAIT_LIVE, memory_order_relaxed);
}

static const struct cfiber_attr default_attr;

cfiber_t *cfiber_spawn(cfiber_func fn, void *arg, const struct cfiber_attr *attr) {
  struct cfiber_thread *t = cfiber_thread_self();
  int e = 0;
  if (!attr)
    attr = &default_attr;
  if (!fn || (e = check_attr(attr)) != 0)
    return cfiber_fail(EINVAL), NULL;
  if (!t || !t->current)
    return cfiber_fail(EPERM), NULL;
  struct cfiber_runtime *rt = t->runtime;
  if (UNLIKELY(atomic_load_explicit(&rt->closing, memory_order_relaxed)))
    return cfiber_fail(ECANCELED), NULL;
  if (UNLIKELY(!t->nfree_stacks || attr->stack_size) &&
      (e = cfiber_stack_reserve(t, attr->stack_size)) != 0)
    return cfiber_fail(e), NULL;
  if (UNLIKELY(!t->free_fibers) && (e = refill_records(t)) != 0)
    return cfiber_fail(e), NULL;

  struct cfiber *f = t->free_fibers;
  t->free_fibers = f->next;
  t->nfree_fibers--;
  init_record(f, fn, arg, attr, 0, new_id(t));
  f->spawner = (uint16_t)t->index;
  if (!fiber_migratable(f))
    atomic_store_explicit(&f->queued, QUEUE_CLAIMABLE, memory_order_relaxed);
  cfiber_count(&t->spawned);
  cfiber_ready(t, f);
  CHAOS_DELAY(SPAWN);
  /* Whoever closes the runtime sets this, then cancels those that are live. */
  if (UNLIKELY(atomic_load_explicit(&rt->closing, memory_order_seq_cst)))
    cfiber_cancel(f);
  return f;
}

int cfiber_spawn_outside(struct cfiber_runtime *rt, cfiber_func fn, void *arg) {
  struct cfiber *f;
  int e = 0;
  if (!cfiber_fiber_alloc(rt, 1, &f, &e))
    return e;
  init_record(f, fn, arg, &default_attr, FIBER_GO, cfiber_id_block(1));
  cfiber_ready(NULL, f);
  return 0;
}

/* ---- First entry and end ------------------------------------------------------ */

/*
 * The fiber that waits in cfiber_join for f, if the thread may switch straight
 * to it: then it is claimed. Bounded, so that others get their turn.
 */
static struct cfiber *straight_to_joiner(struct cfiber_thread *t, struct cfiber *f) {
  enum { STRAIGHT_MAX = 3 };
  uintptr_t j = atomic_load_explicit(&f->joiner, memory_order_acquire);
  if (j <= JOINER_LAST_VALUE)
    return NULL;
  struct cfiber *joiner = (struct cfiber *)j;
  uint64_t epoch = atomic_load_explicit(&joiner->join_epoch, memory_order_acquire);
  if (!epoch || fiber_migratable(joiner) || joiner->thread != t)
    return NULL;
  CHAOS_DELAY(STRAIGHT);
  if ((++t->straight & STRAIGHT_MAX) == 0 && t->local.head)
    return NULL;
  return cfiber_claim(joiner, epoch, WAKE_EVENT) ? joiner : NULL;
}

/*
 * What a fresh context calls; it runs on the fiber's own stack. Its last call
 * does not return, and is not followed by anything, so that the compiler makes
 * it a jump: then the return predictor is in step for whoever is resumed.
 */
void cfiber_first(struct cfiber_thread *t) {
  struct cfiber *f = t->current;
  cfiber_resumed(t);
  intptr_t result = f->fn(f->arg);

  t = cfiber_thread_self(); /* it may have migrated */
  if (UNLIKELY(!t))
    _exit((int)result); /* a forked child: there is nothing to return to */
  struct cfiber *joiner = f->flags & FIBER_CALLED ? cfiber_call_ends(t, f) : NULL;
  f->result = result; /* where the caller stood */
  if (joiner || (joiner = straight_to_joiner(t, f)) != NULL)
    cfiber_switch_away(t, f, joiner, POST_FINISH_JOINED);
  else
    cfiber_switch_away(t, f, cfiber_next(t), POST_FINISH);
}

bool cfiber_fiber_prepare(struct cfiber_thread *t, struct cfiber *f) {
  f->error = cfiber_stack_alloc(t, f->stack_size, &f->stack);
  if (UNLIKELY(f->error)) {
    f->stack = NULL;
    cfiber_fiber_finish(t, f);
    return false;
  }
  f->flags |= FIBER_STARTED;
  atomic_store_explicit(&f->stack->owner, f, memory_order_relaxed);
  f->fp_control = t->fp_control;
  f->saved_errno = 0;
  f->sp = NULL; /* it begins */
  sanitizer_fiber_start(f);
  return true;
}

/*
 * Tells the host of a first completion at once. The next ones, within the interval in
 * which the scheduler looks around, wait for its end: each telling is a system call,
 * and wakes somebody.
 */
static void tell_host(struct cfiber_thread *t) {
  if (t->told) {
    t->tell = true;
  } else {
    t->told = true;
    cfiber_notify(t->runtime);
  }
}

static void publish_to_go(struct cfiber_thread *t, struct cfiber *f) {
  struct cfiber_runtime *rt = f->runtime;
  uintptr_t old = atomic_load_explicit(&rt->completions, memory_order_relaxed);
  do {
    f->next = (struct cfiber *)old;
    CHAOS_DELAY(COMPLETION);
  } while (!atomic_compare_exchange_weak_explicit(&rt->completions, &old, (uintptr_t)f,
                                                  memory_order_seq_cst, memory_order_relaxed));
  CHAOS_DELAY(TELL);
  tell_host(t);
}

static void publish_to_joiner(struct cfiber_thread *t, struct cfiber *f) {
  uintptr_t j = atomic_exchange(&f->joiner, JOINER_FINISHING);
  if (j == JOINER_DETACHED) {
    /* Who joins it by mistake, or is about to while it is detached, is told so even now. */
    atomic_store_explicit(&f->joiner, JOINER_DETACHED, memory_order_release);
    cfiber_fiber_release(t, f);
    return;
  }
  CHAOS_DELAY(FINISHING);
  /* From the store on, f is the joiner's to free, and the joiner may go on. */
  uint64_t epoch = j > JOINER_LAST_VALUE ? atomic_load(&((struct cfiber *)j)->join_epoch) : 0;
  atomic_store_explicit(&f->joiner, j == JOINER_NONE ? JOINER_FINISHED : JOINER_JOINED,
                        memory_order_release);
  CHAOS_DELAY(FINISHED);
  if (j == JOINER_THREAD) {
    cfiber_wake_joining_threads();
  } else if (j > JOINER_LAST_VALUE) {
    cfiber_wake(t, (struct cfiber *)j, epoch, WAKE_EVENT);
  }
}

/* Frees the stack of an ended fiber, and counts it. */
static void release(struct cfiber_thread *t, struct cfiber *f) {
  CHAOS_DELAY(END);
  if (f->stack) {
    sanitizer_fiber_end(f);
    atomic_store_explicit(&f->stack->owner, NULL, memory_order_relaxed);
    cfiber_stack_free(t, f->stack);
    f->stack = NULL;
  }
  /* No wait is open, so the only other writer is a cancel, which may as well come too late. */
  uint64_t word = atomic_load_explicit(&f->wait, memory_order_relaxed);
  atomic_store_explicit(&f->wait, word & ~(WAIT_LIVE | WAIT_STATE), memory_order_release);
  cfiber_count(&t->finished);
}

void cfiber_fiber_finish_joined(struct cfiber_thread *t, struct cfiber *f) {
  release(t, f);
  CHAOS_DELAY(FINISHED);
  atomic_store_explicit(&f->joiner, JOINER_JOINED, memory_order_release);
}

void cfiber_fiber_finish(struct cfiber_thread *t, struct cfiber *f) {
  release(t, f);
  if (f->flags & FIBER_GO)
    publish_to_go(t, f);
  else
    publish_to_joiner(t, f);
}

/* ---- Identity -------------------------------------------------------------------- */

cfiber_t *cfiber_self(void) {
  struct cfiber_thread *t = cfiber_thread_self();
  return t ? t->current : NULL;
}

uint64_t cfiber_id(const cfiber_t *f) {
  return f ? f->id : 0;
}

const char *cfiber_name(const cfiber_t *f) {
  return f ? f->name : "";
}
