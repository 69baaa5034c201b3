/*
 * bridge.c - see bridge.h.
 */
#include "bridge.h"
#include "fault.h"
#include "poller.h"
#include "symbol.h"

uint32_t cfiber_version(void) {
  return CFIBER_VERSION_MAJOR << 16 | CFIBER_VERSION_MINOR << 8 | CFIBER_VERSION_PATCH;
}

int cfiber_bridge_open(uint32_t allocated, uint32_t limit, uint32_t max_fibers, uint32_t migrate,
                       uint64_t stack_size, int32_t notify_fd, void **runtime) {
  struct cfiber_config config = {.allocated = allocated,
                                 .limit = limit,
                                 .max_fibers = max_fibers,
                                 .migrate = migrate,
                                 .stack_size = stack_size,
                                 .notify_fd = notify_fd};
  struct cfiber_runtime *rt;
  int e = cfiber_runtime_open(&config, &rt);
  if (!e)
    *runtime = rt;
  return e;
}

void cfiber_bridge_close(void *runtime) {
  cfiber_runtime_close(runtime);
}

void cfiber_bridge_thread_init(void *runtime, uint32_t index) {
  cfiber_thread_init(runtime, index);
}

int cfiber_bridge_thread_run(void *thread) {
  return cfiber_thread_run(thread);
}

void cfiber_bridge_exceptions(void *globals) {
  cfiber_thread_exceptions((cfiber_exceptions_func *)globals);
}

int64_t cfiber_bridge_cpu_time(void *thread) {
  return cfiber_thread_cpu_time(thread);
}

void cfiber_bridge_serve(void *thread) {
  struct cfiber_thread *t = thread;
  cfiber_poller_wait(t, 0);
  cfiber_timers_fire(t, cfiber_now());
  /* The wait may have taken a wake-up that was meant for the thread, which may have come back
   * to its poller by now. */
  cfiber_poller_wake(&t->poller);
  cfiber_shed_ring(t);
}

int64_t cfiber_bridge_balance(void *runtime) {
  return (int64_t)cfiber_runtime_live(runtime);
}

void cfiber_bridge_cancel_all(void *runtime) {
  cfiber_runtime_cancel(runtime);
}

void *cfiber_bridge_take_canceled(void *runtime) {
  return cfiber_take_canceled(runtime);
}

uint32_t cfiber_bridge_fiber_alloc(void *runtime, uint32_t n, void **fibers, int *error) {
  return cfiber_fiber_alloc(runtime, n, (struct cfiber **)fibers, error);
}

void cfiber_bridge_fiber_free(void *runtime, uint32_t n, void **fibers) {
  cfiber_fiber_free(runtime, n, (struct cfiber **)fibers);
}

void *cfiber_bridge_current(void) {
  return cfiber_self();
}

int cfiber_bridge_symbol(uintptr_t address, char *name, size_t size) {
  return cfiber_symbol(address, name, size);
}

void cfiber_bridge_fault(int site, int error, uint32_t first, uint32_t count) {
  if (site >= 0 && site < FAULT_SITES)
    cfiber_fault_set((enum fault_site)site, error, first, count);
}

void cfiber_bridge_nothing(void) {
}
