/*
 * fault.c - the counters behind fault.h.
 */
#include "fault.h"
#include "core.h"

_Atomic(bool) cfiber_faults_armed[FAULT_SITES];

static struct {
  _Atomic(uint32_t) calls;
  uint32_t first, count;
  int error;
} sites[FAULT_SITES];

bool cfiber_fault_take(enum fault_site site) {
  uint32_t call = atomic_fetch_add(&sites[site].calls, 1) + 1;
  if (call < sites[site].first || call - sites[site].first >= sites[site].count)
    return false;
  cfiber_fail(sites[site].error);
  return true;
}

void cfiber_fault_set(enum fault_site site, int error, uint32_t first, uint32_t count) {
  atomic_store(&cfiber_faults_armed[site], false);
  atomic_store(&sites[site].calls, 0);
  sites[site].first = first;
  sites[site].count = count;
  sites[site].error = error;
  atomic_store(&cfiber_faults_armed[site], count != 0);
}

uint32_t cfiber_fault_calls(enum fault_site site) {
  return atomic_load(&sites[site].calls);
}
