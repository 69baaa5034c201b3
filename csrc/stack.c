/*
 * stack.c - stacks: slabs, guards, pools.
 *
 * Stacks are cut from slabs, one mapping for many, each stack above a guard:
 *
 *      | guard | stack 0 | guard | stack 1 | ...
 *
 * The kernel's limit of mappings (vm.max_map_count) allows some 32,000 guards
 * made with mprotect. MADV_GUARD_INSTALL (Linux 6.13) puts the guard into the
 * page table instead and keeps one mapping, so it is tried first.
 *
 * Only touched pages cost memory, and touching a page for the first time is by
 * far the dearest part of a new fiber, so used stacks are kept, warm: some per
 * thread, without a lock, more per runtime. What a deep call has touched below
 * the watermark is given back when the stack is freed.
 */
#include "fault.h"
#include "core.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_STACK
#define MAP_STACK 0
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MAP_ANON
#define MAP_ANON MAP_ANONYMOUS
#endif
#if defined(__linux__) && !defined(MADV_GUARD_INSTALL)
#define MADV_GUARD_INSTALL 102
#endif

#define DEFAULT_STACK_SIZE ((size_t)256 * 1024)
/* Kept of a free stack, from its top. */
#define WATERMARK ((size_t)16 * 1024)
/* Free stacks that a runtime keeps warm; of those above, all memory goes back. */
#define WARM_MAX 16384u
#define SLAB_STACKS_MIN 16u
#define SLAB_STACKS_MAX 256u
#define SLAB_BYTES_MAX ((size_t)256 * 1024 * 1024)

/*
 * A slab of any runtime. The signal handler walks the list at any time, so the
 * records are never freed; those of closed runtimes (n == 0) are used again.
 */
struct slab {
  struct slab *next; /* fixed once published */
  struct cfiber_runtime *runtime;
  char *base;
  size_t bytes;
  size_t stride;
  struct stack *stacks;
  _Atomic(uint32_t) n; /* 0: the record is free. Written last. */
};

static _Atomic(struct slab *) slabs;
static _Atomic(uint32_t) slabs_lock;

static size_t page_size(void) {
  static size_t size;
  if (!size)
    size = (size_t)sysconf(_SC_PAGESIZE);
  return size;
}

static size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

/* ---- Guards -------------------------------------------------------------- */

static int guard_protect(char *lo, size_t n) {
  int e = cfiber_fault(FAULT_GUARD);
  if (e)
    return e;
  return mprotect(lo, n, PROT_NONE) ? cfiber_errno() : 0;
}

static int guard_install(struct cfiber_runtime *rt, char *lo, size_t n) {
#ifdef MADV_GUARD_INSTALL
  if (atomic_load_explicit(&rt->guard_kind, memory_order_relaxed) != GUARD_PROTECT) {
    int e = cfiber_fault(FAULT_GUARD);
    if (!e && madvise(lo, n, MADV_GUARD_INSTALL) == 0) {
      atomic_store_explicit(&rt->guard_kind, GUARD_INSTALL, memory_order_relaxed);
      return 0;
    }
    if (!e)
      e = cfiber_errno();
    if (e != EINVAL) /* EINVAL: an older kernel */
      return e;
  }
#endif
  int e = guard_protect(lo, n);
  if (!e)
    atomic_store_explicit(&rt->guard_kind, GUARD_PROTECT, memory_order_relaxed);
  return e;
}

/* ---- Slabs --------------------------------------------------------------- */

static struct slab *slab_record(void) {
  for (struct slab *s = atomic_load(&slabs); s; s = s->next)
    if (!atomic_load_explicit(&s->n, memory_order_relaxed) && !s->base)
      return s;
  struct slab *s = cfiber_fault(FAULT_MALLOC) ? NULL : calloc(1, sizeof *s);
  if (s) {
    s->next = atomic_load(&slabs);
    atomic_store(&slabs, s);
  }
  return s;
}

static uint32_t slab_size(struct stack_class *c) {
  uint32_t n = c->next_slab;
  while (n > 1 && n * c->stride > SLAB_BYTES_MAX)
    n /= 2;
  return n;
}

static char *map_slab(size_t bytes) {
  if (cfiber_fault(FAULT_MMAP))
    return NULL;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANON | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return NULL;
#ifdef MADV_NOHUGEPAGE
  madvise(p, bytes, MADV_NOHUGEPAGE); /* one touched page must not become 2 MiB */
#endif
  return p;
}

/* Guards as many stacks as it can; 0 with *error if not even one. */
static uint32_t cut_slab(struct cfiber_runtime *rt, struct stack_class *c, struct slab *s,
                         uint32_t n, int *error) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    char *guard = s->base + i * c->stride;
    struct stack *stack = &s->stacks[i];
    if ((*error = guard_install(rt, guard, c->guard)) != 0)
      break;
    stack->lo = guard + c->guard;
    stack->hi = stack->lo + c->size;
    stack->guard = c->guard;
    stack->class = (uint32_t)(c - rt->stacks);
    atomic_store_explicit(&stack->owner, NULL, memory_order_relaxed);
  }
  return i;
}

/* Adds a slab to the class's cold stacks. The runtime's memory lock is held. */
static int add_slab(struct cfiber_runtime *rt, struct stack_class *c) {
  int error = ENOMEM;
  uint32_t n = slab_size(c);
  size_t bytes = n * c->stride;
  cfiber_lock(&slabs_lock);
  struct slab *s = slab_record();
  if (s) {
    s->stacks = cfiber_fault(FAULT_MALLOC) ? NULL : calloc(n, sizeof *s->stacks);
    s->base = s->stacks ? map_slab(bytes) : NULL;
    s->bytes = bytes;
    s->stride = c->stride;
    s->runtime = rt;
    n = s->base ? cut_slab(rt, c, s, n, &error) : 0;
    if (n == 0) {
      if (s->base)
        munmap(s->base, bytes);
      free(s->stacks);
      s->base = NULL;
      s->stacks = NULL;
    }
    atomic_store_explicit(&s->n, n, memory_order_release);
  } else {
    n = 0;
  }
  cfiber_unlock(&slabs_lock);
  if (n == 0)
    return error;
  for (uint32_t i = n; i-- > 0;) {
    s->stacks[i].next = c->cold;
    c->cold = &s->stacks[i];
  }
  if (c->next_slab < SLAB_STACKS_MAX)
    c->next_slab *= 2;
  return 0;
}

struct stack *cfiber_stack_guarding(uintptr_t address) {
  for (struct slab *s = atomic_load(&slabs); s; s = s->next) {
    uint32_t n = atomic_load_explicit(&s->n, memory_order_acquire);
    uintptr_t base = (uintptr_t)s->base;
    if (!n || address < base || address >= base + n * s->stride)
      continue;
    struct stack *stack = &s->stacks[(address - base) / s->stride];
    return address < (uintptr_t)stack->lo ? stack : NULL;
  }
  return NULL;
}

/* ---- Classes ---------------------------------------------------------------- */

/* A sixteenth to a quarter: a frame of 64 KiB does not step over the default's. */
static size_t guard_size(size_t size) {
  size_t guard = size / 4;
  if (guard > 64 * 1024)
    guard = 64 * 1024;
  return round_up(guard, page_size());
}

static void class_init(struct stack_class *c, size_t size) {
  c->size = round_up(size, page_size());
  c->guard = guard_size(c->size);
  c->stride = c->size + c->guard;
  c->next_slab = SLAB_STACKS_MIN;
}

static struct stack_class *class_of(struct cfiber_runtime *rt, size_t size) {
  if (size == 0 || size == rt->stack_size)
    return &rt->stacks[0];
  uint32_t i = 1;
  while (i < STACK_CLASSES - 1 && rt->stacks[i].size < size)
    i++;
  return &rt->stacks[i];
}

int cfiber_stacks_init(struct cfiber_runtime *rt, size_t default_size) {
  if (default_size == 0)
    default_size = DEFAULT_STACK_SIZE;
  if (default_size < CFIBER_STACK_MIN || default_size > CFIBER_STACK_MAX)
    return EINVAL;
  class_init(&rt->stacks[0], default_size);
  rt->stack_size = rt->stacks[0].size;
  for (uint32_t i = 1; i < STACK_CLASSES; i++)
    class_init(&rt->stacks[i], CFIBER_STACK_MIN << (i - 1));
  return 0;
}

void cfiber_stacks_close(struct cfiber_runtime *rt) {
  cfiber_lock(&slabs_lock);
  for (struct slab *s = atomic_load(&slabs); s; s = s->next) {
    if (s->runtime != rt || !s->base)
      continue;
    atomic_store(&s->n, 0);
    munmap(s->base, s->bytes);
    free(s->stacks);
    s->base = NULL;
    s->stacks = NULL;
    s->runtime = NULL;
  }
  cfiber_unlock(&slabs_lock);
}

/* ---- Giving memory back -------------------------------------------------------- */

static void give_back(char *lo, char *hi) {
#if defined(__linux__)
  madvise(lo, (size_t)(hi - lo), MADV_DONTNEED);
#elif defined(MADV_FREE)
  madvise(lo, (size_t)(hi - lo), MADV_FREE);
#else
  (void)lo, (void)hi;
#endif
}

/*
 * Whether a call went below the watermark, as far as its page tells: fresh
 * pages read as zero, and reading one that was never written costs a fault
 * once but no memory. Frames leave something other than zero in one of these
 * words, unless they span the page without writing.
 */
static bool went_deep(const struct stack *s) {
  const uint64_t *page = (const uint64_t *)(s->hi - WATERMARK - 4096);
  return (page[0] | page[3] | page[128] | page[131] | page[256] | page[259] | page[384] |
          page[387] | page[508] | page[511]) != 0;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STACKS_ARE_POISONED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define STACKS_ARE_POISONED 1
#endif

static void trim(struct stack *s) {
  if ((size_t)(s->hi - s->lo) < 2 * WATERMARK)
    return;
#ifdef STACKS_ARE_POISONED
  (void)went_deep; /* its reads would be reported */
  give_back(s->lo, s->hi - WATERMARK);
#else
  if (UNLIKELY(went_deep(s)))
    give_back(s->lo, s->hi - WATERMARK);
#endif
}

/* ---- Pools ---------------------------------------------------------------------- */

/* A stack of the class, warm ones first. Memory lock held. */
static struct stack *take(struct stack_class *c) {
  struct stack *s = c->free;
  if (s) {
    c->free = s->next;
    c->nfree--;
  } else if ((s = c->cold) != NULL) {
    c->cold = s->next;
  }
  return s;
}

/* Puts s back, cold where enough are warm. Memory lock held. */
static void put(struct stack_class *c, struct stack *s) {
  if (c->nfree < WARM_MAX) {
    s->next = c->free;
    c->free = s;
    c->nfree++;
    return;
  }
  give_back(s->lo, s->hi);
  s->next = c->cold;
  c->cold = s;
}

static int refill(struct cfiber_thread *t) {
  struct cfiber_runtime *rt = t->runtime;
  struct stack_class *c = &rt->stacks[0];
  int e = 0;
  cfiber_lock(&rt->memory_lock);
  if (!c->free && !c->cold)
    e = add_slab(rt, c);
  struct stack *s;
  while (t->nfree_stacks < STACK_CACHE / 2 && (s = take(c)) != NULL) {
    s->next = t->free_stacks;
    t->free_stacks = s;
    t->nfree_stacks++;
  }
  cfiber_unlock(&rt->memory_lock);
  return t->free_stacks ? 0 : e;
}

static int take_from_class(struct cfiber_runtime *rt, struct stack_class *c, bool keep,
                           struct stack **out) {
  int e = 0;
  cfiber_lock(&rt->memory_lock);
  if (!c->free && !c->cold)
    e = add_slab(rt, c);
  if (!e && !keep)
    *out = take(c);
  cfiber_unlock(&rt->memory_lock);
  return e;
}

int cfiber_stack_alloc(struct cfiber_thread *t, size_t size, struct stack **out) {
  struct stack_class *c = class_of(t->runtime, size);
  if (UNLIKELY(c != &t->runtime->stacks[0]))
    return take_from_class(t->runtime, c, false, out);
  int e;
  if (UNLIKELY(!t->free_stacks) && (e = refill(t)) != 0)
    return e;
  *out = t->free_stacks;
  t->free_stacks = t->free_stacks->next;
  t->nfree_stacks--;
  return 0;
}

int cfiber_stack_reserve(struct cfiber_thread *t, size_t size) {
  struct stack_class *c = class_of(t->runtime, size);
  if (c == &t->runtime->stacks[0])
    return t->free_stacks ? 0 : refill(t);
  return take_from_class(t->runtime, c, true, NULL);
}

/* Leaves `keep` stacks with the thread. */
static void spill(struct cfiber_thread *t, uint32_t keep) {
  struct cfiber_runtime *rt = t->runtime;
  cfiber_lock(&rt->memory_lock);
  while (t->nfree_stacks > keep) {
    struct stack *s = t->free_stacks;
    t->free_stacks = s->next;
    t->nfree_stacks--;
    put(&rt->stacks[0], s);
  }
  cfiber_unlock(&rt->memory_lock);
}

void cfiber_stack_free(struct cfiber_thread *t, struct stack *s) {
  trim(s);
  if (UNLIKELY(s->class != 0)) {
    cfiber_lock(&t->runtime->memory_lock);
    put(&t->runtime->stacks[s->class], s);
    cfiber_unlock(&t->runtime->memory_lock);
    return;
  }
  s->next = t->free_stacks;
  t->free_stacks = s;
  if (UNLIKELY(++t->nfree_stacks > STACK_CACHE))
    spill(t, STACK_CACHE / 2);
}

void cfiber_stacks_flush(struct cfiber_thread *t) {
  spill(t, 0);
}
