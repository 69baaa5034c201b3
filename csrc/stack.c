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
 * thread, without a lock, more per runtime. What deep calls have touched below the
 * watermark is given back when a thread has nothing else to do, or, if that is seen to
 * be much, at once. When more stacks are free than are worth keeping, a slab that is
 * free as a whole is given back as a whole: giving memory back interrupts the other
 * cores, each time.
 */
#include "core.h"

#include "fault.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * MAP_STACK: OpenBSD kills whoever makes a system call on a stack without it.
 * Linux and NetBSD take it for a hint. FreeBSD and DragonFly make of it a mapping
 * that grows downwards by itself, in which a guard would be grown over.
 */
#if !defined(MAP_STACK) || defined(__FreeBSD__) || defined(__DragonFly__)
#undef MAP_STACK
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
/* Free stacks of a class that are kept warm; above that, free slabs are given back. */
#define WARM_MAX 16384u
/* A stack that stays in a thread's pool is trimmed once in so many times. */
#define TRIM_INTERVAL 1024u
/* So long after the first stack that is to be trimmed, all are, to save doing it again and again.
 */
#define TRIM_DELAY (100 * NS_PER_MS)
/* The first frames of stacks begin at different offsets in their page, see below. */
#define COLORS 8u
#define COLOR_STEP 128u
#define SLAB_STACKS_MIN 16u
#define SLAB_STACKS_MAX 256u
#define SLAB_BYTES_MAX ((size_t)256 * 1024 * 1024)

/*
 * A slab of any runtime. The signal handler walks the list at any time, so the
 * records are never freed; those of closed runtimes (n == 0) are used again.
 */
struct slab {
  struct slab *next_slab; /* of all; fixed once published */
  struct cfiber_runtime *runtime;
  struct stack_class *class;
  char *base;
  size_t bytes;
  struct stack *stacks;
  _Atomic(uint32_t) n; /* stacks; 0: the record is free. Written last. */

  /* Under the runtime's memory lock. */
  struct stack *free;
  uint32_t nfree;
  bool cold; /* all memory has been given back, and all is free */
  bool used; /* on the list of those to be trimmed */
  struct slab *next_used;
  struct slab *next, *prev; /* in the class's list; only if nfree > 0 */
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
  return TRY(GUARD, -1, mprotect(lo, n, PROT_NONE)) ? cfiber_errno() : 0;
}

#ifdef MADV_GUARD_INSTALL
/*
 * Whether advice that does not exist is accepted. An emulator may do so, as qemu's does, since
 * most advice is a hint; the guard that it says it has installed is not there.
 */
static bool accepts_any_advice(char *lo, size_t n) {
  return TRY(GUARD_PROBE, -1, madvise(lo, n, INT_MAX)) == 0;
}
#endif

static int guard_install(struct cfiber_runtime *rt, char *lo, size_t n) {
#ifdef MADV_GUARD_INSTALL
  uint32_t kind = atomic_load_explicit(&rt->guard_kind, memory_order_relaxed);
  if (kind == GUARD_INSTALL || (kind == GUARD_NONE && !accepts_any_advice(lo, n))) {
    int e = TRY(GUARD, -1, madvise(lo, n, MADV_GUARD_INSTALL)) ? cfiber_errno() : 0;
    if (!e) {
      atomic_store_explicit(&rt->guard_kind, GUARD_INSTALL, memory_order_relaxed);
      return 0;
    }
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
  for (struct slab *s = atomic_load(&slabs); s; s = s->next_slab)
    if (!atomic_load_explicit(&s->n, memory_order_relaxed) && !s->base)
      return s;
  struct slab *s = TRY(MALLOC, NULL, calloc(1, sizeof *s));
  if (s) {
    s->next_slab = atomic_load(&slabs);
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
  const int flags = MAP_PRIVATE | MAP_ANON | MAP_STACK | MAP_NORESERVE;
  void *p = TRY(MMAP, MAP_FAILED, mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0));
  if (p == MAP_FAILED)
    return NULL;
#ifdef MADV_NOHUGEPAGE
  TRY(ADVISE, -1, madvise(p, bytes, MADV_NOHUGEPAGE)); /* one touched page must not become 2 MiB */
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
    if ((*error = guard_install(rt, guard, c->stride - c->size)) != 0)
      break;
    stack->lo = guard + c->stride - c->size;
    stack->hi = stack->lo + c->size;
    stack->slab = s;
    stack->color = i % COLORS * COLOR_STEP;
    atomic_store_explicit(&stack->owner, NULL, memory_order_relaxed);
  }
  return i;
}

static void link_slab(struct stack_class *c, struct slab *s, bool at_head) {
  s->next = at_head ? c->head : NULL;
  s->prev = at_head ? NULL : c->tail;
  *(s->next ? &s->next->prev : &c->tail) = s;
  *(s->prev ? &s->prev->next : &c->head) = s;
}

static void unlink_slab(struct stack_class *c, struct slab *s) {
  *(s->next ? &s->next->prev : &c->tail) = s->prev;
  *(s->prev ? &s->prev->next : &c->head) = s->next;
}

/* Makes the mapping and the stacks of a record. Returns how many; 0 with *error. */
static uint32_t fill_slab(struct cfiber_runtime *rt, struct stack_class *c, struct slab *s,
                          int *error) {
  uint32_t n = slab_size(c);
  *error = ENOMEM;
  s->runtime = rt;
  s->class = c;
  s->bytes = n * c->stride;
  s->stacks = TRY(MALLOC, NULL, calloc(n, sizeof *s->stacks));
  s->base = s->stacks ? map_slab(s->bytes) : NULL;
  n = s->base ? cut_slab(rt, c, s, n, error) : 0;
  if (n == 0) {
    if (s->base)
      munmap(s->base, s->bytes);
    free(s->stacks);
    s->base = NULL;
    s->stacks = NULL;
  }
  return n;
}

/*
 * Adds a cold slab to the class. The runtime's memory lock is held. errno stays, for this may be
 * part of a yield, and some of the calls made here may fail without a slab's being the worse.
 */
static int add_slab(struct cfiber_runtime *rt, struct stack_class *c) {
  int error = ENOMEM, saved = cfiber_errno();
  cfiber_lock(&slabs_lock);
  struct slab *s = slab_record();
  uint32_t n = s ? fill_slab(rt, c, s, &error) : 0;
  if (s)
    atomic_store_explicit(&s->n, n, memory_order_release);
  cfiber_unlock(&slabs_lock);
  cfiber_fail(saved);
  if (n == 0)
    return error;
  s->free = NULL;
  for (uint32_t i = n; i-- > 0;) {
    s->stacks[i].next = s->free;
    s->free = &s->stacks[i];
  }
  s->nfree = n;
  s->cold = true;
  s->used = false; /* the record may have been another runtime's */
  link_slab(c, s, false);
  if (c->next_slab < SLAB_STACKS_MAX)
    c->next_slab *= 2;
  return 0;
}

struct stack *cfiber_stack_guarding(uintptr_t address) {
  for (struct slab *s = atomic_load(&slabs); s; s = s->next_slab) {
    uint32_t n = atomic_load_explicit(&s->n, memory_order_acquire);
    uintptr_t base = (uintptr_t)s->base;
    if (!n || address < base || address >= base + n * s->class->stride)
      continue;
    struct stack *stack = &s->stacks[(address - base) / s->class->stride];
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
  /* Tops of stacks that are a power of two apart share few cache sets; a page more spreads them. */
  c->stride = c->size + c->guard + page_size();
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
  atomic_store(&rt->trim_at, INT64_MAX);
  for (uint32_t i = 1; i < STACK_CLASSES; i++)
    class_init(&rt->stacks[i], CFIBER_STACK_MIN << (i - 1));
  return 0;
}

void cfiber_stacks_close(struct cfiber_runtime *rt) {
  cfiber_lock(&slabs_lock);
  for (struct slab *s = atomic_load(&slabs); s; s = s->next_slab) {
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
  TRY(ADVISE, -1, madvise(lo, (size_t)(hi - lo), MADV_DONTNEED));
#elif defined(MADV_FREE)
  TRY(ADVISE, -1, madvise(lo, (size_t)(hi - lo), MADV_FREE));
#else
  (void)lo, (void)hi;
#endif
}

/*
 * Tells of each of n stacks, `stride` bytes apart from `first` on, whether memory
 * below the watermark is in use. Asked of the kernel: to look at a page would map
 * it, and changing page tables is what costs most here.
 */
static void find_deep(const struct stack *first, size_t stride, uint32_t n, bool *deep) {
#ifdef __OpenBSD__
  (void)first, (void)stride; /* there is no mincore */
  memset(deep, true, n);
#else
  enum { STEP = 4096 };
  unsigned char resident[STEP];
  size_t page = page_size(), pages = ((n - 1) * stride + (size_t)(first->hi - first->lo)) / page;
  size_t period = stride / page, limit = (size_t)(first->hi - WATERMARK - first->lo) / page;
  memset(deep, false, n);
  for (size_t done = 0; done < pages; done += STEP) {
    size_t count = pages - done < STEP ? pages - done : STEP;
    /* Failing, it is as if all were in use. */
    char *from = first->lo + done * page;
    if (TRY(RESIDENT, -1, mincore((void *)from, count * page, (void *)resident)))
      memset(resident, 1, count);
    for (size_t i = 0; i < count; i++) /* bit 0; some systems tell more in the others */
      if ((resident[i] & 1) && (done + i) % period < limit)
        deep[(done + i) / period] = true;
  }
#endif
}

static bool can_be_deep(const struct stack_class *c) {
  return c->size >= 2 * WATERMARK;
}

static void give_back_below_watermark(const struct stack *s) {
  give_back(s->lo, s->hi - WATERMARK);
}

/* Gives back what lies below the watermark, of one stack; true if there was anything. */
static bool trim(const struct stack *s) {
  bool deep = false;
  if (can_be_deep(s->slab->class))
    find_deep(s, s->slab->class->stride, 1, &deep);
  if (deep)
    give_back_below_watermark(s);
  return deep;
}

/* ---- Pools ---------------------------------------------------------------------- */

/* A stack of the class, a warm one if there is one. Memory lock held. */
static struct stack *take(struct stack_class *c) {
  struct slab *slab = c->head;
  if (!slab)
    return NULL;
  struct stack *s = slab->free;
  slab->free = s->next;
  slab->nfree--;
  if (slab->cold) { /* the rest is about to be used too */
    slab->cold = false;
    c->nfree += slab->nfree;
  } else {
    c->nfree--;
  }
  if (slab->nfree == 0)
    unlink_slab(c, slab);
  return s;
}

/* Puts s back. Memory lock held. */
static void put(struct stack *s) {
  struct slab *slab = s->slab;
  struct stack_class *c = slab->class;
  s->next = slab->free;
  slab->free = s;
  c->nfree++;
  if (slab->nfree++ == 0)
    link_slab(c, slab, true);
  uint32_t n = atomic_load_explicit(&slab->n, memory_order_relaxed);
  if (slab->nfree < n || c->nfree <= WARM_MAX)
    return;
  give_back(slab->base, slab->base + slab->bytes); /* guards stay */
  slab->cold = true;
  c->nfree -= n;
  unlink_slab(c, slab);
  link_slab(c, slab, false);
}

static int refill(struct cfiber_thread *t) {
  struct cfiber_runtime *rt = t->runtime;
  struct stack_class *c = &rt->stacks[0];
  int e = 0;
  cfiber_lock(&rt->memory_lock);
  if (!c->head)
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
  if (!c->head)
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

/* The slab has a free stack that may be deep. Memory lock held. */
static void mark_used(struct cfiber_runtime *rt, struct slab *slab, int64_t now) {
  if (slab->used || !can_be_deep(slab->class))
    return;
  if (!rt->used_slabs)
    atomic_store_explicit(&rt->trim_at, now + TRIM_DELAY, memory_order_relaxed);
  slab->used = true;
  slab->next_used = rt->used_slabs;
  rt->used_slabs = slab;
}

/*
 * Leaves `keep` stacks with the thread, those used last. The others are trimmed
 * later, by cfiber_stacks_trim; at once if the first of them turns out to be deep,
 * for then most may be, and it may be long until a thread has time.
 */
static void spill(struct cfiber_thread *t, uint32_t keep) {
  struct cfiber_runtime *rt = t->runtime;
  struct stack **link = &t->free_stacks, *spilled, *next;
  for (uint32_t i = 0; i < keep && *link; i++)
    link = &(*link)->next;
  spilled = *link;
  *link = NULL;
  if (t->nfree_stacks > keep)
    t->nfree_stacks = keep;
  bool deep = spilled && trim(spilled);
  for (struct stack *s = spilled; deep && s; s = s->next)
    trim(s);
  cfiber_lock(&rt->memory_lock);
  for (struct stack *s = spilled; s; s = next) {
    next = s->next;
    if (!deep)
      mark_used(rt, s->slab, t->now);
    put(s);
  }
  cfiber_unlock(&rt->memory_lock);
}

/* Takes all free stacks of a slab that is to be trimmed. */
static struct stack *take_used(struct cfiber_runtime *rt, struct slab **out) {
  struct stack *s = NULL;
  cfiber_lock(&rt->memory_lock);
  struct slab *slab = *out = rt->used_slabs;
  if (slab) {
    rt->used_slabs = slab->next_used;
    if (!rt->used_slabs)
      atomic_store_explicit(&rt->trim_at, INT64_MAX, memory_order_relaxed);
    slab->used = false;
    if (!slab->cold && slab->nfree) {
      s = slab->free;
      slab->class->nfree -= slab->nfree;
      slab->free = NULL;
      slab->nfree = 0;
      unlink_slab(slab->class, slab);
    }
  }
  cfiber_unlock(&rt->memory_lock);
  return s;
}

bool cfiber_stacks_trim(struct cfiber_runtime *rt, int64_t now) {
  if (atomic_load_explicit(&rt->trim_at, memory_order_relaxed) > now)
    return false;
  struct slab *slab;
  struct stack *taken = take_used(rt, &slab), *next;
  if (!taken)
    return slab != NULL;
  bool deep[SLAB_STACKS_MAX];
  find_deep(slab->stacks, slab->class->stride, atomic_load_explicit(&slab->n, memory_order_relaxed),
            deep);
  for (struct stack *s = taken; s; s = s->next)
    if (deep[s - slab->stacks])
      give_back_below_watermark(s);
  cfiber_lock(&rt->memory_lock);
  for (struct stack *s = taken; s; s = next) {
    next = s->next;
    put(s);
  }
  cfiber_unlock(&rt->memory_lock);
  return true;
}

/*
 * Of the stacks that stay with the thread one is trimmed now and then, so that what
 * is kept untrimmed there is bounded by the pool.
 */
void cfiber_stack_free(struct cfiber_thread *t, struct stack *s) {
  if (UNLIKELY(++t->stack_frees % TRIM_INTERVAL == 0))
    trim(s);
  if (UNLIKELY(s->slab->class != &t->runtime->stacks[0])) {
    trim(s);
    cfiber_lock(&t->runtime->memory_lock);
    put(s);
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
