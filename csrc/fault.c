/*
 * fault.c - the counters behind fault.h.
 */
#include "fault.h"

_Atomic(uint32_t) cfiber_faults_armed;

static struct {
  _Atomic(uint32_t) calls;
  uint32_t first, count;
  int error;
} sites[FAULT_SITES];

int cfiber_fault_take(enum fault_site site) {
  uint32_t call = atomic_fetch_add(&sites[site].calls, 1) + 1;
  return call >= sites[site].first && call - sites[site].first < sites[site].count
             ? sites[site].error
             : 0;
}

void cfiber_fault_set(enum fault_site site, int error, uint32_t first, uint32_t count) {
  atomic_fetch_and(&cfiber_faults_armed, ~(UINT32_C(1) << site));
  atomic_store(&sites[site].calls, 0);
  sites[site].first = first;
  sites[site].count = count;
  sites[site].error = error;
  if (count)
    atomic_fetch_or(&cfiber_faults_armed, UINT32_C(1) << site);
}

uint32_t cfiber_fault_calls(enum fault_site site) {
  return atomic_load(&sites[site].calls);
}
