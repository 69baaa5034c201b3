/*
 * switch_s390x.c - the part of the IBM Z switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_S390X

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)7;
  uintptr_t *sp = (uintptr_t *)top - 28;
  memset(sp, 0, 28 * sizeof *sp);
  sp[14] = (uintptr_t)entry;        /* r6 */
  sp[22] = (uintptr_t)cfiber_entry; /* r14 */
  return sp;
}

#endif /* CFIBER_SWITCH_S390X */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_S390X

/* The trap enables, and the rounding modes, decimal and binary. Not the flags. */
#define FPC_CONTROL UINT32_C(0xf8000077)

static uint32_t get_fpc(void) {
  uint32_t fpc;
  __asm__ volatile("efpc %0" : "=d"(fpc));
  return fpc;
}

uint32_t cfiber_fp_get(void) {
  return get_fpc() & FPC_CONTROL;
}

void cfiber_fp_set(uint32_t control) {
  uint32_t fpc = (get_fpc() & ~FPC_CONTROL) | control;
  __asm__ volatile("sfpc %0" ::"d"(fpc));
}

#endif /* CFIBER_FP_S390X */
