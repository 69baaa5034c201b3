/*
 * runtime.c - opening and closing a runtime.
 */
#include "core.h"
#include "fault.h"
#include "poller.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

#define MAX_FIBERS_DEFAULT (UINT32_C(1) << 24)
/* Below this limit of fibers, threads keep no free records, so it is exact. */
#define EXACT_MAX_FIBERS (UINT32_C(1) << 16)

void *cfiber_map_zeroed(size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANON | MAP_NORESERVE;
  void *p = TRY(MMAP, MAP_FAILED, mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0));
  return p == MAP_FAILED ? NULL : p;
}

static size_t slab_table_bytes(uint32_t max_fibers) {
  return ((size_t)max_fibers / FIBERS_PER_SLAB + 1) * sizeof(struct cfiber *);
}

/* A process with user shadow stacks would fault at the first switch. */
static bool has_shadow_stack(void) {
#if defined(__x86_64__) && defined(__linux__)
  uint64_t ssp = 0;
  __asm__ volatile("rdsspq %0" : "+r"(ssp)); /* a no-op where there are none */
  return ssp != 0;
#else
  return false;
#endif
}

/* Those that the process may use. */
static long processors(void) {
#ifdef __linux__
  cpu_set_t set;
  if (TRY(PROCESSORS, -1, sched_getaffinity(0, sizeof set, &set)) == 0)
    return CPU_COUNT(&set);
#endif
  return sysconf(_SC_NPROCESSORS_ONLN); /* also where there are more than fit the set */
}

int cfiber_runtime_open(const struct cfiber_config *config, struct cfiber_runtime **out) {
  if (config->allocated < 1 || config->allocated > MAX_THREADS || config->limit < 1 ||
      config->limit > config->allocated)
    return EINVAL;
  if (has_shadow_stack())
    return ENOTSUP;
  struct cfiber_runtime *rt = cfiber_map_zeroed(sizeof *rt);
  if (!rt)
    return ENOMEM;
  int e = cfiber_stacks_init(rt, config->stack_size);
  rt->max_fibers = config->max_fibers ? config->max_fibers : MAX_FIBERS_DEFAULT;
  rt->fiber_batch = rt->max_fibers < EXACT_MAX_FIBERS ? 0 : FIBER_CACHE / 2;
  rt->allocated = config->allocated;
  rt->lone = config->allocated == 1;
  rt->limit = config->limit;
  rt->migrate = config->migrate;
  rt->notify_fd = config->notify_fd;
  rt->may_linger = processors() > 1;
  if (!e) {
    rt->threads = cfiber_map_zeroed(rt->allocated * sizeof *rt->threads);
    rt->slabs = cfiber_map_zeroed(slab_table_bytes(rt->max_fibers));
    if (!rt->threads || !rt->slabs || !cfiber_fds_open(rt))
      e = ENOMEM;
  }
  if (e) {
    cfiber_runtime_close(rt);
    return e;
  }
  cfiber_overflow_init();
  *out = rt;
  return 0;
}

void cfiber_runtime_close(struct cfiber_runtime *rt) {
  /* First: a plain thread in cfiber_close may still be waking one of rt's. */
  if (rt->fds)
    cfiber_fds_close(rt);
  if (rt->threads) {
    uint32_t n = atomic_load(&rt->active);
    for (uint32_t i = 0; i < n; i++)
      cfiber_poller_close(&rt->threads[i].poller);
    for (uint32_t i = 0; i < rt->allocated; i++)
      cfiber_timers_free(&rt->threads[i]);
    munmap(rt->threads, rt->allocated * sizeof *rt->threads);
  }
  if (rt->slabs) {
    for (uint32_t i = 0; i < rt->max_fibers / FIBERS_PER_SLAB + 1 && rt->slabs[i]; i++)
      munmap(rt->slabs[i], FIBERS_PER_SLAB * sizeof(struct cfiber));
    munmap(rt->slabs, slab_table_bytes(rt->max_fibers));
  }
  cfiber_stacks_close(rt);
  munmap(rt, sizeof *rt);
}

void cfiber_notify(struct cfiber_runtime *rt) {
  static const uint64_t one = 1;
  if (atomic_load_explicit(&rt->notified, memory_order_seq_cst) ||
      atomic_exchange(&rt->notified, 1))
    return;
  CHAOS_DELAY(NOTIFY);
  /* An eventfd takes the eight bytes, a pipe too; full means that it is awake. */
  ssize_t n;
  do
    n = TRY(NOTIFY, -1, write(rt->notify_fd, &one, sizeof one));
  while (n < 0 && cfiber_errno() == EINTR);
}

uint64_t cfiber_runtime_live(struct cfiber_runtime *rt) {
  uint64_t finished = 0, spawned = 0;
  uint32_t n = atomic_load(&rt->active);
  /* Ends first: then the difference errs towards too many. */
  for (uint32_t i = 0; i < n; i++)
    finished += atomic_load(&rt->threads[i].finished);
  n = atomic_load(&rt->active);
  for (uint32_t i = 0; i < n; i++)
    spawned += atomic_load(&rt->threads[i].spawned);
  return spawned - finished;
}

void cfiber_runtime_cancel(struct cfiber_runtime *rt) {
  cfiber_lock(&rt->memory_lock);
  uint32_t n = rt->nfibers;
  cfiber_unlock(&rt->memory_lock);
  for (uint32_t i = 0; i < n; i++)
    cfiber_cancel(cfiber_fiber_at(rt, i));
}
