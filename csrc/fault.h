/*
 * fault.h - fault injection at every system call and allocation of the core.
 *
 * Always compiled in: one predicted branch before something that costs a
 * microsecond. Tests arm it; see fault.c.
 */
#ifndef CFIBER_FAULT_H
#define CFIBER_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum fault_site {
  FAULT_MMAP,
  FAULT_GUARD,
  FAULT_MALLOC,
  FAULT_POLLER_ADD,
  FAULT_POLLER_WAIT,
  FAULT_READ,
  FAULT_WRITE,
  FAULT_ACCEPT,
  FAULT_CONNECT,
  FAULT_POLL,
  FAULT_SITES
};

extern _Atomic(uint32_t) cfiber_faults_armed; /* bit per site */

/* Slow path of FAULT: an errno value to fail with, or 0. */
int cfiber_fault_take(enum fault_site site);

/*
 * Lets the calls number first, first+1, ... first+count-1 (from 1, counted
 * from now) at the site fail with `error`. count 0 disarms the site.
 */
void cfiber_fault_set(enum fault_site site, int error, uint32_t first, uint32_t count);

/* How often an armed site has been passed since cfiber_fault_set. */
uint32_t cfiber_fault_calls(enum fault_site site);

static inline int cfiber_fault(enum fault_site site) {
  uint32_t armed = atomic_load_explicit(&cfiber_faults_armed, memory_order_relaxed);
  return __builtin_expect(armed >> site & 1, 0) ? cfiber_fault_take(site) : 0;
}

#endif /* CFIBER_FAULT_H */
